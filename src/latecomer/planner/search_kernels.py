"""Local search on a placement: replicas change places, stores change places, nothing forbidden happens on the way.

Each kernel makes one step or none and says so; costs are integers, ties go to the lowest topic, slot and broker, so a
search is the same everywhere. A step is taken only when it lowers the objective, so every search ends.

A kernel is compiled anew for each literal that it is called with; `int(np.int64(0))` is a zero that is none.
"""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.search_counts_kernels import trade
from latecomer.planner.search_cycle_kernels import rotate
from latecomer.planner.search_state_kernels import (
    I64,
    UNLIMITED,
    Case,
    Flags,
    State,
    add,
    allowed,
    bearable,
    carry_out,
    extra,
    locate,
    note,
    open_store,
    price,
    price_one,
)


@kernel
def extend(case: Case, state: State) -> bool:
    """Add the replica that helps most: to topics that have fewer than they must, else if that lowers the objective."""
    if _extend(case, state, bool(np.int64(1))):
        return True
    return case.free and _extend(case, state, bool(np.int64(0)))


@inner
def _extend(case: Case, state: State, missing: bool) -> bool:
    best = int(np.int64(UNLIMITED)) if missing else int(np.int64(0))
    best_t, best_c = int(np.int64(-1)), int(np.int64(-1))
    room_for_store = state.sums[2] < case.stores
    if not missing:
        price(case, state, room_for_store)
    for t in range(case.replicas.size):
        if state.held[t] >= (case.least[t] if missing else case.replicas[t]):
            continue
        for c in range(case.usable.size):
            if state.slot[t, c] >= 0 or state.crowd[t, case.domain[c]] > 0:
                continue
            if not (state.store[c] or (room_for_store and case.usable[c])):
                continue
            if state.load[c] + case.size[t] > case.capacity[c]:
                continue
            if state.sums[1] + int(not case.before[t, c]) > case.budget:
                continue
            gain = price_one(case, state, t, c) if missing else state.shift[c, state.first[t + 1] - 1]
            if gain < best and _bearable_more(case, state, t, c):
                best, best_t, best_c = gain, t, c
    if best_t < 0:
        return False
    if not state.store[best_c]:
        open_store(case, state, best_c)
    add(case, state, best_t, best_c)
    locate(case, state, best_t)
    return True


@inner
def _bearable_more(case: Case, state: State, t: int, c: int) -> bool:
    if not case.limited:
        return True
    rate = 0
    for b in range(case.rates.shape[1]):
        i = state.where[t, state.one[t, b]] if state.one[t, b] >= 0 else -1
        d = case.toward[c, b]
        if i < 0 or d < state.d1[t, b] or (d == state.d1[t, b] and c < i):
            rate += case.rates[t, b]
    for u in range(case.replicas.size):
        rate += state.served[u, c]
    return bool(rate <= case.limit[c])


@inner
def exchange(case: Case, state: State) -> bool:
    """The best of all single moves, also to new stores if there may be more, and swaps of two topics between stores."""
    opening = state.sums[2] < case.stores
    price(case, state, opening)
    changes = np.zeros((2, 3), np.int64)
    best = _best_move(case, state, opening, changes)
    number = 2 if _best_swap(case, state, best, changes) < best else 1
    if number == 1 and best == 0:
        return False
    carry_out(case, state, changes, number)
    return True


@inner
def _best_move(case: Case, state: State, opening: bool, changes: I64) -> int:
    """The best move of one replica to a store with room, or to a new one; its price, 0 when none helps."""
    best = int(np.int64(0))
    trial = np.zeros((1, 3), np.int64)
    for c in range(case.usable.size):
        if not (state.store[c] or (opening and case.usable[c])):
            continue
        for t in range(case.replicas.size):
            if state.load[c] + case.size[t] > case.capacity[c] or state.slot[t, c] >= 0:
                continue
            for s in range(state.held[t]):
                if state.shift[c, state.first[t] + s] >= best or not allowed(case, state, t, s, c):
                    continue
                note(trial[0], t, s, c)
                if state.sums[1] + extra(case, state, t, s, c) <= case.budget and bearable(
                    case, state, trial, len(trial)
                ):
                    best = state.shift[c, state.first[t] + s]
                    note(changes[0], t, s, c)
    return best


