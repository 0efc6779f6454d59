"""The wheel has everything in it: installed into an empty environment, its command works."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentsched

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release is."""
    directory = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT))
    [built] = directory.glob("agentsched-*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel and what it asks for, at the locked versions."""
    directory = tmp_path_factory.mktemp("environment")
    locked = re.findall(r"^[a-z0-9-]+(?:\[[^]]*])?==[^ ;\\]+", (ROOT / "requirements.lock").read_text(), re.M)
    constraints = directory / "constraints.txt"
    constraints.write_text("\n".join(re.sub(r"\[.*]", "", line) for line in locked))
    venv.create(directory / "venv", with_pip=True)
    python = directory / "venv/bin/python"
    pip(python, "install", "--constraint", str(constraints), str(wheel))
    return directory / "venv/bin/agentsched"


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    shutil.rmtree((tmp_path / "data" / "postgres").resolve(), ignore_errors=True)


def pip(python: Path | str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", *arguments], check=True, cwd="/", capture_output=True)


def test_the_wheel_ships_migrations_and_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "agentsched/py.typed" in names
    assert "agentsched/migrations/env.py" in names
    assert any(name.startswith("agentsched/migrations/versions/0001") for name in names)


def test_the_installed_command_tells_its_version_and_migrates(command: Path, data_dir: Path) -> None:
    environment = {**os.environ, "AGENTSCHED_DATA_DIR": str(data_dir)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [command, *arguments], cwd="/", env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert agentsched.__version__ in run("--version")
    assert re.fullmatch(r"The schema is at revision [0-9]{4}\.\n", run("migrate"))
