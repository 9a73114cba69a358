"""GeoPS: a hierarchy of squares over the map (our reconstruction).

The paper says: "a topic-based pub/sub service specific to location-based subscriptions. It takes advantage of
geography-aware overlay hierarchy and geocasting technique", on 32 × 32 cells. Ours: the broker of a cell is the
rendezvous point of the cell's topic. Four squares make a larger one, up to the whole map; the broker of a larger square
is that of its four which is nearest to its middle. A message climbs from the broker of a square to that of the next
larger one until the target is inside, and goes down the same way: no broker knows more than its square. Users are at
the broker of their cell. `branches` says how many squares make one, by side; with as many as there are cells, every
broker knows every other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay import Overlay
from latecomer.experiments.dynatops.workload import NOTHING, Workload

Ints = npt.NDArray[np.int64]

SIDE = 32
BRANCHES = (2, 2, 2, 2, 2)


def geops(side: int = SIDE, branches: tuple[int, ...] = BRANCHES) -> Overlay:
    """Cells in rows from the south, and in each from the west; `branches` from the smallest squares up."""
    assert int(np.prod(branches)) == side, "squares do not make up the map"
    leads = _leaders(side, branches)
    levels, count = len(branches), side * side
    everybody = np.arange(count)
    top = np.zeros(count, np.int64)
    for level in range(1, levels + 1):
        top[leads[level] == everybody] = level
    table = np.empty((count, count), np.int32)
    for at in range(count):
        own = top[at]
        following = np.full(count, at, np.int32)
        found = np.zeros(count, np.bool_)
        found[at] = True
        inside = _square(side, branches, own) == _square(side, branches, own)[at]
        for level in range(own - 1, -1, -1):
            here = inside & ~found & (leads[level] != at)
            following[here] = leads[level][here]
            found |= here
        if own < levels:
            following[~inside] = leads[own + 1][at]
        table[at] = following
    return Overlay(table, np.arange(count))


def regrouped(workload: Workload, squares: Ints, count: int) -> Workload:
    """The same people on other cells: `squares` [Q] is where the middle of each cell lies.

    Where in a cell somebody is was made up, so they are taken to be in its middle. Who goes from one cell to another
    in the same square does not move.
    """
    changes = workload.changes
    published = np.zeros((workload.steps, count), np.int64)
    np.add.at(published.T, squares, workload.published.T)
    return Workload(
        brokers=count,
        topics=count,
        slots=np.where(workload.slots >= 0, squares[workload.slots], NOTHING),
        where=squares[workload.where],
        changes=replace(changes, what=np.where(changes.what >= 0, squares[changes.what], NOTHING)),
        published=published,
    )


def _square(side: int, branches: tuple[int, ...], level: int) -> Ints:
    """[cells] the square of each at a level; 0: the cell itself."""
    size = int(np.prod(branches[:level]))
    row, column = np.divmod(np.arange(side * side), side)
    found: Ints = (row // size) * side + column // size
    return found


def _leaders(side: int, branches: tuple[int, ...]) -> list[Ints]:
    """Per level [cells] the broker of the square that the cell is in."""
    row, column = np.divmod(np.arange(side * side), side)
    leads = [np.arange(side * side)]
    for level in range(1, len(branches) + 1):
        size = int(np.prod(branches[:level]))
        far = (row % size - (size - 1) / 2) ** 2 + (column % size - (size - 1) / 2) ** 2
        square = _square(side, branches, level)
        candidate = leads[-1] == np.arange(side * side)
        leader = np.zeros(side * side, np.int64)
        for number in np.unique(square):
            within = np.flatnonzero((square == number) & candidate)
            leader[square == number] = within[np.argmin(far[within])]
        leads.append(leader)
    return leads
