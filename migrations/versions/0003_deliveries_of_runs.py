"""Which runs a delivery has, so that the pruner keeps it for those that need it

Revision: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_index("runs_delivery_idx", "runs", ["delivery_id"], postgresql_where=sa.text("delivery_id IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("runs_delivery_idx", table_name="runs")
