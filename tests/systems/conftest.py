"""A story on an empty database, and the executors of the worker's tests."""

import pytest

from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.clock import Clock
from tests.systems.story import Story
from tests.worker.conftest import background, executor_for, scene, waker

__all__ = ["background", "executor_for", "scene", "story", "waker"]


@pytest.fixture
def story(db: Database, settings: Settings, clock: Clock) -> Story:
    return Story(db, settings, clock)
