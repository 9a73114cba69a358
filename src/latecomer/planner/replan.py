"""A plan under new demand: what it is still worth, what another one gains, and what getting there costs.

The cost of moving is told in the unit of the gain. A replica that is copied over d hops is a response that travels d
hops; it counts as one request when responses carry a whole topic, as in the papers, else as size / response.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Move, Objective, Plan, PlanLimits
from latecomer.model.topology import quoted
from latecomer.planner.algorithms import ALGORITHMS, plan_with, reassign
from latecomer.planner.best import Effort, solve
from latecomer.planner.cost import cost
from latecomer.planner.legality import Infeasible, Placement, check
from latecomer.planner.objectives import searched, solve_in_order
from latecomer.planner.problem import RATE_UNIT, Problem, replace_problem, with_counts
from latecomer.planner.refine import measure, moved, refine
from latecomer.planner.search_start import repair

Ints = npt.NDArray[np.int64]
FULL_WORTH = 0.08
"""planning §6.2: a reassignment is less than 8 % worse than new stores. So new stores must gain more than that."""
WORTH = 0.01
"""Part of the cost of doing nothing below which a gain is no reason to move more."""
BUDGETS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of moves that are offered beside reassignment and full plan."""


@dataclass(frozen=True, slots=True)
class Way:
    """What a move costs, and how long a gain is counted."""

    sizes: Ints
    """[T] bytes of a replica; 0 when not known."""
    response: int = 0
    """Mean bytes of a response; 0: a whole topic."""
    horizon_s: float = 7 * 86_400.0

    def responses(self, topic: int) -> float:
        """How many responses one replica is."""
        return int(self.sizes[topic]) / self.response if self.response else 1.0


class Offer(msgspec.Struct, frozen=True):
    """One thing that could be done. Costs are requests times distance, per second where the name says so."""

    name: str
    cost_per_s: float
    hops_mean: float
    gain: float
    """Part of the cost of doing nothing that is saved."""
    gain_per_s: float
    moves: tuple[Move, ...]
    bytes: int
    way: float
    """Cost of all moves, once."""
    net: float
    """Gain over the horizon, less the way."""
    payback_s: float | None
    """When the gain has paid for the way; None: never."""
    opened: tuple[BrokerId, ...]
    closed: tuple[BrokerId, ...]
    broken: tuple[str, ...] = ()
    """Limits that are not kept; only doing nothing can break some."""


@dataclass(frozen=True, slots=True)
class Change:
    """From what is there to something else."""

    name: str
    placement: Placement


# --- what is there ---


def placement_of_plan(problem: Problem, plan: Plan) -> Placement:
    """The plan in the numbers of a problem; a topic that the plan does not know has no replicas yet."""
    position = {broker: index for index, broker in enumerate(problem.brokers)}
    for store in plan.stores:
        if store not in position:
            raise SettingsError("stores", f"the plan has a store at {quoted(store)}, which is not in the network")
    return Placement(
        tuple(position[store] for store in plan.stores),
        tuple(tuple(position[place] for place in plan.replicas.get(topic, ())) for topic in problem.topics),
    )


def kept(problem: Problem, old: Placement) -> Placement:
    """Doing nothing, as far as that is possible: topics that are asked for and nowhere kept get a replica.

    Where the room for them is taken, others give way.
    """
    missing = [not places and weight > 0 for places, weight in zip(old.replicas, problem.weights, strict=True)]
    if not any(missing):
        return old
    # Old replicas stay, whatever k is now; the new topics go where the room is that is left.
    counts = [max(1, len(places)) for places in old.replicas]
    pinned = tuple((topic, place) for topic, places in enumerate(old.replicas) for place in places)
    found = repair(with_counts(problem, counts, pinned=pinned, pinned_stores=tuple(sorted(old.stores))), old)
    if found is not None:
        return found
    try:
        return fitted(problem, old)
    except Infeasible:
        with suppress(Infeasible):
            return solve(problem, effort="quick").placement
        raise


