"""What people ask for, at random: timings, policies, patches, and how far the clock goes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]

STARTS = st.sampled_from(
    [
        datetime(2026, 3, 2, 8, 58, 30, tzinfo=UTC),
        datetime(2026, 3, 28, 22, 50, 0, tzinfo=UTC),  # the day before Berlin's clocks go forward
        datetime(2026, 10, 25, 0, 3, 7, tzinfo=UTC),  # within the hour that Berlin has twice
    ]
)
TIMINGS = st.one_of(
    st.sampled_from(
        [
            "*/5 * * * *",
            "3-59/10 * * * *",
            "0 * * * *",
            "*/20 8-9 * * 1-5",
            "30 2 * * *",
            "0 9,21 * * *",
            "*/7 * * * *",  # refused: a gap of four minutes
        ]
    ).map(lambda cron: {"cron": cron}),
    st.sampled_from(["5m", "5m", "7m", "15m", "1h", "3m"]).map(lambda every: {"every": every}),
    st.sampled_from(["5m", "20m", "3h"]).map(lambda wait: {"in": wait}),
)
RETRIES = st.fixed_dictionaries(
    {"max_attempts": st.integers(0, 3)},
    optional={"initial_delay_seconds": st.sampled_from([0, 30, 400])},
)
POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "mode": st.sampled_from(["fork", "append", "fresh"]),
    "overlap": st.sampled_from(["skip", "queue", "queue_latest", "replace", "allow"]),
    "max_concurrency": st.sampled_from([1, 2, 3]),
    "queue_limit": st.sampled_from([1, 2, None]),
    "cancel_grace_seconds": st.sampled_from([0, 30, None]),
    "misfire": st.sampled_from(["skip", "latest", "all"]),
    "misfire_grace_seconds": st.sampled_from([0, 60, 600]),
    "start_deadline_seconds": st.sampled_from([60, 400]),
    "timeout_seconds": st.sampled_from([0, 60, 7200]),
    "retry": RETRIES,
    "pause_after_failures": st.sampled_from([1, 2, None]),
    "max_runs": st.sampled_from([1, 2, 5]),
    "ends_in_minutes": st.sampled_from([11, 21, 90]),
    "daily_run_limit": st.sampled_from([1, 3, None]),
    "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
}
"""``ends_in_minutes`` stands for ``ends_at``, which has to be told from the clock's now."""


@st.composite
def new_schedules(draw: st.DrawFn) -> Fields:
    """The fields of a create, with a few policies."""
    timing = draw(st.one_of(TIMINGS, st.just({"webhook": True})))
    slots = draw(st.sampled_from([{}, {"max_concurrency": 1}, {"max_concurrency": 2}]))
    return {"prompt": "x"} | timing | {"overlap": draw(POLICIES["overlap"])} | slots | draw(_some_policies())


@st.composite
def patches(draw: st.DrawFn) -> Fields:
    """The fields of an update: a timing, policies, both or nothing."""
    timing = draw(st.one_of(st.just({}), TIMINGS))
    return timing | draw(_some_policies())


def _some_policies() -> st.SearchStrategy[Fields]:
    names = st.lists(st.sampled_from(sorted(POLICIES)), max_size=6, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: POLICIES[name] for name in chosen}))


JUMPS = st.sampled_from(
    [
        timedelta(seconds=1),
        timedelta(seconds=20),
        timedelta(seconds=31),
        timedelta(seconds=60),
        timedelta(minutes=4),
        timedelta(minutes=16),
        timedelta(hours=1),
        timedelta(hours=7),
        timedelta(hours=26),
        timedelta(seconds=-1),
        timedelta(minutes=-6),
        timedelta(hours=-2),
        timedelta(hours=-25),
    ]
)
PICKS = st.integers(0, 7)
"""Which of the things that are there: counted round and round."""
