import sys
from pathlib import Path

import pytest
import structlog.testing

from agentsched.runners.echo import EchoRunner
from agentsched.runners.pydantic_ai import PydanticAIRunner
from agentsched.runners.registry import runners


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution, as pip leaves it, whose entry points a test can write."""
    info = tmp_path / "agentsched_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentsched-plugins\nVersion: 1.0\n")
    (tmp_path / "agentsched_test_plugin.py").write_text(
        "from agentsched.runners.echo import EchoRunner\nclass Mine(EchoRunner): pass\nnumber = 7\n"
    )
    (tmp_path / "agentsched_broken_plugin.py").write_text("raise RuntimeError('its licence has run out')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("agentsched_test_plugin", "agentsched_broken_plugin"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return info / "entry_points.txt"


def test_the_built_in_ones() -> None:
    found = runners()
    assert isinstance(found["echo"](), EchoRunner)
    assert isinstance(found["pydantic-ai"](), PydanticAIRunner)


def test_pydantic_ai_is_left_out_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentsched.runners.registry.find_spec", lambda name: None)
    assert "pydantic-ai" not in runners()


def test_an_entry_point_adds_a_harness(plugins: Path) -> None:
    plugins.write_text("[agentsched.runners]\nmine = agentsched_test_plugin:Mine\n")
    assert type(runners()["mine"]()).__name__ == "Mine"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("agentsched_broken_plugin:Runner", "its licence has run out"),
        ("agentsched_test_plugin:Absent", "Absent"),
        ("agentsched_absent_plugin:Runner", "agentsched_absent_plugin"),
        ("agentsched_test_plugin:number", "is a int, not a callable"),
    ],
)
def test_a_broken_entry_point_is_named_and_takes_none_down(plugins: Path, target: str, reason: str) -> None:
    plugins.write_text(f"[agentsched.runners]\nbroken = {target}\nmine = agentsched_test_plugin:Mine\n")
    with structlog.testing.capture_logs() as logs:
        found = runners()
    assert {"echo", "pydantic-ai", "mine"} <= found.keys()
    assert "broken" not in found
    assert [(log["event"], log["harness"], log["entry_point"]) for log in logs] == [
        ("runner_not_loaded", "broken", target)
    ]
    assert reason in logs[0]["error"]


def test_an_entry_point_cannot_take_a_built_in_name(plugins: Path) -> None:
    plugins.write_text("[agentsched.runners]\necho = agentsched_test_plugin:Mine\n")
    with structlog.testing.capture_logs() as logs:
        assert runners()["echo"] is EchoRunner
    assert [(log["event"], log["harness"]) for log in logs] == [("runner_name_taken", "echo")]
