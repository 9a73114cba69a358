"""The best placement that a fair amount of work finds, with a bound that says how good it is.

Several starts are refined, prices point to stores that no start has, the best of all is shaken again and again, and
what is small or nearly solved is given to integer programming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.seq import Seq
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.bounds import Bound, affordable, bound_of, raise_prices
from latecomer.planner.cost import cost
from latecomer.planner.exact import exact, exact_from, limited
from latecomer.planner.greedy import votes as greedy_votes
from latecomer.planner.lagrange import Certificate, Prices, certify, prices_for
from latecomer.planner.legality import Infeasible, Placement, check, infeasible
from latecomer.planner.problem import NO_LIMIT, Problem
from latecomer.planner.refine import measure, moved, refine
from latecomer.planner.refine_loss_kernels import wander_worst
from latecomer.planner.search import Objective, case_of, one_size, placement_of, state_of
from latecomer.planner.search_counts_kernels import prune
from latecomer.planner.search_kernels import extend, wander
from latecomer.planner.search_rates_kernels import relieve
from latecomer.planner.search_start import complete, repair
from latecomer.planner.search_state_kernels import Case

Ints = npt.NDArray[np.int64]
Effort: TypeAlias = Literal["quick", "normal", "thorough"]
ROUNDS: dict[Effort, int] = {"quick": 0, "normal": 300, "thorough": 1000}
"""Shakes of the best placement, where topics times brokers are no more than SHAKEN; fewer where they are."""
SHAKEN = 3000
FEWEST_ROUNDS = 10
NODES: dict[Effort, int] = {"quick": 0, "normal": 0, "thorough": 2000}
"""Of the search tree of integer programming."""
LARGEST_PROGRAM = 20_000
"""Topics × brokers × candidates left that integer programming is given."""
POOL = 80
"""Candidates that shaking tries, at least."""
WANTED = 0.5
"""How much of late the prices must have wanted a replica, from 0 to 1, to begin with it."""
WORST_ROUNDS = 300
WORST_STEPS = 300_000_000
"""Replicas × replicas × topics × brokers × rounds that are spent on the worst loss, at most."""
SEED = 20130501


@dataclass(frozen=True, slots=True)
class Solution:
    """A placement, its cost without losses, and the bound on that."""

    placement: Placement
    cost: int
    bound: Bound
    loss_bound: int | None = None
    """No placement costs less after the loss of its worst store; None: not known."""


def solve(
    problem: Problem,
    *,
    effort: Effort = "normal",
    starts: Sequence[Placement] = (),
    objective: Objective = "hops",
    before: Placement | None = None,
    moves: int | None = None,
    votes: Ints | None = None,
) -> Solution:
    """The best placement found; never worse than any legal one of `starts`, or than seq and wrr. With `before` and
    `moves` one of the starts must be within them. `votes` are those of this problem, if they are known."""
    if reasons := infeasible(problem):
        raise Infeasible(reasons)

    def better(placements: Iterable[Placement]) -> Placement | None:
        refined = [refine(problem, one, objective=objective, before=before, moves=moves) for one in placements]
        complete_ones = [one for one in refined if not check(problem, one)]
        return min(complete_ones, key=lambda one: measure(problem, one, objective), default=None)

    within = [
        one
        for one in _starts(problem, starts, before, votes)
        if before is None or moves is None or moved(before, one) <= moves
    ]
    found = better(within)
    prices = prices_for(problem)
    if found is None and moves is None:
        found = _any(problem, prices)
    if found is None:
        raise Infeasible(["no placement was found that keeps all limits; allow more stores, capacity or moves"])
    certificate = raise_prices(problem, prices, cost(problem, found.replicas))
    if moves is None:
        guided = _guided(problem, prices)
        found = better([found, *guided])
        assert found is not None
    if ROUNDS[effort] and (objective != "hops" or certificate.value < cost(problem, found.replicas)):
        pool = _pool(problem, prices, certificate)
        case = case_of(problem, objective, before, moves, fits=found)
        shaken = _shaken(problem, found, pool, case, _rounds(problem, effort))
        found = better([found, shaken])
        assert found is not None
        if objective == "worst-loss":
            found = _shaken_worst(problem, found, case_of(problem, objective, before, moves, fits=found))
        certificate = _again(problem, prices, certificate, cost(problem, found.replicas))
    total = cost(problem, found.replicas)
    solution = Solution(found, total, bound_of(certificate, total, prices.steps))
    if objective != "hops" or moves is not None:
        return solution
    solution = _proven(problem, solution, prices, certificate, effort)
    return solution if before is not None else replace(solution, placement=_filled(problem, solution.placement))


def _starts(
    problem: Problem, given: Sequence[Placement], before: Placement | None, votes: Ints | None
) -> list[Placement]:
    """What is given, mended where the limits changed, and what the paper's algorithms make."""
    mended = [
        one if not check(problem, one) else repair(problem, one) for one in [*given, *([before] if before else [])]
    ]
    found = [one for one in mended if one is not None]
    known = greedy_votes(problem) if votes is None else votes
    for algorithm in (Wrr(), Seq()):
        try:
            found.append(plan_with(problem, algorithm, known))
        except Infeasible:
            continue
    if not found:
        largest = sorted(np.flatnonzero(problem.open).tolist(), key=lambda broker: -int(problem.capacity[broker]))
        first = complete(problem, largest, ())
        found += [first] if first is not None else []
    return found


