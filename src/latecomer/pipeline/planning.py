"""The modified greedy on Spark: topic × origin tasks, the planner's own compiled loop, and votes that add up.

Theory of operation. What every task needs — distances, ways, rates — is in the function that is sent to the workers,
which Spark broadcasts when it is large; so the same code runs embedded, on a cluster, and behind Spark Connect. A
task is a block of topics and a block of origins. It runs `path_votes` or `nearest_votes` as the planner does, and hands
back its votes that are not zero as one Arrow batch. Votes are whole numbers, so their sum is the local result to the
last bit, in whatever order, and however often a task had to be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from latecomer.planner.greedy import Access, votes
from latecomer.planner.problem import Problem

Ints = npt.NDArray[np.int64]
Votes: TypeAlias = Callable[[Problem], Ints]

RUN_NS = 10.0
PICK_NS = 1.0
"""A greedy run takes about so long per broker, and per broker and pick (docs/reference/planner-speed.md, table 3)."""
TASK_S = 1.0
"""A task has about so much to do: enough that what Spark does about it does not count."""
FEWEST_TASKS, MOST_TASKS = 4, 4096
FIXED_S = 4.0
"""What Spark takes on top: sending, Python on every worker, the compiled loop read from numba's cache."""
START_S = 8.0
"""And a session that has to be started first."""
PROBE = 10_000
"""Rows that every cluster cuts into as many parts as it has cores."""

SCHEMA = StructType(
    [
        StructField("topic", IntegerType(), nullable=False),
        StructField("broker", IntegerType(), nullable=False),
        StructField("votes", LongType(), nullable=False),
    ]
)
_BATCH = pa.schema(
    [pa.field("topic", pa.int32(), False), pa.field("broker", pa.int32(), False), pa.field("votes", pa.int64(), False)]
)


class Packed(NamedTuple):
    """An array on its way to the workers."""

    kind: str
    shape: tuple[int, ...]
    size: int
    data: bytes

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Packed:
        """Compressed: behind Connect a message has at most 128 MB, and ways and distances repeat themselves."""
        flat = np.ascontiguousarray(array)
        return cls(flat.dtype.str, flat.shape, flat.nbytes, pa.compress(flat.data, codec="zstd", asbytes=True))

    def array(self) -> npt.NDArray[Any]:
        found = pa.decompress(self.data, self.size, codec="zstd")
        return np.frombuffer(found, np.dtype(self.kind)).reshape(self.shape)


class Blocks(NamedTuple):
    """How the work is cut: task i has the topics i // origins of `topics` blocks, and the origins i % origins."""

    topics: int
    origins: int

    @property
    def tasks(self) -> int:
        return self.topics * self.origins


def kernel_s(problem: Problem) -> float:
    """About how long all runs take on one core."""
    count = len(problem.brokers)
    each = RUN_NS + PICK_NS * np.minimum(problem.replicas, count).astype(np.float64)
    return float(each.sum()) * int((problem.entry > 0).sum()) * count * 1e-9


def blocks_for(problem: Problem, tasks: int | None = None) -> Blocks:
    """Blocks of topics first, as their votes have nothing in common; origins where topics are too few."""
    wanted = tasks or min(MOST_TASKS, max(FEWEST_TASKS, round(kernel_s(problem) / TASK_S)))
    topics = min(len(problem.topics), wanted)
    return Blocks(topics, min(len(problem.brokers), max(1, round(wanted / topics))))


def votes_on(spark: SparkSession, problem: Problem, access: Access = "path", *, tasks: int | None = None) -> Ints:
    """[T, N] what `planner.greedy.votes` says, computed on Spark."""
    blocks = blocks_for(problem, tasks)
    work = _work(problem, access, blocks)
    found = (
        spark.range(0, blocks.tasks, 1, blocks.tasks)
        .mapInArrow(work, SCHEMA)
        .groupBy("topic", "broker")
        .agg(F.sum("votes").alias("votes"))
        .toArrow()
    )
    total = np.zeros(problem.rates.shape, np.int64)
    total[_numbers(found, "topic"), _numbers(found, "broker")] = _numbers(found, "votes")
    return total


def parallelism(spark: SparkSession) -> int:
    """Tasks that run at the same time; asked in a way that Connect answers, too."""
    return spark.range(PROBE).select(F.spark_partition_id().alias("part")).distinct().count()


def pays(problem: Problem, here: int, there: int, fixed_s: float = FIXED_S) -> bool:
    """Whether `there` cores of Spark are done before `here` cores of this process."""
    alone = kernel_s(problem)
    return fixed_s + alone / there < alone / here


def votes_by_size(here: int, opened: Callable[[], AbstractContextManager[SparkSession]]) -> Votes:
    """Votes from wherever they come sooner: from `here` cores of this process, or from the Spark that `opened` opens.

    A session is only opened when a cluster without end would be worth its start.
    """

    def chosen(problem: Problem) -> Ints:
        if pays(problem, here, MOST_TASKS, FIXED_S + START_S):
            with opened() as spark:
                if pays(problem, here, parallelism(spark)):
                    return votes_on(spark, problem)
        return votes(problem)

    return chosen


def _work(problem: Problem, access: Access, blocks: Blocks) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a worker does with its task numbers."""
    count = len(problem.brokers)
    most = np.minimum(problem.replicas, count)
    sent = [
        Packed.of(array)
        for array in (problem.distance, problem.toward, problem.rates, problem.entry, problem.open, most)
    ]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        # By name, on the worker: a compiled function that is sent along would be compiled there once more.
        from latecomer.planner.greedy_kernels import nearest_votes, path_votes

        run = path_votes if access == "path" else nearest_votes
        distance, toward, rates, entry, allowed, picks = (packed.array() for packed in sent)
        topics = np.array_split(np.arange(len(rates)), blocks.topics)
        for batch in batches:
            for task in batch.column("id").to_pylist():
                mine = topics[task // blocks.origins]
                # Every so many, as neighbours in number are often alike in effort.
                origins = np.arange(task % blocks.origins, count, blocks.origins)
                found = np.zeros((len(mine), count), np.int64)
                run(distance, toward, rates[mine], entry, allowed, picks[mine], origins, found)
                at, broker = np.nonzero(found)
                columns = mine[at].astype(np.int32), broker.astype(np.int32), found[at, broker]
                yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_BATCH)

    return work


def _numbers(table: Any, name: str) -> Ints:
    found: Ints = table.column(name).to_numpy().astype(np.int64)
    return found
