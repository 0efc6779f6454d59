"""Zones from the pinned database, near names for the others, and where the clocks change."""

import importlib.resources
import struct
import zoneinfo
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
import tzdata  # type: ignore[import-untyped]

from agentsched.core.localtime import PROBE, Gap, instant_of, segments, to_minutes
from agentsched.core.problems import Refused
from agentsched.core.zones import near_names, tzdata_version, zone, zone_names
from tests.core.oracle import changes_of_clocks, utc


def test_the_database_of_the_machine_decides_nothing(tmp_path: Path) -> None:
    tokyo = importlib.resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Sofia").write_bytes(tokyo)
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        assert utc("2026-01-01").astimezone(zoneinfo.ZoneInfo("Europe/Sofia")).hour == 9
        assert utc("2026-01-01").astimezone(zone("Europe/Sofia")).hour == 2
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


def test_every_listed_zone_loads() -> None:
    assert len(zone_names()) > 500
    assert all(zone(name).key == name for name in zone_names())


def test_the_version_is_the_release_of_the_database() -> None:
    assert tzdata_version() == tzdata.IANA_VERSION


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Germany/Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("America/New York", "America/New_York"),
        ("san francisco", "America/Los_Angeles"),
        ("PST", "America/Los_Angeles"),
        ("Pacific Time", "America/Los_Angeles"),
        ("IST", "Asia/Kolkata"),
        ("Kathmandoo", "Asia/Kathmandu"),
        ("Lord Howe", "Australia/Lord_Howe"),
    ],
)
def test_an_unknown_zone_suggests_near_names(wanted: str, near: str) -> None:
    with pytest.raises(Refused) as refused:
        zone(wanted)
    (problem,) = refused.value.problems
    assert (problem.code, problem.field, problem.got) == ("unknown_timezone", "timezone", wanted)
    assert problem.fix.startswith(f'Write "{near}"')
    assert near_names(wanted)[0] == near


@pytest.mark.parametrize(
    ("wanted", "fix"),
    [
        ("UTC+2", 'Write the IANA name of the place, such as "Europe/Berlin", or "Etc/GMT-2" for that fixed offset.'),
        ("-05:00", 'Write the IANA name of the place, such as "Europe/Berlin", or "Etc/GMT+5" for that fixed offset.'),
        ("+05:45", 'Write the IANA name of the place, such as "Europe/Berlin".'),
        ("", 'Write an IANA name such as "Europe/Berlin", or "UTC".'),
        ("../../etc/passwd", 'Write an IANA name such as "Europe/Berlin", or "UTC".'),
        ("Factory", 'Write an IANA name such as "Europe/Berlin", or "UTC".'),
    ],
)
def test_what_names_no_place_is_refused(wanted: str, fix: str) -> None:
    with pytest.raises(Refused) as refused:
        zone(wanted)
    (problem,) = refused.value.problems
    assert problem.code == "unknown_timezone"
    assert problem.fix == fix


@pytest.mark.parametrize("name", ["Africa/Casablanca", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Gaza"])
@pytest.mark.parametrize("year", [2000, 2018, 2026, 2040])
def test_segments_begin_where_the_clocks_change(name: str, year: int) -> None:
    first, until = utc(f"{year}-01-01"), utc(f"{year + 1}-01-01")
    # The oracle looks at whole hours; these zones change the clocks at half hours at the earliest.
    expected = [to_minutes(change) for change in changes_of_clocks(name, first, until)]
    found = [s.start for s in segments(name, year) if s.start > to_minutes(first) and s.offset != s.offset_before]
    assert [-(-start // 60) * 60 for start in found] == expected
    assert segments(name, year)[-1].end == to_minutes(until)


def test_no_zone_changes_its_clocks_twice_within_a_probe() -> None:
    closest = min(
        later - earlier
        for name in zone_names()
        for changes in [_recorded_changes(name)]
        for earlier, later in pairwise(changes)
    )
    assert closest > 2 * PROBE * 60


def _recorded_changes(name: str) -> list[int]:
    """The seconds since 1970 at which the file of that zone changes the offset (RFC 8536, second block)."""
    data = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    utcs, standards, leaps, times, types, letters = struct.unpack_from(">6l", data, 20)
    second = 44 + times * 5 + types * 6 + letters + leaps * 8 + standards + utcs
    _, _, _, times, types, _ = struct.unpack_from(">6l", data, second + 20)
    at = struct.unpack_from(f">{times}q", data, second + 44)
    kinds = data[second + 44 + times * 8 :][:times]
    offsets = [struct.unpack_from(">l", data, second + 44 + times * 9 + 6 * kind)[0] for kind in range(types)]
    changes, offset = [], offsets[0]
    for when, kind in zip(at, kinds, strict=True):
        if offsets[kind] != offset and when >= 0:
            changes.append(when)
        offset = offsets[kind]
    return changes


def test_a_wall_clock_in_a_gap_knows_where_the_gap_ends() -> None:
    assert instant_of(datetime(2026, 3, 29, 2, 30), "Europe/Berlin") == Gap(utc("2026-03-29T01:00"))
    assert instant_of(datetime(2026, 10, 4, 2, 15), "Australia/Lord_Howe") == Gap(utc("2026-10-03T15:30"))
    assert instant_of(datetime(2011, 12, 30, 9, 0), "Pacific/Apia") == Gap(utc("2011-12-30T10:00"))


def test_a_wall_clock_shown_twice_is_its_first_instant() -> None:
    assert instant_of(datetime(2026, 10, 25, 2, 30), "Europe/Berlin") == utc("2026-10-25T00:30")
