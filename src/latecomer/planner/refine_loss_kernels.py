"""The worst loss of one store as the objective. It is no sum over topics, so every step is tried in full."""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.search_kernels import close_empty, restore, shake, swap_store, swappable, whole
from latecomer.planner.search_state_kernels import (
    I64,
    Case,
    State,
    allowed,
    bearable,
    carry_out,
    extra,
    note,
    spare,
    welcome,
)

UNSERVED, COST, BASE = 0, 1, 2


@inner
def topic_losses(case: Case, t: int, places: I64, more: I64, unserved: I64) -> int:
    """Add to `more` and `unserved` what topic t at `places` loses with each store; returns its cost without a loss."""
    base = 0
    for b in range(case.rates.shape[1]):
        rate = case.rates[t, b]
        if rate == 0:
            continue
        x1 = x2 = case.lost
        first = int(np.int64(-1))
        for i in places:
            d = case.toward[i, b]
            if d < x1 or (d == x1 and i < first):
                x2, x1, first = x1, d, i
            elif d < x2:
                x2 = d
        base += rate * x1
        if places.size == 1:
            more[first] -= rate * x1
            unserved[first] += rate
        else:
            more[first] += rate * (x2 - x1)
    return base


@inner
def weigh(case: Case, state: State, changes: I64, number: int, result: I64) -> None:
    """`result` = (unserved, cost) after the worst loss and the cost without, were the `changes` done."""
    more = np.zeros(case.usable.size, np.int64)
    unserved = np.zeros(case.usable.size, np.int64)
    holds = np.zeros(case.usable.size, np.bool_)
    base = 0
    for t in range(case.replicas.size):
        places = state.where[t, : state.held[t]].copy()
        for n in range(number):
            if changes[n, 0] != t:
                continue
            if changes[n, 1] < 0:
                places = np.append(places, changes[n, 2])
            elif changes[n, 2] < 0:
                places = np.delete(places, changes[n, 1])
            else:
                places[changes[n, 1]] = changes[n, 2]
        for i in places:
            holds[i] = True
        if places.size:
            base += topic_losses(case, t, places, more, unserved)
    result[UNSERVED] = result[COST] = 0
    result[BASE] = base
    for c in range(holds.size):
        if holds[c] and _lower(result[UNSERVED], result[COST], unserved[c], base + more[c]):
            result[UNSERVED], result[COST] = unserved[c], base + more[c]


@inner
def _lower(u1: int, c1: int, u2: int, c2: int) -> bool:
    return u1 < u2 or (u1 == u2 and c1 < c2)


@inner
def _better(now: I64, best: I64) -> bool:
    for n in range(3):
        if now[n] != best[n]:
            return bool(now[n] < best[n])
    return False


@kernel
def descend_worst(case: Case, state: State) -> None:
    """Take every step that helps, first come first taken, until none does."""
    best = np.zeros(3, np.int64)
    nothing = np.zeros((0, 3), np.int64)
    weigh(case, state, nothing, len(nothing), best)
    while True:
        close_empty(case, state)
        if case.free and _more(case, state, best):
            continue
        if not (_moves(case, state, best) or _swaps(case, state, best) or _stores(case, state, best)):
            return


@kernel
def wander_worst(case: Case, state: State, rounds: int, seed: int) -> None:
    """Iterated local search for the worst loss: shake, descend, keep what is not worse."""
    best, now = np.zeros(3, np.int64), np.zeros(3, np.int64)
    nothing = np.zeros((0, 3), np.int64)
    weigh(case, state, nothing, len(nothing), best)
    where, count, store = state.where.copy(), state.held.copy(), state.store.copy()
    for turn in range(rounds):
        times = 1 + turn % 3
        seed = shake(case, state, times, seed) if turn % 2 == 0 else _mix(case, state, times, seed)
        descend_worst(case, state)
        weigh(case, state, nothing, len(nothing), now)
        if _better(best, now):
            restore(case, state, where, count, store)
            continue
        best[:] = now
        where[:], count[:], store[:] = state.where, state.held, state.store


