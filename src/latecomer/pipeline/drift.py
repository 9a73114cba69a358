"""Whether demand has moved, or only looks as if it had because few requests were seen.

Two samples of the same demand never agree, and the exponents of planning §6.2 least of all: one topic that nobody
happened to ask for changes them. So this looks at the part of the requests that is for other topics than before, and
at the part that comes from other brokers, and puts the question to chance itself (a permutation test): all requests,
old and new, are shuffled and dealt out again and again. A demand has drifted when it has moved further than in any of
these deals. How much that matters is for `planner.replan` to say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.planner.replan_drift import displaced

DRAWS = 199
"""Further than in all of them happens by chance once in 200 looks."""
DRAWS_LEAST = 19
CELLS_MAX = 20_000_000
"""Of all draws together: large tables are drawn less often."""
REQUESTS_MAX = 100_000_000
"""With more, chance moves nothing that anybody would see."""
SEED = 1

Ints = npt.NDArray[np.int64]


class Moved(msgspec.Struct, frozen=True):
    """Parts of all requests."""

    popularity: float
    """Are for other topics."""
    locality: float
    """Come from other brokers than the requests for their topic did."""


class Finding(msgspec.Struct, frozen=True):
    """How far demand has moved, and how far chance alone moves it."""

    moved: Moved
    chance: Moved
    requests: int
    """By which the new demand is known."""

    @property
    def popularity(self) -> bool:
        """It has drifted."""
        return self.moved.popularity > self.chance.popularity

    @property
    def locality(self) -> bool:
        return self.moved.locality > self.chance.locality

    @property
    def drifted(self) -> bool:
        return self.popularity or self.locality


def find_drift(old: Ints, new: Ints, old_requests: int, new_requests: int) -> Finding:
    """From rates [T, N] to rates [T, N] of the same topics and brokers, known by so many requests each.

    `old_requests` 0: the old demand was not measured but decided, and is exact.
    """
    nothing = Moved(0.0, 0.0)
    old_requests, new_requests = min(old_requests, REQUESTS_MAX), min(new_requests, REQUESTS_MAX)
    if not old.sum() or not new.sum() or not new_requests:
        return Finding(nothing, nothing, new_requests)
    chance = np.random.default_rng(SEED)
    popularity = locality = 0.0
    for first, second in _deals(chance, old, new, old_requests, new_requests):
        if first.any() and second.any():
            found = moved(first, second)
            popularity, locality = max(popularity, found.popularity), max(locality, found.locality)
    return Finding(moved(old, new), Moved(popularity, locality), new_requests)


def _deals(
    chance: np.random.Generator, old: Ints, new: Ints, old_requests: int, new_requests: int
) -> Iterator[tuple[Ints, Ints]]:
    """Two samples without a difference but chance, again and again."""
    both = as_requests(old, old_requests) + as_requests(new, new_requests) if old_requests else old.ravel()
    places = np.flatnonzero(both)
    there = both[places]
    for _ in range(draws(old.size)):
        second = np.zeros(old.shape, np.int64)
        if old_requests:
            second.reshape(-1)[places] = chance.multivariate_hypergeometric(there, new_requests, method="marginals")
            yield both.reshape(old.shape) - second, second
        else:
            second.reshape(-1)[places] = chance.multinomial(new_requests, there / there.sum())
            yield old, second


def as_requests(rates: Ints, requests: int) -> Ints:
    """So many requests, dealt out in the proportion of the rates: what is left of one goes to the next place."""
    sums = np.concatenate(([0.0], np.cumsum(rates.ravel() / rates.sum()))) * requests
    whole: Ints = np.rint(sums).astype(np.int64)
    return whole[1:] - whole[:-1]


def moved(old: Ints, new: Ints) -> Moved:
    """Both must have requests."""
    before, after = (one.sum(axis=1) / one.sum() for one in (old, new))
    return Moved(float(np.abs(before - after).sum() / 2), displaced(old, new))


def draws(cells: int) -> int:
    return max(DRAWS_LEAST, min(DRAWS, CELLS_MAX // max(1, cells)))
