"""The checkers of histories are tested: every planted bug must be caught, within a few hundred seeds or by a story."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.sim.soak import judge
from tests.scenarios.theatre import Theatre, read_blocks
from tests.simulation.blocks import mutants
from tests.simulation.history_mutants import MUTANTS, STORIES

SEEDS_MAX = 300
KNOWN = {
    "old_answers_count": 24,
    "resumes_one_too_early": 35,
    "resumes_one_too_far": 27,
    "stores_answer_at_once": 348,
    "the_gap_is_forgotten": 24,
}
"""Seeds that have caught those that take longest; the others are tried when one no longer does."""
RARE = (
    "appended_after_the_rest",
    "credit_is_ignored",
    "marker_before_the_last_batch",
    "new_stores_claim_the_past",
    "trimmed_stores_claim_the_past",
    "two_classes_give_it_twice",
)
"""Those that take longest even so."""
PLAYS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", mutants([name for name in MUTANTS if name not in STORIES], RARE))
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    seeds = [*([KNOWN[name]] if name in KNOWN else []), *range(SEEDS_MAX)]
    caught = next((seed for seed in seeds if judge(seed, "history").violations), None)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", STORIES)
def test_planted_bug_makes_another_story(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    theatre = Theatre()
    blocks = read_blocks((PLAYS / f"{STORIES[name]}.txt").read_text(encoding="utf-8"))
    assert any(theatre.perform(block) != block.output for block in blocks if block.command)
