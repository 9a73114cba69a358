"""The checkers of histories are tested: every planted bug must be caught, within a few hundred seeds or by a story."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.sim.soak import judge
from tests.scenarios.theatre import Theatre, read_blocks
from tests.simulation.history_mutants import MUTANTS, STORIES

SEEDS_MAX = 300
PLAYS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in STORIES])
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = next((seed for seed in range(SEEDS_MAX) if judge(seed, "history").violations), None)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", STORIES)
def test_planted_bug_makes_another_story(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    theatre = Theatre()
    blocks = read_blocks((PLAYS / f"{STORIES[name]}.txt").read_text(encoding="utf-8"))
    assert any(theatre.perform(block) != block.output for block in blocks if block.command)
