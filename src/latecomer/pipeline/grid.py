"""Many tasks that have nothing to do with one another, on Spark, with results as they come.

Theory of operation. Tasks go out in chunks, each a small Spark job, and two chunks are on their way at any time: while
the last tasks of one are still running, those of the next take the cores that are free. What a chunk came to is handed
back when the chunk is done, so that whoever is killed has lost two chunks at most. Chunks begin small and grow until
one takes some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from latecomer.pipeline.planning import parallelism

CHUNK_S = 4.0
"""What a chunk should take: long next to what a job costs, short next to the patience of somebody who resumes."""
GROWTH = 2
IN_FLIGHT = 2
PARTS = 2
"""Of a chunk, for each core: tasks differ in length."""

SCHEMA = StructType([StructField("task", LongType(), False), StructField("result", BinaryType(), False)])
_BATCH = pa.schema([pa.field("task", pa.int64(), False), pa.field("result", pa.binary(), False)])

Result = tuple[int, bytes]


def spread(spark: SparkSession, work: Callable[[bytes], bytes], tasks: Sequence[bytes]) -> Iterator[Result]:
    """What each task came to, by its number, in the order they were done. The workers must be able to import `work`."""
    if not tasks:
        return
    cores = parallelism(spark)
    following, size = 0, cores
    running: dict[Future[list[Result]], float] = {}
    pool = ThreadPoolExecutor(IN_FLIGHT)
    try:
        while running or following < len(tasks):
            while following < len(tasks) and len(running) < IN_FLIGHT:
                chunk = range(following, min(following + size, len(tasks)))
                following = chunk.stop
                running[pool.submit(_chunk, spark, work, tasks, chunk, PARTS * cores)] = monotonic()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                took = monotonic() - running.pop(future)
                yield from future.result()
                if took < CHUNK_S / GROWTH:
                    size *= GROWTH
                elif took > CHUNK_S * GROWTH:
                    size = max(cores, size // GROWTH)
    except BaseException:
        for future in running:
            future.cancel()
        with suppress(Exception):  # Spark may be gone already
            spark.interruptAll()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunk(
    spark: SparkSession, work: Callable[[bytes], bytes], tasks: Sequence[bytes], chunk: range, parts: int
) -> list[Result]:
    given = {number: tasks[number] for number in chunk}

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            results = [work(given[number]) for number in numbers]
            yield pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(results, pa.binary())], schema=_BATCH)

    frame = spark.range(chunk.start, chunk.stop, 1, min(parts, len(chunk))).mapInArrow(run, SCHEMA)
    found = frame.toArrow()
    return list(zip(found.column("task").to_pylist(), found.column("result").to_pylist(), strict=True))
