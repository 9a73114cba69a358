"""Where only hops count, positions are a linear sum assignment problem, solved exactly (DYNATOPS lemma 3.1).

It is also a lower bound where relays count too, as they only add to the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from latecomer.planner.overlay.problem import Configuration, Ints, OverlayProblem


@dataclass(frozen=True, slots=True)
class Assignment:
    """The fewest hops, and positions that have them."""

    configuration: Configuration
    bound: int
    """No configuration costs less: delay_weight · hops, plus `stay` for those that move."""


def hop_costs(problem: OverlayProblem) -> npt.NDArray[np.float64]:
    """[B, N] eq. 14: publications times hops from each rendezvous point, of each broker at each position.

    Whole numbers below 2**53, so exact in floating point.
    """
    _, depths, rows = problem.trees
    hops = depths[rows].astype(np.float64) * problem.counts[:, None]
    found: npt.NDArray[np.float64] = problem.matrix().astype(np.float64) @ hops
    return found


def fewest_hops(
    problem: OverlayProblem, home: Configuration | None = None, stay: int = 0, *, weight: int | None = None
) -> Assignment:
    """`stay` is added for every broker that is not at `home`: the cost per mover of eq. 11, exactly.

    `weight` of a hop: that of the problem, unless said otherwise.
    """
    prices = hop_costs(problem)
    prices *= problem.delay_weight if weight is None else weight
    if home is not None and stay:
        prices += stay
        prices[np.arange(len(home)), home] -= stay
    brokers, places = linear_sum_assignment(prices)
    found: Ints = np.empty(len(problem.brokers), np.int64)
    found[brokers] = places
    return Assignment(found, round(float(prices[brokers, places].sum())))