@inner
def _mix(case: Case, state: State, times: int, seed: int) -> int:
    """Any two topics exchange stores, if they may. Returns the next seed."""
    changes = np.zeros((2, 3), np.int64)
    topics = case.replicas.size
    for _ in range(times):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        t = (seed >> 8) % topics
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        u = (seed >> 8) % topics
        if t == u or state.held[t] == 0 or state.held[u] == 0:
            continue
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        s, v = (seed >> 8) % state.held[t], (seed >> 16) % state.held[u]
        if state.slot[u, state.where[t, s]] >= 0 or state.slot[t, state.where[u, v]] >= 0:
            continue
        if not swappable(case, state, t, s, u, v):
            continue
        note(changes[0], t, s, state.where[u, v])
        note(changes[1], u, v, state.where[t, s])
        if bearable(case, state, changes, len(changes)):
            carry_out(case, state, changes, len(changes))
    return seed


@inner
def _more(case: Case, state: State, best: I64) -> bool:
    """One replica more, where there is room or another topic gives up one of its own."""
    changes, now = np.zeros((2, 3), np.int64), np.zeros(3, np.int64)
    none, one = int(np.int64(-1)), int(np.int64(1))
    for c in range(case.usable.size):
        if not (state.store[c] or (case.usable[c] and state.sums[2] < case.stores)):
            continue
        for t in range(case.replicas.size):
            if not welcome(case, state, t, c) or case.size[t] > case.capacity[c]:
                continue
            note(changes[0], t, none, c)
            moves = state.sums[1] + extra(case, state, t, none, c)
            if state.load[c] + case.size[t] <= case.capacity[c]:
                if moves <= case.budget and _try(case, state, changes, one, best, now):
                    carry_out(case, state, changes, one)
                    best[:] = now
                    return True
                continue
            for u in range(case.replicas.size):
                v = state.slot[u, c]
                if v < 0 or not spare(case, state, u, c):
                    continue
                if state.load[c] + case.size[t] - case.size[u] > case.capacity[c]:
                    continue
                note(changes[1], u, v, none)
                if moves + extra(case, state, u, v, none) > case.budget:
                    continue
                if _try(case, state, changes, len(changes), best, now):
                    carry_out(case, state, changes, len(changes))
                    best[:] = now
                    return True
    return False


@inner
def _try(case: Case, state: State, changes: I64, number: int, best: I64, now: I64) -> bool:
    if not bearable(case, state, changes, number):
        return False
    weigh(case, state, changes, number, now)
    return _better(now, best)


@inner
def _moves(case: Case, state: State, best: I64) -> bool:
    changes, now = np.zeros((1, 3), np.int64), np.zeros(3, np.int64)
    found = False
    for t in range(case.replicas.size):
        for s in range(state.held[t]):
            for c in range(case.usable.size):
                if not (state.store[c] or (case.usable[c] and state.sums[2] < case.stores)):
                    continue
                if state.load[c] + case.size[t] > case.capacity[c] or not allowed(case, state, t, s, c):
                    continue
                if state.sums[1] + extra(case, state, t, s, c) > case.budget:
                    continue
                note(changes[0], t, s, c)
                if _try(case, state, changes, len(changes), best, now):
                    carry_out(case, state, changes, len(changes))
                    best[:] = now
                    found = True
    return found


@inner
def _swaps(case: Case, state: State, best: I64) -> bool:
    changes, now = np.zeros((2, 3), np.int64), np.zeros(3, np.int64)
    found = False
    for t in range(case.replicas.size):
        for s in range(state.held[t]):
            for u in range(t + 1, case.replicas.size):
                for v in range(state.held[u]):
                    i, j = state.where[t, s], state.where[u, v]
                    if not swappable(case, state, t, s, u, v):
                        continue
                    note(changes[0], t, s, j)
                    note(changes[1], u, v, i)
                    if _try(case, state, changes, len(changes), best, now):
                        carry_out(case, state, changes, len(changes))
                        best[:] = now
                        found = True
    return found


@inner
def _stores(case: Case, state: State, best: I64) -> bool:
    changes, now = np.zeros((case.replicas.size, 3), np.int64), np.zeros(3, np.int64)
    for i in range(case.usable.size):
        if not state.store[i] or case.kept_store[i] or state.load[i] == 0:
            continue
        for c in range(case.usable.size):
            if state.store[c] or not case.usable[c] or state.load[i] > case.capacity[c]:
                continue
            number = whole(state, i, c, changes)
            moves = 0
            possible = True
            for n in range(number):
                possible = possible and allowed(case, state, changes[n, 0], changes[n, 1], c)
                moves += extra(case, state, changes[n, 0], changes[n, 1], c)
            if not possible or state.sums[1] + moves > case.budget:
                continue
            if _try(case, state, changes, number, best, now):
                swap_store(case, state, i, c)
                best[:] = now
                return True
    return False
