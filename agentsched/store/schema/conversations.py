"""Conversations, the agents that speak in them, their entries and their inbox."""

import sqlalchemy as sa

from agentsched.core.words import NoteKind
from agentsched.store.schema.base import identity, instant, json, key, metadata, number, one_of, ref, text

agents = sa.Table(
    "agents",
    metadata,
    identity(),
    ref("principal_id", "principals.id"),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    text("harness"),
    text("model", null=True),
    text("instructions", null=True),
    json("tools"),
    json("settings"),
    sa.UniqueConstraint("principal_id", "digest"),
    comment="Immutable and shared by content: conversations, snapshots and tasks point at one.",
)

conversations = sa.Table(
    "conversations",
    metadata,
    identity(),
    ref("principal_id", "principals.id"),
    text("title", null=True),
    ref("agent_id", "agents.id"),
    text("timezone", null=True),
    ref("parent_id", "conversations.id", null=True),
    number("parent_seq", null=True),
    number("last_seq", default=0),
    key("active_task_id", null=True),
    key("run_id", null=True),
    key("scheduled_run_id", null=True),
    number("next_schedule_number", default=1),
    instant("created_at"),
    instant("deleted_at", null=True),
    sa.CheckConstraint("(parent_id IS NULL) = (parent_seq IS NULL)", name="fork_has_both"),
    sa.CheckConstraint("last_seq >= coalesce(parent_seq, 0)", name="last_seq_after_fork"),
    sa.Index(None, "principal_id", "id"),
    sa.Index(None, "parent_id", postgresql_where=sa.text("parent_id IS NOT NULL")),
    comment="run_id: the run that it was made for. scheduled_run_id: the run whose sub-task made it (lineage).",
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("conversation_id", sa.BigInteger, sa.ForeignKey("conversations.id"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    text("role"),
    text("content"),
    json("tool_calls", null=True),
    text("tool_call_id", null=True),
    key("task_id", null=True),
    key("run_id", null=True),
    key("schedule_id", null=True),
    instant("fire_at", null=True),
    instant("created_at"),
    sa.CheckConstraint("role IN ('user', 'assistant', 'tool', 'system', 'error')", name="role"),
    sa.CheckConstraint("seq >= 1", name="seq"),
    sa.CheckConstraint(
        "(schedule_id IS NULL) = (fire_at IS NULL) AND (schedule_id IS NULL OR run_id IS NOT NULL)",
        name="scheduled_mark",
    ),
    comment="schedule_id and fire_at mark a scheduled prompt, which is never a person's words (DESIGN §9).",
)

provisional_entries = sa.Table(
    "provisional_entries",
    metadata,
    sa.Column("task_id", sa.BigInteger, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("fence", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    json("entry"),
    instant("created_at"),
)

notes = sa.Table(
    "notes",
    metadata,
    identity(),
    ref("conversation_id", "conversations.id", ondelete="CASCADE"),
    text("kind"),
    text("text"),
    key("schedule_id", null=True),
    key("run_id", null=True),
    instant("created_at"),
    one_of("kind", NoteKind),
    sa.Index(None, "conversation_id", "id"),
)

refused_calls = sa.Table(
    "refused_calls",
    metadata,
    sa.Column(
        "conversation_id", sa.BigInteger, sa.ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    number("count"),
    instant("last_at"),
    sa.CheckConstraint("octet_length(digest) = 32", name="digest_is_sha256"),
    sa.Index(None, "last_at"),
    comment="Calls of tools that were refused, by a digest of tool and arguments: a model that repeats one is stopped.",
)
