"""Refinement: a placement becomes better step by step, and keeps every limit at every step.

Steps: a replica goes to another store with room; two topics exchange stores; topics move around a ring of stores; a
store goes to another broker with all it keeps; a missing replica is added. A step is taken if it lowers the objective.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latecomer.planner.cost import cost, losses
from latecomer.planner.legality import Infeasible, Placement, check
from latecomer.planner.problem import Problem
from latecomer.planner.refine_loss_kernels import descend_worst
from latecomer.planner.search import Objective, case_of, one_size, placement_of, state_of
from latecomer.planner.search_kernels import descend


def refine(
    problem: Problem,
    placement: Placement,
    *,
    objective: Objective = "hops",
    before: Placement | None = None,
    moves: int | None = None,
) -> Placement:
    """A placement that is never worse than `placement`, which must keep the limits, and keeps them too.

    With `before` and `moves` at most so many replicas are where `before` has none; `placement` must be within that.
    Topics with fewer replicas than they must have get more where there is room.
    """
    if broken := check(_no_more_than(problem, placement), placement):
        raise Infeasible(broken)
    assert before is None or moves is None or moved(before, placement) <= moves
    case = case_of(problem, objective, before, moves, fits=placement)
    state = state_of(case, placement.stores, placement.replicas)
    descend(case, state, one_size(problem))
    if objective == "worst-loss":
        # The mean is the guide, the worst is the aim: go on from the better of the two.
        found = placement_of(state, placement)
        if _worst(problem, placement) < _worst(problem, found):
            state = state_of(case, placement.stores, placement.replicas)
        descend_worst(case, state)
    return placement_of(state, placement)


def measure(problem: Problem, placement: Placement, objective: Objective = "hops") -> tuple[int, ...]:
    """What `refine` lowers, comparable between placements of one problem."""
    if objective == "hops":
        return (cost(problem, placement.replicas),)
    if objective == "worst-loss":
        return _worst(problem, placement)
    case = case_of(problem, objective, fits=placement)
    return (int(state_of(case, placement.stores, placement.replicas).sums[0]),)


def moved(before: Placement, after: Placement) -> int:
    """How many replicas are where none of the topic was before."""
    return sum(len(np.setdiff1d(new, old)) for old, new in zip(before.replicas, after.replicas, strict=True))


def _worst(problem: Problem, placement: Placement) -> tuple[int, int, int]:
    """Requests unserved and cost after the worst loss, then the cost without one."""
    after = losses(problem, placement.replicas)
    worst = max(((loss.unserved, loss.cost) for loss in after), default=(0, 0))
    return (*worst, cost(problem, placement.replicas))


def _no_more_than(problem: Problem, placement: Placement) -> Problem:
    """The problem with as many replicas as there are, where they are fewer: to mend that is what `refine` does."""
    there = [len(places) for places in placement.replicas]
    if len(there) != len(problem.topics):
        return problem
    if problem.free:
        return replace(problem, at_least=np.minimum(problem.fewest, there))
    return replace(problem, replicas=np.minimum(problem.replicas, there))
