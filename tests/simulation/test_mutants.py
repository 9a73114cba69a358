"""The tests themselves are tested: every planted bug must be caught by the checkers within a few hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.blocks import catch
from tests.simulation.mutants import MUTANTS

SEEDS_MAX = 600
KNOWN = {
    "advertisements_never_wait": 97,
    "answers_before_the_disk": 307,
    "early_confirmation": 325,
    "frames_are_counted_wrong": 12,
    "numbers_are_used_twice": 73,
    "silent_drop": 29,
    "stale_routes": 12,
    "unbounded_outbox": 10,
}
"""Seeds that have caught those that the first few seeds do not."""


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = catch(name, KNOWN, SEEDS_MAX)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
