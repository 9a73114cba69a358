"""Lagrangian bounds: prices for being served, raised until the cheapest answer to them says the most.

The bound of the relaxed problem equals that of its linear relaxation, at a small part of the work. Prices are found
with floats and then rounded to integers; any prices give a bound, so the rounded ones do, and it is computed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from latecomer.planner.lagrange_kernels import Dual, Floats, Ints, ascend, fill_exactly, pick, worths
from latecomer.planner.problem import LARGEST, Problem

ALPHA = 1.5
PATIENCE = 50


@dataclass(slots=True)
class Prices:
    """Where the ascent is, and what it learned."""

    candidates: Ints
    """Brokers that are candidates, in rising order; `Dual` numbers them."""
    dual: Dual
    lam: Floats
    mu: Floats
    visits: Floats
    """[T, C] how much a replica there was wanted of late."""
    steps: int = 0

    def ascend(self, upper: int, iterations: int, alpha: float = ALPHA, patience: int = PATIENCE) -> None:
        """Raise the bound; `upper` is the cost of a plan, which no bound can pass."""
        _, steps = ascend(self.dual, self.lam, self.mu, float(upper), iterations, alpha, patience, self.visits)
        self.steps += steps


@dataclass(slots=True)
class Certificate:
    """A bound with integers, and what follows for each candidate."""

    value: int
    stores: list[int]
    """[C] what the bound would be if the candidate had to be a store, or, for those chosen, had not to."""
    taken: npt.NDArray[np.bool_]
    worth: Ints
    """[T, C]"""


def prices_for(problem: Problem, start: Prices | None = None) -> Prices:
    """Prices that each broker pays the way to as many candidates as there are per replica; or those of `start`."""
    candidates = np.flatnonzero(problem.open)
    distance = np.ascontiguousarray(compact(problem.distance)[candidates])
    near = np.argsort(distance.T, axis=1, kind="stable").astype(np.int32)
    far = np.ascontiguousarray(np.take_along_axis(distance.T, near.astype(np.int64), axis=1))
    size, capacity = _units(problem, candidates)
    forced = np.zeros((len(problem.topics), len(candidates)), np.int8)
    place = np.full(len(problem.brokers), -1)
    place[candidates] = np.arange(len(candidates))
    must = np.zeros(len(candidates), np.int8)
    must[place[list(problem.pinned_stores)]] = 1
    for topic, broker in problem.pinned:
        forced[topic, place[broker]] = 1
    forced[(size[:, None] > capacity[None, :]) & (forced == 0)] = -1
    rates = problem.rates.astype(np.float64)
    replicas = problem.replicas.astype(np.int64)
    least, top = problem.fewest.astype(np.int64), problem.most.astype(np.int64)
    dual = Dual(rates, distance, near, far, size, capacity, replicas, least, top, problem.stores, must, forced)
    if start is not None:
        return Prices(candidates, dual, start.lam.copy(), start.mu.copy(), start.visits.copy())
    reach = np.minimum(len(candidates) // np.maximum(replicas, 1), len(candidates) - 1)
    lam = np.stack([rates[topic] * far[:, reach[topic]] for topic in range(len(rates))])
    return Prices(candidates, dual, lam, np.zeros(len(rates)), np.zeros(forced.shape))


def compact(distance: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Distances as the kernels want them: 32 bits where they fit."""
    kind = np.int32 if int(distance.max(initial=0)) < 2**30 else np.int64
    return np.ascontiguousarray(distance, dtype=kind)


def quantum(problem: Problem) -> int:
    """All costs are multiples of it."""
    return max(1, int(np.gcd.reduce(problem.rates, axis=None)) * int(np.gcd.reduce(problem.distance, axis=None)))


def certify(prices: Prices, problem: Problem) -> Certificate:
    """The bound of these prices, rounded to integers first: no float has a say in it."""
    rates = problem.rates
    dual = prices.dual
    farthest = dual.far[:, -1].astype(np.int64)
    lam: Ints = np.clip(np.rint(prices.lam).astype(np.int64), 0, rates * farthest[None, :])
    most = LARGEST // max(1, int(dual.most.sum()))
    mu: Ints = np.clip(np.rint(prices.mu), -most, most).astype(np.int64)
    worth = np.empty(dual.forced.shape, np.int64)
    value = np.empty(dual.must.size, np.int64)
    taken = np.empty(dual.must.size, np.bool_)
    worths(dual, lam, mu, rates, worth)
    fill_exactly(dual, worth, value)
    pick(dual, value, taken)
    # Sums of sums: Python's integers cannot overflow.
    each = value.tolist()
    kept = zip(mu.tolist(), dual.least.tolist(), dual.most.tolist(), strict=True)
    paid = sum(map(int, lam.sum(axis=1))) + sum(min(price * least, price * top) for price, least, top in kept)
    total = paid + sum(each[c] for c in np.flatnonzero(taken).tolist())
    step = quantum(problem)
    return Certificate(-(-total // step) * step, _if_changed(dual, each, taken, total), taken, worth)


def _if_changed(dual: Dual, each: list[int], taken: npt.NDArray[np.bool_], total: int) -> list[int]:
    """What the bound becomes when one candidate's fate is turned around; pinned ones stay as they are."""
    # A pinned candidate stays what it is, whatever the bound.
    free = [c for c in range(len(each)) if dual.must[c] == 0]
    inside = [each[c] for c in free if taken[c]]
    full = int(taken.sum()) >= dual.stores
    worst = max(inside, default=0) if full else 0
    spare = min([0, *(each[c] for c in free if not taken[c])]) if full else 0
    return [
        total if dual.must[c] != 0 else total - each[c] + spare if taken[c] else total + each[c] - worst
        for c in range(len(each))
    ]


def _units(problem: Problem, candidates: Ints) -> tuple[Ints, Ints]:
    """Sizes and capacities; where all sizes are equal, in topics, so that nothing is cut."""
    size, capacity = problem.size.astype(np.int64), problem.capacity[candidates].astype(np.int64)
    first = int(size[0])
    if first > 0 and (size == first).all():
        return np.ones_like(size), capacity // first
    return size, capacity
