"""Alembic's entry: migrations run on the connection that ``agentsched.store.migrate`` passes in."""

from alembic import context
from sqlalchemy import Connection

from agentsched.store.schema import metadata

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
