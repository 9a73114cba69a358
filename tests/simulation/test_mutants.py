"""The tests themselves are tested: every planted bug must be caught by the checkers within a few hundred seeds."""

from __future__ import annotations

import pytest

from latecomer.sim.soak import judge
from tests.simulation.mutants import MUTANTS

SEEDS_MAX = 600
KNOWN = {"answers_before_the_disk": 259, "early_confirmation": 185, "silent_drop": 25}
"""Seeds that have caught those that take longest; the others are tried when one no longer does."""


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    seeds = [*([KNOWN[name]] if name in KNOWN else []), *range(SEEDS_MAX)]
    caught = next((seed for seed in seeds if judge(seed).violations), None)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
