"""SSBR-Greedy as the paper argues its complexity (lemma 3.4): for every neighbour, the trees of all changed topics.

Compiled as well, so that what is compared is the algorithm and not the language.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import kernel
from latecomer.planner.overlay.problem import Configuration, OverlayProblem
from latecomer.planner.overlay.state import case_of
from latecomer.planner.overlay.state_kernels import Case

Ints = npt.NDArray[np.int64]


def naive_path(problem: OverlayProblem, start: Configuration) -> list[tuple[int, int]]:
    """The swaps, in order."""
    found = _improve(case_of(problem), problem.matrix(), start.astype(np.int64).copy())
    return [(one, other) for one, other in found.tolist()]


@kernel
def _cost(case: Case, topic: int, place: Ints, mark: Ints, costs: Ints, weight: int) -> int:
    """The cost of one topic by walking from every subscriber to the root; added to brokers' positions if weighed."""
    row, root = case.row[topic], case.roots[topic]
    mark[:] = 0
    total = 0
    for k in range(case.start[topic], case.start[topic + 1]):
        mark[place[case.wanting[k]]] = 2
    for k in range(case.start[topic], case.start[topic + 1]):
        at = place[case.wanting[k]]
        hops = case.published[topic] * case.delay * case.depth[row, at]
        total += hops
        costs[at] += weight * hops
        while at != root:
            if mark[at] == 0:
                mark[at] = 1
                total += case.published[topic] * case.relay
                costs[at] += weight * case.published[topic] * case.relay
            at = case.parent[row, at]
    return total


@kernel
def _improve(case: Case, wanted: npt.NDArray[np.bool_], place: Ints) -> Ints:
    brokers, topics = wanted.shape
    mark, costs = np.zeros(brokers, np.int64), np.zeros(brokers, np.int64)
    each = np.zeros(topics, np.int64)
    path = np.zeros((100 * brokers, 2), np.int64)
    made = 0
    while made < len(path):
        costs[:] = 0
        for topic in range(topics):
            each[topic] = _cost(case, topic, place, mark, costs, 1)
        worst = 0
        for broker in range(brokers):
            if costs[place[broker]] > costs[place[worst]]:
                worst = broker
        best, least = -1, 0
        for other in range(brokers):
            place[worst], place[other] = place[other], place[worst]
            change = 0
            for topic in range(topics):
                if wanted[worst, topic] != wanted[other, topic]:
                    change += _cost(case, topic, place, mark, costs, 0) - each[topic]
            place[worst], place[other] = place[other], place[worst]
            if change < least:
                best, least = other, change
        if best < 0:
            break
        place[worst], place[best] = place[best], place[worst]
        path[made, 0], path[made, 1] = worst, best
        made += 1
    return path[:made].copy()
