"""The checkers of MQTT lives are tested: every planted bug must be caught within a few hundred seeds."""

from __future__ import annotations

import pytest

from latecomer.sim.soak import judge
from tests.simulation.mqtt_mutants import MUTANTS

SEEDS_MAX = 300


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = next((seed for seed in range(SEEDS_MAX) if judge(seed, "mqtt").violations), None)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
