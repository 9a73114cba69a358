"""SSBR-Greedy (DYNATOPS algorithm 2), compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.overlay.state_kernels import I64, NOBODY, Case, State, swap
from latecomer.planner.overlay.weigh_kernels import burdens, weigh

Flags = npt.NDArray[np.bool_]
FIRST_ROOM = 1024


@inner
def worst_broker(state: State, costs: I64, tried: Flags) -> int:
    """The broker with the highest cost that was not tried, the lowest index of equals."""
    worst = NOBODY
    for broker in range(len(state.place)):
        if tried[broker]:
            continue
        if worst == NOBODY or costs[state.place[broker]] > costs[state.place[worst]]:
            worst = broker
    return worst


@inner
def best_partner(state: State, totals: I64) -> int:
    """With whom a swap lowers the cost most, the lowest index of equals; or nobody."""
    best = NOBODY
    for broker in range(len(state.place)):
        total = totals[state.place[broker]]
        if total < 0 and (best == NOBODY or total < totals[state.place[best]]):
            best = broker
    return best


@kernel
def improve(case: Case, state: State, tries: int) -> I64:
    """[K, 3] the swaps made: the broker, its partner, the change of the cost.

    Each round takes the worst broker and its best swap. It ends when the `tries` worst brokers have no better swap.
    """
    path = np.empty((FIRST_ROOM, 3), np.int64)
    made, failed = 0, 0
    tried = np.zeros(len(state.place), np.bool_)
    totals = np.zeros(len(state.who), np.int64)
    costs = np.zeros(len(state.who), np.int64)
    burdens(case, state, costs)
    while failed < tries:
        broker = worst_broker(state, costs, tried)
        weigh(case, state, broker, totals)
        partner = best_partner(state, totals)
        if partner == NOBODY:
            tried[broker] = True
            failed += 1
            continue
        if made == len(path):
            longer = np.empty((2 * made, 3), np.int64)
            longer[:made] = path
            path = longer
        path[made, 0], path[made, 1], path[made, 2] = broker, partner, totals[state.place[partner]]
        made += 1
        swap(case, state, broker, partner)
        burdens(case, state, costs)
        if failed:
            tried[:] = False
            failed = 0
    return path[:made].copy()
