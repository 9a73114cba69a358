"""What a placement promises, in the units of the operator; and what the other algorithms would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.model.plan import Prediction
from latecomer.planner.algorithms import ALGORITHMS, plan_with, reassign
from latecomer.planner.assignment.rnd import Rnd
from latecomer.planner.cost import Replicas, cost, per_topic, serving, worst_loss
from latecomer.planner.legality import Infeasible, Placement
from latecomer.planner.problem import RATE_UNIT, Problem

DRAWS = 20
"""Random assignments whose mean is told as `rnd`."""

Told: TypeAlias = Callable[[str], None]
"""Hears what is being computed."""


def gap(value: int, bound: int | None) -> float | None:
    """How far above the bound, 0.013 for 1.3 %; None when nothing follows from it."""
    if bound is None:
        return None
    if value <= bound:
        return 0.0
    return (value - bound) / bound if bound > 0 else None


def predict(
    problem: Problem, name: str, replicas: Replicas, bound: int | None = None, loss_bound: int | None = None
) -> Prediction:
    """Cost, mean distance and worst loss of a placement; bounds where some are known that hold for it."""
    value, total = cost(problem, replicas), problem.total_rate
    used = np.unique([place for places in replicas for place in places])
    after = worst_loss(problem, replicas)
    return Prediction(
        algorithm=name,
        cost=value / RATE_UNIT,
        rate=total / RATE_UNIT,
        hops_mean=value / total if total else 0.0,
        stores=len(used),
        bound=None if bound is None else bound / RATE_UNIT,
        gap=gap(value, bound),
        optimal=bound is not None and value <= bound,
        loss_store=problem.brokers[after.store],
        loss_cost=after.cost / RATE_UNIT,
        loss_unserved=after.unserved / RATE_UNIT,
        loss_bound=None if loss_bound is None else loss_bound / RATE_UNIT,
    )


def peers(
    problem: Problem, votes: npt.NDArray[np.int64], bound: int | None, told: Told
) -> tuple[tuple[Prediction, ...], tuple[str, ...]]:
    """The papers' algorithms, and whichever else there are, on the same problem; a note on each that found nothing.

    `grd_opt` knows no limits, so the bound says nothing about it.
    """
    found: list[Prediction] = []
    notes: list[str] = []
    for name in sorted(ALGORITHMS, key=_in_order):
        told(name)
        try:
            if name == "rnd":
                found.append(random_mean(problem, bound))
            else:
                made = plan_with(problem, ALGORITHMS[name], votes)
                found.append(predict(problem, name, made.replicas, None if name == "grd_opt" else bound))
        except Infeasible as error:
            notes.append(f"{name} found no plan within the limits: {error.reasons[0]}")
    return tuple(found), tuple(notes)


def _in_order(name: str) -> int:
    """From chance to what knows no limits."""
    return {"rnd": 0, "grd_opt": 2}.get(name, 1)


def random_mean(problem: Problem, bound: int | None) -> Prediction:
    """The mean of some random assignments; one that finds nothing is not counted."""
    drawn: list[Prediction] = []
    stores = Rnd().choose(problem)
    refused: Infeasible | None = None
    for seed in range(DRAWS):
        try:
            drawn.append(predict(problem, "rnd", reassign(problem, stores, Rnd(seed)).replicas, bound))
        except Infeasible as error:
            refused = error
    if not drawn:
        assert refused is not None
        raise refused
    gaps = [one.gap for one in drawn if one.gap is not None]
    return msgspec.structs.replace(
        drawn[0],
        cost=fmean(one.cost for one in drawn),
        hops_mean=fmean(one.hops_mean for one in drawn),
        stores=max(one.stores for one in drawn),
        gap=fmean(gaps) if gaps else None,
        optimal=False,
        loss_store=None,
        loss_cost=None,
        loss_unserved=None,
    )


class StoreRow(NamedTuple):
    """What one store keeps and does; rates and costs in micro-requests per second."""

    store: int
    topics: tuple[int, ...]
    used: int
    load: int
    cost: int


class TopicRow(NamedTuple):
    """What one topic weighs and costs."""

    topic: int
    rate: int
    cost: int


def store_rows(problem: Problem, placement: Placement) -> list[StoreRow]:
    """In order of choice."""
    load, spent = np.zeros((2, len(problem.brokers)), np.int64)
    here = np.arange(len(problem.brokers))
    kept: dict[int, list[int]] = {store: [] for store in placement.stores}
    for topic, places in enumerate(placement.replicas):
        nearest = serving(problem, places)
        np.add.at(load, nearest, problem.rates[topic])
        np.add.at(spent, nearest, problem.rates[topic] * problem.distance[nearest, here])
        for place in places:
            kept[place].append(topic)
    return [
        StoreRow(store, tuple(topics), int(problem.size[topics].sum()), int(load[store]), int(spent[store]))
        for store, topics in kept.items()
    ]


def topic_rows(problem: Problem, placement: Placement) -> list[TopicRow]:
    """The heaviest first."""
    spent, weights = per_topic(problem, placement.replicas), problem.weights
    order = np.argsort(-weights, kind="stable").tolist()
    return [TopicRow(topic, int(weights[topic]), int(spent[topic])) for topic in order]


def names(problem: Problem, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(problem.brokers[place] for place in places)
