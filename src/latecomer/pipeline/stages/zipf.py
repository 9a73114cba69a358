"""Demand → popularity and locality of the topic classes, and the exponents of Zipf's law that fit them best.

As in *planning* §6: the popularity of a class is its share of all requests, its locality the share of the brokers that
ask for it, and both fall as rank ** -s. The exponents are those of the greatest likelihood, with the standard error
that the curvature there gives. Ranks come from the counts themselves, so with little evidence s is rather too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

STEPS = 200
EXPONENT_MOST = 32.0
DIGITS = 6
"""Further ones depend on the machine's logarithm."""


class Fit(msgspec.Struct, frozen=True):
    """An exponent, and how far it can be trusted."""

    exponent: float
    error: float
    """Standard; 0 if there is nothing to be wrong about."""
    ranks: int
    events: int
    """Requests, or pairs of class and broker."""


def popularity(demand: DataFrame, classes: Sequence[str], brokers: int) -> DataFrame:
    """One row for every class, also for those that nobody asks for; rank 1 is the most popular, equals by name."""
    spark = demand.sparkSession
    names = spark.createDataFrame([(name,) for name in classes], "class string")
    asked = demand.where("class != ''").groupBy("class")
    counts = asked.agg(f.sum("requests").alias("requests"), f.countDistinct("broker").alias("brokers"))
    all = names.join(counts, "class", "left").fillna(0, ["requests", "brokers"])
    total = Window.partitionBy(f.lit(0))
    share = (f.col("requests") / f.sum("requests").over(total)).alias("popularity")
    return all.select(
        "class",
        "requests",
        f.coalesce(share, f.lit(0.0)).alias("popularity"),
        f.row_number().over(total.orderBy(f.desc("requests"), "class")).alias("popularity_rank"),
        "brokers",
        (f.col("brokers") / max(1, brokers)).alias("locality"),
        f.row_number().over(total.orderBy(f.desc("brokers"), "class")).alias("locality_rank"),
    )


def fit(counts: Sequence[int]) -> Fit | None:
    """The exponent of Zipf's law over so many ranks, of which each occurred so often; None without two ranks or events.

    Maximum likelihood: the expected logarithm of the rank is the observed one. It falls with the exponent, so it is
    found by halving.
    """
    numbers = np.sort(np.asarray(counts, np.int64))[::-1]
    events = int(numbers.sum())
    if len(numbers) < 2 or not events:
        return None
    logs = np.log(np.arange(1, len(numbers) + 1, dtype=np.float64))
    seen = math.fsum((numbers * logs).tolist()) / events
    low, high = 0.0, EXPONENT_MOST
    if _moments(logs, low)[0] <= seen:  # as flat as can be
        high = low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _moments(logs, middle)[0] > seen else (low, middle)
        if high - low < 1e-12:
            break
    spread = _moments(logs, low)[1]
    error = 1 / math.sqrt(events * spread) if spread > 0 else 0.0
    return Fit(round(low, DIGITS), round(error, DIGITS), len(numbers), events)


def _moments(logs: np.ndarray[tuple[int], np.dtype[np.float64]], exponent: float) -> tuple[float, float]:
    """Mean and variance of the logarithm of the rank."""
    weights = np.exp(-exponent * logs)
    weights /= weights.sum()
    mean = float(weights @ logs)
    return mean, float(weights @ (logs - mean) ** 2)
