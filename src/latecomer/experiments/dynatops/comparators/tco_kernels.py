"""Topic-connected overlays: greedy merge, connectedness and delays, compiled."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay_kernels import F64, I16, I64
from latecomer.planner.compiling import inner, kernel

Flags = npt.NDArray[np.bool_]
I32 = npt.NDArray[np.int32]


class Pieces(NamedTuple):
    """In which piece of a topic's overlay a broker is."""

    name: I16
    """[B, P]"""
    size: I16
    """[P, B] of the piece, where its name is the broker's"""
    after: I16
    """[P, B] the next broker of the same piece, round and round"""


@inner
def _merge(pieces: Pieces, topic: int, one: int, other: int) -> None:
    """The smaller piece takes the name of the larger."""
    new, old = pieces.name[one, topic], pieces.name[other, topic]
    size, after = pieces.size[topic], pieces.after[topic]
    if size[new] < size[old]:
        new, old = old, new
    size[new] += size[old]
    at = old
    while True:
        pieces.name[at, topic] = new
        at = after[at]
        if at == old:
            break
    after[old], after[new] = after[new], after[old]


@inner
def _gain(wants: Flags, pieces: Pieces, one: int, other: int) -> int:
    """Topics that a link between two brokers would bring together."""
    here, there = wants[one], wants[other]
    mine, yours = pieces.name[one], pieces.name[other]
    gain = np.int32(0)
    for topic in range(len(here)):
        gain += np.int32(here[topic] & there[topic] & (mine[topic] != yours[topic]))
    return int(gain)


@inner
def _link(wants: Flags, pieces: Pieces, one: int, other: int) -> None:
    for topic in range(wants.shape[1]):
        if wants[one, topic] and wants[other, topic] and pieces.name[one, topic] != pieces.name[other, topic]:
            _merge(pieces, topic, one, other)


@kernel
def greedy_merge(wants: Flags, links: Flags, groups: I64, across: bool) -> None:
    """Add links, the one that joins most topics first, until every topic is in one piece within each group.

    `wants` [B, P]; `groups` [B], -1 for who is left alone. `across`: only links between groups, until every topic is in
    one piece altogether. Of equals the pair with the lowest numbers.
    """
    brokers, topics = wants.shape
    name = np.empty((brokers, topics), np.int16)
    after = np.empty((topics, brokers), np.int16)
    for broker in range(brokers):
        name[broker] = broker
        after[:, broker] = broker
    pieces = Pieces(name, np.ones((topics, brokers), np.int16), after)
    for one in range(brokers):
        for other in range(one + 1, brokers):
            if links[one, other]:
                _link(wants, pieces, one, other)
    queue = [(0, 0, 0)]
    queue.pop()
    for one in range(brokers):
        for other in range(one + 1, brokers):
            allowed = groups[one] != groups[other] if across else groups[one] == groups[other] and groups[one] >= 0
            if allowed and not links[one, other]:
                gain = _gain(wants, pieces, one, other)
                if gain > 0:
                    queue.append((-gain, one, other))
    heapq.heapify(queue)
    while len(queue):
        told, one, other = heapq.heappop(queue)
        gain = _gain(wants, pieces, one, other)  # which can only have become less
        if gain != -told:
            if gain > 0:
                heapq.heappush(queue, (-gain, one, other))
            continue
        links[one, other] = links[other, one] = True
        _link(wants, pieces, one, other)


@inner
def _spread(near: I32, degree: I32, wanted: Flags, start: int, hops: I32, queue: I32) -> int:
    """Hops from a broker to all that want the topic, over those that want it; how many are reached."""
    hops[:] = -1
    hops[start] = 0
    queue[0] = start
    end, at = 1, 0
    while at < end:
        here = queue[at]
        at += 1
        for k in range(degree[here]):
            there = near[here, k]
            if wanted[there] and hops[there] < 0:
                hops[there] = hops[here] + 1
                queue[end] = there
                end += 1
    return end


@inner
def _neighbours(links: Flags) -> tuple[I32, I32]:
    brokers = len(links)
    near = np.zeros((brokers, brokers), np.int32)
    degree = np.zeros(brokers, np.int32)
    for one in range(brokers):
        for other in range(brokers):
            if links[one, other]:
                near[one, degree[one]] = other
                degree[one] += 1
    return near, degree


@kernel
def connected(wants: Flags, links: Flags) -> bool:
    """Whether every topic is in one piece."""
    near, degree = _neighbours(links)
    hops = np.empty(len(links), np.int32)
    queue = np.empty(len(links), np.int32)
    for topic in range(wants.shape[0]):
        total = wants[topic].sum()
        if total > 1 and _spread(near, degree, wants[topic], int(np.argmax(wants[topic])), hops, queue) < total:
            return False
    return True


@kernel
def spread_events(wants: Flags, links: Flags, counts: I32, published: I64, users: F64, sums: F64) -> None:
    """Add: events, messages, deliveries to brokers and their delay, deliveries to users and their delay.

    A publisher's broker that does not want the topic sends to the lowest-numbered that does: one hop more. Each broker
    that wants it is sent the event once. `counts` [B, P] users, `users` [B] their share.
    """
    near, degree = _neighbours(links)
    brokers = len(links)
    hops = np.empty(brokers, np.int32)
    queue = np.empty(brokers, np.int32)
    for topic in range(wants.shape[0]):
        wanted, events = wants[topic], float(published[topic])
        total = wanted.sum()
        if total == 0 or events == 0.0:
            continue
        outside = 0.0
        customers = 0.0
        for broker in range(brokers):
            customers += counts[broker, topic]
            if not wanted[broker]:
                outside += users[broker]
        entry = np.argmax(wanted)
        to_brokers, to_users = 0.0, 0.0
        for start in range(brokers):
            share = users[start] if wanted[start] else 0.0
            extra = 0.0
            if start == entry:
                share += outside
                extra = outside
            if share == 0.0:
                continue
            _spread(near, degree, wanted, start, hops, queue)
            for broker in range(brokers):
                if wanted[broker] and hops[broker] >= 0:
                    to_brokers += share * hops[broker] + extra
                    to_users += counts[broker, topic] * (share * hops[broker] + extra)
        sums[0] += events
        sums[1] += events * (total - 1 + outside)
        sums[2] += events * total
        sums[3] += events * to_brokers
        sums[4] += events * customers
        sums[5] += events * to_users
