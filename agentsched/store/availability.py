"""Is the database away for now, or did a statement fail?"""

from asyncpg import InterfaceError as ConnectionMisused
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from agentsched.store.database import sqlstate

AWAY_CLASSES = ("08", "53", "57P")
"""SQLSTATEs of connections that break, of a server without room, and of one that starts, stops or recovers."""


def is_away(error: BaseException) -> bool:
    """Whether this error says that the database cannot be reached or cannot take work now; trying again may help."""
    if isinstance(error, OSError | PoolExhausted | TimeoutError | ConnectionMisused):
        return True
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return (sqlstate(error) or "").startswith(AWAY_CLASSES)
