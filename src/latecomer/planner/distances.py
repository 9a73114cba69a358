"""How far brokers are apart, in compact integers, and the way from each to each.

The way from i to j is that of a tree per target j: `toward[j, i]` is the next broker, the lowest of those that are on
a shortest path. So it does not depend on the order of links, and on a tree it is the only way there is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.model.errors import SettingsError
from latecomer.model.plan import Distance
from latecomer.model.topology import Topology
from latecomer.planner.distances_kernels import fill_hops, fill_lengths, fill_toward, widest_hops, widest_length

Matrix = npt.NDArray[Any]
"""Integers of the smallest type that fits."""


class Distances(NamedTuple):
    """Both [N, N]: `distance[i, j]` and `toward[j, i]`, the next broker from i to j."""

    distance: Matrix
    toward: Matrix


def compact(largest: int) -> np.dtype[Any]:
    """The smallest integers that hold 0…largest."""
    for kind in (np.uint8, np.uint16, np.int32):
        if largest <= np.iinfo(kind).max:
            return np.dtype(kind)
    return np.dtype(np.int64)


def positions(count: int) -> np.dtype[Any]:
    """The smallest signed integers that number so many brokers."""
    return np.dtype(np.int16) if count <= np.iinfo(np.int16).max else np.dtype(np.int32)


def distances_of(topology: Topology, distance: Distance = "hops") -> Distances:
    """All shortest paths of a connected network, in hops or in microseconds.

    Decision: among the fastest paths those with the fewest links count, so that links without latency make no circles.
    """
    topology.check()
    count = len(topology.nodes)
    starts, heads, lengths = _neighbours(topology)
    # A sum of lengths cannot overflow: 10⁶ links of at most an hour are below 2⁶³ µs.
    largest = int(widest_hops(starts, heads) if distance == "hops" else widest_length(starts, heads, lengths))
    found = Distances(np.empty((count, count), compact(largest)), np.empty((count, count), positions(count)))
    if distance == "hops":
        fill_hops(starts, heads, *found)
    else:
        fill_lengths(starts, heads, lengths, *found)
    return found


def distances_from_matrix(matrix: npt.ArrayLike) -> Distances:
    """The same from a symmetric matrix of distances, for small networks; its ways go over the brokers in between."""
    given = np.asarray(matrix)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not len(given):
        raise SettingsError("distance", f"a matrix of distances must be square, not {given.shape}")
    if not np.issubdtype(given.dtype, np.integer) or given.min() < 0:
        raise SettingsError("distance", "distances must be whole numbers and not negative")
    if given.diagonal().any() or not np.array_equal(given, given.T):
        raise SettingsError("distance", "distances must be symmetric, and zero from a broker to itself")
    wide = np.ascontiguousarray(given, dtype=np.int64)
    toward = np.empty(wide.shape, positions(len(wide)))
    fill_toward(wide, toward)
    return Distances(wide.astype(compact(int(wide.max()))), toward)


def _neighbours(topology: Topology) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """CSR: starts, neighbours in rising order, latencies."""
    position = {node.id: index for index, node in enumerate(topology.nodes)}
    ends = np.array([(position[link.a], position[link.b]) for link in topology.links], np.int64).reshape(-1, 2)
    latency = np.array([link.latency_us for link in topology.links], np.int64)
    tails = np.concatenate([ends[:, 0], ends[:, 1]])
    heads = np.concatenate([ends[:, 1], ends[:, 0]])
    lengths = np.concatenate([latency, latency])
    order = np.lexsort((heads, tails))
    starts = np.zeros(len(topology.nodes) + 1, np.int64)
    starts[1:] = np.cumsum(np.bincount(tails, minlength=len(topology.nodes)))
    return starts, heads[order], lengths[order]
