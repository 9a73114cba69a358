"""Lives with re-positioning: fault seeds, what they draw, and whether planted bugs are caught."""

from __future__ import annotations

from collections import Counter

import pytest

from latecomer.sim.reposition_chaos import _RepositionChaos
from latecomer.sim.soak import Clients, judge
from tests.simulation.blocks import blocks, catch
from tests.simulation.reposition_mutants import MUTANTS

SEEDS, FEW, BLOCK = 300, 60, 20
SEEDS_MAX = 300
KNOWN: dict[str, int] = {}
"""Seeds that have caught those that the first few seeds do not."""


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [
        verdict
        for verdict in (judge(seed, Clients.REPOSITION) for seed in range(start, start + BLOCK))
        if verdict.violations
    ]
    assert not failed, "\n".join(f"{verdict.violations[0]}; {verdict.replay}" for verdict in failed)


def test_lives_draw_what_they_are_meant_to() -> None:
    """Proposals come in force and are withdrawn, and brokers crash in every state of one."""
    crashed: Counter[tuple[str, str]] = Counter()
    in_force = withdrawn = 0
    for seed in range(80):
        chaos = _RepositionChaos(seed, None)
        chaos.run()
        crashed += chaos.crashed_in
        in_force += chaos.positions.in_force
        withdrawn += chaos.positions.withdrawn
    assert min(in_force, withdrawn) > 20
    assert {managing for managing, _ in crashed} == {"resting", "proposing"}
    assert {moving for _, moving in crashed} >= {"idle", "preparing", "prepared"}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = catch(name, KNOWN, SEEDS_MAX, Clients.REPOSITION)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
