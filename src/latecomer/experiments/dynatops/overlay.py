"""A structured overlay: places, the routes between them, and the trees that the routes from one place form.

A comparator that routes otherwise (Bayeux on Tapestry) only brings another table of next stops. Brokers stand at
places; who stands where is the *configuration*, [B] the place of each broker, which re-positioning changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay_kernels import Trees, grow, lengths_along
from latecomer.model.ring import Ring, next_step

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Configuration = Ints
"""[B] the place of each broker."""

POINT_BITS = 32


@dataclass(frozen=True)
class Overlay:
    """Places with their routes, and the rendezvous point of every topic."""

    next_stop: npt.NDArray[np.int32]
    """[N, N] from a place towards another: the next one; a place itself on the diagonal. The routes from one place
    must form a tree."""
    roots: Ints
    """[P] the place that is the rendezvous point of a topic"""
    ring: Ring | None = None
    """Where it is a Chord ring; only on one can brokers be re-positioned."""

    @cached_property
    def trees(self) -> Trees:
        """Of all places that are a rendezvous point."""
        used, rows = np.unique(self.roots, return_inverse=True)
        return grow(self.next_stop, used.astype(np.int64), rows.astype(np.int64))

    def lengths(self, place: Configuration, delay: Floats | None = None) -> Lengths:
        """Delays along the routes of a configuration; `delay` [B, B] is that of one hop, None: 1."""
        trees = self.trees
        if delay is None:
            return Lengths(trees.depth.astype(np.float64), trees.up.astype(np.float64), np.ones((1, 1)))
        down, up = lengths_along(trees, self.next_stop, occupants(place), delay)
        return Lengths(down, up, delay)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Delays by row of the trees and by place."""

    down: Floats
    """[R, N] from the rendezvous point along the tree"""
    up: Floats
    """[R, N] to the rendezvous point by a key-based route, which need not be the same way"""
    edge: Floats
    """[B, B] of one hop; [1, 1] where all are alike"""


def occupants(place: Configuration) -> Ints:
    """[N] the broker at each place."""
    who = np.empty(len(place), np.int64)
    who[place] = np.arange(len(place))
    return who


def chord(ring: Ring, points: Ints) -> Overlay:
    """A Chord ring; `points` are where topics hash to.

    A finger may be the target itself: the farthest finger not beyond the target (`model/ring`).
    """
    fingers = ring.all_fingers()
    count = len(fingers)
    table = np.empty((count, count), np.int32)
    for at, steps in enumerate(fingers):
        table[at, at] = at
        for away in range(1, count):
            table[at, (at + away) % count] = (at + next_step(steps, away)) % count
    return Overlay(table, np.array([ring.owner(int(point)) for point in points], np.int64), ring)


def random_ring(brokers: int, random: np.random.Generator) -> Ring:
    """Positions as consistent hashing gives them: anywhere."""
    positions: set[int] = set()
    while len(positions) < brokers:
        positions |= set(random.integers(0, 1 << POINT_BITS, brokers - len(positions)).tolist())
    return Ring(tuple(sorted(positions)), POINT_BITS)


def random_points(topics: int, random: np.random.Generator) -> Ints:
    """What topics hash to."""
    return random.integers(0, 1 << POINT_BITS, topics)
