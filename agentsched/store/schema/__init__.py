"""The whole schema; ``metadata`` holds every table of it."""

from agentsched.store.schema import conversations, people, runs, schedules
from agentsched.store.schema.base import metadata

__all__ = ["conversations", "metadata", "people", "runs", "schedules"]
