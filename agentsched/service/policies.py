"""Turn what was asked for into the effective policies of a version (defaults: DESIGN §7 to §10)."""

from typing import Any

from agentsched.core.limits import DEFAULT_TIMEOUT_SECONDS
from agentsched.core.misfire import DEFAULT_GRACE_SECONDS
from agentsched.core.problems import Problem
from agentsched.core.timing import Kind
from agentsched.core.words import Misfire, Mode, Notify, Overlap
from agentsched.service.requests import ScheduleFields
from agentsched.settings import Settings
from agentsched.store.schedules import Definition

RETRY_FIELDS = {
    "max_attempts": "retry_max_attempts",
    "initial_delay_seconds": "retry_initial_delay_seconds",
    "max_delay_seconds": "retry_max_delay_seconds",
}
NULL_MEANS_NONE = (
    "max_concurrency",
    "queue_limit",
    "cancel_grace_seconds",
    "pause_after_failures",
    "daily_run_limit",
    "daily_token_limit",
    "max_history_entries",
)
"""Fields in which an explicit null has a meaning of its own; in the others it is as if the field was not sent."""


def defaults(kind: Kind, settings: Settings) -> dict[str, Any]:
    """What a schedule of this kind gets where nothing was asked for."""
    return {
        "mode": Mode.FORK,
        "overlap": Overlap.QUEUE if kind is Kind.WEBHOOK else Overlap.SKIP,
        "max_concurrency": 1,
        "queue_limit": 100,
        "cancel_grace_seconds": 30,
        "misfire": Misfire.SKIP,
        "misfire_grace_seconds": DEFAULT_GRACE_SECONDS,
        "start_deadline_seconds": 900,
        "timeout_seconds": DEFAULT_TIMEOUT_SECONDS,
        "retry_max_attempts": 1,
        "retry_initial_delay_seconds": 30,
        "retry_max_delay_seconds": 900,
        "pause_after_failures": 3,
        "notify": Notify.FAILURES,
        "daily_run_limit": settings.daily_run_limit,
        "daily_token_limit": None,
        "max_history_entries": None,
    }


def resolve(asked: ScheduleFields, base: dict[str, Any]) -> dict[str, Any]:
    """``base`` with what was asked for; ``max_concurrency`` follows ``overlap`` where it was not given."""
    policies = dict(base)
    sent = asked.model_fields_set
    for field in policies.keys() & sent:
        value = getattr(asked, field)
        if value is not None or field in NULL_MEANS_NONE:
            policies[field] = value
    if asked.retry is not None:
        policies |= {RETRY_FIELDS[name]: getattr(asked.retry, name) for name in asked.retry.model_fields_set}
        policies["retry_max_attempts"] = max(1, policies["retry_max_attempts"])
    if asked.catch_up:
        policies["misfire"] = Misfire.LATEST
    if policies["overlap"] != base["overlap"] and "max_concurrency" not in sent:
        policies["max_concurrency"] = None if policies["overlap"] is Overlap.ALLOW else policies["max_concurrency"] or 1
    return policies


def problems_of(asked: ScheduleFields, policies: dict[str, Any], prompt: str, settings: Settings) -> list[Problem]:
    """What contradicts itself or is too long."""
    found: list[Problem] = []
    overlap, misfire = Overlap(policies["overlap"]), Misfire(policies["misfire"])
    contradicted = contradiction(misfire, overlap, field="misfire")
    if contradicted is not None:
        found.append(contradicted)
    if asked.catch_up and asked.misfire not in (None, Misfire.LATEST):
        found.append(
            Problem(
                "policy_conflict",
                "catch_up",
                True,
                f"`catch_up: true` is short for `misfire: latest`, and `misfire` is {asked.misfire}.",
                "Send one of the two.",
            )
        )
    if policies["max_concurrency"] is None and overlap is not Overlap.ALLOW:
        found.append(
            Problem(
                "policy_conflict",
                "max_concurrency",
                None,
                f"`overlap: {overlap.value}` needs a number of slots.",
                "Send a number, or `overlap: allow`.",
            )
        )
    if policies["retry_max_delay_seconds"] < policies["retry_initial_delay_seconds"]:
        found.append(
            Problem(
                "policy_conflict",
                "retry.max_delay_seconds",
                policies["retry_max_delay_seconds"],
                "The longest delay is shorter than the first one.",
                f"Write {policies['retry_initial_delay_seconds']} or more.",
            )
        )
    size = len(prompt.encode())
    if size > settings.prompt_max_bytes:
        found.append(
            Problem(
                "prompt_too_long",
                "prompt",
                f"{size} bytes",
                f"A prompt has at most {settings.prompt_max_bytes} bytes.",
                "Shorten it, and let the agent fetch what it needs when it runs.",
            )
        )
    return found


def contradiction(misfire: Misfire, overlap: Overlap, *, field: str) -> Problem | None:
    """What is wrong if ``field``, ``misfire`` or ``catch_up``, asks for fires that ``overlap`` would drop."""
    if misfire is not Misfire.ALL or overlap not in (Overlap.QUEUE_LATEST, Overlap.REPLACE):
        return None
    return Problem(
        "policy_conflict",
        field,
        misfire.value,
        f"`{field}: all` runs every missed fire, and `overlap: {overlap.value}` drops all but the newest.",
        f"Use `{field}: latest`, or `overlap: queue`.",
    )


def definition(policies: dict[str, Any], *, prompt: str, agent_id: int) -> Definition:
    """The version row."""
    return Definition(prompt=prompt, agent_id=agent_id, **policies)


def policies_of(row: Definition | Any) -> dict[str, Any]:
    """The effective policies of a version, under the names of ``Definition``."""
    return {name: getattr(row, name) for name in Definition._fields if name not in ("prompt", "agent_id")}
