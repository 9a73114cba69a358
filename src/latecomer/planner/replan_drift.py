"""How far demand has moved since a plan was made, in the words of planning §6.2, and the rule of thumb given there."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

POPULARITY_MOVED = 0.5
"""Below, reassignment gained less than 10 %, and could be skipped."""
LOCALITY_MOVED = 0.25
"""Above, reassignment gained at least 15 %, and is necessary."""
FLAT = 0.1
"""An exponent this small is none: its change is told as it is, not as a part of it."""

Floats: TypeAlias = npt.NDArray[np.float64]
Advice: TypeAlias = Literal["skip", "reassign"]


class Drift(msgspec.Struct, frozen=True):
    """Parts of 1: 0.5 means that an exponent changed by half of what it was."""

    popularity: float
    """Of the Zipf exponent of the topics' weights, with the topics in their old order."""
    locality: float
    """Of the Zipf exponent of how many brokers ask; or the part of the requests that come from elsewhere, if larger."""

    @property
    def advice(self) -> Advice:
        """The paper's rule of thumb."""
        return "reassign" if self.locality > LOCALITY_MOVED or self.popularity >= POPULARITY_MOVED else "skip"


def drift(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> Drift:
    """From rates [T, N] to rates [T, N] of the same topics and brokers.

    Decision: the paper's locality is how many brokers ask, around a fixed centre. Requests that wander off to other
    brokers are no less a change of place, so they count as well.
    """
    before, after = old.sum(axis=1).astype(np.float64), new.sum(axis=1).astype(np.float64)
    order = np.argsort(-before, kind="stable")
    popularity = _change(exponent(before[order]), exponent(after[order]))
    reach_before = (old > 0).sum(axis=1).astype(np.float64)
    reach_after = (new > 0).sum(axis=1).astype(np.float64)
    wide = np.argsort(-reach_before, kind="stable")
    spread = _change(exponent(reach_before[wide]), exponent(reach_after[wide]))
    return Drift(popularity, max(spread, displaced(old, new)))


def exponent(values: Floats) -> float:
    """s of the Zipf law v ∝ rank^-s that fits best (least squares of the logarithms); 0 when too few are positive."""
    there = values > 0
    if int(there.sum()) < 2:
        return 0.0
    rank = np.log(np.flatnonzero(there) + 1.0)
    level = np.log(values[there])
    rank -= rank.mean()
    return float(-(rank * (level - level.mean())).sum() / (rank**2).sum())


def displaced(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> float:
    """The part of the requests that would have to come from another broker for the old pattern of their topic."""
    asked = (old.sum(axis=1) > 0) & (new.sum(axis=1) > 0)
    weight = new.sum(axis=1)[asked].astype(np.float64)
    if not weight.sum():
        return 0.0
    before = old[asked] / old[asked].sum(axis=1, keepdims=True)
    after = new[asked] / new[asked].sum(axis=1, keepdims=True)
    apart = np.abs(before - after).sum(axis=1) / 2
    return float((weight * apart).sum() / weight.sum())


def _change(before: float, after: float) -> float:
    moved = abs(after - before)
    return moved / abs(before) if abs(before) >= FLAT else moved
