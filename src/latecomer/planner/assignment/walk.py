"""The walk that `seq` and `wrr` share: topics by falling weight, each along its own votes, in rounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.ledger import Ledger
from latecomer.planner.assignment.repair import relieve, squeeze_in
from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem

Ints = npt.NDArray[np.int64]


def by_weight(problem: Problem) -> list[int]:
    """Topics, the most significant first, the lowest index of equals (planning §5.3, step 4)."""
    found: list[int] = np.argsort(-problem.weights, kind="stable").tolist()
    return found


def wishes(votes: Ints, stores: tuple[int, ...]) -> list[int]:
    """The stores a topic voted for, from high to low and the lowest index of equals; then the rest in their order.

    The second half is not in the text of step 4 but in its example: topic c goes to node 2 as the only one with room.
    """
    own = sorted((store for store in stores if votes[store] > 0), key=lambda store: (-int(votes[store]), store))
    return own + [store for store in stores if votes[store] == 0]


def assign_in_rounds(problem: Problem, votes: Ints, stores: tuple[int, ...], rounds: list[list[int]]) -> Placement:
    """Walks the rounds; `rounds[r][t]` is how many replicas topic t takes in round r."""
    ledger = Ledger(problem, stores)
    order = by_weight(problem)
    wanted = [wishes(votes[topic], stores) for topic in range(len(problem.topics))]
    for quota in rounds:
        for topic in order:
            ledger.take(topic, wanted[topic], min(quota[topic], ledger.missing(topic)))
    return finish(ledger, wanted)


def finish(ledger: Ledger, wanted: list[list[int]]) -> Placement:
    """What the walk could not do: topics without a place get one, stores with too many requests are relieved."""
    for topic in by_weight(ledger.problem):
        squeeze_in(ledger, topic, wanted[topic])
    relieve(ledger)
    return ledger.placement()
