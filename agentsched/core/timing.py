"""When a schedule fires: its timing, and the one function that computes occurrences (DESIGN §3).

All instants are aware datetimes in UTC, going in and coming out; occurrences are whole minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import assert_never

from agentsched.core.cron import parse
from agentsched.core.cron_spread import clock, spread_out
from agentsched.core.durations import format_minutes, in_words, parse_duration
from agentsched.core.localtime import MINUTE, from_minutes, instants, to_minutes
from agentsched.core.problems import Problem, Refused
from agentsched.core.wall_clock import parse_at, round_up_to_minute
from agentsched.core.zones import zone


class Kind(StrEnum):
    """What makes a schedule fire."""

    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    WEBHOOK = "webhook"


@dataclass(frozen=True)
class Timing:
    """When a schedule fires. Of the fields between kind and zone exactly those of its kind are set."""

    kind: Kind
    cron: str | None
    """The expression, for CRON."""
    every_minutes: int | None
    """The interval in minutes of elapsed time, for INTERVAL."""
    anchor_at: datetime | None
    """The whole minute (UTC) that intervals are counted from, for INTERVAL."""
    at: datetime | None
    """The instant (UTC), for ONCE."""
    timezone: str
    """The IANA zone whose clocks cron follows, and in which the others are shown."""

    def __post_init__(self) -> None:
        given = (self.cron is not None, self.every_minutes is not None, self.at is not None)
        expected = (self.kind is Kind.CRON, self.kind is Kind.INTERVAL, self.kind is Kind.ONCE)
        if given != expected or (self.anchor_at is not None) != (self.kind is Kind.INTERVAL):
            raise ValueError(f"a timing of kind {self.kind} has exactly the fields of its kind: {self}")


def next_occurrence(timing: Timing, after: datetime) -> datetime | None:
    """The first occurrence strictly after `after` (aware), in UTC; None if there is none."""
    if timing.kind is Kind.CRON:
        found = _next_of_cron(timing.cron or "", timing.timezone, to_minutes(after))
        return None if found is None else from_minutes(found)
    return next(_walk(timing, after), None)


def occurrences(timing: Timing, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
    """Every occurrence in (`after`, `until`], ascending; without `until` for as long as there are any.

    This is what the tick, the preview, the backfill and the tools ask.
    """
    # The first is memoised, and often one too many: after a short outage thousands of schedules ask for the same.
    first = next_occurrence(timing, after)
    if first is None:
        return
    last = after
    for instant in chain((first,), _walk(timing, first)):
        if instant <= last:
            raise AssertionError(f"{instant} does not come after {last}: {timing}")
        if until is not None and instant > until:
            return
        yield instant
        last = instant


def _walk(timing: Timing, after: datetime) -> Iterator[datetime]:
    match timing.kind:
        case Kind.CRON:
            return map(from_minutes, _walk_cron(timing.cron or "", timing.timezone, to_minutes(after)))
        case Kind.INTERVAL:
            return _walk_interval(timing, after)
        case Kind.ONCE:
            return iter([timing.at] if timing.at is not None and timing.at > after else [])
        case Kind.WEBHOOK:
            return iter([])
        case _ as never:
            assert_never(never)


def _walk_cron(expression: str, timezone: str, after: int) -> Iterator[int]:
    cron = parse(expression)
    return instants(cron.walls, elapsed=cron.elapsed, timezone=timezone, after=after)


@lru_cache(maxsize=32_768)
def _next_of_cron(expression: str, timezone: str, after: int) -> int | None:
    return next(_walk_cron(expression, timezone, after), None)


def _walk_interval(timing: Timing, after: datetime) -> Iterator[datetime]:
    if timing.every_minutes is None or timing.anchor_at is None:
        return
    every = timing.every_minutes * MINUTE
    count = max(1, (after - timing.anchor_at) // every + 1)
    try:
        instant = timing.anchor_at.astimezone(UTC) + count * every
        while True:
            yield instant
            instant += every
    except OverflowError:
        return


def smallest_gap_minutes(timing: Timing) -> int | None:
    """The smallest distance of two occurrences on the wall clock, in minutes; None where there are no two."""
    match timing.kind:
        case Kind.CRON:
            return parse(timing.cron or "").smallest_gap_minutes()
        case Kind.INTERVAL:
            return timing.every_minutes
        case Kind.ONCE | Kind.WEBHOOK:
            return None
        case _ as never:
            assert_never(never)


def build_timing(
    *,
    cron: str | None = None,
    every: str | None = None,
    at: str | None = None,
    in_: str | None = None,
    webhook: bool = False,
    timezone: str,
    now: datetime,
) -> Timing:
    """The timing that a request asks for with exactly one of `cron`, `every`, `at`, `in_` and `webhook`.

    `now` (aware) is the anchor of `every`, cut to the minute, and the start of `in_`, rounded up.
    Raises Refused with all problems found: `timing_exactly_one`, `unknown_timezone`, and those of
    `cron.parse`, `durations.parse_duration` and `wall_clock.parse_at`.
    """
    problems: list[Problem] = []
    try:
        zone(timezone)
    except Refused as refused:
        problems += refused.problems
    asked = {"cron": cron, "every": every, "at": at, "in": in_, "webhook": webhook or None}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        problems.append(_not_exactly_one(given))
        raise Refused(*problems)

    # A wall clock means nothing without its zone; UTC stands in, to find what is wrong besides.
    clock = "UTC" if problems else timezone
    timing = None
    try:
        if cron is not None:
            parse(cron)
            timing = _timing(Kind.CRON, timezone, cron=cron.strip())
        elif every is not None:
            minutes = parse_duration(every, field="every")
            anchor = now.astimezone(UTC).replace(second=0, microsecond=0)
            timing = _timing(Kind.INTERVAL, timezone, every_minutes=minutes, anchor_at=anchor)
        elif at is not None:
            timing = _timing(Kind.ONCE, timezone, at=parse_at(at, timezone=clock, now=now))
        elif in_ is not None:
            ends_at = now.astimezone(UTC) + timedelta(minutes=parse_duration(in_, field="in"))
            timing = _timing(Kind.ONCE, timezone, at=round_up_to_minute(ends_at))
        else:
            timing = _timing(Kind.WEBHOOK, timezone)
    except Refused as refused:
        # Whether a wall clock is past depends on the zone that is not known.
        problems += [problem for problem in refused.problems if not (problems and problem.code == "at_in_past")]
    if timing is None or problems:
        raise Refused(*problems)
    return timing


def _timing(
    kind: Kind,
    timezone: str,
    *,
    cron: str | None = None,
    every_minutes: int | None = None,
    anchor_at: datetime | None = None,
    at: datetime | None = None,
) -> Timing:
    return Timing(kind=kind, cron=cron, every_minutes=every_minutes, anchor_at=anchor_at, at=at, timezone=timezone)


def _not_exactly_one(given: list[str]) -> Problem:
    got = ", ".join(f"`{name}`" for name in given) if given else "none of them"
    return Problem(
        code="timing_exactly_one",
        field="cron",
        got=given,
        problem=f"A schedule has exactly one of `cron`, `every`, `at`, `in` and `webhook`; this has {got}.",
        fix='Write one, such as `cron: "0 9 * * 1-5"`, `every: "2h"` or `at: "2026-12-03T09:00"`.',
    )


def check_minimum_interval(timing: Timing, minimum_minutes: int) -> Problem | None:
    """What is wrong if two occurrences can be closer than that many minutes (DESIGN §10), else None.

    Measured against the smallest gap that the timing can ever have, not against its next two occurrences.
    """
    gap = smallest_gap_minutes(timing)
    if gap is None or gap >= minimum_minutes:
        return None
    least = f"schedules are at least {in_words(minimum_minutes)} apart"
    if timing.kind is Kind.INTERVAL:
        return Problem(
            code="interval_too_short",
            field="every",
            got=format_minutes(gap),
            problem=f"Every {in_words(gap)} is too often: {least}.",
            fix=f'Write "{format_minutes(minimum_minutes)}" or more.',
        )
    cron = parse(timing.cron or "")
    closest = cron.smallest_gap()
    second = "on the next day" if closest.second <= closest.first else ""
    when = " ".join(part for part in (clock(closest.first), "and", clock(closest.second), second) if part)
    instead = spread_out(cron, minimum_minutes)
    every = f'use `every: "{format_minutes(minimum_minutes)}"` in place of `cron`'
    fix = f"Write `{instead}`, or {every}." if instead else f"Instead, {every}."
    if instead and not cron.elapsed:
        fix = f"Write `{instead}`."
    return Problem(
        code="interval_too_short",
        field="cron",
        got=timing.cron,
        problem=f"Two occurrences are only {in_words(gap)} apart, at {when}: {least}.",
        fix=fix,
    )
