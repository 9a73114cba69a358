"""Local search over all pairs of brokers, and random swaps to leave what it gets stuck in; compiled.

What is lowered is the cost of the configuration plus `stay` for every broker that is not at `home`.
"""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.overlay.state_kernels import I64, NOBODY, Case, State, swap
from latecomer.planner.overlay.weigh_kernels import total_cost, weigh

LONGEST_ROUND = 200
"""Swaps after which a round of shaking is judged, finished or not."""


@inner
def _away(broker: int, place: int, home: I64) -> int:
    return 1 if home[broker] != place else 0


@inner
def _better(state: State, totals: I64, broker: int, home: I64, stay: int) -> int:
    """With whom a swap lowers most what is searched for, the lowest index of equals; or nobody."""
    best, least = NOBODY, np.int64(0)
    x = state.place[broker]
    here = _away(broker, x, home)
    for other in range(len(state.place)):
        y = state.place[other]
        total = totals[y]
        if stay > 0:
            after = _away(broker, y, home) + _away(other, x, home)
            total += stay * (after - here - _away(other, y, home))
        if total < least:
            best, least = other, total
    return best


@kernel
def descend(case: Case, state: State, home: I64, stay: int) -> int:
    """Swap until no pair is left whose swap helps; how many swaps were made."""
    totals = np.zeros(len(state.who), np.int64)
    made, idle, broker = 0, 0, 0
    while idle < len(state.place):
        weigh(case, state, broker, totals)
        partner = _better(state, totals, broker, home, stay)
        if partner == NOBODY:
            idle += 1
        else:
            swap(case, state, broker, partner)
            made += 1
            idle = 0
        broker = broker + 1 if broker + 1 < len(state.place) else 0
    return made


@kernel
def objective(case: Case, state: State, home: I64, stay: int) -> int:
    """What the search lowers."""
    total = total_cost(case, state)
    for broker in range(len(state.place)):
        total += stay * _away(broker, state.place[broker], home)
    return total


@inner
def _draw(chance: I64, below: int) -> int:
    """A linear congruential generator (Knuth's MMIX): the same numbers everywhere."""
    chance[0] = chance[0] * np.int64(6364136223846793005) + np.int64(1442695040888963407)
    return int(((chance[0] >> 33) & 0x3FFFFFFF) % below)


@inner
def _settle(case: Case, state: State, home: I64, stay: int, queue: I64, waiting: int, log: I64, made: int) -> int:
    """Better swaps of the brokers in the queue, and of those that these move; how many swaps the log has then."""
    totals = np.zeros(len(state.who), np.int64)
    while waiting > 0 and made < len(log):
        waiting -= 1
        broker = queue[waiting]
        weigh(case, state, broker, totals)
        partner = _better(state, totals, broker, home, stay)
        if partner == NOBODY:
            continue
        swap(case, state, broker, partner)
        log[made, 0], log[made, 1] = broker, partner
        made += 1
        queue[waiting], queue[waiting + 1] = broker, partner
        waiting += 2
    return made


@kernel
def shake(case: Case, state: State, home: I64, stay: int, rounds: int, swaps: int, seed: int) -> None:
    """Make some random swaps, let the brokers that moved find better ones, and keep what is not worse; so many rounds.

    A round that made it worse is taken back swap by swap: the effort depends on what changed, not on the size.
    """
    chance = np.array([seed], np.int64)
    brokers = len(state.place)
    least = objective(case, state, home, stay)
    log = np.empty((LONGEST_ROUND, 2), np.int64)
    queue = np.empty(2 * LONGEST_ROUND + 2, np.int64)
    for _ in range(rounds):
        made, waiting = 0, 0
        for _ in range(1 + _draw(chance, swaps)):
            one, other = _draw(chance, brokers), _draw(chance, brokers)
            if one != other:
                swap(case, state, one, other)
                log[made, 0], log[made, 1] = one, other
                queue[waiting], queue[waiting + 1] = one, other
                made += 1
                waiting += 2
        made = _settle(case, state, home, stay, queue, waiting, log, made)
        found = objective(case, state, home, stay)
        if found <= least:
            least = found
            continue
        for k in range(made - 1, -1, -1):
            swap(case, state, log[k, 0], log[k, 1])
