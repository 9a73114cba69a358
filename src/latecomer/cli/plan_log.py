"""Demand for `latecomer plan` measured from a network's event log, with the evidence behind it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from latecomer.cli.log_options import classes_of, window_of
from latecomer.cli.spark_options import spark_libraries
from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.evidence import MISPLACED_MAX, Evidence, evidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROM_LOG = "--from-log"


class LogOrder(msgspec.Struct, frozen=True):
    """Which log, what is counted in it, and how much evidence there must be."""

    folder: Path
    classes: Path | None = None
    depth: int | None = None
    since: str = ""
    until: str = ""
    misplaced: float = MISPLACED_MAX
    """Share of the demand that may be taken to be where it is not."""

    def check(self) -> None:
        if not 0.001 <= self.misplaced <= 0.9:
            raise SettingsError("--misplaced", f"{self.misplaced:g} is not a share from 0.001 to 0.9")


def measured(order: LogOrder, session: Callable[[], AbstractContextManager[SparkSession]]) -> Demand:
    """Who asked for what, counted on Spark; an error that says how much is missing if that is too little."""
    order.check()
    classes, window = classes_of(order.classes, order.depth), window_of(order.since, order.until)
    with spark_libraries():
        from latecomer.pipeline.job import measured_demand
        from latecomer.pipeline.log import find_log
    log = find_log(order.folder)
    with session() as spark:
        demand = measured_demand(spark, log, classes, window)
    found = evidence(demand, order.misplaced)
    if found.missing:
        raise SettingsError(FROM_LOG, thin(found, order))
    return demand


def thin(found: Evidence, order: LogOrder) -> str:
    """What is missing, in a sentence."""
    if not found.requests:
        return (
            f"nobody asked for the past in {order.folder} in this time and these topics, so there is nothing to plan "
            f"for; widen --since, --depth or --classes, or name the demand with --demand"
        )
    places = f"{found.places} place{'' if found.places == 1 else 's'}"
    accepted = math.ceil(min(found.misplaced, 0.9) * 100) / 100
    waiting = f", {_duration(found.missing_s)} at the rate of the last {_duration(found.window_s)}"
    return (
        f"too little evidence: {found.requests:,} requests over {places} (topics at brokers) leave about "
        f"{min(found.misplaced, 1):.0%} of the demand where it may not be; {found.missing:,} more are needed for "
        f"{order.misplaced:.0%}{waiting if math.isfinite(found.missing_s) else ''}. Wait, widen --since, use fewer "
        f"classes (--depth, --classes), or accept it with --misplaced {accepted:g}"
    )


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
