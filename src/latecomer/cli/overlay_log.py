"""Publications, subscriptions and their changes for `latecomer overlay` and `latecomer homes`, from an event log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from latecomer.cli.log_options import classes_of, window_of
from latecomer.cli.spark_options import spark_libraries
from latecomer.model.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.pipeline.overlay_log import MeasuredOverlay

FROM_LOG = "--from-log"


class LogWindow(msgspec.Struct, frozen=True):
    """Which log, and what is counted in it."""

    folder: Path
    classes: Path | None = None
    depth: int | None = None
    since: str = ""
    until: str = ""


class Churn(msgspec.Struct, frozen=True):
    """How often subscriptions changed in the window."""

    began: int
    ended: int
    window_s: float


def measured_overlay(order: LogWindow, session: Callable[[], AbstractContextManager[SparkSession]]) -> MeasuredOverlay:
    """What was published and who wants what, counted on Spark; an error where the log says too little."""
    classes, window = classes_of(order.classes, order.depth), window_of(order.since, order.until)
    with spark_libraries():
        from latecomer.pipeline.log import find_log
        from latecomer.pipeline.overlay_log import measure_overlay
    log = find_log(order.folder)
    with session() as spark:
        found = measure_overlay(spark, log, classes, window)
    if not found.demand.total_publications():
        raise SettingsError(FROM_LOG, f"nothing was published in {order.folder} in this time; widen --since")
    if not found.subscriptions:
        raise SettingsError(FROM_LOG, f"nobody subscribes to anything in {order.folder} at the end of this time")
    return found
