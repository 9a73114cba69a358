"""A program for a cluster: analyse a log, plan, and print the result.

Run as `python cluster_job.py MASTER LOGDIR short|long [KEY=VALUE…]`. It prints the name of each step before it begins,
one word per line, and at last the result as JSON.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from pyspark.sql import SparkSession

from latecomer.experiments import grid
from latecomer.experiments.trials import Placing
from latecomer.model.plan import PlanLimits
from latecomer.model.topology_generators import tree
from latecomer.pipeline.classes import named
from latecomer.pipeline.log import find_log
from latecomer.pipeline.measure import measure
from latecomer.pipeline.planning import votes_on
from latecomer.pipeline.session import SparkSettings, session
from latecomer.pipeline.source import register
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.problem import Problem, make_problem

BROKERS = 6
VOTES = {
    "short": Placing(brokers=60, topics=20, popularity=1.0, replicas=12, equal=True),
    "long": Placing(brokers=500, topics=150, popularity=1.0, replicas=12, equal=True),
}
"""Whose votes are counted; the long one takes long enough that a worker can be killed meanwhile."""
SMALL = Placing(brokers=12, stores=2, capacity=5)


def say(word: str) -> None:
    print(word, flush=True)


def analyzed_and_planned(spark: SparkSession, folder: Path, size: str, tasks: int = 4) -> dict[str, Any]:
    """What is measured in a log, the plan that follows, and the votes of another problem."""
    say("analyze")
    measured = measure(spark, find_log(folder), named([f"c{number}/#" for number in range(4)]), now_us=1 << 60)
    say("plan")
    asked = make_problem(tree(BROKERS, 2), measured.demand, PlanLimits(stores=2, capacity=2))
    placement = plan_with(asked, Wrr(), votes_on(spark, asked, tasks=2))
    say("votes")
    votes = votes_on(spark, problem(size), tasks=tasks)
    say("experiments")
    trials = grid.measure([SMALL], 3, spread=grid.on_spark(spark)).rows[SMALL]
    say("source")
    register(spark)
    counted = spark.read.format("latecomer").load(str(folder)).groupBy("kind").count().collect()
    return {
        "demand": msgspec.json.decode(msgspec.json.encode(measured.demand)),
        "hops": measured.distances.total.hops_sum,
        "replicas": [list(places) for places in placement.replicas],
        "votes": digest(votes),
        "trials": trials,
        "kinds": {row["kind"]: row["count"] for row in counted},
    }


def problem(size: str) -> Problem:
    return VOTES[size].problem(VOTES[size].ground(1))


def digest(votes: np.ndarray[Any, Any]) -> str:
    return blake2b(np.ascontiguousarray(votes).tobytes(), digest_size=16).hexdigest()


def main() -> None:
    master, folder, size, *conf = sys.argv[1:]
    told = dict(text.split("=", 1) for text in conf)
    with session(SparkSettings(master, "600m", told)) as spark:
        result = analyzed_and_planned(spark, Path(folder), size, tasks=8)
    say(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
