"""The greedy runs of planning §5.1, compiled: one per topic and assumed origin, N·T of them for one plan.

Two ways to reach a store. *path* is the paper's: a request travels towards the origin and the first store on its way
answers. *nearest*: the nearest of all picks and the origin answers, as the network does in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from latecomer.planner.compiling import inner, kernel

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Matrix = npt.NDArray[Any]


# --- path: the tree of ways to one origin ---


@kernel
def lay_out(toward: Matrix, origin: int, order: Places, above: Places, ends: Places) -> None:
    """The tree of ways to `origin`, every branch in one piece: position → broker, position above, end of its branch."""
    count = len(toward)
    first = np.full(count, -1, np.int64)
    following = np.full(count, -1, np.int64)
    for broker in range(count - 1, -1, -1):
        if broker != origin:
            parent = toward[broker]
            following[broker] = first[parent]
            first[parent] = broker
    stack = np.empty(count, np.int64)
    place = np.empty(count, np.int64)
    stack[0] = origin
    depth, position = 1, 0
    while depth > 0:
        depth -= 1
        broker = stack[depth]
        order[position] = broker
        place[broker] = position
        above[position] = 0 if broker == origin else place[toward[broker]]
        position += 1
        child = first[broker]
        while child >= 0:
            stack[depth] = child
            depth += 1
            child = following[child]
    for at in range(count):
        ends[at] = at + 1
    for at in range(count - 1, 0, -1):
        ends[above[at]] = max(ends[above[at]], ends[at])


@inner
def best_of(gain: Ints, order: Places) -> int:
    """The position of the largest gain, of equals that of the lowest broker; −1 when there is none above zero."""
    largest = np.int64(0)
    for at in range(len(gain)):  # without a branch: several at a time
        largest = max(largest, gain[at])
    best = -1
    if largest > 0:
        for at in range(len(gain)):
            if gain[at] == largest and (best < 0 or order[at] < order[best]):
                best = at
    return best


@kernel
def path_run(
    order: Places, above: Places, ends: Places, hops: Ints, may: Ints, rates: Ints, most: int, work: Ints, chosen: Ints
) -> int:
    """One greedy run; writes the picks to `chosen` in order of choice and returns how many there are.

    `flow` is the demand that passes a position and that no pick below it answers; `saved` the distance from it to the
    nearest pick above, or to the origin. The gain of a pick is their product. A pick takes its flow from the positions
    between it and the pick above, and shortens what those below it can save.
    """
    count = len(order)
    flow, saved, gain = work[0], work[1], work[2]
    for at in range(count):
        flow[at] = rates[order[at]]
    for at in range(count - 1, 0, -1):
        flow[above[at]] += flow[at]
    for at in range(count):
        saved[at] = hops[at]
        gain[at] = flow[at] * hops[at] * may[at]
    made = 0
    while made < most:
        pick = best_of(gain, order)
        if pick < 0:
            break
        chosen[made] = order[pick]
        made += 1
        caught, nearer = flow[pick], saved[pick]
        at = int(above[pick])
        while at > 0 and saved[at] >= 0:
            flow[at] -= caught
            gain[at] = flow[at] * saved[at] * may[at]
            at = int(above[at])
        saved[pick] = -1  # a pick; and no pick is picked again
        gain[pick] = 0
        at = pick + 1
        while at < ends[pick]:
            if saved[at] < 0:
                at = int(ends[at])
                continue
            saved[at] -= nearer
            gain[at] = flow[at] * saved[at] * may[at]
            at += 1
    return made


@kernel
def path_votes(
    distance: Matrix, toward: Matrix, rates: Ints, entry: Ints, allowed: Bools, picks: Ints, origins: Ints, votes: Ints
) -> None:
    """Adds the picks of all runs with these origins to `votes` [T, N]."""
    topics, count = rates.shape
    order = np.empty(count, np.int32)
    above = np.empty(count, np.int32)
    ends = np.empty(count, np.int32)
    hops = np.empty(count, np.int64)
    may = np.empty(count, np.int64)
    work = np.empty((3, count), np.int64)
    chosen = np.empty(count, np.int64)
    for origin in origins:
        if entry[origin] == 0:
            continue
        lay_out(toward[origin], origin, order, above, ends)
        for at in range(count):
            hops[at] = distance[origin, order[at]]
            may[at] = np.int64(allowed[order[at]])
        for topic in range(topics):
            made = path_run(order, above, ends, hops, may, rates[topic], picks[topic], work, chosen)
            for at in range(made):
                votes[topic, chosen[at]] += entry[origin]


# --- nearest: lazy evaluation ---


@inner
def _sink(heap: Ints, size: int, at: int, value: Ints) -> None:
    """Restores the heap below `at`: largest value first, lowest index of equals."""
    node = heap[at]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size:
            left, right = heap[below], heap[below + 1]
            if value[right] > value[left] or (value[right] == value[left] and right < left):
                below += 1
        child = heap[below]
        if value[child] < value[node] or (value[child] == value[node] and child > node):
            break
        heap[at] = child
        at = below
    heap[at] = node


@kernel
def sums_of_distances(distance: Matrix, rates: Ints, found: Ints) -> None:
    """Per broker what all requests would cost if it alone answered."""
    found[:] = 0
    for asking in range(len(rates)):
        rate = rates[asking]
        if rate > 0:
            row = distance[asking]
            for at in range(len(found)):
                found[at] += rate * np.int64(row[at])


@kernel
def nearest_run(
    distance: Matrix, rates: Ints, sums: Ints, allowed: Bools, origin: int, most: int, work: Ints, chosen: Ints
) -> int:
    """One greedy run with the nearest of picks and origin answering; lazy, with the picks of the eager form.

    A gain never grows when more is picked, so an old gain is a bound. The first bound costs no loop: with x the
    distance that a request saves, max(0, x) = (x + |x|) / 2, |x| ≤ d(i, j), and the sum of x is that of `sums`.
    """
    count = len(rates)
    near, bound, fresh, heap = work[0], work[1], work[2], work[3]
    total = rates.sum()
    size = 0
    for at in range(count):
        near[at] = distance[origin, at]
        fresh[at] = -1
        bound[at] = (sums[origin] - sums[at] + total * np.int64(distance[origin, at])) // 2
        if allowed[at] and at != origin and bound[at] > 0:
            heap[size] = at
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        _sink(heap, size, at, bound)
    made = 0
    while made < most and size > 0:
        top = heap[0]
        row = distance[top]
        if fresh[top] != made:
            gain = np.int64(0)
            for at in range(count):
                gain += rates[at] * max(np.int64(0), near[at] - np.int64(row[at]))
            bound[top], fresh[top] = gain, made
        else:
            chosen[made] = top
            made += 1
            for at in range(count):
                near[at] = min(near[at], np.int64(row[at]))
            bound[top] = 0
        if bound[top] == 0:  # and never more
            size -= 1
            heap[0] = heap[size]
        _sink(heap, size, 0, bound)
    return made


@kernel
def nearest_votes(
    distance: Matrix, toward: Matrix, rates: Ints, entry: Ints, allowed: Bools, picks: Ints, origins: Ints, votes: Ints
) -> None:
    """Adds the picks of all runs with these origins to `votes` [T, N]; `toward` is not needed."""
    topics, count = rates.shape
    work = np.empty((4, count), np.int64)
    sums = np.empty(count, np.int64)
    chosen = np.empty(count, np.int64)
    for topic in range(topics):
        sums_of_distances(distance, rates[topic], sums)
        for origin in origins:
            if entry[origin] == 0:
                continue
            made = nearest_run(distance, rates[topic], sums, allowed, origin, picks[topic], work, chosen)
            for at in range(made):
                votes[topic, chosen[at]] += entry[origin]


# --- both cores: whole numbers add up to the same in any order ---


@njit(cache=True, parallel=True)
def path_votes_parallel(
    distance: Matrix, toward: Matrix, rates: Ints, entry: Ints, allowed: Bools, picks: Ints, votes: Ints
) -> None:
    """The votes of all origins, in the parts of `votes` [parts, T, N]."""
    parts = len(votes)
    for part in prange(parts):
        origins = np.arange(part, len(entry), parts)
        path_votes(distance, toward, rates, entry, allowed, picks, origins, votes[part])


@njit(cache=True, parallel=True)
def nearest_votes_parallel(
    distance: Matrix, toward: Matrix, rates: Ints, entry: Ints, allowed: Bools, picks: Ints, votes: Ints
) -> None:
    """The votes of all origins, in the parts of `votes` [parts, T, N]."""
    parts = len(votes)
    for part in prange(parts):
        origins = np.arange(part, len(entry), parts)
        nearest_votes(distance, toward, rates, entry, allowed, picks, origins, votes[part])
