"""Schedules, their immutable versions and the history of their changes."""

import sqlalchemy as sa

from agentsched.core.timing import Kind
from agentsched.core.words import LIVE_SCHEDULE, Misfire, Mode, Notify, Overlap, PauseReason, ScheduleStatus
from agentsched.store.schema.base import (
    identity,
    instant,
    json,
    key,
    metadata,
    number,
    one_of,
    quoted,
    ref,
    text,
    whole_minute,
)

LIVE = f"status IN ({quoted(LIVE_SCHEDULE)})"

schedules = sa.Table(
    "schedules",
    metadata,
    identity(),
    ref("principal_id", "principals.id"),
    ref("conversation_id", "conversations.id"),
    number("number"),
    text("name", null=True),
    text("kind"),
    text("cron", null=True),
    number("every_minutes", null=True),
    instant("anchor_at", null=True),
    instant("at", null=True),
    text("timezone"),
    instant("ends_at", null=True),
    number("max_runs", null=True),
    text("status"),
    text("pause_reason", null=True),
    text("pause_note", null=True),
    instant("paused_at", null=True),
    instant("next_fire_at", null=True),
    instant("last_fire_at", null=True),
    instant("accounted_until", null=True),
    number("runs_admitted", default=0),
    number("consecutive_failures", default=0),
    sa.Column("day", sa.Date, nullable=True),
    number("day_runs", default=0),
    sa.Column("day_tokens", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("day_noted", sa.Boolean, nullable=False, server_default=sa.false()),
    number("version", default=1),
    instant("created_at"),
    instant("updated_at"),
    one_of("kind", Kind),
    one_of("status", ScheduleStatus),
    one_of("pause_reason", PauseReason),
    sa.CheckConstraint("(kind = 'cron') = (cron IS NOT NULL)", name="cron_has_expression"),
    sa.CheckConstraint(
        "(kind = 'interval') = (every_minutes IS NOT NULL) AND (kind = 'interval') = (anchor_at IS NOT NULL)",
        name="interval_has_anchor",
    ),
    sa.CheckConstraint("(kind = 'once') = (at IS NOT NULL)", name="once_has_instant"),
    sa.CheckConstraint(
        "(status = 'active' AND kind <> 'webhook') = (next_fire_at IS NOT NULL)", name="active_has_next_fire"
    ),
    sa.CheckConstraint("next_fire_at > accounted_until", name="next_fire_after_accounted"),
    sa.CheckConstraint("next_fire_at <= ends_at", name="next_fire_before_end"),
    sa.CheckConstraint(
        "(status = 'paused') = (pause_reason IS NOT NULL) AND (status = 'paused') = (paused_at IS NOT NULL)",
        name="paused_says_why",
    ),
    sa.CheckConstraint("max_runs >= 1", name="max_runs"),
    sa.CheckConstraint("every_minutes >= 1", name="every_minutes"),
    sa.CheckConstraint(
        "runs_admitted >= 0 AND consecutive_failures >= 0 AND day_runs >= 0 AND day_tokens >= 0 AND version >= 1",
        name="counts",
    ),
    whole_minute("next_fire_at"),
    whole_minute("anchor_at"),
    whole_minute("at"),
    sa.UniqueConstraint("conversation_id", "number"),
    sa.Index(
        "schedules_live_name_idx",
        "conversation_id",
        "name",
        unique=True,
        postgresql_where=sa.text(f"{LIVE} AND name IS NOT NULL"),
    ),
    sa.Index("schedules_due_idx", "next_fire_at", "id", postgresql_where=sa.text("status = 'active'")),
    sa.Index(None, "principal_id", "id"),
    sa.Index("schedules_live_idx", "principal_id", "conversation_id", postgresql_where=sa.text(LIVE)),
    comment="day_*: what was spent of the daily budget on `day`, a day of the schedule's zone.",
)

schedule_versions = sa.Table(
    "schedule_versions",
    metadata,
    sa.Column("schedule_id", sa.BigInteger, sa.ForeignKey("schedules.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    text("prompt"),
    text("mode"),
    ref("agent_id", "agents.id"),
    text("overlap"),
    number("max_concurrency", null=True),
    number("queue_limit", null=True),
    number("cancel_grace_seconds", null=True),
    text("misfire"),
    number("misfire_grace_seconds"),
    number("start_deadline_seconds"),
    number("timeout_seconds"),
    number("retry_max_attempts"),
    number("retry_initial_delay_seconds"),
    number("retry_max_delay_seconds"),
    number("pause_after_failures", null=True),
    text("notify"),
    number("daily_run_limit", null=True),
    sa.Column("daily_token_limit", sa.BigInteger, nullable=True),
    number("max_history_entries", null=True),
    text("template", null=True),
    json("filter", null=True),
    instant("created_at"),
    one_of("mode", Mode),
    one_of("overlap", Overlap),
    one_of("misfire", Misfire),
    one_of("notify", Notify),
    sa.CheckConstraint(
        "max_concurrency >= 1 AND (max_concurrency IS NOT NULL OR overlap = 'allow')", name="max_concurrency"
    ),
    sa.CheckConstraint("queue_limit >= 1", name="queue_limit"),
    sa.CheckConstraint("misfire <> 'all' OR overlap NOT IN ('queue_latest', 'replace')", name="all_needs_a_line"),
    sa.CheckConstraint(
        "cancel_grace_seconds >= 0 AND misfire_grace_seconds >= 0 AND start_deadline_seconds >= 1"
        " AND timeout_seconds >= 0 AND retry_max_attempts >= 1 AND retry_initial_delay_seconds >= 0"
        " AND retry_max_delay_seconds >= retry_initial_delay_seconds AND pause_after_failures >= 1"
        " AND daily_run_limit >= 1 AND daily_token_limit >= 1 AND max_history_entries >= 1",
        name="ranges",
    ),
    comment="Prompt, agent snapshot and policies; never updated. A run refers to the version it fired with.",
)

schedules.append_constraint(
    sa.ForeignKeyConstraint(
        ["id", "version"],
        ["schedule_versions.schedule_id", "schedule_versions.version"],
        name="schedules_version_fkey",
        use_alter=True,
        deferrable=True,
        initially="DEFERRED",
    )
)

schedule_changes = sa.Table(
    "schedule_changes",
    metadata,
    identity(),
    ref("schedule_id", "schedules.id"),
    number("version"),
    text("action"),
    text("actor"),
    json("changes"),
    instant("created_at"),
    sa.Index(None, "schedule_id", "id"),
    comment="Who changed what, and when.",
)

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("schedule_id", sa.BigInteger, sa.ForeignKey("schedules.id"), primary_key=True),
    text("signature", null=True),
    sa.Column("signature_secret", sa.LargeBinary, nullable=True),
    number("rate_per_minute"),
    number("rate_burst"),
    sa.Column("bucket_tokens", sa.Double, nullable=False),
    instant("bucket_filled_at"),
    sa.CheckConstraint("signature IN ('standard', 'github', 'stripe', 'slack')", name="signature"),
    sa.CheckConstraint("(signature IS NULL) = (signature_secret IS NULL)", name="signature_has_secret"),
    sa.CheckConstraint("rate_per_minute >= 1 AND rate_burst >= 1", name="rate"),
)

webhook_tokens = sa.Table(
    "webhook_tokens",
    metadata,
    identity(),
    ref("schedule_id", "schedules.id"),
    text("prefix"),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    instant("created_at"),
    instant("expires_at", null=True),
    instant("last_used_at", null=True),
    sa.UniqueConstraint("hash"),
    sa.CheckConstraint("octet_length(hash) = 32", name="hash_is_sha256"),
    sa.Index(None, "schedule_id"),
)

principal_days = sa.Table(
    "principal_days",
    metadata,
    sa.Column("principal_id", sa.BigInteger, sa.ForeignKey("principals.id"), primary_key=True),
    sa.Column("day", sa.Date, primary_key=True),
    number("runs", default=0),
    sa.Column("tokens", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.CheckConstraint("runs >= 0 AND tokens >= 0", name="counts"),
    comment="What a principal spent on a UTC day. Locked last, in key order (DESIGN §10).",
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("principal_id", sa.BigInteger, sa.ForeignKey("principals.id"), primary_key=True),
    sa.Column("operation", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request_hash", sa.LargeBinary, nullable=False),
    key("subject_id"),
    instant("created_at"),
    sa.Index(None, "created_at"),
    comment="Idempotency-Key of creates, run-nows and backfills: what the first request with it made.",
)
