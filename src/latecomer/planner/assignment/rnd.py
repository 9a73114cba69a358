"""`rnd`: stores chosen without differentiation among topics, replicas at random (planning §6)."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.ledger import Ledger
from latecomer.planner.assignment.walk import by_weight, finish
from latecomer.planner.legality import Placement
from latecomer.planner.placement import chosen, stores_of_aggregate
from latecomer.planner.problem import Problem


class Rnd(msgspec.Struct, frozen=True, tag="rnd"):
    """A seed is an assignment, on any machine."""

    seed: int = 0
    stores: Literal["aggregate", "random"] = "aggregate"
    """"aggregate": the stores of one greedy for all requests together; "random": any brokers."""

    def choose(self, problem: Problem) -> tuple[int, ...]:
        """S, which does not depend on the votes of single topics."""
        if self.stores == "aggregate":
            return stores_of_aggregate(problem)
        return chosen(problem, np.array(_Dice(self.seed + 1).shuffled(len(problem.brokers)), np.int64))

    def assign(self, problem: Problem, votes: npt.NDArray[np.int64], stores: tuple[int, ...]) -> Placement:
        dice = _Dice(self.seed)
        ledger = Ledger(problem, stores)
        wanted = [[stores[at] for at in dice.shuffled(len(stores))] for _ in problem.topics]
        for topic in by_weight(problem):
            ledger.take(topic, wanted[topic], ledger.missing(topic))
        return finish(ledger, wanted)


class _Dice:
    """Numbers that are the same with every version of numpy: only the raw bits of a generator are promised."""

    __slots__ = ("_bits",)

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def shuffled(self, count: int) -> list[int]:
        """0…count−1 in any order (Fisher–Yates)."""
        found = list(range(count))
        for last in range(count - 1, 0, -1):
            at = int(self._bits.random_raw()) % (last + 1)
            found[last], found[at] = found[at], found[last]
        return found
