"""Time zones by IANA name, from the pinned `tzdata` package and never from the machine's own copy.

Every process of an installation thereby agrees on every transition, whatever its operating system ships.
"""

import difflib
import importlib.resources
import re
from functools import cache
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from agentsched.core.problems import Problem, Refused

# What people call a zone by, where the name itself does not say it.
_COMMON_NAMES = {
    "z": "UTC",
    "zulu": "UTC",
    "pst": "America/Los_Angeles",
    "pdt": "America/Los_Angeles",
    "pt": "America/Los_Angeles",
    "pacific": "America/Los_Angeles",
    "mdt": "America/Denver",
    "mt": "America/Denver",
    "mountain": "America/Denver",
    "cst": "America/Chicago",
    "cdt": "America/Chicago",
    "ct": "America/Chicago",
    "central": "America/Chicago",
    "edt": "America/New_York",
    "et": "America/New_York",
    "eastern": "America/New_York",
    "akst": "America/Anchorage",
    "akdt": "America/Anchorage",
    "brt": "America/Sao_Paulo",
    "art": "America/Argentina/Buenos_Aires",
    "bst": "Europe/London",
    "uk": "Europe/London",
    "england": "Europe/London",
    "cest": "Europe/Berlin",
    "mez": "Europe/Berlin",
    "mesz": "Europe/Berlin",
    "germany": "Europe/Berlin",
    "munich": "Europe/Berlin",
    "hamburg": "Europe/Berlin",
    "frankfurt": "Europe/Berlin",
    "france": "Europe/Paris",
    "spain": "Europe/Madrid",
    "barcelona": "Europe/Madrid",
    "milan": "Europe/Rome",
    "italy": "Europe/Rome",
    "geneva": "Europe/Zurich",
    "switzerland": "Europe/Zurich",
    "eest": "Europe/Athens",
    "msk": "Europe/Moscow",
    "ist": "Asia/Kolkata",
    "india": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "delhi": "Asia/Kolkata",
    "new_delhi": "Asia/Kolkata",
    "bangalore": "Asia/Kolkata",
    "npt": "Asia/Kathmandu",
    "jst": "Asia/Tokyo",
    "osaka": "Asia/Tokyo",
    "kst": "Asia/Seoul",
    "sgt": "Asia/Singapore",
    "hkt": "Asia/Hong_Kong",
    "beijing": "Asia/Shanghai",
    "china": "Asia/Shanghai",
    "aest": "Australia/Sydney",
    "aedt": "Australia/Sydney",
    "acst": "Australia/Adelaide",
    "awst": "Australia/Perth",
    "canberra": "Australia/Sydney",
    "nzst": "Pacific/Auckland",
    "nzdt": "Pacific/Auckland",
    "wellington": "Pacific/Auckland",
    "san_francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "california": "America/Los_Angeles",
    "boston": "America/New_York",
    "washington": "America/New_York",
    "miami": "America/New_York",
    "atlanta": "America/New_York",
    "nyc": "America/New_York",
    "austin": "America/Chicago",
    "dallas": "America/Chicago",
    "houston": "America/Chicago",
    "montreal": "America/Toronto",
    "rio": "America/Sao_Paulo",
    "brasilia": "America/Sao_Paulo",
}
_OFFSET = re.compile(r"^(?:utc|gmt)?([+-−])(\d{1,2})(?::?(\d{2}))?$", re.IGNORECASE)


def tzdata_version() -> str:
    """The release of the time zone database in use, such as "2026f"."""
    return str(tzdata.IANA_VERSION)


@cache
def zone_names() -> tuple[str, ...]:
    """All zone names that `zone` accepts, in the order of the database."""
    listed = importlib.resources.files(tzdata).joinpath("zones").read_text(encoding="utf-8").split()
    return tuple(name for name in listed if name != "Factory")


@cache
def _known() -> frozenset[str]:
    return frozenset(zone_names())


def zone(name: str) -> ZoneInfo:
    """The zone of that exact IANA name.

    Raises Refused (`unknown_timezone`) with near names for anything else.
    """
    if name not in _known():
        raise Refused(_unknown(name))
    return _load(name)


@cache
def _load(name: str) -> ZoneInfo:
    with importlib.resources.files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def _unknown(name: str) -> Problem:
    wanted = name.strip()
    if not wanted:
        return Problem(
            code="unknown_timezone",
            field="timezone",
            got=name,
            problem="The time zone is empty.",
            fix='Write an IANA name such as "Europe/Berlin", or "UTC".',
        )
    if _OFFSET.match(wanted):
        return Problem(
            code="unknown_timezone",
            field="timezone",
            got=name,
            problem=f'"{name}" is an offset, which knows no daylight saving time, not a time zone.',
            fix=f'Write the IANA name of the place, such as "Europe/Berlin"{_fixed_offset(wanted)}.',
        )
    near = near_names(wanted)
    return Problem(
        code="unknown_timezone",
        field="timezone",
        got=name,
        problem=f'There is no time zone "{name}".',
        fix="Write "
        + (
            " or ".join(f'"{suggestion}"' for suggestion in near)
            if near
            else 'an IANA name such as "Europe/Berlin", or "UTC"'
        )
        + ".",
    )


def _fixed_offset(wanted: str) -> str:
    found = _OFFSET.match(wanted)
    if found is None or int(found[3] or 0):
        return ""
    hours = int(found[2])
    # The names of the database count westwards, the opposite of how everybody writes offsets.
    sign = "-" if found[1] == "+" else "+"
    name = f"Etc/GMT{sign}{hours}" if hours else "UTC"
    return f', or "{name}" for that fixed offset' if name in _known() else ""


def near_names(wanted: str, count: int = 3) -> tuple[str, ...]:
    """Up to `count` zone names that somebody who wrote `wanted` may have meant, best first."""
    plain = re.sub(r"[\s_]+", "_", wanted.strip()).casefold()
    city = plain.rsplit("/", 1)[-1].split(",")[0].strip("_")
    by_name = {name.casefold(): name for name in zone_names()}
    by_city: dict[str, list[str]] = {}
    for folded, name in by_name.items():
        by_city.setdefault(folded.rsplit("/", 1)[-1], []).append(name)

    found: list[str] = []
    if plain in by_name:
        found.append(by_name[plain])
    for alias in (plain, city, plain.split("_", 1)[0]):
        if alias in _COMMON_NAMES:
            found.append(_COMMON_NAMES[alias])
            break
    found += by_city.get(city, [])
    if not found:
        found += [by_name[near] for near in difflib.get_close_matches(plain, by_name, n=count, cutoff=0.75)]
        for near in difflib.get_close_matches(city, by_city, n=count, cutoff=0.75):
            found += by_city[near]
    return tuple(dict.fromkeys(found))[:count]
