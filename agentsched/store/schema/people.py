"""Who owns things, and the keys they hold."""

import sqlalchemy as sa

from agentsched.core.words import Scope
from agentsched.store.schema.base import identity, instant, metadata, one_of, ref, text

principals = sa.Table(
    "principals",
    metadata,
    identity(),
    text("name"),
    text("timezone", null=True),
    instant("created_at"),
    sa.UniqueConstraint("name"),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    identity(),
    ref("principal_id", "principals.id"),
    text("scope"),
    text("label"),
    text("prefix"),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    ref("conversation_id", "conversations.id", null=True, ondelete="CASCADE"),
    instant("created_at"),
    instant("last_used_at", null=True),
    instant("revoked_at", null=True),
    one_of("scope", Scope),
    sa.UniqueConstraint("hash"),
    sa.CheckConstraint("octet_length(hash) = 32", name="hash_is_sha256"),
    sa.Index(None, "principal_id"),
)