def broken(problem: Problem, there: Placement, limits: PlanLimits) -> tuple[str, ...]:
    """The operator's limits that what is there does not keep; numbers that only follow from the demand are none."""
    counts = [
        limits.replicas.get(topic, max(len(places), limits.min_replicas if places else 0))
        for topic, places in zip(problem.topics, there.replicas, strict=True)
    ]
    stores = problem.stores if limits.stores else max(problem.stores, len(there.stores))
    return tuple(check(with_counts(problem, counts, stores=stores), there))


def fitted(problem: Problem, placement: Placement) -> Placement:
    """What is there, with as many replicas as the new demand wants, and as few moves as can be seen at once."""
    trimmed = tuple(_trimmed(problem, topic, places) for topic, places in enumerate(placement.replicas))
    start = Placement(placement.stores, trimmed)
    found = start if not check(problem, start) else repair(problem, start)
    if found is None:
        raise Infeasible(["no plan near the old one keeps all limits under the new demand; try --full"])
    return found


def _trimmed(problem: Problem, topic: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas that are left when those that are missed least have gone; pinned ones stay."""
    left, pinned = list(places), frozenset(problem.pinned)
    rates = problem.rates[topic]
    while len(left) > problem.most[topic]:
        distance = problem.distance[left].astype(np.int64)
        costs = [
            (int((np.delete(distance, at, axis=0).min(axis=0) * rates).sum()), -at)
            for at, place in enumerate(left)
            if (topic, place) not in pinned
        ]
        left.pop(-min(costs)[1])
    return tuple(left)


# --- what could be ---


def within_stores(problem: Problem, stores: tuple[int, ...], most: int = 0) -> Problem:
    """The problem of reassignment: these stores, no others; `most` is how many the operator allows, if it says."""
    if 0 < most < len(stores):
        told = f"the plan has {len(stores)} stores, {len(stores) - most} more than the limits allow"
        raise Infeasible([f"{told}; a reassignment closes none: try --full"])
    for broker in problem.pinned_stores:
        if broker not in stores:
            told = f"the plan has no store at {quoted(problem.brokers[broker])}, where one is pinned"
            raise Infeasible([f"{told}; a reassignment opens none: try --full"])
    return replace_problem(problem, stores=len(stores), pinned_stores=tuple(sorted(stores)))


def reassigned(
    problem: Problem,
    old: Placement,
    algorithm: str,
    order: Sequence[Objective] = ("hops",),
    *,
    most: int = 0,
    unchanged: bool = False,
) -> Placement:
    """The stores stay, who keeps what is decided anew (planning §6.2). Under `unchanged` demand nothing moves."""
    if unchanged and not check(problem, old):
        return old
    fixed = within_stores(problem, old.stores, most)
    if algorithm in ALGORITHMS:
        return reassign(fixed, old.stores, ALGORITHMS[algorithm])
    starts = [fitted(fixed, old)]
    with suppress(Infeasible):
        starts.append(reassign(fixed, old.stores, ALGORITHMS["wrr"]))
    aim = searched(order)
    found = [refine(fixed, start, objective=aim) for start in starts]
    return min(found, key=lambda one: measure(problem, one, aim))


def replanned(problem: Problem, old: Placement, algorithm: str, order: Sequence[Objective]) -> Placement:
    """A full plan, stores included; of equals the one that is there."""
    if algorithm in ALGORITHMS:
        return plan_with(problem, ALGORITHMS[algorithm])
    if algorithm == "refine":
        return refine(problem, plan_with(problem, ALGORITHMS["wrr"]), objective=searched(order))
    starts = [old] if not check(problem, old) else []
    return solve_in_order(problem, order, starts=starts, before=old).placement


def copied_from(problem: Problem, old: Placement) -> Placement:
    """What moves are counted from: a topic that is kept nowhere yet can go anywhere, as nothing is copied."""
    anywhere = tuple(range(len(problem.brokers)))
    return Placement(old.stores, tuple(places or anywhere for places in old.replicas))


def with_moves(
    problem: Problem,
    old: Placement,
    moves: int,
    order: Sequence[Objective],
    *,
    before: Placement | None = None,
    quick: bool = False,
) -> Placement:
    """The best plan near `old` that is at most so many replicas away from `before`, or from `old`."""
    start = fitted(problem, old)
    before = old if before is None else before
    needed = moved(before, start)
    if needed > moves:
        raise Infeasible(
            [f"the new demand needs {needed} moves to keep all limits, {needed - moves} more than {moves}"]
        )
    effort: Effort | None = "quick" if quick else None
    return solve_in_order(problem, order, effort=effort, starts=[start], before=before, moves=moves).placement


# --- what it takes ---


def moves_between(problem: Problem, old: Placement, new: Placement, sizes: Ints) -> tuple[Move, ...]:
    """Every replica that is new, from the nearest that is there, the lowest index of equals; heaviest topics first."""
    found: list[Move] = []
    for topic in np.argsort(-problem.weights, kind="stable").tolist():
        before = old.replicas[topic]
        for target in new.replicas[topic]:
            if target in before:
                continue
            source = min(before, key=lambda place: (int(problem.distance[place, target]), place), default=None)
            name = None if source is None else problem.brokers[source]
            found.append(Move(problem.topics[topic], name, problem.brokers[target], int(sizes[topic])))
    return tuple(found)


def way_cost(problem: Problem, moves: Sequence[Move], way: Way) -> float:
    """Requests times distance of all moves; a topic that is kept nowhere yet has nothing to copy."""
    broker = {name: index for index, name in enumerate(problem.brokers)}
    topic = {name: index for index, name in enumerate(problem.topics)}
    return sum(
        way.responses(topic[move.topic]) * int(problem.distance[broker[move.source], broker[move.target]])
        for move in moves
        if move.source is not None
    )


def offer(problem: Problem, old: Placement, base: Placement, change: Change, way: Way) -> Offer:
    """What the change gains over `base` (doing nothing), and what it takes to come from `old`."""
    before, after = cost(problem, base.replicas), cost(problem, change.placement.replicas)
    moves = moves_between(problem, old, change.placement, way.sizes)
    spent = way_cost(problem, moves, way)
    gain_per_s = (before - after) / RATE_UNIT
    total = problem.total_rate
    return Offer(
        name=change.name,
        cost_per_s=after / RATE_UNIT,
        hops_mean=after / total if total else 0.0,
        gain=(before - after) / before if before else 0.0,
        gain_per_s=gain_per_s,
        moves=moves,
        bytes=sum(move.bytes for move in moves if move.source is not None),
        way=spent,
        net=gain_per_s * way.horizon_s - spent,
        payback_s=spent / gain_per_s if gain_per_s > 0 else None,
        opened=tuple(problem.brokers[store] for store in change.placement.stores if store not in old.stores),
        closed=tuple(problem.brokers[store] for store in old.stores if store not in change.placement.stores),
    )


def recommended(offers: Sequence[Offer]) -> Offer:
    """The most that is left of the gain over the horizon when the way is paid; the first is doing nothing.

    Decisions: new stores are not paid for in requests, so they must gain `FULL_WORTH` more than what needs none. And
    demand is never known to the last digit: of what is as good but for `WORTH`, that with the fewest moves. Doing
    nothing is no choice when it breaks limits.
    """
    allowed = [one for one in offers if not one.broken] or offers
    best = min(allowed, key=_rank)
    without = [one for one in allowed if not one.opened]
    if best.opened and without:
        other = min(without, key=_rank)
        if best.cost_per_s >= other.cost_per_s * (1 - FULL_WORTH):
            best = other
    enough = best.cost_per_s + WORTH * offers[0].cost_per_s
    near = [one for one in allowed if one.cost_per_s <= enough and one.net >= min(0.0, offers[0].net)]
    return min((one for one in near if best.opened or not one.opened), key=_fewest, default=best)


def _rank(one: Offer) -> tuple[float, int]:
    return -one.net, len(one.moves)


def _fewest(one: Offer) -> tuple[int, float]:
    return len(one.moves), -one.net
