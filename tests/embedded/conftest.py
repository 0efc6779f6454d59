"""Data directories that leave nothing behind, neither a server nor, for root, a database elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentsched.embedded.postgres import EmbeddedPostgres
from tests.embedded.members import QUICK, postmaster, remove


@pytest.fixture
def empty_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory that does not exist yet."""
    directory = tmp_path / "agentsched"
    yield directory
    _check_stopped(directory)
    remove(directory)


@pytest.fixture(scope="module")
def _used_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("used") / "agentsched"
    EmbeddedPostgres.start(directory, options=QUICK).leave()
    yield directory
    remove(directory)


@pytest.fixture
def used_dir(_used_dir: Path) -> Iterator[Path]:
    """A data directory that has a database, and no server running."""
    yield _used_dir
    _check_stopped(_used_dir)


def _check_stopped(directory: Path) -> None:
    left = postmaster(directory)
    if left is not None:
        left.kill()
        pytest.fail(f"a server is left running in {directory}")
