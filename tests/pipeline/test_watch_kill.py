"""The short form of `watch_kill.py`: killed where it is most delicate, and taken over by another process.

Each starts a Java process of its own, so both are long. What a kill leaves behind, and a batch that Spark hands over
again after it, is also tested in one process, in test_watch.py.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.pipeline.classes import Classes
from latecomer.pipeline.watch_job import Wish, watch
from latecomer.pipeline.watch_state import taken
from tests.pipeline.watch_kill import Network, batches, command, started
from tests.pipeline.watch_log import MINUTE_S, plain_count, state_count

PATIENCE_S = 240.0


BEFORE = "batches/_0000000000"
"""Its first batch is not in place yet."""
AFTER = "batches/0000000000", "batches/0000000001"
"""A batch is in place, and Spark has not yet noted that."""


@pytest.mark.parametrize(
    "kills",
    [pytest.param([AFTER[0]], id="once"), pytest.param([BEFORE, AFTER[1]], id="twice")],
)
@pytest.mark.long
def test_killed_and_taken_over(kills: list[str], spark: SparkSession, tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    network = Network(log, seed=3)
    for _ in range(7):
        network.segment()
    for seen in kills:
        process = started(command(log, state), tmp_path)
        try:
            until = time.monotonic() + PATIENCE_S
            while not (state / seen).exists():
                assert process.poll() is None, "a watch ended by itself"
                assert time.monotonic() < until, f"{seen} was never there"
                time.sleep(0.002)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        network.segment()
    assert batches(state) >= len(kills) - 1

    wish = Wish(log, Classes(depth=2), MINUTE_S, segments=3)
    with taken(state, wish.options()) as mine:  # waits until the Java process of the killed one has ended
        last = list(watch(spark, mine, wish, once=True))[-1]
    assert state_count(state) == plain_count(log)
    assert last.total.rows == network.rows
    assert last.total.segments == network.segments
