"""Experiments on Spark: the measurements of one process, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from latecomer.cli.main import VERBS, run
from latecomer.experiments import grid
from latecomer.experiments.grid import Job, measure, on_spark
from latecomer.experiments.trials import Placing
from latecomer.pipeline import grid as spark_grid
from latecomer.pipeline.grid import spread

SMALL = [Placing(brokers=12, stores=stores, capacity=5) for stores in (2, 3, 4)]


def test_spark_measures_what_one_process_would(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    assert measure(SMALL, 3, file, spread=on_spark(spark)).rows == measure(SMALL, 3).rows

    def never(jobs: Sequence[Job]) -> Iterator[tuple[Job, grid.Measures]]:
        assert not jobs
        yield from ()

    assert measure(SMALL, 3, file, spread=never).rows == measure(SMALL, 3).rows, "all of it is in the file"


def test_what_was_done_before_a_failure_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    broken = Placing(brokers=2, stores=5, capacity=0)
    file = tmp_path / "file.jsonl"
    with pytest.raises(PySparkException):
        measure([*SMALL, broken], 2, file, spread=on_spark(spark))
    told: list[int] = []
    measure(SMALL, 2, file, told=lambda done, total: told.append(done))
    assert told[0] >= 2, "the first chunk was in the file before the second one failed"


def test_chunks_grow_while_they_are_short(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def chunk(
        spark: SparkSession, work: object, tasks: Sequence[bytes], chunk: range, parts: int
    ) -> list[tuple[int, bytes]]:
        sizes.append(len(chunk))
        return [(number, tasks[number]) for number in chunk]

    monkeypatch.setattr(spark_grid, "_chunk", chunk)
    tasks = [bytes([number]) for number in range(100)]
    assert sorted(spread(spark, bytes.upper, tasks)) == list(enumerate(tasks))
    assert sizes[:2] == [2, 2], "one for each core"
    assert max(sizes) >= 16
    assert sum(sizes) == 100


def test_reproduce_starts_no_spark_for_what_is_measured_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ["reproduce", "S7", "--quick", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)]) == 0

    def refused(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("latecomer.cli.reproduce.opened", refused)
    assert run(VERBS, ["reproduce", "S7", "--quick", "--seeds", "2", "--out", str(tmp_path), "--json"]) == 0
    assert '"S7"' in capsys.readouterr().out
