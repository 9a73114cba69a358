"""The work behind `latecomer plan`: from names to a plan with its explanations. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.model.demand import Demand
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Distance, Plan, PlanLimits
from latecomer.model.topology import Topology
from latecomer.model.topology_generators import tree
from latecomer.planner.algorithms import ALGORITHMS, plan_with
from latecomer.planner.bounds import bound
from latecomer.planner.cost import cost
from latecomer.planner.explain import Told, names, peers, predict
from latecomer.planner.explain_refusals import SEARCHES, refusals, sentence
from latecomer.planner.greedy import votes as greedy_votes
from latecomer.planner.legality import Infeasible, Placement, infeasible
from latecomer.planner.objectives import order_of, searched, solve_in_order
from latecomer.planner.problem import NO_LIMIT, Problem, make_problem
from latecomer.planner.refine import refine

Ints = npt.NDArray[np.int64]
UNLIMITED = "grd_opt"
"""Keeps no limits, so no bound holds for it and no wish was refused."""


@dataclass(frozen=True, slots=True)
class Work:
    """A plan, and the numbers it stands for."""

    plan: Plan
    problem: Problem
    placement: Placement


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for, as read."""

    words: str
    """How the network was named."""
    topology: Topology
    demand: Demand
    limits: PlanLimits
    distance: Distance = "hops"

    def problem(self) -> Problem:
        """Numbers instead of names; raises Infeasible when no plan can keep the limits."""
        made = make_problem(self.topology, self.demand, self.limits, self.distance)
        if reasons := infeasible(made):
            raise Infeasible(reasons)
        return made


def known_algorithms() -> tuple[str, ...]:
    """What `--algorithm` can be."""
    return (*SEARCHES, *ALGORITHMS)


def make_plan(order: Order, algorithm: str, told: Told, count: Callable[[Problem], Ints] = greedy_votes) -> Work:
    """The plan with everything that explains it; `count` counts the votes, here or on Spark."""
    told("distances")
    problem = order.problem()
    told("votes")
    votes = count(problem)
    told(algorithm)
    try:
        placement, lowest, loss = _solved(problem, algorithm, order.limits, votes)
    except Infeasible as error:
        if algorithm == "best":
            raise
        told_why = f"{algorithm} found no plan within the limits: {error.reasons[0]}"
        raise Infeasible([f"{told_why}; --algorithm best looks further"]) from None
    if lowest is None:
        told("bound")
        # grd_opt may cost less than any plan within the limits, so it says nothing about them.
        upper = None if algorithm == UNLIMITED else cost(problem, placement.replicas)
        lowest = bound(problem, upper).value
    others, notes = peers(problem, votes, lowest, told)
    if loose_bound(problem):
        notes += ("The bound knows nothing of request rates and failure domains: the plan may be better than it says.",)
    told("explanations")
    refused: tuple[str, ...] = ()
    if algorithm != UNLIMITED:
        refused = refused_wishes(problem, placement, votes, algorithm, order.distance)
    plan = Plan(
        topology=order.words,
        brokers=problem.brokers,
        algorithm=algorithm,
        stores=names(problem, placement.stores),
        replicas=named(problem, placement),
        prediction=predict(problem, algorithm, placement.replicas, None if algorithm == UNLIMITED else lowest, loss),
        distance=order.distance,
        limits=recorded(order.limits),
        others=tuple(one for one in others if one.algorithm != algorithm),
        refusals=refused,
        notes=notes,
        demand=order.demand,
    )
    return Work(plan, problem, placement)


def recorded(limits: PlanLimits) -> PlanLimits:
    """The limits as a plan keeps them: with the rule that was used, also where it was the default."""
    return msgspec.structs.replace(limits, replica_rule=limits.rule())


def warm_up() -> None:
    """Compile what a plan needs, by one for a network that is too small to matter."""
    topology = tree(8, 2)
    demand = Demand(("t", "u"), {"t": {node.id: 1.0 for node in topology.nodes}, "u": {topology.nodes[0].id: 2.0}})
    make_plan(Order("tree:8", topology, demand, PlanLimits(stores=3, capacity=1)), "best", lambda what: None)


def loose_bound(problem: Problem) -> bool:
    """Limits are set that the bound does not look at."""
    apart = len(np.unique(problem.domain)) == len(problem.domain)
    return bool((problem.rate_limit != NO_LIMIT).any()) or not apart


def named(problem: Problem, placement: Placement) -> dict[str, tuple[BrokerId, ...]]:
    """topic → brokers"""
    return {topic: names(problem, places) for topic, places in zip(problem.topics, placement.replicas, strict=True)}


def refused_wishes(
    problem: Problem, placement: Placement, votes: Ints, algorithm: str, distance: Distance
) -> tuple[str, ...]:
    """Sentences, the dearest refusal first."""
    return tuple(sentence(problem, one, distance) for one in refusals(problem, placement, votes, algorithm))


def _solved(
    problem: Problem, algorithm: str, limits: PlanLimits, votes: Ints
) -> tuple[Placement, int | None, int | None]:
    """A placement, and bounds on its cost without a loss and after the worst, where they came with it."""
    order = order_of(limits)
    if algorithm == "best":
        found = solve_in_order(problem, order, votes=votes)
        return found.placement, found.bound.value, found.loss_bound
    if algorithm == "refine":
        start = plan_with(problem, ALGORITHMS["wrr"], votes)
        return refine(problem, start, objective=searched(order)), None, None
    return plan_with(problem, ALGORITHMS[algorithm], votes), None, None
