"""Random walks through the real services on a real database, checked against a small model after every step.

``make fuzz`` sets ``AGENTSCHED_FUZZ`` and walks for longer: ``AGENTSCHED_FUZZ_EXAMPLES`` walks (300) of
``AGENTSCHED_FUZZ_STEPS`` steps (80), with ``ARGS=--hypothesis-seed=7`` for a given seed. At the end it prints what was
done and what runs became. What it has found it finds again first, from ``.hypothesis``.
"""

import os
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import Machine
from tests.properties.world import world

FUZZING = "AGENTSCHED_FUZZ" in os.environ
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
ALWAYS = settings(
    max_examples=12,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=SLOW,
    phases=(Phase.generate, Phase.shrink),
)
FUZZ = settings(
    max_examples=int(os.environ.get("AGENTSCHED_FUZZ_EXAMPLES", "300")),
    stateful_step_count=int(os.environ.get("AGENTSCHED_FUZZ_STEPS", "80")),
    deadline=None,
    suppress_health_check=SLOW,
    phases=(Phase.reuse, Phase.generate, Phase.shrink),
    print_blob=True,
)


@pytest.mark.timeout(0 if FUZZING else 900)
def test_every_walk_keeps_what_must_hold(anyio_backend: object, database_url: str) -> None:
    profile = FUZZ if FUZZING else ALWAYS
    with world(database_url) as made:
        run_state_machine_as_test(partial(Machine, made), settings=profile)  # type: ignore[arg-type]  # makes one
    print(sorted(made.reached.items()))  # noqa: T201
