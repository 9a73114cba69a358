"""What it costs that two brokers swap, and what each broker costs; compiled.

Prices of the state decide about relays and hops. Where delays between brokers are measured, they are added: the sum
over all fingers of what flows through them, times the delay of their ends. A swap changes the ends of the fingers at
two positions, and the flow of the topics that only one of the two brokers wants.
"""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.overlay.state_kernels import I64, SUBSCRIBER, Case, State


@inner
def moved(case: Case, state: State, topic: int, x: int, y: int) -> int:
    """The price when the subscriber at x of this topic goes to y, where there is none."""
    if state.alone[topic, y] == x:
        depth = case.depth[case.row[topic]]
        return int(case.published[topic] * (case.relay + case.delay) * (np.int64(depth[y]) - np.int64(depth[x])))
    return int(state.price[topic, x] + state.price[topic, y])


@inner
def weigh(case: Case, state: State, broker: int, totals: I64) -> None:
    """[N] what it costs that a broker swaps with the one at each position; 0 with itself."""
    x = state.place[broker]
    totals[:] = 0
    for k in range(case.first[broker], case.first[broker + 1]):
        topic = case.wanted[k]
        role, price, alone = state.role[topic], state.price[topic], state.alone[topic]
        leaving = price[x]
        for y in range(len(totals)):
            if role[y] != SUBSCRIBER:
                totals[y] += leaving + price[y] if alone[y] != x else moved(case, state, topic, x, y)
    for topic in range(len(case.roots)):
        if state.role[topic, x] == SUBSCRIBER:
            continue
        price, alone = state.price[topic], state.alone[topic, x]
        for k in range(case.start[topic], case.start[topic + 1]):
            y = state.place[case.wanting[k]]
            totals[y] += price[x] + price[y] if alone != y else moved(case, state, topic, y, x)
    if case.measured:
        _weigh_delays(case, state, broker, totals)


# --- delays between brokers: the sum over fingers of flow times delay ---


@inner
def _there(state: State, at: int, x: int, y: int) -> int:
    """The broker at a position when those at x and y have swapped."""
    return int(state.who[y] if at == x else state.who[x] if at == y else state.who[at])


@inner
def _way(case: Case, state: State, topic: int, at: int, x: int, y: int) -> int:
    """The delay from the rendezvous point of a topic to a position, after the swap."""
    row, total = case.row[topic], 0
    broker = _there(state, at, x, y)
    while case.parent[row, at] >= 0:
        at = case.parent[row, at]
        above = _there(state, at, x, y)
        total += case.rtt[above, broker]
        broker = above
    return total


@inner
def _incident(case: Case, state: State, at: int, x: int, y: int) -> int:
    """What the swap changes on the fingers from and to one of the two positions, with the flow as it is."""
    total = 0
    for e in range(case.fingers[at], case.fingers[at + 1]):
        end = case.ends[e]
        after = case.rtt[_there(state, at, x, y), _there(state, end, x, y)]
        total += state.flow[e] * (after - case.rtt[state.who[at], state.who[end]])
    for k in range(case.into[at], case.into[at + 1]):
        e = case.incoming[k]
        origin = case.origin[e]
        if origin in (x, y):
            continue  # counted above, as a finger from it
        after = case.rtt[state.who[origin], _there(state, at, x, y)]
        total += state.flow[e] * (after - case.rtt[state.who[origin], state.who[at]])
    return total


@inner
def _weigh_delays(case: Case, state: State, broker: int, totals: I64) -> None:
    """Add what each swap changes in delays: on the fingers of both, and for the topics that only one of them wants."""
    x = state.place[broker]
    for y in range(len(totals)):
        if y == x:
            continue
        other = state.who[y]
        total = _incident(case, state, x, x, y) + _incident(case, state, y, x, y)
        for k in range(case.first[broker], case.first[broker + 1]):
            topic = case.wanted[k]
            if state.role[topic, y] != SUBSCRIBER:
                further = _way(case, state, topic, y, x, y) - _way(case, state, topic, x, x, y)
                total += case.published[topic] * further
        for k in range(case.first[other], case.first[other + 1]):
            topic = case.wanted[k]
            if state.role[topic, x] != SUBSCRIBER:
                further = _way(case, state, topic, x, x, y) - _way(case, state, topic, y, x, y)
                total += case.published[topic] * further
        totals[y] += total


@kernel
def burdens(case: Case, state: State, found: I64) -> None:
    """[N] what the broker at each position costs, delays included: C_b."""
    found[:] = state.burden
    if not case.measured:
        return
    ways = np.zeros(len(found), np.int64)
    for topic in range(len(case.roots)):
        root, row = case.roots[topic], case.row[topic]
        ways[root] = 0
        for step in range(1, len(found)):
            at = root + step
            if at >= len(found):
                at -= len(found)
            above = case.parent[row, at]
            ways[at] = ways[above] + case.rtt[state.who[above], state.who[at]]
            if state.role[topic, at] == SUBSCRIBER:
                found[at] += case.published[topic] * ways[at]


@kernel
def total_cost(case: Case, state: State) -> int:
    """C, delays included."""
    total = state.burden.sum()
    if case.measured:
        for at in range(len(state.who)):
            for e in range(case.fingers[at], case.fingers[at + 1]):
                total += state.flow[e] * case.rtt[state.who[at], state.who[case.ends[e]]]
    return int(total)
