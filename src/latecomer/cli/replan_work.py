"""The work behind `latecomer replan`. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from latecomer.cli.plan_work import Order, named, recorded, refused_wishes
from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Objective, Plan
from latecomer.model.topology import quoted
from latecomer.planner.bounds import bound
from latecomer.planner.cost import cost
from latecomer.planner.explain import Told, names, predict
from latecomer.planner.greedy import votes as greedy_votes
from latecomer.planner.legality import Infeasible, Placement, check
from latecomer.planner.objectives import order_of, searched
from latecomer.planner.problem import Problem, make_problem
from latecomer.planner.refine import measure, moved
from latecomer.planner.replan import (
    BUDGETS,
    Change,
    Offer,
    Way,
    broken,
    copied_from,
    kept,
    offer,
    placement_of_plan,
    reassigned,
    recommended,
    replanned,
    with_moves,
    within_stores,
)
from latecomer.planner.replan_drift import Drift, drift

Mode: TypeAlias = Literal["any", "reassign", "full", "moves"]
KEEP, LEAST, REASSIGN, FULL = "keep", "least", "reassign", "full"
"""`least` instead of `keep` where new topics have to go somewhere."""


class Replan(msgspec.Struct, frozen=True):
    """What `latecomer replan --json` prints."""

    recommendation: str
    """Name of one of the offers."""
    offers: tuple[Offer, ...]
    plan: Plan
    """The recommended one, or the one that was asked for."""
    horizon_s: float
    response_bytes: int
    """0: a response carries a whole topic."""
    drift: Drift | None = None
    """None when the old plan does not say what it was made for."""
    rule_of_thumb: str = ""


class Asked(msgspec.Struct, frozen=True):
    """The options of a replan."""

    mode: Mode = "any"
    moves: int | None = None
    horizon_s: float = 7 * 86_400.0
    response_bytes: int = 0


def with_old_topics(demand: Demand, plan: Plan) -> tuple[Demand, tuple[str, ...]]:
    """What nobody asks for any more is still kept: letting go of the past is not for a planner to decide."""
    asked = frozenset(demand.topics)  # asked, never walked
    missing = tuple(topic for topic in plan.replicas if topic not in asked)
    known = plan.demand.sizes if plan.demand is not None else {}
    sizes = {topic: size for topic, size in known.items() if topic in asked or topic in plan.replicas} | demand.sizes
    return msgspec.structs.replace(demand, topics=(*demand.topics, *missing), sizes=sizes), missing


def make_replan(order: Order, old: Plan, asked: Asked, told: Told) -> tuple[Replan, Problem, Placement]:
    """Everything that could be done, and what to do."""
    told("distances")
    problem = order.problem()
    sizes = np.array([order.demand.sizes.get(topic, 0) for topic in problem.topics], np.int64)
    if asked.response_bytes and not sizes.all():
        topic = problem.topics[int(np.flatnonzero(sizes == 0)[0])]
        raise SettingsError("--response", f"needs the size of every topic in the demand; {quoted(topic)} has none")
    way = Way(sizes, asked.response_bytes, asked.horizon_s)
    there = placement_of_plan(problem, old)
    base = kept(problem, there)
    before = old_rates(order, old)
    unchanged = before is not None and np.array_equal(before, problem.rates)
    ground = _Ground(problem, there, base, old.algorithm, order_of(order.limits), order.limits.stores, unchanged)
    changes = [Change(LEAST if moved(there, base) else KEEP, base), *_changes(ground, asked, told)]
    offers = [offer(problem, there, base, change, way) for change in changes]
    offers[0] = msgspec.structs.replace(offers[0], broken=broken(problem, base, order.limits))
    able = [one for one, change in zip(offers, changes, strict=True) if offers[0].broken or _as_safe(ground, change)]
    chosen = recommended(able)
    # What was asked for by name is written, whatever the advice.
    written = chosen if asked.mode == "any" else offers[-1]
    placement = changes[offers.index(written)].placement
    told("bound")
    # What has other numbers of replicas than the new demand wants is no answer to its problem.
    answers = [change.placement for change in changes if not check(problem, change.placement)]
    upper = min((cost(problem, one.replicas) for one in answers), default=None)
    lowest = bound(problem, upper).value if placement in answers else None
    told("explanations")
    drifted = None if before is None else drift(before, problem.rates)
    plan = Plan(
        topology=order.words,
        brokers=problem.brokers,
        algorithm=old.algorithm,
        stores=names(problem, placement.stores),
        replicas=named(problem, placement),
        prediction=predict(problem, old.algorithm, placement.replicas, lowest),
        distance=order.distance,
        limits=recorded(order.limits),
        refusals=refused_wishes(problem, placement, greedy_votes(problem), old.algorithm, order.distance),
        moves=written.moves,
        demand=order.demand,
    )
    advice = "" if drifted is None else drifted.advice
    found = Replan(chosen.name, tuple(offers), plan, asked.horizon_s, asked.response_bytes, drifted, advice)
    return found, problem, placement


def old_rates(order: Order, old: Plan) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    """[T, N] what the plan was made for, in the order of the new topics; None when it does not say."""
    if old.demand is None:
        return None
    topics = dict.fromkeys(order.demand.topics)
    then = msgspec.structs.replace(
        old.demand,
        topics=order.demand.topics,
        rates={topic: row for topic, row in old.demand.rates.items() if topic in topics},
        publications={},
        sizes=order.demand.sizes,
    )
    try:
        return make_problem(order.topology, then, order.limits, order.distance).rates
    except SettingsError:
        return None


@dataclass(frozen=True, slots=True)
class _Ground:
    """What every change starts from."""

    problem: Problem
    there: Placement
    base: Placement
    algorithm: str
    order: tuple[Objective, ...]
    most: int
    """Stores that the operator allows; 0: as many as are needed."""
    unchanged: bool


def _changes(ground: _Ground, asked: Asked, told: Told) -> list[Change]:
    """What is worth offering; the last is what was asked for by name."""
    problem, base = ground.problem, ground.base
    if asked.mode == "moves" or (asked.mode == "reassign" and asked.moves is not None):
        assert asked.moves is not None
        told(_budget(asked.moves))
        where = within_stores(problem, base.stores, ground.most) if asked.mode == "reassign" else problem
        before = copied_from(problem, ground.there)
        return [Change(_budget(asked.moves), with_moves(where, base, asked.moves, ground.order, before=before))]
    ways: list[tuple[str, Callable[[], Placement]]] = [
        (
            REASSIGN,
            lambda: reassigned(
                problem, base, ground.algorithm, ground.order, most=ground.most, unchanged=ground.unchanged
            ),
        ),
        (FULL, lambda: replanned(problem, base, ground.algorithm, ground.order)),
    ]
    found: list[Change] = []
    refused: Infeasible | None = None
    for name, make in ways:
        if asked.mode not in ("any", name):
            continue
        told(name)
        try:
            found.append(Change(name, make()))
        except Infeasible as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found if asked.mode != "any" else [*_budgets(ground, found, told), *found]


def _as_safe(ground: _Ground, change: Change) -> bool:
    """Where the loss of a store comes before the distance, who gains distance must not lose there."""
    if searched(ground.order) == "hops":
        return True
    after, before = (measure(ground.problem, one, "worst-loss")[:2] for one in (change.placement, ground.base))
    return after <= before


def _budgets(ground: _Ground, found: list[Change], told: Told) -> list[Change]:
    """A few moves within the stores that are there often gain most of it."""
    problem, base, before = ground.problem, ground.base, copied_from(ground.problem, ground.there)
    most = max((moved(before, change.placement) for change in found), default=0)
    offered: list[Change] = []
    for moves in BUDGETS:
        if moves >= most:
            break
        told(_budget(moves))
        try:
            where = within_stores(problem, base.stores, ground.most)
            made = with_moves(where, base, moves, ground.order, before=before, quick=True)
        except Infeasible:
            continue  # the new demand needs more than that
        known = offered[-1].placement if offered else base
        if cost(problem, made.replicas) < cost(problem, known.replicas):
            name = _budget(moved(before, made))
            offered = [*(one for one in offered if one.name != name), Change(name, made)]
    known_offers = [(cost(problem, one.placement.replicas), moved(before, one.placement)) for one in found]
    return [
        one
        for one in offered
        if (cost(problem, one.placement.replicas), moved(before, one.placement)) not in known_offers
    ]


def _budget(moves: int) -> str:
    return f"{moves} move{'' if moves == 1 else 's'}"
