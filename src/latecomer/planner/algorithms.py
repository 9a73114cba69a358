"""The planner's algorithms by name: the union is the registry, from which command line and documentation come."""

from __future__ import annotations

from typing import TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.grd_opt import GrdOpt
from latecomer.planner.assignment.rnd import Rnd
from latecomer.planner.assignment.seq import Seq
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.greedy import votes as greedy_votes
from latecomer.planner.legality import Infeasible, Placement, check, infeasible
from latecomer.planner.placement import stores_by_votes
from latecomer.planner.problem import Problem

Ints = npt.NDArray[np.int64]
Algorithm: TypeAlias = Seq | Wrr | GrdOpt | Rnd
ALGORITHMS: dict[str, Algorithm] = {str(kind.__struct_config__.tag): kind() for kind in get_args(Algorithm)}
"""Each with its defaults."""
NO_VOTES: Ints = np.zeros((0, 0), np.int64)
"""For those who do not look at them."""


def plan_with(problem: Problem, algorithm: Algorithm, votes: Ints | None = None) -> Placement:
    """Planning and assignment phase (planning §5.3, steps 1 to 4); `votes` saves step 1 when they are known.

    Raises Infeasible when no placement keeps all limits, or this algorithm found none that does.
    """
    if isinstance(algorithm, GrdOpt):  # knows no limits
        return algorithm.assign(problem, _known(problem, votes), ())
    if reasons := infeasible(problem):
        raise Infeasible(reasons)
    if isinstance(algorithm, Rnd):
        stores = algorithm.choose(problem)
        return _legal(problem, algorithm.assign(problem, NO_VOTES, stores))
    known = _known(problem, votes)
    return _legal(problem, algorithm.assign(problem, known, stores_by_votes(problem, known)))


def reassign(problem: Problem, stores: tuple[int, ...], algorithm: Algorithm, votes: Ints | None = None) -> Placement:
    """Assignment phase only: these stores stay, in their order (planning §6.2). Raises Infeasible like `plan_with`."""
    known = NO_VOTES if isinstance(algorithm, Rnd) else _known(problem, votes)
    found = algorithm.assign(problem, known, stores)
    if others := [problem.brokers[store] for store in found.stores if store not in stores]:
        raise Infeasible([f"the assignment needs {len(others)} new stores, the first at {others[0]}"])
    return _legal(problem, found)


def _known(problem: Problem, votes: Ints | None) -> Ints:
    return greedy_votes(problem) if votes is None else votes


def _legal(problem: Problem, placement: Placement) -> Placement:
    if reasons := check(problem, placement):
        raise Infeasible(reasons)
    return placement
