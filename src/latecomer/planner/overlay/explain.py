"""What positions bring, in messages and hops: before, after, by chance, by the paper's algorithms, and at best."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from latecomer.model.overlay_plan import BoundKind, Move, OverlayAlgorithm, OverlayPlan, Row, TopicChange
from latecomer.planner.overlay.cost import OverlayCost, cost_of
from latecomer.planner.overlay.exact import exact
from latecomer.planner.overlay.greedy import Choice, choose, ssbr_greedy
from latecomer.planner.overlay.lsap import fewest_hops
from latecomer.planner.overlay.problem import Configuration, OverlayProblem
from latecomer.planner.overlay.reconfiguration import PAPER, Reconfiguration
from latecomer.planner.overlay.search import Found, search, search_moves

LARGEST_PROGRAM = 400
"""Brokers × topics up to which the exact program is tried."""
NODES = 2_000

Told: TypeAlias = Callable[[str], None]


def plan_overlay(
    problem: OverlayProblem,
    start: Configuration,
    by_chance: Configuration,
    *,
    algorithm: OverlayAlgorithm = "best",
    price: Reconfiguration = PAPER,
    told: Told = lambda _: None,
) -> tuple[OverlayPlan, Configuration]:
    """The configuration with the best benefit less the cost of reconfiguration, and what it is compared with."""
    told("greedy")
    path = ssbr_greedy(problem, start)
    greedy = choose(problem, path, price)
    told("search")
    chosen = greedy if algorithm == "dynatops-greedy" else _better(greedy, search_moves(problem, start, price))
    told("bound")
    found = search(problem, start)
    least, bound, kind = _bounded(problem, found)
    compared = {
        "before": start,
        "after": chosen.configuration,
        "consistent hashing": by_chance,
        "dynatops-greedy": greedy.configuration,
        "ssbr-greedy": path.end,
        "fewest hops": fewest_hops(problem, weight=1).configuration,
        "least cost": least,
    }
    costs = {name: cost_of(problem, one) for name, one in compared.items()}
    before, after = costs["before"], costs["after"]
    plan = OverlayPlan(
        algorithm=algorithm,
        brokers=len(problem.brokers),
        topics=len(problem.topics),
        delay_in="hops" if problem.delays is None else "ms",
        rows=tuple(_row(problem, name, costs[name], one, start) for name, one in compared.items()),
        bound=problem.amount(bound),
        bound_is=kind,
        gap=None if kind == "none" else _above(costs["least cost"].cost, bound),
        benefit=chosen.benefit,
        price=chosen.price,
        gain=chosen.gain,
        worth_computing=price.worth_computing(problem, before.cost),
        moves=_moves(problem, start, chosen.configuration, before, after),
        changes=_changes(problem, start, chosen.configuration, before, after),
    )
    return plan, chosen.configuration


def _better(one: Choice, other: Choice) -> Choice:
    return other if other.gain > one.gain else one


def _bounded(problem: OverlayProblem, found: Found) -> tuple[Configuration, int, BoundKind]:
    """The least cost known, and what no configuration is below: the optimum where that is quick."""
    if problem.delays is None and len(problem.brokers) * len(problem.topics) <= LARGEST_PROGRAM:
        solved = exact(problem, found.configuration, nodes=NODES)
        if solved.optimal:
            return solved.configuration, solved.cost, "optimum"
    return found.configuration, found.bound, "assignment" if found.bound else "none"


def _above(cost: int, bound: int) -> float | None:
    return 0.0 if cost <= bound else (cost - bound) / bound if bound else None


def _row(problem: OverlayProblem, name: str, cost: OverlayCost, place: Configuration, start: Configuration) -> Row:
    return Row(
        name,
        cost.external / problem.unit,
        cost.internal / problem.unit,
        cost.delay / problem.unit / problem.delay_parts,
        problem.amount(cost.cost),
        cost.longest,
        int((place != start).sum()),
    )


def _moves(
    problem: OverlayProblem, start: Configuration, end: Configuration, before: OverlayCost, after: OverlayCost
) -> tuple[Move, ...]:
    """Those that cost most before first."""
    points = problem.ring.positions
    moving = np.flatnonzero(start != end)
    order = moving[np.argsort(-before.brokers[moving], kind="stable")]
    return tuple(
        Move(
            problem.brokers[broker],
            points[int(start[broker])],
            points[int(end[broker])],
            problem.amount(int(before.brokers[broker])),
            problem.amount(int(after.brokers[broker])),
        )
        for broker in order.tolist()
    )


def _changes(
    problem: OverlayProblem, start: Configuration, end: Configuration, before: OverlayCost, after: OverlayCost
) -> tuple[TopicChange, ...]:
    _, depths, rows = problem.trees
    first, wanting = problem.by_topic
    order = np.lexsort((-problem.counts, -problem.counts * before.relays))
    found = []
    for topic in order.tolist():
        brokers = wanting[first[topic] : first[topic + 1]]
        means = [float(depths[rows[topic], place[brokers]].mean()) if len(brokers) else 0.0 for place in (start, end)]
        found.append(
            TopicChange(
                problem.topics[topic],
                int(problem.counts[topic]) / problem.unit,
                len(brokers),
                int(before.relays[topic]),
                int(after.relays[topic]),
                *means,
            )
        )
    return tuple(found)
