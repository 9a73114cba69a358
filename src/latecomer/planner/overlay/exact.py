"""The best configuration there is, by integer programming, for rings that are small (DYNATOPS appendix B).

Decision: 16e and 16f say that an edge is used if *all* below it subscribe, the text says if *any* does. Here a broker
is in the tree of a topic if it subscribes, and if anybody directly below it is: t[v] ≥ s[v], t[parent] ≥ t[v]. And
16a counts edges; here relays are counted, as in eq. 2. Brokers that want the same are one kind, to be placed so often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import highspy
import numpy as np

from latecomer.planner.exact import SLACK, Program, run
from latecomer.planner.overlay.cost import total_of
from latecomer.planner.overlay.problem import Configuration, OverlayProblem

NODES = 100_000


@dataclass(frozen=True, slots=True)
class OverlayExact:
    """The best configuration found, and what is proven of it."""

    configuration: Configuration
    cost: int
    bound: int

    @property
    def optimal(self) -> bool:
        return self.cost <= self.bound


def exact(problem: OverlayProblem, upper: Configuration, *, nodes: int = NODES) -> OverlayExact:
    """The optimum when the search ends within `nodes`; else the better of `upper` and what was found, with a bound."""
    assert problem.delays is None, "the program knows hops only"
    kinds = _kinds(problem)
    unit = max(1, int(problem.counts.max()))
    program = Program()
    count = len(problem.brokers)
    places = _placed(program, problem, kinds, unit)
    for topic in range(len(problem.topics)):
        holders = [kind for kind, (wanted, _) in enumerate(kinds) if topic in wanted]
        if holders and problem.counts[topic] and problem.relay_weight:
            _tree(program, problem, topic, [places[kind] for kind in holders], unit)
    value, finished, solution = run(program, nodes)
    best, cost = upper, total_of(problem, upper)
    if solution is not None:
        found = np.empty(count, np.int64)
        for kind, (_, brokers) in enumerate(kinds):
            found[list(brokers)] = np.flatnonzero(solution[places[kind]] > 0.5)
        if (total := total_of(problem, found)) < cost:
            best, cost = found, total
    proven = max(0, math.ceil(value * (1 - SLACK) * unit - 1e-6)) if math.isfinite(value) else 0
    if finished and proven >= cost * (1 - 2 * SLACK) - 1:
        proven = cost
    return OverlayExact(best, cost, min(proven, cost))


def _kinds(problem: OverlayProblem) -> list[tuple[frozenset[int], tuple[int, ...]]]:
    """What is wanted, and the brokers that want just that."""
    found: dict[tuple[int, ...], list[int]] = {}
    for broker in range(len(problem.brokers)):
        wanted = problem.wanted[problem.first[broker] : problem.first[broker + 1]]
        found.setdefault(tuple(wanted.tolist()), []).append(broker)
    return [(frozenset(wanted), tuple(brokers)) for wanted, brokers in found.items()]


def _placed(
    program: Program, problem: OverlayProblem, kinds: list[tuple[frozenset[int], tuple[int, ...]]], unit: int
) -> list[list[int]]:
    """Variables by kind and position: each position has one broker. They pay hops, less the relays they save."""
    _, depths, rows = problem.trees
    count = len(problem.brokers)
    found: list[list[int]] = []
    for wanted, brokers in kinds:
        price = np.zeros(count)
        for topic in sorted(wanted):
            weight = int(problem.counts[topic]) / unit
            price += weight * problem.delay_weight * depths[rows[topic]]
            price -= weight * problem.relay_weight * (np.arange(count) != problem.roots[topic])
        found.append([program.variable(float(one), whole=True) for one in price])
        program.row(found[-1], [1.0] * count, float(len(brokers)), float(len(brokers)))
    for at in range(count):
        program.row([columns[at] for columns in found], [1.0] * len(found), 1.0, 1.0)
    return found


def _tree(program: Program, problem: OverlayProblem, topic: int, holders: list[list[int]], unit: int) -> None:
    """Who is in the tree of a topic; each but the root costs a message, and those who subscribe get it back."""
    parents, _, rows = problem.trees
    root = int(problem.roots[topic])
    weight = problem.relay_weight * int(problem.counts[topic]) / unit
    inside = {at: program.variable(weight, whole=False) for at in range(len(problem.brokers)) if at != root}
    for at, column in inside.items():
        program.row([column, *(one[at] for one in holders)], [1.0] + [-1.0] * len(holders), 0.0, highspy.kHighsInf)
        above = int(parents[rows[topic], at])
        if above != root:
            program.row([inside[above], column], [1.0, -1.0], 0.0, highspy.kHighsInf)