@inner
def _best_swap(case: Case, state: State, best: int, changes: I64) -> int:
    """The best swap of two topics between two stores, if it is better than `best`; the first of equals.

    A topic's best swap is remembered until it or the other topic moves. That is all that can change it where room,
    rates and moves are no matter: everybody is of one size, and the rest has no limit.
    """
    lasting = not case.limited and case.budget == UNLIMITED and bool((case.size == case.size[0]).all())
    touched = np.flatnonzero(state.touched)
    trial = np.zeros((2, 3), np.int64)
    for t in range(case.replicas.size):
        if not lasting or state.touched[t] or (state.swap[t, 0] < 0 and state.touched[state.swap[t, 2]]):
            state.swap[t, 0], state.swap[t, 1] = 0 if lasting else best, -1
            for u in range(t + 1, case.replicas.size):
                _compare(case, state, t, u, trial)
        else:
            for n in range(touched.size):
                if touched[n] > t:
                    _compare(case, state, t, touched[n], trial)
        if state.swap[t, 0] < best:
            best, s, u, v = state.swap[t]
            note(changes[0], t, s, state.where[u, v])
            note(changes[1], u, v, state.where[t, s])
    state.touched[:] = False
    return best


@inner
def _compare(case: Case, state: State, t: int, u: int, trial: I64) -> None:
    """Make a swap of t and u the best of t, if one is; of equals the first by slot, other topic and other slot."""
    known = state.swap[t]
    for s in range(state.held[t]):
        i = state.where[t, s]
        for v in range(state.held[u]):
            j = state.where[u, v]
            # Most swaps are too dear; what says whether one is possible lies far apart in memory, so it is asked later.
            total = state.shift[j, state.first[t] + s] + state.shift[i, state.first[u] + v]
            if total > known[0] or (total == known[0] and not _before(s, u, v, known)):
                continue
            if state.slot[u, i] >= 0 or state.slot[t, j] >= 0:
                continue
            if not swappable(case, state, t, s, u, v):
                continue
            note(trial[0], t, s, j)
            note(trial[1], u, v, i)
            if bearable(case, state, trial, len(trial)):
                known[0], known[1], known[2], known[3] = total, s, u, v


@inner
def _before(s: int, u: int, v: int, known: I64) -> bool:
    if known[1] < 0:
        return False
    if s != known[1]:
        return bool(s < known[1])
    return bool(u < known[2] or (u == known[2] and v < known[3]))


@inner
def swappable(case: Case, state: State, t: int, s: int, u: int, v: int) -> bool:
    i, j = state.where[t, s], state.where[u, v]
    grown = case.size[t] - case.size[u]
    if state.load[j] + grown > case.capacity[j] or state.load[i] - grown > case.capacity[i]:
        return False
    if not (allowed(case, state, t, s, j) and allowed(case, state, u, v, i)):
        return False
    return bool(state.sums[1] + extra(case, state, t, s, j) + extra(case, state, u, v, i) <= case.budget)


@inner
def relocate(case: Case, state: State) -> bool:
    """Close the store and open the broker in its place that lower the objective most; its replicas move along."""
    price(case, state, bool(np.int64(1)))
    best, best_i, best_c = int(np.int64(0)), int(np.int64(-1)), int(np.int64(-1))
    changes = np.zeros((case.replicas.size, 3), np.int64)
    others = np.flatnonzero(case.usable & ~state.store)
    for i in range(case.usable.size):
        if not state.store[i] or case.kept_store[i] or state.load[i] == 0:
            continue
        number = whole(state, i, i, changes)
        for at in range(others.size):
            c = others[at]
            total = moves = 0
            for n in range(number):
                total += state.shift[c, state.first[changes[n, 0]] + changes[n, 1]]
            if total >= best or state.load[i] > case.capacity[c]:
                continue
            possible = True
            for n in range(number):
                changes[n, 2] = c
                moves += extra(case, state, changes[n, 0], changes[n, 1], c)
                possible = possible and allowed(case, state, changes[n, 0], changes[n, 1], c)
            if not possible or state.sums[1] + moves > case.budget:
                continue
            if bearable(case, state, changes, number):
                best, best_i, best_c = total, i, c
    if best_i < 0:
        return False
    swap_store(case, state, best_i, best_c)
    return True


@inner
def whole(state: State, i: int, c: int, changes: I64) -> int:
    number = 0
    for t in range(state.held.size):
        if state.slot[t, i] >= 0:
            note(changes[number], t, state.slot[t, i], c)
            number += 1
    return number


@inner
def swap_store(case: Case, state: State, i: int, c: int) -> None:
    """Everything at store i goes to c, which is a store from now on; i is none."""
    changes = np.zeros((case.replicas.size, 3), np.int64)
    number = whole(state, i, c, changes)
    state.store[i] = False
    state.sums[2] -= 1
    carry_out(case, state, changes, number)


