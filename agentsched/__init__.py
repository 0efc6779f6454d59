"""agentsched: the scheduler for AI conversations."""

__version__ = "0.1.0"
