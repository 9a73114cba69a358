"""What a placement costs: requests times distance to the nearest replica (planning §5.4), also after losses.

All exact, in micro-requests per second times the unit of distance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.planner.cost_kernels import nearest_replica, single_losses, store_loads, topic_costs
from latecomer.planner.problem import Problem

Ints = npt.NDArray[np.int64]
Replicas = Sequence[Sequence[int]]
"""Per topic the brokers that keep it."""


class Loss(NamedTuple):
    """What is left when a store is lost: the cost of what is still served, and the rate of what is not."""

    store: int
    cost: int
    unserved: int


def flat(replicas: Replicas) -> tuple[Ints, Ints]:
    """CSR: where each topic starts, and the places one after the other."""
    starts = np.zeros(len(replicas) + 1, np.int64)
    starts[1:] = np.cumsum([len(places) for places in replicas])
    return starts, np.array([place for places in replicas for place in places], np.int64)


def per_topic(problem: Problem, replicas: Replicas) -> Ints:
    """[T] cost of each topic; every topic with demand needs a replica."""
    starts, places = flat(replicas)
    assert (np.diff(starts) > 0)[problem.weights > 0].all(), "a topic that is asked for has no replica"
    found: Ints = topic_costs(problem.distance, problem.rates, starts, places)
    return found


def cost(problem: Problem, replicas: Replicas) -> int:
    """C = Σ_t Σ_i r[t, i] · d(i, nearest replica of t)."""
    return int(per_topic(problem, replicas).sum())


def hops_mean(problem: Problem, replicas: Replicas) -> float:
    """Mean distance of a request; zero when there are none."""
    total = problem.total_rate
    return cost(problem, replicas) / total if total else 0.0


def serving(problem: Problem, places: Sequence[int]) -> Ints:
    """[N] who serves whom: per broker the nearest of `places`, the lowest index of equals."""
    found = np.empty(len(problem.brokers), np.int64)
    nearest_replica(problem.distance, np.array(places, np.int64), found)
    return found


def loads(problem: Problem, replicas: Replicas) -> Ints:
    """[N] requests for which a broker is the nearest replica, in micro-requests per second."""
    found: Ints = store_loads(problem.distance, problem.rates, *flat(replicas))
    return found


def after_failures(problem: Problem, replicas: Replicas, failed: Collection[int]) -> tuple[int, int]:
    """Cost and unserved rate when these stores are lost; their brokers still forward and ask (planning §6.1.2)."""
    gone = frozenset(failed)  # asked, never walked
    left = [[place for place in places if place not in gone] for places in replicas]
    starts, places = flat(left)
    found = topic_costs(problem.distance, problem.rates, starts, places)
    alive = np.diff(starts) > 0
    return int(found[alive].sum()), int(problem.weights[~alive].sum())


def losses(problem: Problem, replicas: Replicas) -> list[Loss]:
    """What the loss of each single store would leave, in rising order of the stores that keep something."""
    starts, places = flat(replicas)
    more, unserved = single_losses(problem.distance, problem.rates, starts, places)
    whole = cost(problem, replicas)
    return [Loss(store, whole + int(more[store]), int(unserved[store])) for store in np.unique(places).tolist()]


def worst_loss(problem: Problem, replicas: Replicas) -> Loss:
    """The single loss that hurts most: most unserved, then highest cost, then lowest index."""
    return max(losses(problem, replicas), key=lambda loss: (loss.unserved, loss.cost, -loss.store))
