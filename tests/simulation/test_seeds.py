"""Fault seeds in bulk, and a look at what they draw: a generator that never breaks anything proves nothing (P12)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from latecomer.core.routing import Forwarding, Hierarchy, Routing
from latecomer.sim.chaos import Life, _Chaos
from latecomer.sim.soak import Verdict, judge
from tests.simulation.blocks import blocks

SEEDS, FEW = 600, 100
"""With LATECOMER_TEST_ALL=1, and without."""
BLOCK = 50
DRAWS = 400
"""Seeds within which everything that can be drawn has been."""

KINDS = {"line", "ring", "random-tree", "barabasi-albert", "grid", "random"}
FAULTS = {
    "break",
    "blink",
    "expire",
    "partition",
    "crash",
    "lose disk",
    "pause",
    "stall",
    "deafen",
    "slow disk",
    "slow",
}


def told(verdict: Verdict) -> str:
    """A failed seed, and the command that shows it."""
    lines = [f"seed {verdict.seed} ({verdict.description})", *verdict.violations[:3]]
    return "\n  ".join([*lines, f"replay: latecomer soak --start {verdict.seed} --seeds 1 --transcript"])


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [verdict for verdict in map(judge, range(start, start + BLOCK)) if verdict.violations]
    assert not failed, "\n".join(map(told, failed))


def test_a_failed_seed_says_how_to_see_it_again() -> None:
    verdict = Verdict(7, "3 brokers", ("0.5s lost: c1 never got b1.1.1", "b", "c", "d"), 1, 0, 9, 1, 0)
    assert told(verdict).splitlines() == [
        "seed 7 (3 brokers)",
        "  0.5s lost: c1 never got b1.1.1",
        "  b",
        "  c",
        "  replay: latecomer soak --start 7 --seeds 1 --transcript",
    ]


# -- the generator -----------------------------------------------------------------------------------------------------


def test_networks_of_every_shape_and_size_are_drawn() -> None:
    topologies = [_Chaos(seed, None).world.topology for seed in range(DRAWS)]
    for topology in topologies:
        topology.check()
    assert {topology.name.rstrip("-0123456789x") for topology in topologies} == KINDS
    assert {topology.is_tree() for topology in topologies} == {True, False}
    sizes = {len(topology.nodes) for topology in topologies}
    assert sizes >= {3, 4, 5, 6, 8, 10, 12}
    assert (min(sizes), max(sizes)) == (3, 30)
    assert len(sizes) > 15


def test_every_way_of_routing_is_drawn() -> None:
    worlds = [_Chaos(seed, None).world for seed in range(DRAWS)]
    drawn: list[Routing] = [world.settings.routing for world in worlds]
    combinations = {(type(routing), routing.covering, routing.advertisements) for routing in drawn}
    both = (False, True)
    assert combinations == {(kind, c, a) for kind in (Forwarding, Hierarchy) for c in both for a in both}
    assert {routing.root is None for routing in drawn} == {True, False}
    assert {world.disk_us > 0 for world in worlds} == {True, False}
    assert len({world.settings.outbox_max for world in worlds}) == 2, "narrow queues and wide ones"
    for world in worlds:
        world.settings.check()


@dataclass
class Coverage:
    """What happened in the lives so far."""

    faults: set[str] = field(default_factory=set)
    most_rounds: int = 0
    most_kinds_in_a_round: int = 0
    dropped: int = 0
    refusals: int = 0
    excused: int = 0
    deliveries: int = 0

    def add(self, life: Life, rounds: list[set[str]]) -> None:
        self.faults.update(*rounds)
        self.most_rounds = max(self.most_rounds, len(rounds))
        self.most_kinds_in_a_round = max(self.most_kinds_in_a_round, *map(len, rounds))
        self.dropped += life.dropped
        self.refusals += life.refusals
        self.excused += life.excused
        self.deliveries += life.deliveries

    def complete(self) -> bool:
        return (
            self.faults == FAULTS
            and self.most_rounds >= 3
            and self.most_kinds_in_a_round >= 3
            and min(self.dropped, self.refusals, self.excused, self.deliveries) > 0
        )


class Watched(_Chaos):
    """A life that remembers which faults it had, round by round."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, None)
        self.rounds: list[set[str]] = []

    def _round(self) -> None:
        self.rounds.append(set())
        super()._round()

    def _fault(self, kind: str) -> None:
        self.rounds[-1].add(kind)
        super()._fault(kind)


def test_everything_that_can_go_wrong_does() -> None:
    """Every fault strikes, several kinds at once; queues overflow, publishers are refused, promises are excused."""
    coverage = Coverage()
    for seed in range(DRAWS):
        watched = Watched(seed)
        coverage.add(watched.run(), watched.rounds)
        if coverage.complete():
            return
    pytest.fail(f"not within {DRAWS} seeds: {coverage}")
