"""Cancel one run (DESIGN §9): at once where no worker holds it, by asking where one does."""

from agentsched.core.words import RunStatus
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, NotFound
from agentsched.service.line import start_waiting
from agentsched.service.permission import Act, require
from agentsched.service.runs import owned_run
from agentsched.settings import Settings
from agentsched.store import clock, ledger, runs, schedules
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow


async def cancel_run(db: Database, settings: Settings, caller: Caller, run_id: int) -> RunRow:
    """Cancel a run that has not ended. A running one is asked to stop, and fenced off after its schedule's grace.

    Raises NotFound, and Conflict for a run that has ended.
    """
    require(caller, Act.SCHEDULE)
    async with db.begin() as conn:
        seen = await owned_run(conn, caller, run_id)
        schedule = await schedules.lock(conn, seen.schedule_id)
        await runs.lock(conn, run_id)
        run = await ledger.read(conn, caller.principal_id, run_id)
        if run is None or schedule is None:
            raise NotFound("run", run_id)
        now = await clock.now(conn)
        match run.status:
            case RunStatus.QUEUED:
                await runs.cancel_queued(conn, run_id, now)
            case RunStatus.PENDING | RunStatus.RETRY_WAIT:
                await runs.cancel_unstarted(conn, [run_id], now)
                await start_waiting(conn, settings, schedule, now)
            case RunStatus.RUNNING:
                await runs.ask_to_stop(conn, [run_id], now)
            case _:
                raise Conflict(
                    "run_ended", f"Run {run_id} is {run.status} already; only a run that has not ended stops."
                )
        cancelled = await ledger.read(conn, caller.principal_id, run_id)
        if cancelled is None:
            raise NotFound("run", run_id)
        return cancelled
