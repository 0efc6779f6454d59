"""Backfills and requeues: who asked, where their runs come from, one backfill run in flight a schedule

Revision: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COMMENT = (
    "The ledger. conversation_id: where it runs. overdue: admitted late by misfire all, by a resume that catches "
    "up or by a requeue, so it waits in line whatever overlap says. counted: it spent one of max_runs."
)
COMMENT_BEFORE = (
    "The ledger. conversation_id: where it runs. overdue: admitted late by misfire all, so it waits in line "
    "whatever overlap says. counted: it spent one of max_runs."
)


def upgrade() -> None:
    op.add_column("backfills", sa.Column("actor", sa.Text(), nullable=False))
    op.create_table_comment("runs", COMMENT, existing_comment=COMMENT_BEFORE)
    op.create_check_constraint(
        op.f("runs_trigger_has_its_source"),
        "runs",
        "(trigger = 'backfill') = (backfill_id IS NOT NULL) AND (trigger = 'backfill') = (lane = 'backfill')"
        " AND (trigger = 'requeue') = (requeue_of IS NOT NULL) AND (trigger <> 'webhook' OR delivery_id IS NOT NULL)",
    )
    # A long backfill must not lie between the live runs of a line.
    op.drop_index("runs_line_idx", table_name="runs")
    op.create_index(
        "runs_line_idx",
        "runs",
        ["schedule_id", "lane", "fire_at", "id"],
        postgresql_where=sa.text("status = 'queued'"),
    )
    op.create_index(
        "runs_one_backfill_in_flight_idx",
        "runs",
        ["schedule_id"],
        unique=True,
        postgresql_where=sa.text("lane = 'backfill' AND status IN ('pending', 'running', 'retry_wait')"),
    )
    op.create_index(
        "runs_backfill_idx", "runs", ["backfill_id"], postgresql_where=sa.text("backfill_id IS NOT NULL")
    )
    op.create_index("runs_requeue_idx", "runs", ["requeue_of"], postgresql_where=sa.text("requeue_of IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("runs_requeue_idx", table_name="runs")
    op.drop_index("runs_backfill_idx", table_name="runs")
    op.drop_index("runs_one_backfill_in_flight_idx", table_name="runs")
    op.drop_index("runs_line_idx", table_name="runs")
    op.create_index(
        "runs_line_idx", "runs", ["schedule_id", "fire_at", "id"], postgresql_where=sa.text("status = 'queued'")
    )
    op.drop_constraint(op.f("runs_trigger_has_its_source"), "runs")
    op.create_table_comment("runs", COMMENT_BEFORE, existing_comment=COMMENT)
    op.drop_column("backfills", "actor")
