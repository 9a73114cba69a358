"""From visits to transitions, contexts and rankings: the same as the model that brokers load."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from latecomer.model.movement import FIRST_ORDER, LEVELS, PARTS, SECOND_ORDER, Movement, write_movement
from latecomer.pipeline.movement_accuracy import accuracies
from latecomer.pipeline.movement_export import Kind, asked_of_models, models
from latecomer.pipeline.movement_learn import Sample, learn, rule_of_thumb
from latecomer.pipeline.stages.movement import (
    BETWEEN,
    LATE,
    LEARN,
    TEST,
    TUNE,
    VISITS,
    answered,
    asked,
    contexts,
    parted,
    transitions,
)
from latecomer.pipeline.stages.movement_prune import gains
from latecomer.pipeline.stages.movement_score import hits, ranked, strict

HOUR_US = 3_600_000_000
CUT_US = 130 * HOUR_US
Visit = tuple[str, str, int, int | None]


def table(spark: SparkSession, visits: Sequence[Visit]) -> DataFrame:
    return spark.createDataFrame(list(visits), VISITS)


def wander(chance: Random, clients: int, steps: int) -> list[Visit]:
    """Everybody has a few haunts, and mostly goes round them."""
    found: list[Visit] = []
    for client in range(clients):
        haunts = chance.sample("abcdefgh", 3)
        for step in range(steps):
            place = haunts[step % 3] if chance.random() < 0.7 else chance.choice("abcdefgh")
            found.append((f"c{client}", place, step * 5 * HOUR_US, step * 5 * HOUR_US + HOUR_US))
    return found


def test_a_move_leads_to_another_place_and_a_next_visit_anywhere(spark: SparkSession) -> None:
    visits = table(
        spark,
        [
            ("ann", "home", 0, HOUR_US),
            ("ann", "home", 2 * HOUR_US, 9 * HOUR_US),
            ("ann", "work", 10 * HOUR_US, 30 * HOUR_US),  # overlaps the next one: left when that began
            ("ann", "home", 18 * HOUR_US, None),
            ("ann", "pub", 44 * HOUR_US, None),
            ("bob", "home", HOUR_US, HOUR_US),
        ],
    )
    moves = transitions(visits, moves_only=True, band_h=4).orderBy("left_us").collect()
    assert [(row["before"], row["place"], row["next"]) for row in moves] == [
        (None, "home", "work"),
        ("home", "work", "home"),
        ("work", "home", "pub"),
    ]
    assert [row["left_us"] // HOUR_US for row in moves] == [9, 18, 44]  # nothing says when the last ones ended
    assert [row["band"] for row in moves] == [2, 4, 5]
    following = transitions(visits, moves_only=False, band_h=24).orderBy("left_us").collect()
    assert [(row["place"], row["next"]) for row in following] == [
        ("home", "home"),
        ("home", "work"),
        ("work", "home"),
        ("home", "pub"),
    ]


def test_what_is_tested_is_not_learned_and_what_straddles_is_neither(spark: SparkSession) -> None:
    visits = [("ann", place, at, at) for place, at in zip("abcdefg", (0, 10, 45, 55, 75, 85, 100), strict=True)]
    moves = transitions(table(spark, [*visits, ("bob", "a", 0, 0), ("bob", "b", 50, 50)]), moves_only=True, band_h=4)
    cut = parted(moves, test_us=20, tune_us=30, each=False).orderBy("client", "left_us").collect()
    assert [(row["client"], row["next"], row["part"]) for row in cut] == [
        ("ann", "b", LEARN),
        ("ann", "c", LEARN),
        ("ann", "d", LATE),
        ("ann", "e", TUNE),
        ("ann", "f", BETWEEN),
        ("ann", "g", TEST),
        ("bob", "b", LEARN),
    ]
    own = parted(moves, test_us=20, tune_us=30, each=True).where("client = 'bob'").collect()
    assert [row["part"] for row in own] == [BETWEEN]


def test_contexts_count_what_came_next(spark: SparkSession) -> None:
    visits = [("ann", place, at * HOUR_US, at * HOUR_US) for at, place in enumerate("ababac")]
    found = contexts(transitions(table(spark, visits), moves_only=True, band_h=24)).collect()
    told = {
        (row["level"], *(row[part] for part in PARTS)): (row["total"], [tuple(one) for one in row["followers"]])
        for row in found
    }
    assert told[7, None, None, None, None] == (5, [("a", 2), ("b", 2), ("c", 1)])
    assert told[2, "ann", None, "a", None] == (3, [("b", 2), ("c", 1)])
    assert told[0, "ann", "b", "a", None] == (2, [("b", 1), ("c", 1)])
    assert told[5, None, None, "b", 0] == (2, [("a", 2)])
    assert (4, None, None, "a", None) not in told, "where nothing was before, no context knows of a before"


@pytest.mark.parametrize("moves_only", [True, False])
def test_spark_ranks_as_the_model_does_to_the_last_bit(spark: SparkSession, moves_only: bool) -> None:
    moves = transitions(table(spark, wander(Random(4), clients=6, steps=40)), moves_only=moves_only, band_h=6)
    known, test = moves.where(f.col("came_us") < CUT_US), moves.where(f.col("left_us") > CUT_US)
    found, questions = contexts(known).withColumn("gain_micro", f.lit(0)), asked(test).persist()
    chains = {"first": FIRST_ORDER, "second": SECOND_ORDER}
    weights = {name: rule_of_thumb(chain) for name, chain in chains.items()}
    rankings = ranked(answered(questions, found, moves_only=moves_only), weights).persist()
    rows = rankings.collect()
    made = []
    for name, chain in chains.items():
        kind = Kind(chain, weights[name], 6, moves_only)
        made += models(found.where(f.col("level").isin(*chain)), kind, [None])
        assert [_named(row, name) for row in rows] == [_asked(made[-1], row) for row in rows]
    by_model = asked_of_models(questions, [write_movement(model) for model in made], 6).orderBy("client")
    by_spark = hits(rankings, list(weights), stay=False).select(*by_model.columns).orderBy("client")
    assert by_model.collect() == by_spark.collect()
    assert sum(row["h1_1"] for row in by_spark.collect()) > 0


def _named(row: Row, method: str) -> list[tuple[str, float]]:
    return [(one["candidate"], -one["rarity"] / 1e9) for one in row["named"][method]]


def _asked(model: Movement, row: Row) -> list[tuple[str, float]]:
    told = model.predict(row["client"], row["place"], row["band"] * 6, row["before"] or "")
    return [(guess.place, guess.probability) for guess in told]


def test_weights_are_learned_that_make_what_came_likelier(spark: SparkSession) -> None:
    moves = transitions(table(spark, wander(Random(5), clients=8, steps=60)), moves_only=True, band_h=4).persist()
    found = contexts(moves.where(f.col("came_us") < CUT_US))
    questions = asked(moves.where(f.col("left_us") > CUT_US))
    sample = Sample(answered(questions, found, moves_only=True), questions.count())
    weights, likelihood = learn(sample, FIRST_ORDER)
    first, before = learn_once(sample)
    assert likelihood > before
    assert weights != first
    assert all(any(row) == (level in FIRST_ORDER) for level, row in enumerate(weights))


def learn_once(sample: Sample) -> tuple[object, float]:
    from latecomer.pipeline.movement_learn import _round

    thumb = rule_of_thumb(FIRST_ORDER)
    return thumb, _round(sample, FIRST_ORDER, thumb, thumb)[1]


def test_what_only_repeats_the_more_general_gains_nothing_and_is_not_exported(spark: SparkSession) -> None:
    rounds = [("ann", "ab"[at % 2], at * HOUR_US, at * HOUR_US) for at in range(20)]
    moves = transitions(table(spark, rounds), moves_only=True, band_h=24)
    weights = strict(SECOND_ORDER)
    gained = gains(moves, contexts(moves), weights, SECOND_ORDER, moves_only=True)
    all, few = models(gained, Kind(SECOND_ORDER, weights, 24, True), [None, 1.0])
    assert {row["level"] for row in gained.where("gain_micro > 1000000").collect()} == {7}
    assert (all.contexts(), few.contexts()) == (2 + 2 + 2 + 1 + 2 + 2 + 2 + 1, 1 + 2 + 1)
    assert len(write_movement(few)) < len(write_movement(all))
    assert [one.predict("ann", "a", 0)[0].place for one in (all, few)] == ["b", "b"]
    assert len(LEVELS) == 8


def test_intervals_are_those_of_clients_drawn_by_chance(spark: SparkSession) -> None:
    rows = [("ann", 10, 9, 10, 0, 1, 2, 0), ("bob", 20, 4, 8, 0, 4, 8, 0), ("cid", 5, 5, 5, 0, 0, 1, 0)]
    names = ["client", "asked", "h1_0", "h3_0", "told_0", "h1_1", "h3_1", "told_1"]
    model, other = accuracies(spark.createDataFrame(rows, names), ["model", "other"], reference=0)
    share = 18 / 35
    spread = sum((hits - share * asked) ** 2 for _, asked, hits, *_ in rows)
    half = 1.959964 * (spread * 3 / 2) ** 0.5 / 35
    assert (model.asked, model.clients, model.top1.mean) == (35, 3, share)
    assert abs(model.top1.high - min(1, share + half)) < 1e-12
    assert abs(model.top1.low - max(0, share - half)) < 1e-12
    assert (model.behind1.mean, model.behind1.low, model.behind1.high) == (0, 0, 0)
    assert other.behind1.mean == 13 / 35
