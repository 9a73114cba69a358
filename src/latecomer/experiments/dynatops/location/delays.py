"""Round trips: random, with a mean proportional to the distance (dynatops IV-A1), drawn once for every pair.

Left out by the paper: the distribution, and the unit in which a delay stands beside a relay in C = accO + w_d · accD.
Ours: uniform from half of the mean to one and a half, and a unit in which two brokers are 1 apart on average, so that
a hop weighs as much as a relay.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Chance = Literal["uniform", "exponential", "none"]


def factors(kind: Chance, count: int, random: np.random.Generator) -> Floats:
    """Numbers of mean one."""
    if kind == "uniform":
        return random.uniform(0.5, 1.5, count)
    if kind == "exponential":
        return random.exponential(1.0, count)
    return np.ones(count)


def round_trips(far_km: Floats, kind: Chance, random: np.random.Generator) -> Floats:
    """[brokers, brokers] the same both ways, none to itself."""
    count = len(far_km)
    drawn = factors(kind, count * count, random).reshape(count, count)
    upper = np.triu(far_km * drawn, 1)
    found: Floats = upper + upper.T
    return found


def unit_km(far_km: Floats) -> float:
    """The mean distance of two brokers."""
    count = len(far_km)
    return float(np.triu(far_km, 1).sum() / (count * (count - 1) / 2))
