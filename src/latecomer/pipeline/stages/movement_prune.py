"""What each context brings beyond the others, so that only those that improve on the more general ones are kept."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from latecomer.model.movement import PARTS
from latecomer.pipeline.stages.movement import CONTEXTS, answered, asked, known
from latecomer.pipeline.stages.movement_score import FLOOR, MICRO, Weights, shares, weight_of

GAINS = StructType([*CONTEXTS.fields, StructField("gain_micro", LongType())])


def gains(moves: DataFrame, found: DataFrame, weights: Weights, chain: Sequence[int], *, moves_only: bool) -> DataFrame:
    """The contexts of the chain, and what each gains: by how much the logarithm of the probability of what came next
    is greater if it is asked before the more general ones than if these are asked alone, summed over all it has seen.

    Stolcke prunes language models by this measure. The more particular ones are left out: of several that know the
    same, the most general stays.
    """
    seen = shares(answered(asked(moves), found, moves_only=moves_only), *PARTS)
    told = _chances(seen, weights, chain).select(*PARTS, f.inline(f.array(*_differences(chain))))
    summed = told.select("level", *known(), "gain").groupBy("level", *PARTS).agg(f.sum("gain").alias("gain_micro"))
    ours = found.where(f.col("level").isin(*chain))
    same = [ours[name].eqNullSafe(summed[name]) for name in ("level", *PARTS)]
    gain = f.coalesce(summed["gain_micro"], f.lit(0)).alias("gain_micro")
    return ours.join(summed, same, "left").select(*(ours[name] for name in CONTEXTS.names), gain)


def _chances(seen: DataFrame, weights: Weights, chain: Sequence[int]) -> DataFrame:
    """With a column p<level> for each level of the chain: how likely what came was, to it and the more general ones."""
    own = [weight_of(level, weights[level]).alias(f"w{level}") for level in chain]
    found, general = seen.select("*", *own), f.lit(FLOOR)
    for level in reversed(chain):  # one after another: as one expression the plan would repeat them over and over
        weight = f.col(f"w{level}")
        likely = weight * f.coalesce(f"x{level}", f.lit(0.0)) + (1.0 - weight) * general
        found, general = found.withColumn(f"p{level}", likely), f.col(f"p{level}")
    return found


def _differences(chain: Sequence[int]) -> list[Column]:
    """Of each level of the chain (level, gain)."""
    found = []
    for level, general in zip(chain, [*(f.col(f"p{other}") for other in chain[1:]), f.lit(FLOOR)], strict=True):
        gain = f.floor(f.col("times") * f.log(f.col(f"p{level}") / general) * MICRO).cast("long")
        found.append(f.struct(f.lit(level).alias("level"), gain.alias("gain")))
    return found
