"""Hits by client → accuracies with intervals.

Clients differ, and what one does next week resembles what it did this week: the interval treats clients as drawn by
chance, not questions. A share h/n over clients has the variance Σ(h_c − share·n_c)² / n² · m/(m−1), so that a handful
of sums of whole numbers is all that leaves Spark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.movement import SCORE_ONE

NORMAL_95 = 1.959964


class Share(msgspec.Struct, frozen=True):
    """A share or a difference of two, with its 95 % interval."""

    mean: float
    low: float
    high: float


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How often one method was right."""

    method: str
    asked: int
    clients: int
    top1: Share
    top3: Share
    told: float
    """The mean probability that its first place had; 0 where it tells none. Honest ones tell as much as they hit."""
    behind1: Share
    """By how much its top-1 is below that of the model, on the same questions."""
    behind3: Share


def accuracies(hits: DataFrame, names: Sequence[str], *, reference: int) -> tuple[Accuracy, ...]:
    """Of each method in the table that `stages.movement_score.hits` makes; `reference` is the number of the model."""
    asked = f.col("asked")
    sums = {"m": f.count("*"), "n": f.sum("asked"), "nn": f.sum(asked * asked)}
    for number in range(len(names)):
        sums[f"told_{number}"] = f.sum(f"told_{number}")
        for top in ("h1", "h3"):
            hit = f.col(f"{top}_{number}")
            behind = f.col(f"{top}_{reference}") - hit
            for name, value in ((f"{top}_{number}", hit), (f"d{top}_{number}", behind)):
                sums[name] = f.sum(value)
                sums[f"{name}_2"] = f.sum(value * value)
                sums[f"{name}_n"] = f.sum(value * asked)
    found: dict[str, int] = hits.agg(*(column.alias(name) for name, column in sums.items())).collect()[0].asDict()
    return tuple(
        Accuracy(
            method=name,
            asked=found["n"],
            clients=found["m"],
            top1=_share(found, f"h1_{number}"),
            top3=_share(found, f"h3_{number}"),
            told=found[f"told_{number}"] / SCORE_ONE / found["n"],
            behind1=_share(found, f"dh1_{number}", least=-1.0),
            behind3=_share(found, f"dh3_{number}", least=-1.0),
        )
        for number, name in enumerate(names)
    )


def _share(sums: Mapping[str, int], name: str, least: float = 0.0) -> Share:
    n, m, hits = sums["n"], sums["m"], sums[name]
    mean = hits / n
    if m < 2:
        return Share(mean, least, 1.0)
    # n²·Σ(h − share·n_c)², in whole numbers: nothing is lost between large ones.
    squares = sums[f"{name}_2"] * n * n - 2 * hits * n * sums[f"{name}_n"] + hits * hits * sums["nn"]
    half = NORMAL_95 * math.sqrt(max(0, squares) * m / (m - 1)) / n / n
    return Share(mean, max(least, mean - half), min(1.0, mean + half))
