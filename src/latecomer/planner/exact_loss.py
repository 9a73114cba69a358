"""The placement that is best after the loss of its worst store, by integer programming, for small problems.

For every candidate that may be lost a topic at a broker pays its way ring by ring, as in `exact`, with that candidate
left out; the value is the highest of all these sums. The loss of a candidate that is no store costs what no loss costs,
which is never more, so all candidates can be asked. This holds only while every request is still answered after a loss,
so each topic that is asked for must have two replicas or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import highspy
import numpy as np
import numpy.typing as npt

from latecomer.planner.cost import worst_loss
from latecomer.planner.exact import SLACK, Program, certified, kept_limits, read, run, unit
from latecomer.planner.legality import Placement, check
from latecomer.planner.problem import Problem
from latecomer.planner.refine import measure

NODES = 2000
LARGEST_PROGRAM = 20_000
"""Entries of the demand that are not zero × candidates × candidates."""


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """The best placement known, and what no placement is below after its worst loss."""

    placement: Placement
    bound: int


def provable(problem: Problem) -> bool:
    """Small enough, and no loss leaves a request without an answer."""
    asked = problem.weights > 0
    candidates = int(problem.open.sum())
    entries = int(np.count_nonzero(problem.rates)) * candidates * candidates
    return entries <= LARGEST_PROGRAM and bool((problem.fewest[asked] >= 2).all())


def least_loss(problem: Problem, upper: Placement, nodes: int = NODES) -> LeastLoss:
    """At least as good as `upper` after the worst loss. It is proven to be the best when its loss costs the bound."""
    assert provable(problem)
    candidates = np.flatnonzero(problem.open)
    program, replica, store = kept_limits(problem, candidates, frozenset())
    highest = program.variable(1.0, whole=False, most=highspy.kHighsInf)
    for lost in range(len(candidates)):
        _after(program, problem, candidates, replica, lost, highest)
    value, finished, solution = run(program, nodes)
    best = upper
    if solution is not None:
        found = read(candidates, solution, replica, store)
        if not check(problem, found) and measure(problem, found, "worst-loss") < measure(problem, upper, "worst-loss"):
            best = found
    total = worst_loss(problem, best.replicas).cost
    proven = min(total, certified(problem, value)) if math.isfinite(value) else 0
    if finished and proven >= total * (1 - 2 * SLACK):
        proven = total
    return LeastLoss(best, proven)


def _after(
    program: Program,
    problem: Problem,
    candidates: npt.NDArray[np.int64],
    replica: npt.NDArray[np.int64],
    lost: int,
    highest: int,
) -> None:
    """`highest` is not below the cost when candidate number `lost` is none any more."""
    left = np.delete(np.arange(len(candidates)), lost)
    columns, entries, constant = [highest], [1.0], 0.0
    for topic, broker in np.argwhere(problem.rates > 0).tolist():
        rate = int(problem.rates[topic, broker]) / unit(problem)
        distance = problem.distance[candidates[left], broker].astype(np.int64)
        levels = np.unique(distance).tolist()
        constant += rate * levels[0]
        inside = len(candidates) - int(problem.fewest[topic])
        before, count = -1, 0
        for near, far in pairwise(levels):
            ring = [int(column) for column in replica[topic, left[distance == near]]]
            count += len(ring)
            if count > inside:
                break
            further = program.variable(0.0, whole=False)
            chain, since = ([], 1.0) if before < 0 else ([before], 0.0)
            weights = [1.0, *([-1.0] * len(chain)), *([1.0] * len(ring))]
            program.row([further, *chain, *ring], weights, since, highspy.kHighsInf)
            columns.append(further)
            entries.append(-rate * (far - near))
            before = further
    program.row(columns, entries, constant, highspy.kHighsInf)
