"""`/v1/schedules/simulate` and that of a saved schedule: what it would do over a span."""

from datetime import datetime

from litestar import post
from litestar.params import JSONBody
from pydantic import Field

from agentsched.api.parameters import ScheduleId
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import FieldProblem, field_problem, may_answer
from agentsched.core.summary import run_view
from agentsched.core.words import Reason, RunStatus, ScheduleStatus
from agentsched.service import simulate
from agentsched.service.requests import SimulationRequest, Supposition
from agentsched.service.simulate import Simulated
from agentsched.service.views import View


class SimulatedRunView(View):
    """What becomes of a slot, or of a stretch of missed ones."""

    fire_at: datetime
    local: str = Field(description="`fire_at` by the clock of the schedule's zone")
    status: RunStatus = Field(description="As it stands when the span ends")
    reason: Reason | None
    error_code: str | None = Field(description="Of the last attempt: `error`, `timeout` or `lost`")
    missed_until: datetime | None
    missed_count: int | None
    started_at: datetime | None
    ended_at: datetime | None
    waited_seconds: int | None = Field(description="From `fire_at` to the first start")
    attempts: int
    restarts: int
    in_line: int = Field(description="How many runs wait once the slot is decided")


class MomentView(View):
    """How many runs are in flight and in line from this instant on."""

    at: datetime
    in_flight: int
    waiting: int


class SimulationView(View):
    """What a schedule does or would do over a span."""

    summary: str = Field(description="The timing in words")
    outcome: str = Field(description="What happens, in words")
    timezone: str
    start: datetime = Field(description="The slots are those after it")
    until: datetime
    slots: int
    totals: dict[RunStatus, int] = Field(description="Slots by what becomes of them")
    reasons: dict[Reason, int] = Field(description="Slots that are skipped or missed, by reason")
    longest_wait_seconds: int
    longest_line: int
    most_in_flight: int
    status: ScheduleStatus = Field(description="The schedule's when the span ends")
    paused_at: datetime | None = Field(description="When failures pause it")
    next_fire_at: datetime | None
    runs: list[SimulatedRunView]
    timeline: list[MomentView]
    problems: list[FieldProblem] = Field(description="Limits that would refuse it")


def simulation_view(simulated: Simulated) -> SimulationView:
    found, timezone = simulated.simulation, simulated.timezone
    own = {name: getattr(found, name) for name in SimulationView.model_fields if hasattr(found, name)}
    return SimulationView(
        **own
        | {
            "runs": [
                SimulatedRunView(**run._asdict(), local=run_view(run.fire_at, timezone)["local"]) for run in found.runs
            ],
            "timeline": [MomentView(**moment._asdict()) for moment in found.timeline],
        },
        summary=simulated.summary,
        outcome=simulated.outcome,
        timezone=timezone,
        problems=[field_problem(problem) for problem in simulated.problems],
    )


@post(
    "/v1/schedules/simulate",
    operation_id="simulate_schedule",
    status_code=200,
    responses=may_answer(413, 415, 422),
)
async def simulate_schedule(parts: WithParts, caller: WithCaller, data: JSONBody[SimulationRequest]) -> SimulationView:
    """What a schedule would do over a span, given how long its runs take. Nothing is saved.

    By the same decisions as the real ones, with a worker for every run. Limits that would refuse the schedule are
    among `problems`.
    """
    return simulation_view(await simulate.simulate(parts.db, parts.settings, caller, data))


@post(
    "/v1/schedules/{schedule_id:int}/simulate",
    operation_id="simulate_saved_schedule",
    status_code=200,
    responses=may_answer(404, 409, 413, 415, 422),
)
async def simulate_saved_schedule(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, data: JSONBody[Supposition]
) -> SimulationView:
    """What a schedule will do over a span, beginning with no run; a paused one, as if it were resumed."""
    return simulation_view(await simulate.simulate_saved(parts.db, parts.settings, caller, schedule_id, data))
