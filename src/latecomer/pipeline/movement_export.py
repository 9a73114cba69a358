"""Contexts → the file that brokers load; and that file asked the questions of the test, as a broker would ask it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.errors import SettingsError
from latecomer.model.movement import LEVELS, SCORE_ONE, Followers, Movement, indexed, read_movement
from latecomer.pipeline.stages.movement import CONTEXTS
from latecomer.pipeline.stages.movement_score import TOP, Weights

CONTEXTS_MAX = 2_000_000
MICRO = 1_000_000
ALWAYS = (("client",), ("place",), ())
"""What is always in a model: where a client or a place is new, these are all that can be said."""
ANSWERS = "client string, times bigint, ranks array<int>, told array<bigint>"
ARROW = pa.schema(
    [("client", pa.string()), ("times", pa.int64()), ("ranks", pa.list_(pa.int32())), ("told", pa.list_(pa.int64()))]
)


class Kind(msgspec.Struct, frozen=True):
    """What a model is beside its contexts."""

    chain: tuple[int, ...]
    weights: Weights
    band_h: int
    moves_only: bool


def models(gained: DataFrame, kind: Kind, thresholds: Sequence[float | None]) -> list[Movement]:
    """One for each threshold, with the contexts that gain more than that many nats; None: with all of them."""
    count = gained.count()
    if count > CONTEXTS_MAX:
        told = f"{count:,} contexts are more than the {CONTEXTS_MAX:,} of a model; take larger cells"
        raise SettingsError("--cell", told)
    rows = gained.select(*CONTEXTS.names, "gain_micro").toArrow().to_pylist()
    return [_model(rows, kind, threshold) for threshold in thresholds]


def _model(rows: Sequence[dict[str, Any]], kind: Kind, threshold: float | None) -> Movement:
    least = -math.inf if threshold is None else threshold * MICRO
    kept = [row for row in rows if row["gain_micro"] > least or LEVELS[row["level"]] in ALWAYS]
    named = {one["next"] for row in kept for one in row["followers"]}
    named.update(row[part] for row in kept for part in ("before", "place") if row[part] is not None)
    population: dict[int, Followers] = {}
    clients: dict[str, dict[int, Followers]] = {}
    model = indexed(
        Movement(
            places=tuple(sorted(named)),
            band_h=kind.band_h,
            levels=kind.chain,
            weights=tuple(kind.weights[level] for level in kind.chain),
            moves_only=kind.moves_only,
            population=population,
            clients=clients,
        )
    )
    for row in kept:
        before, place = (-1 if row[part] is None else model.numbers[row[part]] for part in ("before", "place"))
        key = model.key(before, place, -1 if row["band"] is None else row["band"])
        followers = (number for one in row["followers"] for number in (model.numbers[one["next"]], one["times"]))
        own = population if row["client"] is None else clients.setdefault(row["client"], {})
        own[key] = (row["total"], *followers)
    return model


def asked_of_models(questions: DataFrame, files: Sequence[bytes], band_h: int) -> DataFrame:
    """The table of hits, as `stages.movement_score.hits` makes it, of models as brokers load them."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = [read_movement(file, "the exported model") for file in files]
        for batch in batches:
            yield pa.RecordBatch.from_pylist([_answered(row, loaded, band_h) for row in batch.to_pylist()], ARROW)

    answers = questions.mapInArrow(answer, ANSWERS)
    times, sums = f.col("times"), [f.sum("times").alias("asked")]
    for number in range(len(files)):
        rank = f.col("ranks")[number]
        sums += [
            f.sum(f.when(rank == 1, times).otherwise(0)).alias(f"h1_{number}"),
            f.sum(f.when(rank > 0, times).otherwise(0)).alias(f"h3_{number}"),
            f.sum(f.col("told")[number] * times).alias(f"told_{number}"),
        ]
    return answers.groupBy("client").agg(*sums)


def _answered(row: dict[str, Any], models: Sequence[Movement], band_h: int) -> dict[str, Any]:
    ranks, told = [], []
    for model in models:
        hour = row["band"] * band_h
        named = model.predict(row["client"], row["place"], hour, row["before"] or "", TOP)
        found = [number for number, guess in enumerate(named, 1) if guess.place == row["next"]]
        ranks.append(found[0] if found else 0)
        told.append(round(named[0].probability * SCORE_ONE) if named else 0)
    return {"client": row["client"], "times": row["times"], "ranks": ranks, "told": told}
