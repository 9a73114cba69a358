"""Table 5: `kmedoids.fasterpam` for each topic, and the planner without limits: each topic a k-median problem.

kmedoids knows no demand. It reads its matrix as (object, medoid) throughout, so that a row times the demand of its
broker is the same problem; only for k = 1 it reads columns. So k is from 2 on with demand, from 1 on without, and the
loss that it reports must be our cost of its medoids. Its matrices are made before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple

import kmedoids
import numpy as np
import numpy.typing as npt
from rich.table import Table

from bench.book import BenchError, Book, clock, clock_often, in_turn, table, timed, times
from bench.planner.work import MOST_REPLICAS, Ints, Kind, demand, small_like, spread, unlimited, ways
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.grd_opt import GrdOpt
from latecomer.planner.best import Solution, solve
from latecomer.planner.cost import cost, hops_mean
from latecomer.planner.distances import Distances
from latecomer.planner.greedy import votes
from latecomer.planner.legality import Placement
from latecomer.planner.problem import RATE_UNIT, Problem
from latecomer.planner.refine import refine

MEDOIDS = "medoids"
STARTS = 10
THREADS_FROM = 1000
"""Objects from which fasterpam uses all cores unless told otherwise."""

Replicas = tuple[tuple[int, ...], ...]


class Setting(NamedTuple):
    """A row of the table; every broker asks alike when demand is uniform."""

    kind: Kind
    brokers: int
    uniform: bool

    @property
    def title(self) -> str:
        return f"{self.kind}, N = {self.brokers:,}, {'uniform' if self.uniform else 'own'} demand"


@dataclass(frozen=True, slots=True)
class Case:
    problem: Problem
    matrices: list[npt.NDArray[Any]]
    """Per topic; one and the same where demand is uniform."""
    starts: list[Replicas]
    """Random ones; the first is that of all who start once."""
    single: list[Problem]
    """A problem per topic."""


def case_of(found: Distances, *, uniform: bool) -> Case:
    brokers = len(found.distance)
    replicas = spread(MOST_REPLICAS if uniform else MOST_REPLICAS - 1, least=1 if uniform else 2)
    topics = len(replicas)
    rates: Ints = np.full((topics, brokers), RATE_UNIT, np.int64) if uniform else demand(topics, brokers)
    if uniform:
        matrices = [found.distance.astype(np.int32)] * topics
    else:
        matrices = [np.ascontiguousarray(found.distance.astype(np.int64) * row[:, None]) for row in rates]
    random = Random(1)
    starts = [tuple(tuple(random.sample(range(brokers), k)) for k in replicas) for _ in range(STARTS)]
    single = [unlimited(found, rates[topic : topic + 1], [k]) for topic, k in enumerate(replicas)]
    return Case(unlimited(found, rates, replicas), matrices, starts, single)


# --- who takes part: each returns replicas, and nothing but that is timed ---


def pam(case: Case, *, starts: int = 1, threads: int = 1) -> Replicas:
    return tuple(tuple(result.medoids.tolist()) for result in _pam(case, starts, threads))


def _pam(case: Case, starts: int, threads: int) -> list[Any]:
    found = []
    for topic, matrix in enumerate(case.matrices):
        results = [kmedoids.fasterpam(matrix, np.array(start[topic]), n_cpu=threads) for start in case.starts[:starts]]
        found.append(min(results, key=lambda result: result.loss))
    return found


def check_losses(case: Case) -> None:
    """That kmedoids solves the same problem."""
    unit = RATE_UNIT if case.matrices[0].dtype == np.int32 else 1
    results = _pam(case, 1, 1)
    if sum(int(result.loss) for result in results) * unit != cost(case.problem, [one.medoids for one in results]):
        raise BenchError("the loss that kmedoids reports is not the cost of its medoids")


def own_votes(case: Case) -> Replicas:
    return plan_with(case.problem, GrdOpt(), votes(case.problem, parallel=False)).replicas


def refined(case: Case, start: Replicas) -> Replicas:
    """Topic by topic, as k-medoids has them."""
    return tuple(
        refine(one, Placement(places, (places,))).replicas[0] for one, places in zip(case.single, start, strict=True)
    )


def refined_votes(case: Case) -> Replicas:
    return refined(case, own_votes(case))


def refined_chance(case: Case) -> Replicas:
    return refined(case, case.starts[0])


PAM = "fasterpam, one random start"
BEST = "best (quick) of each topic, with a bound"
CONTENDERS: dict[str, Callable[[Case], Replicas]] = {
    PAM: pam,
    "fasterpam, all cores": partial(pam, threads=-1),
    f"fasterpam, best of {STARTS} starts": partial(pam, starts=STARTS),
    "votes and grd_opt": own_votes,
    "refine from fasterpam's start": refined_chance,
    "votes, grd_opt and refine": refined_votes,
}
COST, BOUND = " cost", " bound"
"""Columns that are no times; no contender's name begins with a space."""


