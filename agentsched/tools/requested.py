"""Turn a tool's flat arguments into the requests of the service, and find all that is wrong with them at once."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentsched.core.problems import Problem, Refused
from agentsched.core.timing import build_timing, check_minimum_interval
from agentsched.core.wall_clock import parse_at
from agentsched.core.zones import zone
from agentsched.service.standing import Standing
from agentsched.settings import Settings
from agentsched.tools.arguments import Create, Update

TIMING = ("cron", "every", "at", "in", "webhook")


def fields_of(arguments: Create | Update, here: Standing, settings: Settings, timezone: str | None) -> dict[str, Any]:
    """What was sent, under the names of the service's requests; ``timezone`` is that of a naive ``ends_at``.

    Raises Refused for an ``ends_at`` that is none, and then with everything that is wrong with the timing as well.
    """
    sent = arguments.model_dump(by_alias=True, exclude_unset=True)
    fields = {name: value for name, value in sent.items() if name not in ("schedule", "max_attempts", "ends_at")}
    if "max_attempts" in sent:
        fields["retry"] = {"max_attempts": sent["max_attempts"]}
    if "ends_at" in sent and timezone is not None and _is_zone(timezone):
        try:
            fields["ends_at"] = _end(sent["ends_at"], timezone, here)
        except Refused:
            raise Refused(*time_problems(sent, here, settings, timezone)) from None
    return fields


def time_problems(sent: Mapping[str, Any], here: Standing, settings: Settings, timezone: str | None) -> list[Problem]:
    """What is wrong with the timing and ``ends_at`` of arguments that are refused anyway."""
    given = {"in_" if name == "in" else name: sent[name] for name in TIMING if name in sent}
    found: list[Problem] = []
    if timezone is None:
        return found
    if given:
        try:
            timing = build_timing(**given, timezone=timezone, now=here.now)
            problem = check_minimum_interval(timing, settings.minimum_interval_minutes)
            found += [] if problem is None else [problem]
        except Refused as refused:
            found += refused.problems
    if "ends_at" in sent and _is_zone(timezone):
        try:
            _end(sent["ends_at"], timezone, here)
        except Refused as refused:
            found += refused.problems
    return found


def _end(text: str, timezone: str, here: Standing) -> datetime:
    return parse_at(text, timezone=timezone, now=here.now, field="ends_at")


def _is_zone(name: str) -> bool:
    """An unknown one is refused with the timing."""
    try:
        zone(name)
    except Refused:
        return False
    return True
