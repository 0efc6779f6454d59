"""Sub-tasks are counted by their parent

Revision: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_index(
        "tasks_subtasks_idx", "tasks", ["parent_task_id"], postgresql_where=sa.text("parent_task_id IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("tasks_subtasks_idx", table_name="tasks")
