"""`latecomer plan --from-log`: demand from a log, and a refusal that says how much is missing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.cli.plan_log import LogOrder, measured
from latecomer.eventlog.writer import SegmentWriter
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.record import Kind, Record

SECOND_US = 1_000_000
BEGIN_US = 1_700_000_000 * SECOND_US


def write_log(folder: Path, requests: int) -> Path:
    """One request in a second, for three districts at four brokers in turn; nobody wants `sea/#` but publishers."""
    with SegmentWriter(folder, "b1") as log:
        log.add(Record(BEGIN_US, "b1", Kind.PUBLISHED, client="p", topic="sea/1"))
        for number in range(requests):
            at, broker, district = BEGIN_US + number * SECOND_US, f"b{1 + number % 4}", f"city/{number % 3}/#"
            log.add(Record(at, broker, Kind.REQUESTED, client="c", filter=district))
    return folder


def test_enough_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    order = LogOrder(write_log(tmp_path / "log", 240), depth=2)
    demand = measured(order, lambda: nullcontext(spark))
    assert demand.topics == ("city/0/#", "city/1/#", "city/2/#", "sea/1/#")
    assert demand.requests == 240
    assert demand.rates["city/0/#"] == pytest.approx({f"b{broker}": 20 / demand.window_s for broker in range(1, 5)})
    assert demand.window_s == pytest.approx(239, abs=0.01)


def test_too_little_is_refused_with_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 48)
    with pytest.raises(SettingsError) as refused:
        measured(LogOrder(folder, depth=2), lambda: nullcontext(spark))
    told = str(refused.value)
    assert "48 requests over 12 places" in told
    assert "more are needed for 10%" in told
    accepted = float(told.rpartition("--misplaced ")[2])
    assert measured(LogOrder(folder, depth=2, misplaced=accepted), lambda: nullcontext(spark)).requests == 48


def test_a_log_that_nobody_asked_in(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nobody asked for the past.*--demand"):
        measured(LogOrder(write_log(tmp_path / "log", 0)), lambda: nullcontext(spark))


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (LogOrder(Path("nowhere")), "does not exist"),
        (LogOrder(Path(), misplaced=0), "--misplaced: 0 is not a share"),
        (LogOrder(Path(), depth=99), "--depth"),
        (LogOrder(Path(), since="yesterday"), "--since"),
        (LogOrder(Path(), classes=Path("nowhere")), "--classes.*cannot be read"),
    ],
)
def test_orders_that_cannot_be_carried_out(order: LogOrder, told: str, tmp_path: Path) -> None:
    with pytest.raises(LatecomerError, match=told):
        measured(order, lambda: pytest.fail("Spark is not needed to see that"))
