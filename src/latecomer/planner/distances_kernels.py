"""Shortest paths from every broker, compiled.

Neighbours are in CSR form: those of i are `heads[starts[i] : starts[i + 1]]`, in rising order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import inner, kernel

Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[Any]


@inner
def breadth_first(starts: Ints, heads: Ints, source: int, hops: Ints, queue: Ints) -> None:
    """Hops from `source` to all; −1 for those out of reach."""
    hops[:] = -1
    hops[source] = 0
    queue[0] = source
    read, written = 0, 1
    while read < written:
        here = queue[read]
        read += 1
        for edge in range(starts[here], starts[here + 1]):
            other = heads[edge]
            if hops[other] < 0:
                hops[other] = hops[here] + 1
                queue[written] = other
                written += 1


@kernel
def widest_hops(starts: Ints, heads: Ints) -> int:
    """The longest of the shortest paths, or −1 when some pair has none."""
    count = len(starts) - 1
    hops = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    widest = 0
    for source in range(count):
        breadth_first(starts, heads, source, hops, queue)
        for other in range(count):
            if hops[other] < 0:
                return -1
            widest = max(widest, hops[other])
    return widest


@kernel
def fill_hops(starts: Ints, heads: Ints, distance: AnyInts, toward: AnyInts) -> None:
    """All hops, and per target the next broker on the way: the first (lowest) neighbour that is one hop nearer."""
    count = len(starts) - 1
    hops = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    for target in range(count):
        breadth_first(starts, heads, target, hops, queue)
        for here in range(count):
            distance[target, here] = hops[here]
            toward[target, here] = here
            for edge in range(starts[here], starts[here + 1]):
                if hops[heads[edge]] + 1 == hops[here]:
                    toward[target, here] = heads[edge]
                    break


@inner
def _before(a: int, b: int, length: Ints, hops: Ints) -> bool:
    """Whether a is nearer than b: by length, then hops, then index."""
    if length[a] != length[b]:
        return bool(length[a] < length[b])
    if hops[a] != hops[b]:
        return bool(hops[a] < hops[b])
    return a < b


@inner
def _rise(heap: Ints, place: Ints, at: int, length: Ints, hops: Ints) -> None:
    node = heap[at]
    while at > 0:
        above = (at - 1) // 2
        if not _before(node, heap[above], length, hops):
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = node
    place[node] = at


@inner
def _sink(heap: Ints, place: Ints, size: int, length: Ints, hops: Ints) -> None:
    node = heap[0]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _before(heap[below + 1], heap[below], length, hops):
            below += 1
        if not _before(heap[below], node, length, hops):
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = node
    place[node] = at


@inner
def dijkstra(starts: Ints, heads: Ints, lengths: Ints, source: int, length: Ints, hops: Ints, work: Ints) -> None:
    """Length of the shortest path to all, and the fewest links of such a path; `work` is [2, N] scratch."""
    heap, place = work[0], work[1]
    length[:] = np.iinfo(np.int64).max
    hops[:] = np.iinfo(np.int64).max
    place[:] = -1
    length[source] = 0
    hops[source] = 0
    heap[0] = source
    place[source] = 0
    size = 1
    while size > 0:
        here = heap[0]
        size -= 1
        place[here] = -2  # settled
        if size > 0:
            heap[0] = heap[size]
            _sink(heap, place, size, length, hops)
        for edge in range(starts[here], starts[here + 1]):
            other = heads[edge]
            if place[other] == -2:
                continue
            through = length[here] + lengths[edge]
            if through < length[other] or (through == length[other] and hops[here] + 1 < hops[other]):
                length[other] = through
                hops[other] = hops[here] + 1
                if place[other] < 0:
                    place[other] = size
                    heap[size] = other
                    size += 1
                _rise(heap, place, place[other], length, hops)


@kernel
def widest_length(starts: Ints, heads: Ints, lengths: Ints) -> int:
    """A bound on the longest shortest path (twice the farthest from broker 0), or −1 when somebody is out of reach."""
    count = len(starts) - 1
    length = np.empty(count, np.int64)
    dijkstra(starts, heads, lengths, 0, length, np.empty(count, np.int64), np.empty((2, count), np.int64))
    farthest = length.max()
    return -1 if farthest == np.iinfo(np.int64).max else 2 * farthest


@kernel
def fill_lengths(starts: Ints, heads: Ints, lengths: Ints, distance: AnyInts, toward: AnyInts) -> None:
    """All lengths, and per target the next broker on the way: the lowest on a shortest path with fewest links."""
    count = len(starts) - 1
    length = np.empty(count, np.int64)
    hops = np.empty(count, np.int64)
    work = np.empty((2, count), np.int64)
    for target in range(count):
        dijkstra(starts, heads, lengths, target, length, hops, work)
        for here in range(count):
            distance[target, here] = length[here]
            toward[target, here] = here
            for edge in range(starts[here], starts[here + 1]):
                other = heads[edge]
                if length[other] + lengths[edge] == length[here] and hops[other] + 1 == hops[here]:
                    toward[target, here] = other
                    break


@kernel
def fill_toward(distance: AnyInts, toward: AnyInts) -> None:
    """The next broker on the way when only the distances are known: the nearest in between, the lowest of equals."""
    count = len(distance)
    for target in range(count):
        for here in range(count):
            following, step = target, distance[here, target]
            for other in range(count):
                nearer = distance[here, other] < step or (distance[here, other] == step and other < following)
                between = distance[here, other] + distance[other, target] == distance[here, target]
                if nearer and between and distance[here, other] > 0:
                    following, step = other, distance[here, other]
            toward[target, here] = following
