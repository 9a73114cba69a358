"""Several objectives in a stated order: a later one decides only between placements that are equal in all before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latecomer.model.errors import SettingsError
from latecomer.model.plan import Objective, PlanLimits
from latecomer.planner.best import Effort, Ints, Solution, solve
from latecomer.planner.cost import cost, loads, worst_loss
from latecomer.planner.exact_loss import least_loss, provable
from latecomer.planner.legality import Infeasible, Placement, check, infeasible
from latecomer.planner.problem import Problem, replace_problem
from latecomer.planner.refine import moved
from latecomer.planner.search import Objective as Search

SMALL = 40_000
"""Topics × brokers × candidates."""
TRIALS = 20_000
"""Placements that are compared to decide between equals."""


def order_of(limits: PlanLimits) -> tuple[Objective, ...]:
    """What counts, most important first; `survive_loss` puts the worst loss in front."""
    asked: tuple[Objective, ...] = limits.objectives or ("hops",)
    if len(asked) != len(dict.fromkeys(asked)):
        raise SettingsError("objectives", "an objective is named twice")
    if limits.survive_loss and asked[0] != "worst-loss":
        asked = ("worst-loss", *(one for one in asked if one != "worst-loss"))
    return asked if "hops" in asked else (*asked, "hops")


def searched(order: Sequence[Objective]) -> Search:
    """What a search lowers: the distance that is named first."""
    first = next(one for one in order if one in ("hops", "worst-loss"))
    return "worst-loss" if first == "worst-loss" else "hops"


def effort_for(problem: Problem) -> Effort:
    """What is small is solved to the end; that takes seconds."""
    small = problem.rates.size * int(problem.open.sum()) <= SMALL
    return "thorough" if small else "normal"


@dataclass(frozen=True, slots=True)
class Ranked:
    """Compares placements of one problem."""

    problem: Problem
    order: tuple[Objective, ...]
    before: Placement | None = None

    def key(self, placement: Placement) -> tuple[int, ...]:
        """The smaller, the better."""
        found: list[int] = []
        for objective in self.order:
            if objective == "hops":
                found.append(cost(self.problem, placement.replicas))
            elif objective == "worst-loss":
                loss = worst_loss(self.problem, placement.replicas)
                found += (loss.unserved, loss.cost)
            elif objective == "moves":
                found.append(0 if self.before is None else moved(self.before, placement))
            elif objective == "stores":
                found.append(len(frozenset(place for places in placement.replicas for place in places)))
            else:
                found.append(int(loads(self.problem, placement.replicas).max()))
        return tuple(found)


def solve_in_order(
    problem: Problem,
    order: Sequence[Objective],
    *,
    effort: Effort | None = None,
    starts: Sequence[Placement] = (),
    before: Placement | None = None,
    moves: int | None = None,
    votes: Ints | None = None,
) -> Solution:
    """The best placement found in this order; its bound is one on the cost, whatever comes first."""
    effort = effort or effort_for(problem)
    ranked = Ranked(problem, tuple(order), before)
    search = searched(order)
    first = solve(problem, effort=effort, starts=starts, objective=search, before=before, moves=moves, votes=votes)
    found = [first.placement, *(start for start in starts if not check(problem, start))]
    if moves is not None and before is not None:
        found = [one for one in found if moved(before, one) <= moves] or [first.placement]
    best, loss = min(found, key=ranked.key), None
    if order[0] == "worst-loss" and moves is None and effort == "thorough" and provable(problem):
        least = least_loss(problem, best)
        best, loss = min((best, least.placement), key=ranked.key), least.bound
    if "stores" in order and moves is None:
        best = _fewer_stores(ranked, best, search, effort)
    if len(order) > 1 and tuple(order) != ("worst-loss", "hops"):
        best = _settle(ranked, best, moves)
    return Solution(best, cost(problem, best.replicas), first.bound, loss)


def _fewer_stores(ranked: Ranked, placement: Placement, search: Search, effort: Effort) -> Placement:
    """One store less as long as that is better in this order."""
    problem, best = ranked.problem, placement
    for stores in range(len(placement.stores) - 1, 0, -1):
        smaller = replace_problem(problem, stores=stores)
        if infeasible(smaller):
            break
        try:
            found = solve(smaller, effort=effort, objective=search).placement
        except Infeasible:
            break
        if ranked.key(found) >= ranked.key(best):
            break
        best = found
    return best


def _settle(ranked: Ranked, placement: Placement, moves: int | None) -> Placement:
    """Single moves of replicas that are better in this order, the first that is, until none is."""
    best, value, trials = placement, ranked.key(placement), 0
    improved = True
    while improved and trials < TRIALS:
        improved = False
        for other in _neighbours(ranked.problem, best):
            trials += 1
            if trials > TRIALS:
                break
            if moves is not None and ranked.before is not None and moved(ranked.before, other) > moves:
                continue
            key = ranked.key(other)
            if key < value and not check(ranked.problem, other):
                best, value, improved = other, key, True
                break
    return best


def _neighbours(problem: Problem, placement: Placement) -> Iterator[Placement]:
    """One replica elsewhere; at another broker, too, while there are stores to spare."""
    pinned = frozenset(problem.pinned)  # asked, never walked
    for topic, places in enumerate(placement.replicas):
        for at, source in enumerate(places):
            if (topic, source) in pinned:
                continue
            left = _in_use(problem, placement, topic, at)
            spare = len(left) < problem.stores
            for target in range(len(problem.brokers)) if spare else left:
                if target in places or not problem.open[target]:
                    continue
                changed = list(placement.replicas)
                changed[topic] = (*places[:at], target, *places[at + 1 :])
                yield Placement(left if target in left else (*left, target), tuple(changed))


def _in_use(problem: Problem, placement: Placement, topic: int, at: int) -> tuple[int, ...]:
    """The stores that still keep something, or are pinned, when one replica has left."""
    kept = {*problem.pinned_stores}
    for other, places in enumerate(placement.replicas):
        kept.update(place for position, place in enumerate(places) if (other, position) != (topic, at))
    return tuple(store for store in placement.stores if store in kept)