@inner
def close_empty(case: Case, state: State) -> None:
    """A store with nothing in it stands in the way of others."""
    for c in range(case.usable.size):
        if state.store[c] and state.load[c] == 0 and not case.kept_store[c]:
            state.store[c] = False
            state.sums[2] -= 1


@kernel
def descend(case: Case, state: State, one_size: bool) -> None:
    """All steps until none helps: inside the stores first, for that is cheap, then with other stores."""
    while True:
        while extend(case, state):
            pass
        while exchange(case, state) or trade(case, state) or (one_size and rotate(case, state)):
            pass
        close_empty(case, state)
        if relocate(case, state) or (state.sums[2] < case.stores and exchange(case, state)):
            continue
        if not extend(case, state):  # steps since the last time may have made room
            return


@inner
def restore(case: Case, state: State, where: I64, count: I64, store: Flags) -> None:
    """Put the replicas back to where they were, and the stores with them."""
    for t in range(case.replicas.size):
        same = state.held[t] == count[t]
        for s in range(count[t]):
            same = same and state.where[t, s] == where[t, s]
        if same:
            continue
        for s in range(state.held[t]):
            i = state.where[t, s]
            state.slot[t, i] = -1
            state.load[i] -= case.size[t]
            state.crowd[t, case.domain[i]] -= 1
            state.sums[1] -= int(not case.before[t, i])
        state.held[t] = count[t]
        for s in range(count[t]):
            c = where[t, s]
            state.where[t, s], state.slot[t, c] = c, s
            state.load[c] += case.size[t]
            state.crowd[t, case.domain[c]] += 1
            state.sums[1] += int(not case.before[t, c])
        locate(case, state, t)
    state.sums[2] = 0
    for c in range(case.usable.size):
        state.store[c] = store[c]
        state.sums[2] += int(store[c])
    for t in range(case.replicas.size):
        if state.stale[t] == 1:
            state.stale[t] = 2


@kernel
def wander(case: Case, state: State, one_size: bool, rounds: int, seed: int) -> int:
    """Iterated local search: shake one to three stores, descend, keep what is not worse; returns how many helped.

    Chance is a linear congruence of `seed`.
    """
    best = state.sums[0]
    where, count, store = state.where.copy(), state.held.copy(), state.store.copy()
    helped = 0
    for turn in range(rounds):
        seed = shake(case, state, 1 + turn % 3, seed)
        descend(case, state, one_size)
        if state.sums[0] > best:
            restore(case, state, where, count, store)
            continue
        helped += int(state.sums[0] < best)
        best = state.sums[0]
        where[:], count[:], store[:] = state.where, state.held, state.store
    return helped


@inner
def shake(case: Case, state: State, times: int, seed: int) -> int:
    """Stores go elsewhere: to a near broker half of the time, anywhere otherwise. Returns the next seed."""
    number = case.usable.size
    changes = np.zeros((case.replicas.size, 3), np.int64)
    for _ in range(times):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        i = _any_store(case, state, (seed >> 8) % max(1, state.sums[2]))
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        c = (seed >> 8) % number
        if i < 0:
            continue
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        c = _target(case, state, i, c, (seed >> 8) % 2 == 0)
        if c < 0:
            continue
        length = whole(state, i, c, changes)
        possible = True
        moves = 0
        for n in range(length):
            possible = possible and allowed(case, state, changes[n, 0], changes[n, 1], c)
            moves += extra(case, state, changes[n, 0], changes[n, 1], c)
        if possible and state.sums[1] + moves <= case.budget and bearable(case, state, changes, length):
            swap_store(case, state, i, c)
    return seed


@inner
def _any_store(case: Case, state: State, skip: int) -> int:
    """A store that may be closed: the one after `skip` others, or the next that may."""
    found = int(np.int64(-1))
    for c in range(case.usable.size):
        if state.store[c]:
            if not case.kept_store[c] and (found < 0 or skip >= 0):
                found = c
            skip -= 1
    return found


@inner
def _target(case: Case, state: State, i: int, first: int, near: bool) -> int:
    """A broker that can take over what store i keeps: from number `first` on, among those near to it if so wished."""
    number = case.usable.size
    span = 8 if near else 1
    best, found = int(np.int64(UNLIMITED)), int(np.int64(-1))
    for n in range(number):
        c = (first + n) % number
        if state.store[c] or not case.usable[c] or state.load[i] > case.capacity[c]:
            continue
        if case.toward[c, i] < best:
            best, found = int(case.toward[c, i]), c
        span -= 1
        if span == 0:
            break
    return found
