"""Topics move on around a cycle of stores; where counts are free, a cycle may lead through nowhere.

From nowhere to a store is a replica more, from a store to nowhere one less: so a topic comes in at one store, others
move on, and at the last store one is given up, or there was room.
"""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner
from latecomer.planner.search_state_kernels import (
    I64,
    UNLIMITED,
    Case,
    State,
    allowed,
    bearable,
    carry_out,
    extra,
    note,
    price,
    spare,
    welcome,
)

_LONGEST_CYCLE = 6


@inner
def rotate(case: Case, state: State) -> bool:
    """Topics move on around a cycle of three or more stores. One size only: then each store's load stays.

    The cheapest topic for each way from store to store, then Bellman and Ford's walks of growing length.
    """
    price(case, state, bool(np.int64(0)))
    stores = np.empty(state.sums[2] + 1, np.int64)
    index = np.empty(case.usable.size, np.int64)
    number = 0
    for c in range(case.usable.size):
        if state.store[c]:
            stores[number], index[c] = c, number
            number += 1
    nodes = number + int(case.free)
    stores[number] = -1  # nowhere
    way = np.full((nodes, nodes), UNLIMITED // 4, np.int64)
    topic = np.full((nodes, nodes), -1, np.int64)
    for t in range(case.replicas.size):
        for s in range(state.held[t]):
            a = index[state.where[t, s]]
            for e in range(number):
                c = stores[e]
                gain = state.shift[c, state.first[t] + s]
                if gain < way[a, e] and state.slot[t, c] < 0 and allowed(case, state, t, s, c):
                    way[a, e] = gain
                    topic[a, e] = t
    if case.free:
        _through_nowhere(case, state, stores, way, topic)
    changes = np.zeros((_LONGEST_CYCLE, 3), np.int64)
    for start in range(nodes):
        length = _cycle(way, topic, start, changes)
        if length == 0:
            continue
        moves = kept = 0
        for n in range(length):
            t, a, e = changes[n, 0], changes[n, 1], changes[n, 2]
            if t == case.replicas.size:
                continue  # there was room
            slot = state.slot[t, stores[a]] if a < number else -1
            note(changes[kept], t, slot, stores[e])
            moves += extra(case, state, t, slot, stores[e])
            kept += 1
        if state.sums[1] + moves <= case.budget and bearable(case, state, changes, kept):
            carry_out(case, state, changes, kept)
            return True
    return False


@inner
def _through_nowhere(case: Case, state: State, stores: I64, way: I64, topic: I64) -> None:
    """The cheapest topic that each store can get beside those it has, and can give up; none where there is room."""
    nowhere = stores.size - 1
    for e in range(nowhere):
        c = stores[e]
        if state.load[c] + case.size[0] <= case.capacity[c]:
            way[e, nowhere], topic[e, nowhere] = 0, case.replicas.size
        for t in range(case.replicas.size):
            if state.slot[t, c] >= 0:
                fall = state.fall[state.first[t] + state.slot[t, c]]
                if fall < way[e, nowhere] and spare(case, state, t, c):
                    way[e, nowhere], topic[e, nowhere] = fall, t
                continue
            gain = state.shift[c, state.first[t + 1] - 1]
            if gain < way[nowhere, e] and welcome(case, state, t, c):
                way[nowhere, e], topic[nowhere, e] = gain, t


@inner
def _cycle(way: I64, topic: I64, start: int, changes: I64) -> int:
    """A cycle through `start` of negative price with each topic once, as (topic, from, to); its length or 0."""
    number = way.shape[0]
    reach = np.full((_LONGEST_CYCLE, number), UNLIMITED // 4, np.int64)
    back = np.full((_LONGEST_CYCLE, number), -1, np.int64)
    reach[0, start] = 0
    for step in range(1, _LONGEST_CYCLE):
        for a in range(number):
            if reach[step - 1, a] >= 0 and step > 1:
                continue  # a negative cycle can be begun where all its parts from the start are negative
            for e in range(number):
                if e == start or topic[a, e] < 0 or reach[step - 1, a] + way[a, e] >= reach[step, e]:
                    continue
                if _fresh(back, topic, step, a, e):
                    reach[step, e] = reach[step - 1, a] + way[a, e]
                    back[step, e] = a
        for a in range(number):
            if back[step, a] < 0 or topic[a, start] < 0 or reach[step, a] + way[a, start] >= 0:
                continue
            if not _fresh(back, topic, step + 1, a, start):
                continue
            note(changes[step], topic[a, start], a, start)
            e = a
            for n in range(step, 0, -1):
                a_before = back[n, e]
                note(changes[n - 1], topic[a_before, e], a_before, e)
                e = a_before
            return step + 1
    return 0


@inner
def _fresh(back: I64, topic: I64, step: int, a: int, e: int) -> bool:
    """Neither topic nor store of the way a → e is on the walk that reached a in `step` − 1 steps."""
    t = topic[a, e]
    at = a
    for n in range(step - 1, 0, -1):
        before = back[n, at]
        if topic[before, at] == t or before == e:
            return False
        at = before
    return True
