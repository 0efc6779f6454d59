"""How often the same call of a tool was refused in a conversation

Revision: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "refused_calls",
        sa.Column("conversation_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("octet_length(digest) = 32", name=op.f("refused_calls_digest_is_sha256")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("refused_calls_conversation_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conversation_id", "digest", name=op.f("refused_calls_pkey")),
        comment="Calls of tools that were refused, by a digest of tool and arguments: a model that repeats one is stopped.",
    )
    op.create_index(op.f("refused_calls_last_at_idx"), "refused_calls", ["last_at"])


def downgrade() -> None:
    op.drop_table("refused_calls")
