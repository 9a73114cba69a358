"""Votes: the modified greedy algorithm (planning §5.2). Nobody is the origin, so everybody is it once."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from latecomer.planner.greedy_kernels import (
    lay_out,
    nearest_run,
    nearest_votes,
    nearest_votes_parallel,
    path_run,
    path_votes,
    path_votes_parallel,
    sums_of_distances,
)
from latecomer.planner.problem import Problem

Ints = npt.NDArray[np.int64]
Access: TypeAlias = Literal["path", "nearest"]
"""Who answers a request during a greedy run: the first store on the way to the origin (the paper), or the nearest."""

PARALLEL_FROM = 20_000_000
"""Steps (topics × origins × brokers) from which threads pay; below, a run stays in its thread and may be forked."""
PARTS = 8
"""Pieces of the work: a few per core, so that a slow one delays little."""


def picks(problem: Problem, topic: int, origin: int, access: Access = "path") -> tuple[int, ...]:
    """One greedy run (planning §5.1): at most k[topic] picks, in order of choice.

    Decision: the origin is never picked, as it has nothing to save, and neither is anybody else without a gain; so a
    run may have fewer picks than k. A vote that saves nothing would be one for the lowest index, not for a place.
    """
    count = len(problem.brokers)
    rates = np.ascontiguousarray(problem.rates[topic])
    chosen = np.empty(count, np.int64)
    work = np.empty((4, count), np.int64)
    most = int(problem.replicas[topic])
    if access == "nearest":
        sums = np.empty(count, np.int64)
        sums_of_distances(problem.distance, rates, sums)
        made = nearest_run(problem.distance, rates, sums, problem.open, origin, most, work, chosen)
    else:
        order, above, ends = (np.empty(count, np.int32) for _ in range(3))
        lay_out(problem.toward[origin], origin, order, above, ends)
        hops = problem.distance[origin][order].astype(np.int64)
        may = problem.open[order].astype(np.int64)
        made = path_run(order, above, ends, hops, may, rates, most, work, chosen)
    return tuple(chosen[:made].tolist())


def votes(problem: Problem, access: Access = "path", *, parallel: bool | None = None) -> Ints:
    """[T, N] s[t]: how often, weighted by `entry`, each broker was picked for each topic over all origins."""
    return votes_for(problem, problem.rates, problem.replicas, access, parallel=parallel)


def votes_for(
    problem: Problem, rates: Ints, most: Ints, access: Access = "path", *, parallel: bool | None = None
) -> Ints:
    """The same for other rates [n, N] and numbers of picks [n], on the same network."""
    count = len(problem.brokers)
    if parallel is None:
        parallel = len(rates) * count * count >= PARALLEL_FROM
    given = (problem.distance, problem.toward, rates, problem.entry, problem.open, np.minimum(most, count))
    if parallel:
        parts = np.zeros((min(PARTS, count), *rates.shape), np.int64)
        (path_votes_parallel if access == "path" else nearest_votes_parallel)(*given, parts)
        total: Ints = parts.sum(axis=0)
        return total
    found = np.zeros(rates.shape, np.int64)
    (path_votes if access == "path" else nearest_votes)(*given, np.arange(count), found)
    return found
