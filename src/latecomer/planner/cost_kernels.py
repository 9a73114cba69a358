"""Sums over who is served from where, compiled.

Replicas are in CSR form: those of topic t are `places[starts[t] : starts[t + 1]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import kernel

Ints = npt.NDArray[np.int64]
Matrix = npt.NDArray[Any]

NOBODY = -1


@kernel
def topic_costs(distance: Matrix, rates: Ints, starts: Ints, places: Ints) -> Ints:
    """[T] requests times the distance to the nearest replica."""
    topics, count = rates.shape
    found = np.zeros(topics, np.int64)
    nearest = np.empty(count, np.int64)
    for topic in range(topics):
        nearest[:] = np.iinfo(np.int64).max
        for at in range(starts[topic], starts[topic + 1]):
            row = distance[places[at]]
            for broker in range(count):
                nearest[broker] = min(nearest[broker], np.int64(row[broker]))
        total = 0
        for broker in range(count):
            if rates[topic, broker] > 0:
                total += rates[topic, broker] * nearest[broker]
        found[topic] = total
    return found


@kernel
def nearest_replica(distance: Matrix, places: Ints, found: Ints) -> None:
    """Per broker the nearest of `places`, the lowest index of equals."""
    for broker in range(len(distance)):
        best = NOBODY
        for at in range(len(places)):
            place = places[at]
            if best == NOBODY:
                best = place
                continue
            here, there = distance[place, broker], distance[best, broker]
            if here < there or (here == there and place < best):
                best = place
        found[broker] = best


@kernel
def store_loads(distance: Matrix, rates: Ints, starts: Ints, places: Ints) -> Ints:
    """[N] requests for which a broker is the nearest replica."""
    topics, count = rates.shape
    found = np.zeros(count, np.int64)
    nearest = np.empty(count, np.int64)
    for topic in range(topics):
        nearest_replica(distance, places[starts[topic] : starts[topic + 1]], nearest)
        for broker in range(count):
            if nearest[broker] != NOBODY:
                found[nearest[broker]] += rates[topic, broker]
    return found


@kernel
def single_losses(distance: Matrix, rates: Ints, starts: Ints, places: Ints) -> tuple[Ints, Ints]:
    """[N] how much the cost grows when the store there is lost, and [N] the requests that then nobody serves."""
    topics, count = rates.shape
    more = np.zeros(count, np.int64)
    unserved = np.zeros(count, np.int64)
    for topic in range(topics):
        first, last = starts[topic], starts[topic + 1]
        for broker in range(count):
            rate = rates[topic, broker]
            if rate == 0 or first == last:
                continue
            best, nearest, second = NOBODY, np.int64(0), np.int64(0)
            alone = True
            for at in range(first, last):
                there = np.int64(distance[places[at], broker])
                if best == NOBODY:
                    best, nearest = places[at], there
                elif there < nearest or (there == nearest and places[at] < best):
                    best, second, nearest, alone = places[at], nearest, there, False
                elif alone or there < second:
                    second, alone = there, False
            if alone:
                more[best] -= rate * nearest
                unserved[best] += rate
            else:
                more[best] += rate * (second - nearest)
    return more, unserved
