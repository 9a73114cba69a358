"""Where a plan's votes are counted: in this process, or on a cluster where that is sooner. Loaded when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from latecomer.cli.spark_options import opened, spark_libraries
from latecomer.planner.greedy import votes
from latecomer.planner.problem import Problem


def votes_from(master: str, memory: str, conf: Sequence[str] | None) -> Callable[[Problem], npt.NDArray[np.int64]]:
    """Embedded Spark has the cores that this process has, so it is never asked; the votes are the same anywhere."""
    if master.startswith("local"):
        return votes
    with spark_libraries():
        from latecomer.pipeline.planning import votes_by_size
        from latecomer.pipeline.session import SparkSettings, cores
    SparkSettings(master, memory).check()
    return votes_by_size(cores("local[*]"), lambda: opened(master, memory, conf))
