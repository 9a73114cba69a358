"""Lives with re-homing: fault seeds, what they draw, and whether planted bugs are caught."""

from __future__ import annotations

import pytest

from latecomer.sim.homes_chaos import HomesChaos
from latecomer.sim.soak import Clients, judge
from tests.simulation.blocks import blocks, catch
from tests.simulation.homes_mutants import MUTANTS

SEEDS, FEW, BLOCK = 300, 60, 20
SEEDS_MAX = 300
KNOWN: dict[str, int] = {}
"""Seeds that have caught those that the first few seeds do not."""


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [
        verdict
        for verdict in (judge(seed, Clients.HOMES) for seed in range(start, start + BLOCK))
        if verdict.violations
    ]
    assert not failed, "\n".join(f"{verdict.violations[0]}; {verdict.replay}" for verdict in failed)


def test_lives_draw_what_they_are_meant_to() -> None:
    """Clients are sent, also with wills that wait; most go there, and some come back."""
    sent = advised = followed = returned = willing = 0
    for seed in range(60):
        chaos = HomesChaos(seed, None)
        chaos.run()
        sent += chaos.ledger.sent_on
        advised += chaos.ledger.advised
        followed += chaos.clients.followed
        willing += sum(each.pipe.connect.will is not None for each in chaos.ledger.by_number.values())
        cores = (node.core for node in chaos.world.nodes.values())
        returned += sum(core.homes.returned for core in cores if core is not None)
    assert min(sent, advised, followed) > 40
    assert min(returned, willing) > 5


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    caught = catch(name, KNOWN, SEEDS_MAX, Clients.HOMES)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
