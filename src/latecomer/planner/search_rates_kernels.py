"""From a placement that asks too much of some stores to one that does not, if steps downhill lead there."""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.search_kernels import close_empty, swappable, whole
from latecomer.planner.search_state_kernels import I64, Case, State, allowed, carry_out, note


@inner
def overload(case: Case, state: State) -> int:
    """Requests above the limits, of all stores together."""
    total = 0
    for c in range(case.usable.size):
        rate = 0
        for t in range(case.replicas.size):
            rate += state.served[t, c]
        total += max(0, rate - case.limit[c])
    return total


@kernel
def relieve(case: Case, state: State) -> bool:
    """Move replicas, swap topics and move stores as long as that lowers the overload; whether none is left."""
    while True:
        now = overload(case, state)
        if now == 0:
            return True
        close_empty(case, state)
        if not (_by_move(case, state, now) or _by_swap(case, state, now) or _by_store(case, state, now)):
            return False


@inner
def _keep(case: Case, state: State, changes: I64, number: int, now: int) -> bool:
    """Do the changes; undo them unless the overload is lower than `now`."""
    back = changes[:number].copy()
    opened = -1
    for n in range(number):
        back[n, 2] = state.where[back[n, 0], back[n, 1]]
        if not state.store[changes[n, 2]]:
            opened = changes[n, 2]
    carry_out(case, state, changes, number)
    if overload(case, state) < now:
        return True
    carry_out(case, state, back, number)
    if opened >= 0:
        state.store[opened] = False
        state.sums[2] -= 1
    return False


@inner
def _by_move(case: Case, state: State, now: int) -> bool:
    changes = np.zeros((1, 3), np.int64)
    for t in range(case.replicas.size):
        for s in range(state.held[t]):
            for c in range(case.usable.size):
                if not (state.store[c] or (case.usable[c] and state.sums[2] < case.stores)):
                    continue
                if state.load[c] + case.size[t] > case.capacity[c] or not allowed(case, state, t, s, c):
                    continue
                note(changes[0], t, s, c)
                if _keep(case, state, changes, len(changes), now):
                    return True
    return False


@inner
def _by_swap(case: Case, state: State, now: int) -> bool:
    changes = np.zeros((2, 3), np.int64)
    for t in range(case.replicas.size):
        for s in range(state.held[t]):
            for u in range(t + 1, case.replicas.size):
                for v in range(state.held[u]):
                    if swappable(case, state, t, s, u, v):
                        note(changes[0], t, s, state.where[u, v])
                        note(changes[1], u, v, state.where[t, s])
                        if _keep(case, state, changes, len(changes), now):
                            return True
    return False


@inner
def _by_store(case: Case, state: State, now: int) -> bool:
    changes = np.zeros((case.replicas.size, 3), np.int64)
    for i in range(case.usable.size):
        if not state.store[i] or case.kept_store[i]:
            continue
        for c in range(case.usable.size):
            if state.store[c] or not case.usable[c] or state.load[i] > case.capacity[c]:
                continue
            number = whole(state, i, c, changes)
            possible = number > 0
            for n in range(number):
                possible = possible and allowed(case, state, changes[n, 0], changes[n, 1], c)
            if not possible:
                continue
            if _keep(case, state, changes, number, now):
                state.store[i] = False
                state.sums[2] -= 1
                return True
    return False
