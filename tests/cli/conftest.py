"""One `up` on a data directory of its own for the tests that only talk to it."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.cli.processes import Process, up
from tests.embedded.members import remove


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory that does not exist yet, and leaves nothing behind."""
    directory = tmp_path / "agentsched"
    yield directory
    remove(directory)


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A running `agentsched up`."""
    directory = tmp_path_factory.mktemp("up") / "agentsched"
    with up(directory) as process:
        assert process.ready
        yield process
    remove(directory)
