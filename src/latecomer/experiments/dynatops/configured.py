"""One configuration: brokers with subscriptions by a pattern on a hashed ring, and what DYNATOPS-Greedy makes of it."""

from __future__ import annotations

from functools import cache
from time import process_time
from typing import ClassVar, Literal

import numpy as np

from latecomer.experiments.dynatops.comparators.consistent_hashing import consistent_hashing
from latecomer.experiments.dynatops.overlay import random_ring
from latecomer.experiments.grid import Measures, Setting
from latecomer.planner.overlay.cost import cost_of
from latecomer.planner.overlay.greedy import choose, ssbr_greedy
from latecomer.planner.overlay.problem import OverlayProblem, make_problem
from latecomer.planner.overlay.reconfiguration import Reconfiguration

Pattern = Literal["uniform", "multimodal"]
SIZE_OF_MODE = 10
FROM_MODE = 5
RUNS = 100
"""Seeds: savings differ much from ring to ring."""
SWEEP_RUNS = 20
"""Seeds of what is swept and not judged."""


class Configured(Setting, frozen=True, kw_only=True):
    """Brokers with subscriptions by a pattern, on a hashed ring; then DYNATOPS-Greedy."""

    SOURCES: ClassVar[tuple[str, ...]] = ("model/ring.py", "planner/overlay", "experiments/dynatops/configured.py")

    brokers: int = 100
    topics: int = 100
    pattern: Pattern = "uniform"
    wanted: int = 5
    """Topics that each broker subscribes to"""
    publications: float = 10_000.0
    """Of each topic in the period"""
    delay_weight: float = 1.0
    tries: int = 1
    swept: bool = False

    def runs(self, asked: int) -> int:
        return min(asked, SWEEP_RUNS if self.swept else RUNS)

    def measure(self, seed: int) -> Measures:
        random = np.random.default_rng([seed, 0xD3])
        problem = self.problem(random)
        start = consistent_hashing(self.brokers, random)
        _load()
        began = process_time()
        path = ssbr_greedy(problem, start, tries=self.tries)
        choice = choose(problem, path, Reconfiguration())
        seconds = process_time() - began
        before, after = cost_of(problem, start), cost_of(problem, choice.configuration)
        ended = cost_of(problem, path.end)
        return {
            "overhead": _saved(before.internal + before.external, after.internal + after.external),
            "external": _saved(before.external, after.external),
            "delay": _saved(before.delay, after.delay),
            "ended_overhead": _saved(before.internal + before.external, ended.internal + ended.external),
            "ended_delay": _saved(before.delay, ended.delay),
            "movers": float(choice.movers),
            "swaps": float(len(path.swaps)),
            "bound": float(self.brokers * self.topics),
            "seconds": seconds,
        }

    def problem(self, random: np.random.Generator) -> OverlayProblem:
        ring = random_ring(self.brokers, random)
        names = [f"b{broker}" for broker in range(self.brokers)]
        topics = {f"t{topic}": self.publications for topic in range(self.topics)}
        wishes = {name: [f"t{topic}" for topic in self.wishes(random)] for name in names}
        points = {topic: int(random.integers(0, 1 << ring.bits)) for topic in topics}
        return make_problem(ring, names, wishes, topics, delay_weight=self.delay_weight, points=points)

    def wishes(self, random: np.random.Generator) -> list[int]:
        """Multimodal: five topics of a mode, of as many modes as it takes."""
        if self.pattern == "uniform":
            drawn: list[int] = random.choice(self.topics, self.wanted, replace=False).tolist()
            return drawn
        modes = random.choice(self.topics // SIZE_OF_MODE, self.wanted // FROM_MODE, replace=False)
        return [
            int(mode) * SIZE_OF_MODE + int(topic)
            for mode in modes
            for topic in random.choice(SIZE_OF_MODE, FROM_MODE, replace=False)
        ]


@cache
def _load() -> None:
    """Compiled code is loaded once in a process: that is no part of the time a configuration takes."""
    random = np.random.default_rng(0)
    problem = Configured(brokers=10, topics=10).problem(random)
    choose(problem, ssbr_greedy(problem, consistent_hashing(10, random)), Reconfiguration())


def _saved(before: int, after: int) -> float:
    """Per cent."""
    return 100 * (1 - after / before) if before else 0.0
