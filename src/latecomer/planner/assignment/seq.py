"""`seq`: a topic takes all its replicas at once (planning §5.3, step 4)."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.walk import assign_in_rounds
from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem


class Seq(msgspec.Struct, frozen=True, tag="seq"):
    """The heaviest topic chooses first, and has chosen when the next one begins."""

    def assign(self, problem: Problem, votes: npt.NDArray[np.int64], stores: tuple[int, ...]) -> Placement:
        return assign_in_rounds(problem, votes, stores, [problem.replicas.tolist()])
