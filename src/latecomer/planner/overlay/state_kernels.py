"""What a configuration costs, kept so that the price of a swap is known in O(1) per changed topic.

Only topics that one of two brokers wants and the other does not change when they swap. In the tree of such a topic a
subscriber moves from x to y. `price` has what leaving costs (at subscribers) or entering (elsewhere); their sum is the
price of the move, unless what holds y in the tree is there for x alone (`alone[y] == x`): then the way to x goes and
the way to y comes, and nothing else changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import inner, kernel

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I16 = npt.NDArray[np.int16]
U8 = npt.NDArray[np.uint8]

OUTSIDE, RELAY, SUBSCRIBER = 0, 1, 2
NOBODY = -1


class Case(NamedTuple):
    """What stays."""

    roots: I64
    """[P] position of the rendezvous point"""
    row: I64
    """[P] row of the topic's tree"""
    parent: I32
    """[R, N] by position"""
    depth: I16
    """[R, N]"""
    published: I64
    """[P] publications"""
    relay: int
    delay: int
    first: I64
    wanted: I64
    """topics by broker"""
    start: I64
    wanting: I64
    """brokers by topic"""
    measured: bool
    """Delays are those between brokers, and not hops; then `delay` is 0, and what follows counts."""
    rtt: I64
    """[B, B] delay between two brokers, as weighed; empty if hops count"""
    edge: I32
    """[R, N] number of the finger by which the parent reaches a position"""
    fingers: I64
    """[N + 1] the fingers of a position are numbered from here on"""
    ends: I64
    """[E] where a finger leads"""
    into: I64
    """[N + 1] where the fingers that lead to a position begin in `incoming`"""
    incoming: I64
    """[E] their numbers"""
    origin: I64
    """[E] whose finger it is"""


class State(NamedTuple):
    """What a swap changes."""

    place: I64
    """[B] position of each broker"""
    who: I64
    """[N] broker at each position"""
    role: U8
    """[P, N] what the broker at a position is in the tree of a topic"""
    price: I64
    """[P, N] what it costs that a subscriber leaves, or enters"""
    alone: I32
    """[P, N] the one subscriber for which the broker that holds this position in the tree is in it; or nobody"""
    burden: I64
    """[N] what the broker at a position costs: C_b"""
    below: I64
    """[N] subscribers at or below a position; work space, as the next three"""
    only: I64
    """[N] one of them"""
    held: I64
    """[N] the nearest broker above, or itself, that is in the tree"""
    top: I64
    """[N] depth of the topmost broker above, or itself, that is in the tree for this subscriber alone"""
    flow: I64
    """[E] publications times subscribers that a finger leads to, over all topics; if delays are measured"""


@inner
def _share(case: Case, state: State, topic: int, at: int) -> int:
    """What the broker at a position contributes to the cost of a topic."""
    role = state.role[topic, at]
    if role == RELAY:
        return int(case.published[topic] * case.relay)
    if role == SUBSCRIBER:
        return int(case.published[topic] * case.delay * case.depth[case.row[topic], at])
    return 0


@inner
def _flow(case: Case, state: State, topic: int, sign: int) -> None:
    """Take what a topic sends over each finger out of the flow, or put it in, by the roles that are noted."""
    count, root, row = len(state.who), case.roots[topic], case.row[topic]
    below = state.below
    for at in range(count):
        below[at] = 1 if state.role[topic, at] == SUBSCRIBER else 0
    for step in range(count - 1, 0, -1):
        at = root + step
        if at >= count:
            at -= count
        if below[at] > 0:
            below[case.parent[row, at]] += below[at]
            state.flow[case.edge[row, at]] += sign * case.published[topic] * below[at]


@inner
def rebuild(case: Case, state: State, topic: int) -> None:
    """Everything about one topic, from where its subscribers are now: O(N)."""
    count, root = len(state.who), case.roots[topic]
    parent, depth = case.parent[case.row[topic]], case.depth[case.row[topic]]
    role, below, only = state.role[topic], state.below, state.only
    if case.measured:
        _flow(case, state, topic, -1)
    for at in range(count):
        state.burden[at] -= _share(case, state, topic, at)
        role[at] = OUTSIDE
        below[at] = 0
    for k in range(case.start[topic], case.start[topic + 1]):
        at = state.place[case.wanting[k]]
        role[at] = SUBSCRIBER
        below[at] = 1
        only[at] = at
    for step in range(count - 1, 0, -1):
        at = root + step
        if at >= count:
            at -= count
        if below[at] > 0:
            above = parent[at]
            below[above] += below[at]
            if role[above] != SUBSCRIBER:
                only[above] = only[at]
                if above != root:
                    role[above] = RELAY
    _price(case, state, topic, root, parent, depth)
    for at in range(count):
        state.burden[at] += _share(case, state, topic, at)
    if case.measured:
        _flow(case, state, topic, 1)


@inner
def _price(case: Case, state: State, topic: int, root: int, parent: I32, depth: I16) -> None:
    """Prices of leaving and entering, from the root downwards; the root is never a relay, so only its hops count."""
    count, number = len(state.who), case.published[topic]
    role, price, alone = state.role[topic], state.price[topic], state.alone[topic]
    below, held, top = state.below, state.held, state.top
    held[root] = root
    price[root] = 0
    alone[root] = NOBODY
    for step in range(1, count):
        at = root + step
        if at >= count:
            at -= count
        above, deep = parent[at], np.int64(depth[at])
        if below[at] > 0:
            held[at] = at
            top[at] = top[above] if above != root and below[above] == 1 else deep
        else:
            held[at] = held[above]
        if role[at] == SUBSCRIBER:
            relays = 1 if below[at] > 1 else top[at] - deep
            price[at] = number * (case.relay * relays - case.delay * deep)
            alone[at] = NOBODY
        else:
            holder = held[at]
            price[at] = number * (case.relay * (deep - depth[holder] - 1) + case.delay * deep)
            alone[at] = state.only[holder] if holder != root and below[holder] == 1 else NOBODY


@kernel
def begin(case: Case, state: State) -> None:
    """All topics, where the brokers stand now."""
    state.role[:] = OUTSIDE
    state.burden[:] = 0
    state.flow[:] = 0
    for broker in range(len(state.place)):
        state.who[state.place[broker]] = broker
    for topic in range(len(case.roots)):
        rebuild(case, state, topic)


@inner
def swap(case: Case, state: State, one: int, other: int) -> None:
    """Two brokers change places; only topics that one of them wants are built anew."""
    x, y = state.place[one], state.place[other]
    state.place[one], state.place[other] = y, x
    state.who[x], state.who[y] = other, one
    for k in range(case.first[one], case.first[one + 1]):
        topic = case.wanted[k]
        if state.role[topic, y] != SUBSCRIBER:
            rebuild(case, state, topic)
    for k in range(case.first[other], case.first[other + 1]):
        topic = case.wanted[k]
        if state.role[topic, x] != SUBSCRIBER:
            rebuild(case, state, topic)
