"""Bayeux: one tree per topic on Tapestry, a prefix-routed overlay; brokers and trees stay where they are.

From every place a route resolves one digit of the target at a time. Which of the places that have the digit is in the
table is open to choice: the nearest, where there are delays (proximity neighbour selection), otherwise any. Tapestry
needs log16 N hops where Chord needs half of log2 N, so Bayeux on Chord (`bayeux_on_chord`) stands beside it.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay import Floats, Ints, Overlay

BASE = 16
BITS = 32
"""Of an id, in as many digits as they take."""


def random_ids(count: int, random: np.random.Generator, base: int = BASE) -> Ints:
    """[N, D] different ids of places, or what topics hash to."""
    digits = ceil(BITS / log2(base))
    while True:
        found = random.integers(0, base, (count, digits))
        if len(np.unique(found, axis=0)) == count:
            return found


def tapestry(ids: Ints, keys: Ints, prefer: Floats, base: int = BASE) -> Overlay:
    """`prefer` [N, N]: of two places with the digit that is needed, the one with the lower number is in the table."""
    return Overlay(next_stops(ids, prefer), np.array([surrogate(ids, key, base) for key in keys], np.int64))


def next_stops(ids: Ints, prefer: Floats) -> npt.NDArray[np.int32]:
    """[N, N] from each place to each other, with the tables that the preference makes."""
    count = len(ids)
    table = np.tile(np.arange(count, dtype=np.int32)[:, None], (1, count))
    families: list[Ints] = [np.arange(count)]
    for digit in range(ids.shape[1]):
        smaller: list[Ints] = []
        for family in families:
            parts = [family[ids[family, digit] == value] for value in np.unique(ids[family, digit])]
            for part in parts:
                others = np.setdiff1d(family, part)
                table[np.ix_(others, part)] = part[np.argmin(prefer[np.ix_(others, part)], axis=1)][:, None]
            smaller += [part for part in parts if len(part) > 1]
        families = smaller
    return table


def surrogate(ids: Ints, key: Ints, base: int = BASE) -> int:
    """The place responsible for a key: digit by digit, or the next higher digit that anybody has."""
    left = np.arange(len(ids))
    for digit in range(ids.shape[1]):
        away = (ids[left, digit] - key[digit]) % base
        left = left[away == away.min()]
    return int(left[0])
