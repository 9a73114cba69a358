"""Real clusters on loopback: a standalone master with its workers, one of which may be killed, and Spark Connect.

Every test here starts Java processes of its own, so all are long. What the jobs compute is tested on embedded Spark in
test_planning.py, test_grid.py and test_measure.py, and what `--master` accepts and refuses in test_session.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from latecomer.eventlog.writer import SegmentWriter
from latecomer.experiments import grid
from latecomer.model.record import Kind, Record
from latecomer.planner.greedy import votes
from tests.pipeline import cluster_job
from tests.pipeline.cluster import DRIVER, MARK, Started, left_by, start_cluster, start_connect, started
from tests.pipeline.cluster_job import BROKERS, SMALL, analyzed_and_planned, digest, problem

pytestmark = pytest.mark.long

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every broker asks for some classes more than for others, and is answered by the first."""
    folder = tmp_path_factory.mktemp("log")
    for number in range(1, BROKERS + 1):
        broker = f"b{number}"
        with SegmentWriter(folder / broker / "events", broker, rows_max=60) as writer:
            for turn in range(20 * number):
                topic = f"c{turn * number % 4}/#"
                at = START + turn * SECOND
                writer.add(Record(at, broker, Kind.REQUESTED, client="c", filter=topic))
                done = Record(at + 1000, broker, Kind.RECALLED, client="c", filter=topic, peer="b1", detail="complete")
                writer.add(msgspec.structs.replace(done, hops=number - 1, count=1))
    return folder


def expected(spark: SparkSession, log: Path, size: str) -> dict[str, Any]:
    """What embedded Spark says, and of the votes what the planner itself says."""
    found = analyzed_and_planned(spark, log, size)
    assert found["votes"] == digest(votes(problem(size)))
    assert found["trials"] == grid.measure([SMALL], 3).rows[SMALL]
    assert found["kinds"] == {"requested": 420, "recalled": 420}
    return found


@pytest.fixture(scope="module")
def short(spark: SparkSession, log: Path) -> dict[str, Any]:
    return expected(spark, log, "short")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Started]:
    with started(tmp_path / "spark") as found:
        yield found
    assert not left_by(found.environment[MARK]), "a process was left behind"


class Job:
    """The program of `cluster_job`, in a process of its own: another one has the session of the tests."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.said = process.stdout

    def until(self, word: str) -> None:
        """Wait until it says so."""
        assert any(line.strip() == word for line in self.said), f"it ended with {self.process.wait()} before {word}"

    def result(self) -> Any:
        lines = self.said.read().splitlines()
        assert self.process.wait() == 0
        return msgspec.json.decode(lines[-1])


@contextmanager
def job(running: Started, master: str, log: Path, size: str, **conf: str) -> Iterator[Job]:
    program = [sys.executable, cluster_job.__file__, master, str(log), size, *(f"{k}={v}" for k, v in conf.items())]
    with subprocess.Popen(program, env=running.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Job(process)
        finally:
            process.kill()


def test_a_cluster_comes_to_the_same(running: Started, log: Path, short: dict[str, Any]) -> None:
    with job(running, start_cluster(running, 1), log, "short", **DRIVER) as at_work:
        assert at_work.result() == short


def test_a_cluster_that_loses_a_worker_comes_to_the_same(spark: SparkSession, running: Started, log: Path) -> None:
    with job(running, start_cluster(running, 2), log, "long", **DRIVER) as at_work:
        at_work.until("votes")
        time.sleep(0.5)  # until they are being counted
        running.kill("worker0")
        assert at_work.process.poll() is None
        assert at_work.result() == expected(spark, log, "long")


def test_spark_connect_comes_to_the_same(running: Started, log: Path, short: dict[str, Any]) -> None:
    with job(running, start_connect(running), log, "short") as at_work:
        assert at_work.result() == short
