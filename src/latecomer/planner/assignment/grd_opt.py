"""`grd_opt`: every topic on its own best votes, whatever stores and room that takes (planning §6): a yardstick."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.walk import by_weight
from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem


class GrdOpt(msgspec.Struct, frozen=True, tag="grd_opt"):
    """Keeps no limit on stores, room or requests; its stores are those that keep something."""

    def assign(self, problem: Problem, votes: npt.NDArray[np.int64], stores: tuple[int, ...]) -> Placement:
        allowed = np.flatnonzero(problem.open).tolist()
        found = []
        for topic in range(len(problem.topics)):
            row = votes[topic]
            # Decision: when a topic has votes for fewer than k, the lowest indices follow, as for the stores.
            best = sorted(allowed, key=lambda broker, row=row: (-int(row[broker]), broker))  # type: ignore[misc]
            found.append(tuple(best[: int(problem.replicas[topic])]))
        used = dict.fromkeys(broker for topic in by_weight(problem) for broker in found[topic])
        return Placement(tuple(used), tuple(found))
