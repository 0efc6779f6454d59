"""What the embedded parts raise."""


class EmbeddedPostgresError(RuntimeError):
    """The embedded PostgreSQL could not be started or stopped; the message says why and what to do."""
