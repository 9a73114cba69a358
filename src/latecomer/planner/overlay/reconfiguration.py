"""What it costs to bring brokers to other positions (DYNATOPS eq. 11), and whether that pays (eq. 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from latecomer.planner.overlay.problem import Configuration, OverlayProblem

BETA = 0.1
"""A computation is worth it when the present cost is above this part of the highest cost of a reconfiguration."""


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Messages: one for each broker, and per mover log²|V| to repair fingers and |P|·log|V| to repair trees.

    Decision: "log2" of eq. 11 is the square of the logarithm to base 2, as Chord needs for a join; the constants that
    an O() leaves out are 1 unless said otherwise.
    """

    each_broker: float = 1.0
    fingers: float = 1.0
    trees: float = 1.0

    def fixed(self, problem: OverlayProblem) -> float:
        """As soon as anybody moves."""
        return self.each_broker * len(problem.brokers)

    def mover(self, problem: OverlayProblem) -> float:
        """For each broker that moves."""
        log = math.log2(len(problem.brokers))
        return self.fingers * log * log + self.trees * len(problem.topics) * log

    def of(self, problem: OverlayProblem, movers: int) -> float:
        return self.fixed(problem) + movers * self.mover(problem) if movers else 0.0

    def worth_computing(self, problem: OverlayProblem, cost: int, beta: float = BETA) -> bool:
        """The test of step 2: the cost is above β times the highest possible cost of a reconfiguration."""
        return problem.amount(cost) > beta * self.of(problem, len(problem.brokers))


PAPER = Reconfiguration()


def movers(before: Configuration, after: Configuration) -> int:
    """Γ: brokers with another position."""
    return int((before != after).sum())