def compare(book: Book, settings: Sequence[Setting], rounds: int, *, bounded: int) -> None:
    """`best` is run once, and up to `bounded` brokers: it also says how far everybody is from the optimum."""
    np.random.seed(1)  # from which fasterpam takes the order of its threads' work
    for setting in settings:
        book.say(f"k-medoids, {setting.title}")
        found = ways(setting.kind, setting.brokers)
        case, small = case_of(found, uniform=setting.uniform), case_of(small_like(found), uniform=setting.uniform)
        check_losses(case)
        answers: dict[str, Replicas] = {}
        contenders: dict[str, Callable[[], float]] = {}
        for name, run in CONTENDERS.items():
            if setting.brokers >= THREADS_FROM or "all cores" not in name:
                run(small)
                contenders[name] = partial(_timed, name, run, case, answers)
        in_turn(book, MEDOIDS, setting.title, contenders, rounds)
        if setting.brokers <= bounded:
            solve(small.single[0], effort="quick")
            solutions, seconds = clock(partial(_solved, case))
            book.note((MEDOIDS, setting.title, BEST), seconds)
            answers[BEST] = tuple(one.placement.replicas[0] for one in solutions)
            bound = sum(one.bound.value for one in solutions)
            book.note((MEDOIDS, setting.title, BOUND), bound / case.problem.total_rate)
        for name, replicas in answers.items():
            book.note((MEDOIDS, setting.title, name + COST), hops_mean(case.problem, replicas))


def _solved(case: Case) -> list[Solution]:
    return [solve(one, effort="quick") for one in case.single]


def _timed(name: str, run: Callable[[Case], Replicas], case: Case, answers: dict[str, Replicas]) -> float:
    answers[name], seconds = clock_often(lambda: run(case))
    return seconds


def medoids_table(book: Book, settings: Sequence[Setting]) -> Table:
    made = table(
        f"5. every topic alone, k to {MOST_REPLICAS}, beside kmedoids; one core unless said; time of all topics",
        ["", "contender"],
        ["time", f"times that of\n{PAM}", "mean hops", "above fasterpam", "above the bound"],
    )
    for setting in settings:
        shown = setting.title
        bound = book.get((MEDOIDS, setting.title, BOUND))
        peer = book.get((MEDOIDS, setting.title, PAM + COST))
        for name in (*CONTENDERS, BEST):
            key = (MEDOIDS, setting.title, name)
            hops = book.get((MEDOIDS, setting.title, name + COST))
            if hops is None or peer is None:
                continue
            above = f"{hops / bound - 1:.2%}" if bound else "–"
            ratio = times(book, key, (MEDOIDS, setting.title, PAM))
            made.add_row(shown, name, timed(book, key), ratio, f"{hops:.4f}", f"{hops / peer - 1:+.2%}", above)
            shown = ""
        made.add_section()
    return made
