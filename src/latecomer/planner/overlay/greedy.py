"""SSBR-Greedy and DYNATOPS-Greedy, the paper's own algorithms (algorithms 2 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latecomer.planner.overlay.greedy_kernels import improve
from latecomer.planner.overlay.problem import Configuration, Ints, OverlayProblem
from latecomer.planner.overlay.reconfiguration import PAPER, Reconfiguration
from latecomer.planner.overlay.state import case_of, state_of
from latecomer.planner.overlay.weigh_kernels import total_cost


@dataclass(frozen=True, slots=True)
class Path:
    """The swaps of SSBR-Greedy: where they start, and where they lead."""

    start: Configuration
    end: Configuration
    swaps: Ints
    """[K, 2] the broker with the highest cost, and whom it swapped with."""
    costs: Ints
    """[K + 1] the cost after each, the first before any."""

    def after(self, swaps: int) -> Configuration:
        """The configuration after so many swaps."""
        found = self.start.copy()
        for one, other in self.swaps[:swaps].tolist():
            found[one], found[other] = found[other], found[one]
        return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The configuration that a reconfiguration should lead to."""

    configuration: Configuration
    swaps: int
    """How far along the path it is."""
    movers: int
    benefit: float
    """What notifications cost less in the period, in messages."""
    price: float
    """What getting there costs, in messages."""

    @property
    def gain(self) -> float:
        return self.benefit - self.price


def ssbr_greedy(problem: OverlayProblem, start: Configuration, *, tries: int = 1) -> Path:
    """Swap the broker with the highest cost where that helps most, until it has no better swap.

    Decision: "the highest external overhead grade" is the highest C_b. With more `tries` the next worst brokers are
    tried too before it ends; the paper has one.
    """
    case = case_of(problem)
    state = state_of(case, start)
    before = total_cost(case, state)
    path = improve(case, state, min(tries, len(problem.brokers)))
    costs = before + np.concatenate([[0], np.cumsum(path[:, 2])]).astype(np.int64)
    return Path(start.copy(), state.place.copy(), path[:, :2], costs)


def dynatops_greedy(
    problem: OverlayProblem, start: Configuration, price: Reconfiguration = PAPER, *, tries: int = 1
) -> Choice:
    """Along the path of SSBR-Greedy the configuration with the best benefit less the cost of reconfiguration."""
    return choose(problem, ssbr_greedy(problem, start, tries=tries), price)


def choose(problem: OverlayProblem, path: Path, price: Reconfiguration = PAPER) -> Choice:
    """The earliest of equals; it stays where it is when nothing pays."""
    place = path.start.copy()
    away = 0
    best = Choice(path.start, 0, 0, 0.0, 0.0)
    for made, (one, other) in enumerate(path.swaps.tolist(), 1):
        away -= int(place[one] != path.start[one]) + int(place[other] != path.start[other])
        place[one], place[other] = place[other], place[one]
        away += int(place[one] != path.start[one]) + int(place[other] != path.start[other])
        benefit = problem.amount(int(path.costs[0] - path.costs[made]))
        spent = price.of(problem, away)
        if benefit - spent > best.gain:
            best = Choice(path.start, made, away, benefit, spent)
    return replace(best, configuration=path.after(best.swaps))
