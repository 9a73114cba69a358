"""How much each kind of context is worth: weights learned by expectation–maximisation (Jelinek and Mercer).

There are at most 192 weights, so a sample of the questions, chosen by hash, is enough for any amount of data, and fits
into one process. Sums are of whole numbers: they do not depend on the order in which Spark hands the rows over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.movement import BUCKETS, LEVELS, PARTS, VARIETIES, WEIGHT_ONE
from latecomer.pipeline.stages.movement_score import EVERYTHING, FLOOR, MICRO, Weights, shares

SAMPLE = 100_000
ROUNDS = 30
STILL = WEIGHT_ONE // 500
"""Weights that change less than this have been learned."""
PRIOR = 2
"""Observations that the rule of thumb for a weight counts as."""
Numbers = npt.NDArray[Any]


class Sample:
    """Questions that came out: of each level the share of what came, and the bucket; -1 where it had nothing to say."""

    def __init__(self, answers: DataFrame, questions: int) -> None:
        every = -(-questions // SAMPLE)
        chosen = answers.where(f.pmod(f.xxhash64(*PARTS, "next"), f.lit(every)) == 0)
        table = shares(chosen).toArrow()
        self.times: Numbers = table["times"].to_numpy()
        levels = range(len(LEVELS))
        self.shares: list[Numbers] = [table[f"x{level}"].fill_null(0.0).to_numpy() for level in levels]
        self.buckets: list[Numbers] = [table[f"b{level}"].fill_null(-1).to_numpy() for level in levels]


def rule_of_thumb(chain: Sequence[int]) -> Weights:
    """Witten and Bell's: as likely as something new has been, seen / (seen + different), for the middle of a bucket."""
    row = []
    for number in range(BUCKETS):
        size, variety = divmod(number, VARIETIES)
        seen = 1.5 * 2**size if size else 1.0
        different = (1.0, seen / 5, seen / 2, seen)[variety]
        row.append(round(WEIGHT_ONE * seen / (seen + different)))
    return tuple(tuple(row) if level in chain else (0,) * BUCKETS for level in range(len(LEVELS)))


def learn(sample: Sample, chain: Sequence[int]) -> tuple[Weights, float]:
    """The weights under which what came out is likeliest, and the mean logarithm of how likely that is."""
    thumb = rule_of_thumb(chain)
    weights, likelihood = thumb, 0.0
    for _ in range(ROUNDS if len(sample.times) else 0):
        better, likelihood = _round(sample, chain, weights, thumb)
        pairs = (pair for rows in zip(weights, better, strict=True) for pair in zip(*rows, strict=True))
        change = max(abs(old - new) for old, new in pairs)
        weights = better
        if change < STILL:
            break
    return weights, likelihood


def _round(sample: Sample, chain: Sequence[int], weights: Weights, thumb: Weights) -> tuple[Weights, float]:
    """Weights under which it is likelier than under these; and how likely it is under these."""
    left = np.ones(len(sample.times))
    parts = {}
    for level in chain:
        row = np.array([*weights[level], 0]) / WEIGHT_ONE  # the last one is for bucket -1
        weight = row[sample.buckets[level]]
        parts[level] = left * weight * sample.shares[level]
        left = left * (1.0 - weight)
    total = left * FLOOR + sum(parts.values())
    reached = np.ones(len(sample.times))
    better = [(0,) * BUCKETS] * len(LEVELS)
    for level in chain:
        own = parts[level] / total
        sums = [_summed(sample.times * part, sample.buckets[level]) for part in (own, reached)]
        better[level] = tuple(
            min(EVERYTHING, max(1, (took * WEIGHT_ONE + PRIOR * MICRO * start) // (came + PRIOR * MICRO)))
            for took, came, start in zip(*sums, thumb[level], strict=True)
        )
        reached = reached - own
    logs = int(np.floor(sample.times * np.log(total) * MICRO).astype(np.int64).sum())
    return tuple(better), logs / MICRO / int(sample.times.sum())


def _summed(values: Numbers, buckets: Numbers) -> list[int]:
    """Micro-units per bucket."""
    sums = np.zeros(BUCKETS + 1, dtype=np.int64)
    np.add.at(sums, buckets, np.floor(values * MICRO).astype(np.int64))
    return [int(number) for number in sums[:BUCKETS]]
