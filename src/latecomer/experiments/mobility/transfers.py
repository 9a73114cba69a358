"""How long it takes to send stored events from one broker to another, when links have a speed.

Every link carries so many messages a second in each direction, and divides them equally among the transfers that pass
it; a transfer is as fast as the worst link on its way lets it be. A client that comes to a third broker while its
events are still under way to the second waits until they are there: the session moves as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latecomer.experiments.mobility.movements import LEAVES
from latecomer.experiments.mobility.transfers_kernels import run
from latecomer.experiments.mobility.tree import FloatArray, IntArray, Tree


@dataclass(frozen=True, slots=True)
class Fetches:
    """Moves that send events when the client comes, in any order."""

    client: IntArray
    left: FloatArray
    ready: FloatArray
    """When the new broker can receive them."""
    source: IntArray
    """Leaves."""
    target: IntArray
    before_left: IntArray
    """Publications for the client before it left."""
    before_ready: IntArray


@dataclass(frozen=True, slots=True)
class Transfers:
    since: IntArray
    """The fetch (its place in the list) before whose departure the client has had everything: the same one, or an
    earlier one that had not ended when the client left again."""
    begin: FloatArray
    end: FloatArray
    most: int
    """The most that were under way at once."""


def ways(tree: Tree) -> IntArray:
    """The links on the way between any two leaves, filled up with a link that nobody waits for."""
    nobody = 2 * len(tree.parents)
    found = np.full((LEAVES, LEAVES, 2 * max(tree.depths)), nobody, dtype=np.int64)
    for a in range(LEAVES):
        for b in range(LEAVES):
            way = tree.way(tree.leaves[a], tree.leaves[b])
            found[a, b, : len(way)] = way
    return found


def transfer(fetches: Fetches, spared: IntArray, links: IntArray, speed: float, *, again: bool = True) -> Transfers:
    """Let them run; `links` are those of `ways`, and `spared` how many events each need not send. `again`: a client is
    given nothing before it can be given everything, so what it left without is sent once more with the rest."""
    order = np.lexsort((fetches.left, fetches.ready))
    back = np.argsort(order)
    way = links[fetches.source, fetches.target]
    since, begin, end, most = run(
        fetches.client[order],
        fetches.left[order],
        fetches.ready[order],
        fetches.before_left[order],
        fetches.before_ready[order],
        spared[order],
        again,
        way[order],
        int(links.max()),
        float(speed),
    )
    return Transfers(order[since][back], begin[back], end[back], int(most))
