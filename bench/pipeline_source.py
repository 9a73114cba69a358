"""Rows per second of the data source, beside Spark's own Parquet reader on the same log.

    python bench/pipeline_source.py [--rows 2000000] [--segment-rows 100000] [--rounds 3] [--master 'local[2]']

Each question is asked of both, in turns; a figure is the median. The first round of each is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from latecomer.eventlog.writer import SegmentWriter
from latecomer.model.record import Kind, Record
from latecomer.pipeline.log import find_log, read_segments
from latecomer.pipeline.session import SparkSettings, session
from latecomer.pipeline.source import register

START_US = 1_790_000_000_000_000
BROKERS, TOPICS, CLIENTS = 20, 200, 1000
KINDS = (Kind.PUBLISHED, Kind.DELIVERED, Kind.DELIVERED, Kind.REQUESTED)


class Line(NamedTuple):
    """What one question took."""

    question: str
    rows: int
    parquet_s: float
    source_s: float


def write_log(folder: Path, rows: int, segment_rows: int) -> None:
    """A log like that of a network: each broker its own folder."""
    for broker in range(BROKERS):
        name = f"b{broker}"
        with SegmentWriter(folder / name / "events", name, boot=1, rows_max=segment_rows) as writer:
            for number in range(rows // BROKERS):
                topic = f"class{number % 7}/sensor{number % TOPICS}"
                kind = KINDS[number % len(KINDS)]
                client = f"client-{number * 7919 % CLIENTS}"
                writer.add(
                    Record(START_US + number * 1000, name, kind, client=client, topic=topic, hops=number % 5, count=1)
                )


def questions(spark: SparkSession, folder: Path) -> list[tuple[str, Callable[[], DataFrame], Callable[[], DataFrame]]]:
    """The same of Parquet and of the source."""
    log = find_log(folder)

    def parquet() -> DataFrame:
        return read_segments(spark, log)

    def source(**options: str) -> DataFrame:
        return spark.read.format("latecomer").options(**options).load(str(folder))

    grouped = ("topic", "kind")
    return [
        (
            "count by topic and kind, all columns offered",
            lambda: parquet().groupBy(*grouped).count(),
            lambda: source().groupBy(*grouped).count(),
        ),
        (
            "the same, two columns named",
            lambda: parquet().select(*grouped).groupBy(*grouped).count(),
            lambda: (
                spark.read.format("latecomer")
                .schema("topic string, kind string")
                .load(str(folder))
                .groupBy(*grouped)
                .count()
            ),
        ),
        (
            "one broker of twenty",
            lambda: parquet().where("broker = 'b3'").groupBy(*grouped).count(),
            lambda: source(broker="b3").groupBy(*grouped).count(),
        ),
        (
            "one topic of two hundred",
            lambda: parquet().where("topic = 'class3/sensor10'").groupBy(*grouped).count(),
            lambda: source(topic="class3/sensor10").groupBy(*grouped).count(),
        ),
    ]


def measure(spark: SparkSession, folder: Path, rows: int, rounds: int) -> list[Line]:
    """Each question of both, in turns."""
    register(spark)
    found: list[Line] = []
    for question, parquet, source in questions(spark, folder):
        times: dict[bool, list[float]] = {False: [], True: []}
        answers = {}
        for _ in range(rounds + 1):
            for own in (False, True):
                began = time.perf_counter()
                answer = (source if own else parquet)().collect()
                times[own].append(time.perf_counter() - began)
                answers[own] = sorted(map(tuple, answer))
        assert answers[False] == answers[True], question
        found.append(Line(question, rows, median(times[False][1:]), median(times[True][1:])))
    return found


def table(lines: list[Line]) -> str:
    """For a page."""
    told = ["| question | Parquet, rows/s | source, rows/s | source / Parquet |", "|---|---:|---:|---:|"]
    for line in lines:
        speeds = [line.rows / line.parquet_s, line.rows / line.source_s]
        told.append(f"| {line.question} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {speeds[1] / speeds[0]:.2f} |")
    return "\n".join(told)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--segment-rows", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--master", default="local[2]")
    options.add_argument("--memory", default="2g")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="latecomer-bench-") as folder:
        write_log(Path(folder), given.rows, given.segment_rows)
        with session(SparkSettings(given.master, given.memory)) as spark:
            print(table(measure(spark, Path(folder), given.rows, given.rounds)))


if __name__ == "__main__":
    main()
