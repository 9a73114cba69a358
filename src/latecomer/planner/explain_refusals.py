"""Why a topic is not where it would like to be: every refusal with the limit in its way, and by how much.

What a topic would like are the brokers of its own best votes (`grd_opt`), as if it were alone and nothing were limited.
A wish is told when granting it, in exchange for one replica of the topic, would save something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latecomer.model.plan import Distance
from latecomer.model.topology import quoted
from latecomer.planner.assignment.grd_opt import GrdOpt
from latecomer.planner.cost import loads
from latecomer.planner.greedy import votes as greedy_votes
from latecomer.planner.legality import Placement
from latecomer.planner.problem import NO_LIMIT, RATE_UNIT, Problem, replace_problem

Ints = npt.NDArray[np.int64]
SEARCHES = ("best", "refine")
"""Algorithms that leave no such exchange undone unless another objective is in the way."""
MOST_WISHES = 10_000
"""Of all topics together; a larger plan is explained in its heaviest part."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A wish that was not granted."""

    topic: int
    broker: int
    instead: int
    """The replica that would rather be there."""
    saving: int
    """Micro-requests per second times distance."""
    reason: str


def refusals(problem: Problem, placement: Placement, votes: Ints, algorithm: str) -> list[Refusal]:
    """The dearest first."""
    wished = _free_votes(problem, votes)
    unlimited = replace_problem(problem, open=np.ones(len(problem.brokers), np.bool_))
    wishes = GrdOpt().assign(unlimited, wished, ()).replicas
    room = free_room(problem, placement)
    found: list[Refusal] = []
    looked_at = 0
    for topic in np.argsort(-problem.weights, kind="stable").tolist():
        for broker in wishes[topic]:
            if broker in placement.replicas[topic]:
                continue
            looked_at += 1
            if looked_at > MOST_WISHES:
                break
            instead, saving = best_exchange(problem, topic, placement.replicas[topic], broker)
            if saving > 0:
                reason = _reason(problem, placement, room, topic, broker, instead, algorithm)
                found.append(Refusal(topic, broker, instead, saving, reason))
    return sorted(found, key=lambda refusal: (-refusal.saving, refusal.topic, refusal.broker))


def sentence(problem: Problem, refusal: Refusal, distance: Distance = "hops") -> str:
    """As in "A copy of 'x' at b7 instead of b4 would save 2 requests·hops/s, but b7 is full by 1 topic."."""
    saving = refusal.saving / RATE_UNIT
    topic, broker = quoted(problem.topics[refusal.topic]), problem.brokers[refusal.broker]
    saved = f"{saving:,.3g} requests·hops/s" if distance == "hops" else f"{saving / 1000:,.3g} requests·ms/s"
    instead = problem.brokers[refusal.instead]
    return f"A copy of {topic} at {broker} instead of {instead} would save {saved}, but {refusal.reason}."


def free_room(problem: Problem, placement: Placement) -> Ints:
    """[N] units that are left at each broker, whether it has a store or not."""
    left = problem.capacity.copy()
    for topic, places in enumerate(placement.replicas):
        left[list(places)] -= problem.size[topic]
    return left


def best_exchange(problem: Problem, topic: int, places: tuple[int, ...], broker: int) -> tuple[int, int]:
    """The replica that would best be at `broker` instead, and what that saves; negative when it costs."""
    distance = problem.distance[list(places)].astype(np.int64)
    rates, there = problem.rates[topic], problem.distance[broker].astype(np.int64)
    nearest, first = distance.argmin(axis=0), distance.min(axis=0)
    distance[nearest, np.arange(len(rates))] = np.iinfo(np.int64).max
    second = distance.min(axis=0)
    # Only those who lose their nearest replica go elsewhere: one pass for all exchanges, however many replicas.
    with_all = np.minimum(first, there)
    costs = np.full(len(places), int((with_all * rates).sum()))
    np.add.at(costs, nearest, (np.minimum(second, there) - with_all) * rates)
    best = int(np.argmin(costs))
    return places[best], int((first * rates).sum()) - int(costs[best])


def _free_votes(problem: Problem, votes: Ints) -> Ints:
    """The votes as they would be if nobody were barred."""
    if problem.open.all():
        return votes
    return greedy_votes(replace_problem(problem, open=np.ones(len(problem.brokers), np.bool_)))


def _reason(
    problem: Problem, placement: Placement, room: Ints, topic: int, broker: int, instead: int, algorithm: str
) -> str:
    """The first limit in the way, in the order in which an operator would look."""
    size, name = int(problem.size[topic]), problem.brokers[broker]
    if (topic, instead) in problem.pinned:
        return f"the one at {problem.brokers[instead]} is pinned"
    if not problem.open[broker]:
        return f"{name} is barred from having a store"
    if size > problem.capacity[broker]:
        over = size - int(problem.capacity[broker])
        return f"{name} is too small by {amount(over, problem.unit)} even when empty"
    if broker not in placement.stores:
        if len(placement.stores) < problem.stores:
            return f"{name} has no store"
        return (
            f"all {problem.stores} stores are used elsewhere" if problem.stores > 1 else "the only store is elsewhere"
        )
    for other in placement.replicas[topic]:
        if other != instead and problem.domain[other] == problem.domain[broker]:
            return f"{problem.brokers[other]} in the same failure domain keeps it"
    if room[broker] < size:
        return f"{name} is full by {amount(size - int(room[broker]), problem.unit)}"
    if over := _requests_over(problem, placement, topic, broker, instead):
        return f"a store would then be the nearest for {over / RATE_UNIT:,.3g} requests/s more than its limit"
    if algorithm in SEARCHES:
        return "another objective comes before the mean distance"
    return f"{algorithm} did not look there; --algorithm best does"


def _requests_over(problem: Problem, placement: Placement, topic: int, broker: int, instead: int) -> int:
    """Requests above any limit after the exchange."""
    if (problem.rate_limit == NO_LIMIT).all():
        return 0
    replicas = list(placement.replicas)
    replicas[topic] = tuple(broker if place == instead else place for place in replicas[topic])
    over = (loads(problem, replicas) - problem.rate_limit)[problem.rate_limit != NO_LIMIT]
    return max(0, int(over.max()))


def amount(units: int, unit: str) -> str:
    """`1 topic`, `3 topics`, `1,200 bytes`."""
    return f"{units:,} {unit[:-1] if units == 1 else unit}"
