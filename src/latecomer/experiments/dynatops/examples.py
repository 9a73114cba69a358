"""D1 and D14: the ring of Fig. 2 before and after, and the exchange of Fig. 4 as the protocol makes it."""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import numpy as np

from latecomer.experiments.claim import Claim
from latecomer.experiments.dynatops.overlay import chord
from latecomer.experiments.dynatops.protocol import Protocol
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import new
from latecomer.experiments.verdict import Verdict, exactly, verdict
from latecomer.model.ring import evenly
from latecomer.planner.overlay.cost import cost_of
from latecomer.planner.overlay.greedy import ssbr_greedy
from latecomer.planner.overlay.problem import Configuration, OverlayProblem, make_problem

BROKERS = list("ABECGDHF")
"""By position, so that A is at 0 and the relays at 3, 5 and 7 have the names of the text."""
RING = evenly(8, 3)
T1, T2 = 1, 4
WANTED = (0, 1, 2, 4)
"""Where t1 is wanted; one of three placements that fit the text."""


def figure_2() -> OverlayProblem:
    wishes = {broker: ["t1" if at in WANTED else "t2"] for at, broker in enumerate(BROKERS)}
    return make_problem(RING, BROKERS, wishes, {"t1": 1, "t2": 1}, points={"t1": T1, "t2": T2})


def longest(problem: OverlayProblem, place: Configuration, topic: int) -> int:
    """Hops to the farthest subscriber."""
    _, depths, rows = problem.trees
    subscribing = problem.matrix()[:, topic]
    return int(depths[rows[topic]][place[subscribing]].max())


class Ring(Claim):
    id: ClassVar[str] = "D1"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 2: eight brokers change places"
    sentence: ClassVar[str] = (
        "Before reconfiguration an event in t1 takes 3 unrelated relays and 3 hops at most; afterwards 0 relays and 1 "
        "hop."
    )
    given: ClassVar[str] = (
        "Eight brokers evenly on a Chord ring, t1 at 1, t2 at 4, one topic each. The drawing is not in the text: three "
        "placements of t1 fit what is said (A at 0 after three hops; relays C, D, F), and this is one of them; a "
        "finger may be the target itself, otherwise one hop is impossible. Swap by swap, with the trees: [a "
        "transcript](../../tests/planner/overlay_figure_2.txt)."
    )

    def judge(self, table: Table, quick: bool) -> Verdict:
        problem, now = figure_2(), np.arange(8)
        end = ssbr_greedy(problem, now).end
        before, after = cost_of(problem, now), cost_of(problem, end)
        costs = {}
        for chosen in combinations(range(8), 4):
            place = np.empty(8, np.int64)
            place[list(WANTED)] = chosen
            place[[at for at in range(8) if at not in WANTED]] = [at for at in range(8) if at not in chosen]
            costs[chosen] = cost_of(problem, place).cost
        best = [chosen for chosen, cost in costs.items() if cost == min(costs.values())]
        parts = [
            exactly("before: relays of t1", 3, int(before.relays[0]), fitted=True),
            exactly("before: longest path", 3, longest(problem, now, 0), fitted=True),
            exactly("after SSBR-Greedy: relays of t1", 0, int(after.relays[0])),
            exactly("after: longest path", 1, longest(problem, end, 0)),
            exactly("ours: the only optimum has t1 at", [(1, 2, 3, 5)], best),
        ]
        return verdict(self.id, self.sentence, [new(part) for part in parts])


def figure_4() -> Protocol:
    """C is at 3, D at 5; B, D and G want t1, whose rendezvous point is at 1, where B is."""
    wants = {broker: frozenset({0}) if broker in "BDG" else frozenset({1}) for broker in BROKERS}
    return Protocol(chord(RING, np.array([T1, T2])), {broker: at for at, broker in enumerate(BROKERS)}, wants)


def exchange() -> tuple[Protocol, str]:
    """C and D change places, and what was sent."""
    network = figure_4()
    lines = ["before: tree of t1", *network.tree(0)]
    after = dict(network.at) | {"C": network.at["D"], "D": network.at["C"]}
    network.reconfigure(after, during=("E", 0, "e1"))
    cut = network.story.index("step 3.2")
    between = Protocol(network.overlay, dict(network.at), network.wants)
    between.tables = figure_4().tables
    lines += network.story[:cut]
    lines += ["  tree of t1 after step 3.1", *between.tree(0), *network.story[cut:]]
    lines += [
        "after: tree of t1",
        *network.tree(0),
        "received: " + ", ".join(f"{e} by {b}" for b, e in network.received),
    ]
    lines += ["messages: " + ", ".join(f"{kind} {number}" for kind, number in network.sent.items())]
    return network, "\n".join(lines) + "\n"


class Exchange(Claim):
    id: ClassVar[str] = "D14"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 4: two brokers exchange places and tables"
    sentence: ClassVar[str] = (
        "After step 3.1 the restored tree has the structure of the original one, but C does not subscribe to t1 and is "
        "a leaf of it; after step 3.2 the tree reflects routes and subscriptions."
    )
    given: ClassVar[str] = (
        "The drawing is not in the text. Ours: the ring of Fig. 2; t1 is wanted by B (its rendezvous point), D at 5 "
        "and G at 4, below C at 3; then C and D change places, and E publishes while it goes on. Every message: [a "
        "transcript](../../tests/claims/dynatops_figure_4.txt)."
    )

    def judge(self, table: Table, quick: bool) -> Verdict:
        start = figure_4()
        network, _ = exchange()
        restored = Protocol(network.overlay, dict(network.at), network.wants)
        restored.tables = start.tables
        leaf = "C at 5: member, does not subscribe"
        counted = {kind: network.sent[kind] for kind in ("RCFG_INIT", "RCFG_TREE_UPDATE", "RCFG_FINISH")}
        parts = [
            exactly("after step 3.1 C is a leaf", True, any(leaf in line for line in restored.tree(0)), fitted=True),
            exactly("after step 3.2 all tables are as they must be", True, network.tables == network.proper()),
            exactly("INIT, TREE_UPDATE and FINISH: a message to each", [8, 8, 8], list(counted.values())),
            exactly(
                "DHT_UPDATE and its answer: two to each mover",
                4,
                network.sent["RCFG_DHT_UPDATE"] + network.sent["RCFG_DHT_UPDATED"],
            ),
            exactly(
                "what is published meanwhile is received once by each",
                ["B", "D", "G"],
                sorted(broker for broker, _ in network.received),
            ),
        ]
        return verdict(self.id, self.sentence, [new(part) for part in parts], self._bound(network))

    def _bound(self, network: Protocol) -> str:
        kinds = {
            "to repair fingers": network.sent["CHORD"],
            "to hand over tables": network.sent["TABLE"],
            "to repair trees": sum(network.sent[kind] for kind in ("LEAVE", "JOIN", "TREE")),
        }
        told = ", ".join(f"{number} {what}" for what, number in kinds.items())
        return (
            f"Besides those, {told}. Eq. 11 with constants of 1 gives 8 + 2 · 3² + 2 · 2 · 3 = 38. The paper's manager "
            "gets no answer to INIT and to TREE_UPDATE, and cannot know when these steps are over: 16 answers would "
            "have to be added."
        )
