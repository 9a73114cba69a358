"""The checkers of histories are tested: every planted bug must be caught, within a few hundred seeds or by a story."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.theatre import Theatre, read_blocks
from tests.simulation.blocks import catch, mutants
from tests.simulation.history_mutants import MUTANTS, STORIES

SEEDS_MAX = 300
KNOWN = {
    "appended_after_the_rest": 82,
    "credit_is_ignored": 19,
    "equal_takes_the_place": 2,
    "marker_before_the_last_batch": 4,
    "old_answers_count": 222,
    "recalls_are_not_kept": 7,
    "resumes_one_too_early": 13,
    "resumes_one_too_far": 111,
    "stores_answer_at_once": 26,
    "tables_outlive_their_tree": 26,
    "the_gap_is_forgotten": 2,
    "trimmed_stores_claim_the_past": 45,
    "two_classes_give_it_twice": 11,
}
"""Seeds that have caught those that the first few seeds do not."""
RARE = (
    "credit_is_ignored",
    "marker_before_the_last_batch",
    "new_stores_claim_the_past",
    "trimmed_stores_claim_the_past",
    "two_classes_give_it_twice",
)
"""Those that take longest even so."""
TRAVELLERS = ("held_events_stay_behind", "replays_stay_behind")
"""Those that only readers on their way notice."""
PLAYS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", mutants([name for name in MUTANTS if name not in STORIES], RARE))
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = catch(name, KNOWN, SEEDS_MAX, "travel" if name in TRAVELLERS else "history")
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", STORIES)
def test_planted_bug_makes_another_story(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    theatre = Theatre()
    blocks = read_blocks((PLAYS / f"{STORIES[name]}.txt").read_text(encoding="utf-8"))
    assert any(theatre.perform(block) != block.output for block in blocks if block.command)
