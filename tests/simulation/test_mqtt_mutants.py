"""The checkers of MQTT lives are tested: every planted bug must be caught within a few hundred seeds."""

from __future__ import annotations

import pytest

from latecomer.sim.soak import judge
from tests.simulation.blocks import mutants
from tests.simulation.mqtt_mutants import MUTANTS

SEEDS_MAX = 300
RARE = (
    "a_crash_takes_the_work_of_its_members_along",
    "crashes_give_more_time",
    "only_brokers_that_want_it_get_it",
    "work_that_may_be_done_is_done_again",
)
"""Those that take longest to catch."""


@pytest.mark.parametrize("name", mutants(MUTANTS, RARE))
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = next((seed for seed in range(SEEDS_MAX) if judge(seed, "mqtt").violations), None)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
