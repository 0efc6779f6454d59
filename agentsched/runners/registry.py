"""Which runners there are, by harness name (DESIGN §9)."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from agentsched.runners.echo import EchoRunner
from agentsched.runners.protocol import Runner

if TYPE_CHECKING:
    from agentsched.runners.pydantic_ai import MakeToolset

ENTRY_POINT_GROUP = "agentsched.runners"

_log = structlog.get_logger(__name__)


def runners(schedule_tools: "MakeToolset | None" = None) -> dict[str, Callable[[], Runner]]:
    """A factory for each harness that this installation can run.

    `echo` is always there and `pydantic-ai` when its extra is installed; its agents have `schedule_tools`.
    Others are entry points of the group `agentsched.runners`: the name is the harness, the object a class or function
    that makes a runner without arguments. One that cannot be loaded, or whose name is taken, is logged by name and
    left out.
    """
    found: dict[str, Callable[[], Runner]] = {"echo": EchoRunner}
    if find_spec("pydantic_ai") is not None:
        found["pydantic-ai"] = lambda: _pydantic_ai(schedule_tools)
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.name in found:
            _log.warning("runner_name_taken", harness=entry_point.name, entry_point=entry_point.value)
            continue
        factory = _load(entry_point)
        if factory is not None:
            found[entry_point.name] = factory
    return found


def _pydantic_ai(schedule_tools: "MakeToolset | None") -> Runner:
    # pydantic-ai takes a second to import, which whoever only asks for the names should not wait for.
    from agentsched.runners.pydantic_ai import PydanticAIRunner

    return PydanticAIRunner(schedule_tools=schedule_tools)


def _load(entry_point: EntryPoint) -> Callable[[], Runner] | None:
    try:
        factory: Callable[[], Runner] = entry_point.load()
        if not callable(factory):
            raise TypeError(f"{entry_point.value} is a {type(factory).__name__}, not a callable that makes a runner.")
    except Exception as error:
        # Importing it runs other people's code, which can fail in any way; the other runners must still work.
        _log.warning("runner_not_loaded", harness=entry_point.name, entry_point=entry_point.value, error=repr(error))
        return None
    return factory
