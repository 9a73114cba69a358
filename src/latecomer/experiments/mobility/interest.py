"""Which broker wants which events when, the hops of every publication that follow, and what is in a broker's log.

*Holdings* are spans of time in which a client's subscription stands at a leaf, whether the client is there or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latecomer.experiments.mobility.movements import LEAVES
from latecomer.experiments.mobility.publications import EVENTS, Publications, matching
from latecomer.experiments.mobility.tree import DEGREE, BoolArray, FloatArray, IntArray, Tree

LEVELS = (LEAVES, LEAVES // DEGREE, LEAVES // DEGREE**2)
"""Brokers of each level below the root, from the leaves up."""


@dataclass(frozen=True, slots=True)
class Holdings:
    client: IntArray
    leaf: IntArray
    since: FloatArray
    until: FloatArray

    def and_also(self, other: Holdings) -> Holdings:
        return Holdings(
            np.concatenate([self.client, other.client]),
            np.concatenate([self.leaf, other.leaf]),
            np.concatenate([self.since, other.since]),
            np.concatenate([self.until, other.until]),
        )


def held(starts: IntArray, client: IntArray, leaf: IntArray, since: FloatArray) -> Holdings:
    """Each client's subscription stands at its start until it changes to a leaf, in the order of time."""
    clients = len(starts)
    who = np.concatenate([np.arange(clients), client])
    where = np.concatenate([starts, leaf])
    when = np.concatenate([np.full(clients, -np.inf), since])
    order = np.lexsort((when, who))
    who, where, when = who[order], where[order], when[order]
    until = np.full(len(who), np.inf)
    until[:-1] = np.where(who[1:] == who[:-1], when[1:], np.inf)
    return Holdings(who, where, when, until)


def wanted_at(publications: Publications, holdings: Holdings, subscriptions: IntArray) -> BoolArray:
    """For each publication, the leaves that want it; `subscriptions` are those of the clients."""
    found = np.zeros((len(publications.times), LEAVES), dtype=np.bool_)
    for event in range(EVENTS):
        numbers = np.flatnonzero(publications.events == event)
        times = publications.times[numbers]
        who = np.flatnonzero(matching()[:, event][subscriptions[holdings.client]])
        change = np.zeros((len(numbers) + 1, LEAVES), dtype=np.int64)
        np.add.at(change, (np.searchsorted(times, holdings.since[who]), holdings.leaf[who]), 1)
        np.add.at(change, (np.searchsorted(times, holdings.until[who]), holdings.leaf[who]), -1)
        found[numbers] = np.cumsum(change, axis=0)[:-1] > 0
    return found


def multicast_hops(publications: Publications, wanted: BoolArray, tree: Tree, *, climbs: bool = True) -> IntArray:
    """The hops of each publication: up to the root, always or (with advertisements) as far as somebody wants it
    beyond, and down to every leaf that wants it, each link once."""
    leaf = publications.places - tree.leaves[0]
    rows = np.arange(len(leaf))
    hops = np.zeros(len(leaf), dtype=np.int64)
    below, whole = wanted, wanted.sum(axis=1)
    for _ in LEVELS:
        hops += below.sum(axis=1) - below[rows, leaf]  # downwards, but for the link that it came up on
        inside = _inside(wanted, leaf, LEAVES // below.shape[1])
        hops += 1 if climbs else (whole > inside)
        below = np.any(below.reshape(len(leaf), -1, DEGREE), axis=2)
        leaf = leaf // DEGREE
    return hops


def _inside(wanted: BoolArray, group: IntArray, size: int) -> IntArray:
    """How many leaves below the broker `group` of a level want each publication."""
    counts = wanted.reshape(len(group), -1, size).sum(axis=2)
    found: IntArray = counts[np.arange(len(group)), group]
    return found


class Logs:
    """What each leaf has received lately: what it wants, what is published there, and perhaps what was sent to it
    because a client came."""

    def __init__(self, publications: Publications, wanted: BoolArray, tree: Tree, size: int) -> None:
        self.received = wanted.copy()
        self.received[np.arange(len(wanted)), publications.places - tree.leaves[0]] = True
        self.counted = np.cumsum(self.received, axis=0, dtype=np.int32)
        self.times = publications.times
        self.size = size
        self.brought: dict[int, tuple[list[int], list[float]]] = {}
        """Of each leaf, what was sent to it, and when."""

    def known(self, numbers: IntArray, leaves: IntArray, now: FloatArray) -> BoolArray:
        """Whether each publication is among the last ones of a leaf's log at some time."""
        last = np.searchsorted(self.times, now) - 1
        recent = self.counted[np.maximum(last, 0), leaves] - self.counted[numbers, leaves] < self.size
        found: BoolArray = self.received[numbers, leaves] & recent & (last >= 0)
        return found

    def fetched(self, numbers: IntArray, leaf: int, now: float) -> int:
        """How many are known where a log has what was sent to the leaf as well, which came in between and pushed others
        out; the rest is sent there now. To be asked in the order of time."""
        last = int(np.searchsorted(self.times, now)) - 1
        if last < 0 or not len(numbers):
            return 0
        known, times = self.brought.setdefault(leaf, ([], []))
        came = np.array(times)
        total = int(self.counted[last, leaf]) + len(known)
        places = self.counted[numbers, leaf] + np.searchsorted(came, self.times[numbers])
        found = self.received[numbers, leaf] & (total - places < self.size)
        before = np.searchsorted(self.times, came) - 1
        late = np.where(before >= 0, self.counted[before, leaf], 0) + np.arange(1, len(known) + 1)
        found |= np.isin(numbers, np.array(known, dtype=np.int64)[total - late < self.size])
        missing = numbers[~found].tolist()
        known += missing
        times += [now] * len(missing)
        return int(found.sum())
