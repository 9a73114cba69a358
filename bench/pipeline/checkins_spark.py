"""The job of `latecomer checkins` as Latecomer does it, on Spark; its answer in the words of the bench."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from latecomer.pipeline.checkins_job import Order, analyse_checkins


def analyse(spark: SparkSession, checkins: str, friends: str, now_us: int) -> dict[str, Any]:
    """Carry out the job once."""
    order = Order(files=(checkins,), format="parquet", friends=friends)
    found = analyse_checkins(spark, order, now_us=now_us)
    counts, figures = found.counts, found.figures
    told: dict[str, Any] = {name: getattr(counts, name) for name in counts.__struct_fields__}
    told["quantiles_s"] = list(counts.linger_quantiles_s.values())
    told["repeats"] = [number for row in figures.repeats for number in (row["visits"], row["pairs"])]
    told["hours"] = [number for row in figures.lingers for number in (row["hours"], row["visits"], row["visits_until"])]
    told["days"] = len(figures.days)
    told["groups"] = [sum(row[name] for row in figures.groups) for name in ("users", "visits", "pairs", "over_week")]
    return told
