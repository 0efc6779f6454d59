"""All that the invariants look at, read by SQL of its own in one transaction."""

from dataclasses import dataclass
from datetime import date, datetime
from types import SimpleNamespace

from agentsched.core.timing import Kind, Timing
from agentsched.core.words import IN_FLIGHT, TERMINAL_RUN, TIMED, Lane, RunStatus
from agentsched.store.database import Database


class Row(SimpleNamespace):
    """A row by its columns' names; equal to another one if all columns are."""

    def __repr__(self) -> str:
        return " ".join(f"{name}={_shown(value)}" for name, value in vars(self).items() if value is not None)


_BY_ID = {
    table: f"SELECT * FROM {table} ORDER BY id"
    for table in ("schedules", "runs", "tasks", "conversations", "backfills")
}
_VERSIONS = "SELECT * FROM schedule_versions"
_DAYS = "SELECT principal_id, day, runs, tokens FROM principal_days"
_NOTES = "SELECT schedule_id, kind, count(*) FROM notes GROUP BY 1, 2"
_ENTRIES = "SELECT conversation_id, min(seq), max(seq), count(*) FROM entries GROUP BY 1"
_TICKS = "SELECT minute FROM ticks ORDER BY minute"
_NOW = "SELECT frozen_at FROM clock"


@dataclass(frozen=True)
class Snapshot:
    """The whole state after a step, rows by their ids. ``now`` is the frozen clock's, ``days`` are runs and tokens."""

    now: datetime
    schedules: dict[int, Row]
    runs: dict[int, Row]
    tasks: dict[int, Row]
    conversations: dict[int, Row]
    backfills: dict[int, Row]
    versions: dict[tuple[int, int], Row]
    days: dict[tuple[int, date], tuple[int, int]]
    notes: dict[tuple[int | None, str], int]
    entries: dict[int, tuple[int, int, int]]
    ticks: tuple[datetime, ...]

    def runs_of(self, schedule_id: int) -> list[Row]:
        return [run for run in self.runs.values() if run.schedule_id == schedule_id]

    def in_flight(self, schedule_id: int) -> list[Row]:
        return [run for run in self.runs_of(schedule_id) if run.status in IN_FLIGHT]

    def queued(self, schedule_id: int) -> list[Row]:
        """What waits, in the order of the line."""
        return sorted((run for run in self.runs_of(schedule_id) if run.status == RunStatus.QUEUED), key=place)

    def policies(self, schedule: Row) -> Row:
        """The version in force."""
        return self.versions[schedule.id, schedule.version]

    def version_of(self, run: Row) -> Row:
        """The version that a run fired with."""
        return self.versions[run.schedule_id, run.version]


def place(run: Row) -> tuple[bool, datetime, int]:
    """A run's place in the line: live before backfill, then by instant and id (DESIGN §7)."""
    return run.lane == Lane.BACKFILL, run.fire_at, run.id


def timing_of(schedule: Row) -> Timing:
    return Timing(
        Kind(schedule.kind),
        schedule.cron,
        schedule.every_minutes,
        schedule.anchor_at,
        schedule.at,
        schedule.timezone,
    )


def has_ended(run: Row) -> bool:
    return run.status in TERMINAL_RUN


def is_timed(run: Row) -> bool:
    return run.trigger in TIMED


def _shown(value: object) -> str:
    return f"{value:%dT%H:%M:%S}" if isinstance(value, datetime) else str(value)


async def take(db: Database) -> Snapshot:
    """Read the state, by the driver itself because it is read after every step."""
    async with db.engine.connect() as conn:
        driver = (await conn.get_raw_connection()).driver_connection
        assert driver is not None
        by_id = {name: {row["id"]: Row(**row) for row in await driver.fetch(query)} for name, query in _BY_ID.items()}
        return Snapshot(
            now=await driver.fetchval(_NOW),
            **by_id,
            versions={(row["schedule_id"], row["version"]): Row(**row) for row in await driver.fetch(_VERSIONS)},
            days={(row[0], row[1]): (row[2], row[3]) for row in await driver.fetch(_DAYS)},
            notes={(row[0], row[1]): row[2] for row in await driver.fetch(_NOTES)},
            entries={row[0]: (row[1], row[2], row[3]) for row in await driver.fetch(_ENTRIES)},
            ticks=tuple(row[0] for row in await driver.fetch(_TICKS)),
        )
