"""`wrr`: weighted round robin; in each round a topic takes what its weight allows (planning §5.5)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.walk import assign_in_rounds
from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem


class Wrr(msgspec.Struct, frozen=True, tag="wrr"):
    """The heaviest topic chooses first, but light ones have their turn before it is done."""

    def assign(self, problem: Problem, votes: npt.NDArray[np.int64], stores: tuple[int, ...]) -> Placement:
        shares = relative_weights(problem.weights.tolist())
        return assign_in_rounds(problem, votes, stores, rounds(problem.replicas.tolist(), shares))


def relative_weights(weights: Sequence[int]) -> list[int]:
    """ξ[t]: the weight relative to the lightest topic, rounded up.

    Decision: the lightest that is asked for; a topic that nobody asks for takes one per round as the lightest does.
    """
    lightest = min((weight for weight in weights if weight > 0), default=1)
    return [max(1, -(-weight // lightest)) for weight in weights]


def rounds(replicas: Sequence[int], shares: Sequence[int]) -> list[list[int]]:
    """How many replicas each topic takes in each round (S2).

    Decision: the printed formula has min(ξ·k, what is left), its example min(ξ, what is left); the example counts. In
    its last round the one topic that is left takes all it still needs, which is the same as one round for each.
    """
    left = list(replicas)
    found: list[list[int]] = []
    while any(left):
        alone = sum(1 for count in left if count) == 1
        quota = [count if alone else min(count, share) for count, share in zip(left, shares, strict=True)]
        found.append(quota)
        left = [count - taken for count, taken in zip(left, quota, strict=True)]
    return found
