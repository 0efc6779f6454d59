"""Settings come from the environment and contradict nothing."""

import pytest
from pydantic import ValidationError

from agentsched.settings import Settings


def test_a_setting_is_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSCHED_LEASE_SECONDS", "60")
    assert Settings().lease_seconds == 60


@pytest.mark.parametrize("seconds", [30, 31])
def test_heartbeats_that_come_too_late_for_the_lease_are_refused(seconds: int) -> None:
    with pytest.raises(ValidationError, match="AGENTSCHED_HEARTBEAT_SECONDS"):
        Settings(heartbeat_seconds=seconds, lease_seconds=30)
    assert Settings(heartbeat_seconds=29, lease_seconds=30).heartbeat_seconds == 29
