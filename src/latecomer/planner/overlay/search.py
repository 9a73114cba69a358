"""Better positions than the greedy ones: start with the fewest hops, swap pairs, shake, swap again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latecomer.planner.overlay.cost import total_of
from latecomer.planner.overlay.greedy import Choice
from latecomer.planner.overlay.lsap import fewest_hops
from latecomer.planner.overlay.problem import Configuration, OverlayProblem
from latecomer.planner.overlay.reconfiguration import Reconfiguration, movers
from latecomer.planner.overlay.search_kernels import descend, objective, shake
from latecomer.planner.overlay.state import case_of, state_of

SEED = 7
ROUNDS = 3000
WORK = 200_000_000
"""Prices looked at in all rounds of shaking, about; some seconds."""
SWAPS = 3
"""Random swaps of a round, at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best configuration that was found, and what no configuration can be below."""

    configuration: Configuration
    cost: int
    bound: int

    @property
    def gap(self) -> float | None:
        """How far above the bound; None when the bound is 0 and says nothing."""
        if self.cost <= self.bound:
            return 0.0
        return (self.cost - self.bound) / self.bound if self.bound else None


def search(problem: OverlayProblem, start: Configuration, *, rounds: int | None = None) -> Found:
    """The least cost, wherever brokers stand now; both the fewest hops and `start` are tried as beginnings."""
    assigned = fewest_hops(problem, weight=max(1, problem.delay_weight))
    cost, place = _searched(problem, (assigned.configuration, start), start, 0, rounds)
    known = problem.delay_weight and problem.delays is None  # hops bound nothing where delays are measured
    return Found(place, cost, assigned.bound if known else 0)


def search_moves(
    problem: OverlayProblem, start: Configuration, price: Reconfiguration, *, rounds: int | None = None
) -> Choice:
    """The best benefit less the cost of reconfiguration: each mover's part of eq. 11 is in what is searched for."""
    stay = round(price.mover(problem) * problem.unit * max(1, problem.relay_weight))
    assigned = fewest_hops(problem, start, stay, weight=max(1, problem.delay_weight))
    _, place = _searched(problem, (assigned.configuration, start), start, stay, rounds)
    before, after = (total_of(problem, at) for at in (start, place))
    moving = movers(start, place)
    choice = Choice(place, 0, moving, problem.amount(before - after), price.of(problem, moving))
    return choice if choice.gain > 0 else Choice(start.copy(), 0, 0, 0.0, 0.0)


def _searched(
    problem: OverlayProblem, starts: Sequence[Configuration], home: Configuration, stay: int, rounds: int | None
) -> tuple[int, Configuration]:
    """All pairs from every start; the best of them is shaken."""
    case = case_of(problem)
    states = [state_of(case, start) for start in starts]
    for state in states:
        descend(case, state, home, stay)
    best = min(states, key=lambda state: objective(case, state, home, stay))
    topics = len(problem.wanted) // len(problem.brokers) + 1
    each = 10 * SWAPS * len(problem.brokers) * topics
    shake(case, best, home, stay, min(ROUNDS, WORK // each) if rounds is None else rounds, SWAPS, SEED)
    descend(case, best, home, stay)
    return objective(case, best, home, stay), best.place.copy()