def _any(problem: Problem, prices: Prices) -> Placement | None:
    """Where packing is the hard part, integer programming may find what fits; where rates are, moving downhill may."""
    if limited(problem):
        return _relieved(problem)
    if problem.rates.size * len(prices.candidates) > LARGEST_PROGRAM:
        return None
    try:
        return exact(problem, nodes=NODES["thorough"]).placement
    except Infeasible:
        return None


def _relieved(problem: Problem) -> Placement | None:
    """The best placement without limits of rates, changed until all are kept; None when that does not succeed."""
    try:
        start = solve(replace(problem, rate_limit=np.full_like(problem.rate_limit, NO_LIMIT)), effort="quick").placement
    except Infeasible:
        return None
    case = case_of(problem)
    state = state_of(case, start.stores, start.replicas)
    return placement_of(state, start) if relieve(case, state) else None


def _guided(problem: Problem, prices: Prices) -> list[Placement]:
    """Placements that the prices wish for: by how often of late each replica was wanted."""
    wanted = prices.visits.sum(axis=0)
    order = prices.candidates[np.argsort(-wanted, kind="stable")].tolist()
    topics, places = np.unravel_index(np.argsort(-prices.visits, axis=None, kind="stable"), prices.visits.shape)
    wishes = list(zip(topics.tolist(), prices.candidates[places].tolist(), strict=True))
    if problem.free:  # a count is right when the prices want the last of its replicas as often as not
        wishes = wishes[: max(int((prices.visits >= WANTED).sum()), len(problem.topics))]
    found = complete(problem, order, wishes)
    return [found] if found is not None else []


def _filled(problem: Problem, found: Placement) -> Placement:
    """The same distances; room that saves no hops goes to the copies that save most when a store is lost."""
    if not problem.free:
        return found
    case = case_of(problem, fits=found)
    state = state_of(case, found.stores, found.replicas)
    prune(case, state)
    case = case_of(problem, "mean-loss", fits=found)
    state = state_of(case, found.stores, placement_of(state, found).replicas)
    while extend(case, state):
        pass
    return placement_of(state, found)


def _rounds(problem: Problem, effort: Effort) -> int:
    return max(FEWEST_ROUNDS, ROUNDS[effort] * SHAKEN // max(SHAKEN, problem.rates.size))


def _pool(problem: Problem, prices: Prices, certificate: Certificate) -> npt.NDArray[np.bool_]:
    """The candidates that the prices like most: enough to find good stores, few enough to try them often."""
    liked = sorted(range(len(prices.candidates)), key=lambda c: (not certificate.taken[c], certificate.stores[c], c))
    pool = np.zeros_like(problem.open)
    pool[prices.candidates[liked[: max(POOL, 4 * problem.stores)]]] = True
    return pool


def _shaken(problem: Problem, found: Placement, pool: npt.NDArray[np.bool_], case: Case, rounds: int) -> Placement:
    """Iterated local search among the candidates of the pool."""
    state = state_of(case, found.stores, found.replicas)
    wander(case._replace(usable=pool), state, one_size(problem), rounds, SEED)
    return placement_of(state, found)


def _shaken_worst(problem: Problem, found: Placement, case: Case) -> Placement:
    """The same for the worst loss, of which every step is weighed in full: as often as can be afforded."""
    kept = sum(len(places) for places in found.replicas)
    step = max(1, kept * kept * problem.rates.size)
    state = state_of(case, found.stores, found.replicas)
    wander_worst(case, state, min(WORST_ROUNDS, WORST_STEPS // step), SEED)
    return placement_of(state, found)


def _again(problem: Problem, prices: Prices, certificate: Certificate, upper: int) -> Certificate:
    """A little more of the ascent, with steps that the better placement makes shorter."""
    prices.ascend(upper, affordable(problem, prices, 1000, 200), alpha=0.3, patience=30)
    renewed = certify(prices, problem)
    return renewed if renewed.value >= certificate.value else certificate


def _proven(problem: Problem, solution: Solution, prices: Prices, certificate: Certificate, effort: Effort) -> Solution:
    """Let integer programming settle it where that is quick."""
    left = sum(1 for value in certificate.stores if value < solution.cost)
    if not NODES[effort] or limited(problem) or solution.bound.kind == "optimal":
        return solution
    if problem.rates.size * left > LARGEST_PROGRAM:
        return solution
    found = exact_from(problem, solution.placement, prices, certificate, NODES[effort])
    return replace(solution, placement=found.placement, cost=found.cost, bound=found.bound)
