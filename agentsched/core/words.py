"""The closed sets of the product: one word for one thing, in code, database, API and docs (DESIGN §2, §4)."""

from enum import StrEnum


class ScheduleStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


class PauseReason(StrEnum):
    USER = "user"
    FAILURES = "failures"
    ERROR = "error"


class Mode(StrEnum):
    """Where a run happens: in a fork of the owning conversation, in the owner itself, or in a fresh conversation."""

    FORK = "fork"
    APPEND = "append"
    FRESH = "fresh"


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    QUEUE_LATEST = "queue_latest"
    REPLACE = "replace"
    ALLOW = "allow"


class Misfire(StrEnum):
    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Notify(StrEnum):
    ALWAYS = "always"
    FAILURES = "failures"
    NEVER = "never"


class Trigger(StrEnum):
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    WEBHOOK = "webhook"
    MANUAL = "manual"
    BACKFILL = "backfill"
    REQUEUE = "requeue"


class RunStatus(StrEnum):
    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    SKIPPED = "skipped"
    MISSED = "missed"


class Reason(StrEnum):
    """Why a run was skipped or missed."""

    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    QUEUE_FULL = "queue_full"
    PAUSED = "paused"
    SCHEDULE_CANCELLED = "schedule_cancelled"
    BACKFILL_CANCELLED = "backfill_cancelled"
    BUDGET = "budget"
    FILTERED = "filtered"
    MISFIRE = "misfire"
    STRANDED = "stranded"
    NOT_STARTED = "not_started"


class TaskKind(StrEnum):
    """What a task generates for: a run, a person's turn, or a sub-task of another task."""

    RUN = "run"
    MESSAGE = "message"
    SUBTASK = "subtask"


class TaskStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"


class Scope(StrEnum):
    """What an API key may do; ``admin`` includes the others (DESIGN §13)."""

    ADMIN = "admin"
    USER = "user"
    WORKER = "worker"


class NoteKind(StrEnum):
    SCHEDULE_PAUSED = "schedule_paused"
    RUN_FAILED = "run_failed"
    RUN_RESULT = "run_result"
    BUDGET = "budget"


class Reprocess(StrEnum):
    """Which slots of a backfill run again (DESIGN §8)."""

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"


class BackfillStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Lane(StrEnum):
    """Which part of a schedule's line a queued run waits in; live goes before backfill."""

    LIVE = "live"
    BACKFILL = "backfill"


IN_FLIGHT = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.RETRY_WAIT)
TERMINAL_RUN = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.ABANDONED,
    RunStatus.SKIPPED,
    RunStatus.MISSED,
)
TERMINAL_TASK = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.ABANDONED)
LIVE_SCHEDULE = (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
TIMED = (Trigger.CRON, Trigger.INTERVAL, Trigger.ONCE)
COUNTED = (*TIMED, Trigger.WEBHOOK)
"""Triggers whose final failures and completions move a schedule's failure count (DESIGN §9)."""

PRIORITY_MESSAGE, PRIORITY_LIVE, PRIORITY_BACKFILL = 0, 1, 2
"""Claims go by priority: a person's turn, live runs, backfill (DESIGN §7)."""
