"""Broker network reconfiguration (§III-D, algorithm 3): every T_free, if it pays, brokers take other places."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay import Configuration, Floats, Overlay
from latecomer.planner.overlay.cost import total_of
from latecomer.planner.overlay.greedy import Choice, choose, ssbr_greedy
from latecomer.planner.overlay.problem import OverlayProblem, make_problem
from latecomer.planner.overlay.reconfiguration import BETA, Reconfiguration

ALPHA = 0.3
"""Of the exponential filter on publication rates (eq. 12)."""
DELAY_UNITS = 1000
"""A measured delay is a whole number to the planner: parts of the mean delay of a hop."""


class Repositioning(msgspec.Struct, frozen=True):
    """When and how brokers are re-positioned."""

    every: int = 10
    """T_free, in steps"""
    delay_weight: float = 1.0
    """w_d: a hop (or a hop of mean delay, where delays are measured) next to a message to a relay"""
    alpha: float = ALPHA
    beta: float = BETA
    trees: float = 1.0
    """The constant before |P|·log|V| of eq. 11, which the paper leaves open"""
    tries: int = 1
    """SSBR-Greedy ends when so many of the worst brokers have no better swap"""


@dataclass(slots=True)
class Monitor:
    """The rates that are expected, and what came of every T_free."""

    rule: Repositioning
    delay: Floats | None
    rates: Floats | None = None
    """[P] publications per step"""
    last: OverlayProblem | None = None
    tests: int = 0
    """How often it was looked at."""
    skipped: int = 0
    """How often the present cost was below β of the highest price."""
    swaps: int = 0
    """Of SSBR-Greedy, in all."""

    def observe(self, published: Floats) -> None:
        """Publications per step of the period that ends (eq. 12)."""
        alpha = self.rule.alpha
        self.rates = published if self.rates is None else (1 - alpha) * self.rates + alpha * published

    def decide(self, overlay: Overlay, place: Configuration, subscribed: npt.NDArray[np.bool_]) -> Choice | None:
        """Where brokers should go; None where it does not pay. Subscriptions are taken to stay as they are."""
        self.tests += 1
        assert self.rates is not None, "nothing was observed"
        price = Reconfiguration(trees=self.rule.trees)
        problem = self.problem(overlay, subscribed)
        if not price.worth_computing(problem, total_of(problem, place), self.rule.beta):
            self.skipped += 1
            return None
        path = ssbr_greedy(problem, place, tries=self.rule.tries)
        self.swaps += len(path.swaps)
        choice = choose(problem, path, price)
        return choice if choice.movers else None

    def problem(self, overlay: Overlay, subscribed: npt.NDArray[np.bool_]) -> OverlayProblem:
        """What the planner is asked: the publications expected in the next period, and who subscribes now."""
        assert overlay.ring is not None, "only a ring can be re-positioned"
        assert self.rates is not None, "nothing was observed"
        if self.last is None:
            brokers = [f"b{broker}" for broker in range(len(subscribed))]
            topics = {f"t{topic}": 1.0 for topic in range(subscribed.shape[1])}
            points = {f"t{topic}": overlay.ring.positions[root] for topic, root in enumerate(overlay.roots.tolist())}
            whole = None
            if self.delay is not None:
                whole = np.rint(self.delay * (DELAY_UNITS / self.delay[self.delay > 0].mean())).astype(np.int64)
            weight = self.rule.delay_weight / (1 if whole is None else DELAY_UNITS)
            self.last = make_problem(
                overlay.ring, brokers, {}, topics, delay_weight=weight, points=points, delays=whole
            )
        expected = self.rates * self.rule.every * self.last.unit
        first = np.zeros(len(subscribed) + 1, np.int64)
        first[1:] = np.cumsum(subscribed.sum(axis=1))
        return replace(
            self.last,
            counts=np.rint(expected).astype(np.int64),
            first=first,
            wanted=np.nonzero(subscribed)[1].astype(np.int64),
        )
