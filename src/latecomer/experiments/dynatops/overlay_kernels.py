"""Trees and delays along routes, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import kernel

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I16 = npt.NDArray[np.int16]
F64 = npt.NDArray[np.float64]


class Trees(NamedTuple):
    """The routes from every rendezvous point to all places, by row and place."""

    row: I64
    """[P] the row of a topic"""
    root: I64
    """[R] the place of the rendezvous point"""
    parent: I32
    """[R, N] -1 at the root"""
    depth: I16
    """[R, N] hops from the root"""
    up: I16
    """[R, N] hops of the key-based route to the root"""
    order: I32
    """[R, N] places, those above first"""


@kernel
def grow(next_stop: I32, roots: I64, row: I64) -> Trees:
    """Walk all routes from and to the roots."""
    count = next_stop.shape[0]
    parent = np.full((len(roots), count), -1, np.int32)
    depth = np.zeros((len(roots), count), np.int16)
    up = np.zeros((len(roots), count), np.int16)
    order = np.zeros((len(roots), count), np.int32)
    for r in range(len(roots)):
        for target in range(count):
            at = roots[r]
            while at != target:
                step = next_stop[at, target]
                parent[r, step] = at
                depth[r, step] = depth[r, at] + 1
                at = step
            at = np.int64(target)
            while at != roots[r]:
                at = next_stop[at, roots[r]]
                up[r, target] += 1
        order[r] = np.argsort(depth[r], kind="mergesort").astype(np.int32)
    return Trees(row, roots, parent, depth, up, order)


@kernel
def lengths_along(trees: Trees, next_stop: I32, who: I64, delay: F64) -> tuple[F64, F64]:
    """[R, N] down the trees and up by key-based routes, with the delay of each hop between two brokers."""
    rows, count = trees.parent.shape
    down = np.zeros((rows, count))
    up = np.zeros((rows, count))
    for r in range(rows):
        for at in trees.order[r, 1:]:
            above = trees.parent[r, at]
            down[r, at] = down[r, above] + delay[who[above], who[at]]
        for start in range(count):
            stop = np.int64(start)
            while stop != trees.root[r]:
                after = np.int64(next_stop[stop, trees.root[r]])
                up[r, start] += delay[who[stop], who[after]]
                stop = after
    return down, up
