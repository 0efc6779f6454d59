"""The overlap policy: what a due slot does, and what starts when a slot opens (DESIGN §7 and its fine print).

Lines are written in the letters of ``tests.core.lines``.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from agentsched.core.overlap import Admission, Flight, Limits, Line, Opening, Waiting, on_due, on_slot_open
from agentsched.core.words import Lane, Overlap, Reason, RunStatus, Trigger
from tests.core.lines import has_overdue, line


def shown(admission: Admission) -> str:
    """An admission in one line: the verdict, then -superseded, xcancelled, ?asked."""
    effects = [f"-{run}" for run in admission.supersede]
    effects += [f"x{run}" for run in admission.cancel] + [f"?{run}" for run in admission.ask]
    return " ".join([admission.verdict, *effects])


def limits(overlap: Overlap, cap: int | None, queue_limit: int | None = 100) -> Limits:
    return Limits(overlap, cap, queue_limit)


SKIP = [
    (1, "", "", "start"),
    (1, "", "ff", "start"),
    (1, "p", "", "overlap"),
    (1, "r", "", "overlap"),
    (1, "w", "", "overlap"),
    (1, "a", "", "overlap"),
    (1, "m", "", "overlap"),
    (1, "q", "", "overlap"),
    (1, "rm", "", "overlap"),
    (2, "r", "", "start"),
    (2, "m", "", "start"),
    (2, "rr", "", "overlap"),
    (3, "rm", "", "start"),
    # Only a backfill run blocks: one live fire waits, and a newer one takes its place.
    (1, "b", "", "wait"),
    (1, "B", "ff", "wait"),
    (1, "b", "l", "wait -11"),
    (1, "b", "ll", "wait -11 -12"),
    (1, "b", "lf", "wait -11"),
    (2, "rb", "", "wait"),
    (2, "rb", "l", "wait -11"),
    (2, "b", "", "start"),
    (2, "rm", "", "overlap"),
    # The manual run beside the backfill blocks as well.
    (1, "bm", "l", "overlap"),
    # Overdue slots are not superseded, and a live fire does not overtake them.
    (1, "b", "oo", "wait"),
    (1, "b", "ool", "wait -13"),
    (1, "r", "oo", "overlap"),
    (2, "r", "o", "wait"),
]
QUEUE = [
    (1, "", "", "start"),
    (1, "", "f", "start"),
    (1, "r", "", "wait"),
    (1, "p", "l", "wait"),
    (1, "a", "ll", "wait"),
    (1, "m", "", "wait"),
    (2, "r", "", "start"),
    (2, "r", "l", "wait"),
    (2, "rr", "", "wait"),
    (1, "b", "", "wait"),
    (1, "b", "ll", "wait"),
    (1, "r", "lll", "queue_full"),
    (1, "r", "llo", "queue_full"),
    (1, "r", "llf", "wait"),
    (1, "b", "lll", "queue_full"),
    (1, "r", "llll", "queue_full"),
    (5, "r", "lll", "queue_full"),
]
QUEUE_LATEST = [
    (1, "", "", "start"),
    (1, "", "f", "start"),
    (1, "r", "", "wait"),
    (1, "r", "l", "wait -11"),
    (1, "w", "ll", "wait -11 -12"),
    (1, "r", "f", "wait"),
    (1, "r", "lf", "wait -11"),
    (2, "r", "", "start"),
    (2, "rr", "l", "wait -11"),
    (1, "m", "l", "wait -11"),
    (1, "b", "l", "wait -11"),
    (1, "r", "ol", "wait -12"),
]
REPLACE = [
    (1, "", "", "start"),
    (1, "", "f", "start"),
    (1, "p", "", "start x1"),
    (1, "w", "", "start x1"),
    (1, "r", "", "wait ?1"),
    (1, "a", "", "wait"),
    (1, "h", "", "wait ?1"),
    (1, "q", "", "wait ?1"),
    (1, "r", "l", "wait -11 ?1"),
    (1, "a", "l", "wait -11"),
    (1, "a", "ll", "wait -11 -12"),
    (1, "m", "", "wait"),
    (1, "M", "", "wait"),
    (1, "b", "", "wait"),
    (1, "b", "l", "wait -11"),
    (1, "B", "f", "wait"),
    (1, "mr", "", "wait ?2"),
    (1, "mp", "", "wait x2"),
    (1, "pM", "l", "wait -11 x1"),
    # While a slot is free it stops nobody.
    (2, "r", "", "start"),
    (2, "p", "", "start"),
    (2, "m", "", "start"),
    (3, "pr", "", "start"),
    (2, "pr", "", "wait x1 ?2"),
    (2, "pw", "", "start x1 x2"),
    (2, "ra", "l", "wait -11 ?1"),
    (2, "mp", "", "start x2"),
    (2, "mr", "", "wait ?2"),
    # What it stopped is not gone yet, although a slot is free.
    (2, "a", "l", "wait -11"),
    (1, "p", "o", "wait x1"),
    (1, "r", "ol", "wait -12 ?1"),
]
ALLOW = [
    (None, "", "", "start"),
    (None, "rrr", "", "start"),
    (None, "mb", "", "start"),
    (None, "r", "o", "start"),
    (1, "r", "", "wait"),
    (2, "r", "", "start"),
    (2, "rr", "", "wait"),
    (2, "rr", "ll", "wait"),
    (2, "r", "l", "wait"),
    (2, "rr", "lll", "queue_full"),
    (2, "rr", "llf", "wait"),
    (1, "b", "ll", "wait"),
]
TABLES: dict[Overlap, list[Any]] = {
    Overlap.SKIP: SKIP,
    Overlap.QUEUE: QUEUE,
    Overlap.QUEUE_LATEST: QUEUE_LATEST,
    Overlap.REPLACE: REPLACE,
    Overlap.ALLOW: ALLOW,
}
DUE = [(overlap, *row) for overlap, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("overlap", "cap", "flights", "waiting", "expected"), DUE)
def test_a_due_slot(overlap: Overlap, cap: int | None, flights: str, waiting: str, expected: str) -> None:
    assert shown(on_due(limits(overlap, cap, queue_limit=3), line(flights, waiting))) == expected


@pytest.mark.parametrize("overlap", [Overlap.QUEUE, Overlap.ALLOW])
def test_without_a_queue_limit_the_line_is_never_full(overlap: Overlap) -> None:
    assert shown(on_due(limits(overlap, 1, queue_limit=None), line("r", "l" * 500))) == "wait"


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_LATEST, Overlap.REPLACE])
def test_the_queue_limit_is_nothing_to_policies_without_a_line(overlap: Overlap) -> None:
    assert shown(on_due(limits(overlap, 1, queue_limit=1), line("b", "l"))) == "wait -11"


OVERDUE = [
    (1, "", "", "start"),
    (1, "", "f", "start"),
    (1, "p", "", "wait"),
    (1, "r", "oooo", "wait"),
    (1, "r", "l", "wait"),
    (1, "b", "", "wait"),
    (1, "m", "", "wait"),
    (2, "r", "", "start"),
    (2, "r", "o", "wait"),
    (2, "rr", "", "wait"),
]


@pytest.mark.parametrize(("cap", "flights", "waiting", "expected"), OVERDUE)
@pytest.mark.parametrize("overlap", list(Overlap))
def test_an_overdue_slot_waits_whatever_the_policy(
    overlap: Overlap, cap: int, flights: str, waiting: str, expected: str
) -> None:
    assert shown(on_due(limits(overlap, cap, queue_limit=1), line(flights, waiting), overdue=True)) == expected


@pytest.mark.parametrize(
    ("flights", "waiting", "expected"),
    [("", "", "start"), ("rmb", "", "start"), ("r", "l", "start"), ("ro", "", "wait"), ("r", "o", "wait")],
)
def test_overdue_slots_go_one_at_a_time_where_there_is_no_cap(flights: str, waiting: str, expected: str) -> None:
    assert shown(on_due(limits(Overlap.ALLOW, None), line(flights, waiting), overdue=True)) == expected


OPEN = [
    (Overlap.QUEUE, 1, "", "lll", [11]),
    (Overlap.QUEUE, 1, "", "", []),
    (Overlap.QUEUE, 1, "r", "l", []),
    (Overlap.QUEUE, 1, "w", "l", []),
    (Overlap.QUEUE, 1, "m", "l", []),
    (Overlap.QUEUE, 1, "b", "l", []),
    (Overlap.QUEUE, 1, "a", "l", []),
    (Overlap.QUEUE, 3, "r", "llll", [11, 12]),
    (Overlap.QUEUE, 3, "a", "ll", [11, 12]),
    (Overlap.QUEUE, 2, "rrr", "l", []),
    # Live before backfill, and of the backfill one at a time.
    (Overlap.QUEUE, 1, "", "fl", [12]),
    (Overlap.QUEUE, 3, "", "fl", [12, 11]),
    (Overlap.QUEUE, 3, "", "fff", [11]),
    (Overlap.QUEUE, 3, "b", "ffl", [13]),
    (Overlap.SKIP, 1, "", "f", [11]),
    (Overlap.SKIP, 1, "r", "f", []),
    (Overlap.SKIP, 2, "r", "f", [11]),
    (Overlap.SKIP, 2, "B", "f", []),
    (Overlap.SKIP, 1, "", "lf", [11]),
    (Overlap.SKIP, 1, "", "ooo", [11]),
    (Overlap.SKIP, 2, "", "ooo", [11, 12]),
    (Overlap.QUEUE_LATEST, 1, "", "l", [11]),
    (Overlap.QUEUE_LATEST, 1, "a", "l", []),
    # The newest of `replace` waits until all that it stopped are gone; manual and backfill runs it never stopped.
    (Overlap.REPLACE, 1, "", "l", [11]),
    (Overlap.REPLACE, 1, "r", "l", []),
    (Overlap.REPLACE, 2, "a", "l", []),
    (Overlap.REPLACE, 2, "m", "l", [11]),
    (Overlap.REPLACE, 2, "a", "lf", [12]),
    (Overlap.REPLACE, 3, "ma", "l", []),
    (Overlap.ALLOW, 2, "r", "ll", [11]),
    (Overlap.ALLOW, 2, "rr", "l", []),
    (Overlap.ALLOW, None, "rrr", "ll", [11, 12]),
    # Without a cap a slot is always free: overdue slots and backfill go one at a time.
    (Overlap.ALLOW, None, "", "ooo", [11]),
    (Overlap.ALLOW, None, "rm", "oo", [11]),
    (Overlap.ALLOW, None, "ro", "oo", []),
    (Overlap.ALLOW, None, "o", "olf", [12, 13]),
    (Overlap.ALLOW, None, "rr", "ff", [11]),
    (Overlap.ALLOW, None, "rb", "ff", []),
    (Overlap.ALLOW, None, "r", "of", [11, 12]),
]


@pytest.mark.parametrize(("overlap", "cap", "flights", "waiting", "starts"), OPEN)
def test_what_starts_when_a_slot_opens(
    overlap: Overlap, cap: int | None, flights: str, waiting: str, starts: list[int]
) -> None:
    assert on_slot_open(limits(overlap, cap), line(flights, waiting)) == Opening(tuple(starts))


@pytest.mark.parametrize(
    ("cap", "flights", "waiting", "starts", "superseded"),
    [
        (1, "", "lll", (13,), (11, 12)),
        (1, "r", "lll", (), (11, 12)),
        (2, "r", "ll", (12,), (11,)),
        (2, "r", "lfl", (13,), (11,)),
        (1, "", "oll", (11,), (12,)),
        (3, "", "ooll", (11, 12, 14), (13,)),
    ],
)
@pytest.mark.parametrize("overlap", [Overlap.QUEUE_LATEST, Overlap.REPLACE])
def test_only_the_newest_is_left_of_the_line_of_an_earlier_policy(
    overlap: Overlap, cap: int, flights: str, waiting: str, starts: tuple[int, ...], superseded: tuple[int, ...]
) -> None:
    assert on_slot_open(limits(overlap, cap), line(flights, waiting)) == Opening(starts, superseded)


@pytest.mark.parametrize(
    ("flights", "waiting", "starts"),
    [("", "ll", []), ("", "f", [11]), ("", "lf", [12]), ("r", "lf", []), ("", "of", [12])],
)
@pytest.mark.parametrize("overlap", list(Overlap))
def test_while_paused_only_backfill_goes_on(overlap: Overlap, flights: str, waiting: str, starts: list[int]) -> None:
    assert on_slot_open(limits(overlap, 1), line(flights, waiting), paused=True) == Opening(tuple(starts))


def test_a_manual_run_that_a_person_stops_does_not_hold_up_replace() -> None:
    stopped = Line((Flight(1, Trigger.MANUAL, RunStatus.RUNNING, asked=True),), (Waiting(11, Lane.LIVE),))
    assert on_slot_open(limits(Overlap.REPLACE, 2), stopped) == Opening((11,))


def words(alphabet: str, longest: int) -> Iterator[str]:
    for length in range(longest + 1):
        yield from map("".join, product(alphabet, repeat=length))


LINES = [line(flights, waiting) for flights in words("prwaohmbB", 2) for waiting in words("lof", 2)]
CAPS = [(overlap, cap) for overlap in Overlap for cap in (1, 2)] + [(Overlap.ALLOW, None)]


def may_be_stopped(flight: Flight) -> bool:
    return flight.trigger not in (Trigger.MANUAL, Trigger.BACKFILL)


@pytest.mark.parametrize(("overlap", "cap"), CAPS)
@pytest.mark.parametrize("queue_limit", [None, 1, 2])
def test_every_line_and_a_due_slot(overlap: Overlap, cap: int | None, queue_limit: int | None) -> None:
    """What holds in all of some 1,200 lines, said without the way it is decided."""
    for at in LINES:
        got = on_due(Limits(overlap, cap, queue_limit), at)
        flying, live = at.in_flight, [waiting for waiting in at.waiting if waiting.lane is Lane.LIVE]
        left = [waiting for waiting in live if waiting.run_id not in got.supersede]
        stopped = [flight for flight in flying if flight.run_id in (*got.cancel, *got.ask)]
        refused = isinstance(got.verdict, Reason)

        if cap is None:
            assert got == Admission("start"), at
            continue
        if len(flying) < cap and not live:
            assert got == Admission("start"), at
        if got.verdict == "start":
            assert len(flying) - len(got.cancel) < cap, at
            assert left == [], at

        assert all(not waiting.overdue for waiting in live if waiting.run_id in got.supersede), at
        assert set(got.supersede) <= {waiting.run_id for waiting in live}, at
        assert all(may_be_stopped(flight) for flight in stopped), at
        assert all(flight.status is not RunStatus.RUNNING for flight in flying if flight.run_id in got.cancel), at
        assert all(flight.status is RunStatus.RUNNING for flight in flying if flight.run_id in got.ask), at
        assert not any(flight.asked for flight in flying if flight.run_id in got.ask), at
        if refused:
            assert got == Admission(got.verdict), at

        match overlap:
            case Overlap.SKIP:
                others = sum(flight.trigger is not Trigger.BACKFILL for flight in flying)
                assert refused == (others >= cap), at
                assert not refused or got.verdict == Reason.OVERLAP, at
                assert refused or all(waiting.overdue for waiting in left), at
            case Overlap.QUEUE | Overlap.ALLOW:
                free = len(flying) < cap and not live
                assert refused == (not free and queue_limit is not None and len(live) >= queue_limit), at
                assert not refused or got.verdict == Reason.QUEUE_FULL, at
                assert got.supersede == (), at
            case Overlap.QUEUE_LATEST:
                assert not refused, at
                assert all(waiting.overdue for waiting in left), at
            case Overlap.REPLACE:
                assert not refused, at
                assert all(waiting.overdue for waiting in left), at
                if len(flying) >= cap:
                    stays = [f for f in flying if may_be_stopped(f) and f not in stopped]
                    assert all(flight.asked for flight in stays), at
        if overlap is not Overlap.REPLACE:
            assert stopped == [], at


@pytest.mark.parametrize(("overlap", "cap"), CAPS)
@pytest.mark.parametrize("queue_limit", [None, 1])
def test_every_line_and_an_overdue_slot(overlap: Overlap, cap: int | None, queue_limit: int | None) -> None:
    for at in LINES:
        got = on_due(Limits(overlap, cap, queue_limit), at, overdue=True)
        if cap is None:
            free = not has_overdue(at)
        else:
            free = len(at.in_flight) < cap and all(waiting.lane is Lane.BACKFILL for waiting in at.waiting)
        assert got == Admission("start" if free else "wait"), at


@pytest.mark.parametrize(("overlap", "cap"), CAPS)
@pytest.mark.parametrize("paused", [False, True])
def test_every_line_and_an_open_slot(overlap: Overlap, cap: int | None, paused: bool) -> None:
    for at in LINES:
        starts, supersede = on_slot_open(limits(overlap, cap), at, paused=paused)
        waiting = {one.run_id: one for one in at.waiting if one.run_id not in supersede}
        gone = [one for one in at.waiting if one.run_id in supersede]
        assert all(one.lane is Lane.LIVE and not one.overdue for one in gone), at
        if overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE) and not paused:
            punctual = [one.run_id for one in at.waiting if one.lane is Lane.LIVE and not one.overdue]
            assert list(supersede) == punctual[:-1], at
        else:
            assert supersede == (), at
        live = [run for run, one in waiting.items() if one.lane is Lane.LIVE]
        backfill = [run for run, one in waiting.items() if one.lane is Lane.BACKFILL]
        live_starts = [run for run in starts if run in live]
        backfill_starts = [run for run in starts if run in backfill]

        assert len(set(starts)) == len(starts), at
        assert set(starts) <= waiting.keys(), at
        assert cap is None or len(at.in_flight) + len(starts) <= max(cap, len(at.in_flight)), at
        assert list(starts) == live_starts + backfill_starts, at
        assert backfill_starts == backfill[: len(backfill_starts)], at
        flying_backfill = sum(flight.trigger is Trigger.BACKFILL for flight in at.in_flight)
        assert len(backfill_starts) <= max(0, 1 - flying_backfill), at

        held = paused or (overlap is Overlap.REPLACE and any(flight.asked for flight in at.in_flight))
        if held:
            assert live_starts == [], at
        elif cap is not None:
            assert live_starts == live[: max(0, cap - len(at.in_flight))], at
        else:
            overdue = [run for run in live if waiting[run].overdue]
            assert [run for run in live_starts if run not in overdue] == [run for run in live if run not in overdue], at
            goes = bool(overdue) and not any(flight.overdue for flight in at.in_flight)
            assert [run for run in live_starts if run in overdue] == overdue[:goes], at
        if (cap is None or len(at.in_flight) + len(live_starts) < cap) and backfill and not flying_backfill:
            assert backfill_starts, at
