"""User–broker similarities beside counting by hand."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession

from latecomer.pipeline.stages.similarity import SCHEMA, similarities

Row = tuple[str, str, str]


def naive(rows: list[Row], clusters: dict[str, str] | None = None) -> dict[tuple[str, str], tuple[int, int, float]]:
    """client, broker → |S_b ∩ s_v|, |s_v| and their ratio."""
    found = {}
    brokers = {broker for _, broker, _ in rows} if clusters is None else set(clusters)
    for client in {client for client, _, _ in rows}:
        wanted = {topic for who, _, topic in rows if who == client}
        at = {None if clusters is None else clusters.get(where) for who, where, _ in rows if who == client}
        for broker in brokers:
            if clusters is not None and clusters[broker] not in at:
                continue
            common = len(wanted & {topic for _, where, topic in rows if where == broker})
            if common:
                found[client, broker] = (common, len(wanted), common / len(wanted))
    return found


def subscriptions() -> list[Row]:
    """With repeats, with clients at two brokers, and with topics of one client alone."""
    chance = Random(3)
    rows = [(f"c{chance.randrange(9)}", f"b{chance.randrange(5)}", f"t{chance.randrange(12)}") for _ in range(60)]
    return [*rows, *rows[:5], ("c9", "b0", "t99")]


def test_similarities_are_those_counted_by_hand(spark: SparkSession) -> None:
    rows = subscriptions()
    frame = spark.createDataFrame(rows, "client string, broker string, topic string")
    table = similarities(frame)
    assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in SCHEMA]
    found = {(row.client, row.broker): (row.common, row.topics, row.similarity) for row in table.collect()}
    assert found == naive(rows)


def test_within_clusters_only_their_brokers_are_compared(spark: SparkSession) -> None:
    rows = subscriptions()
    frame = spark.createDataFrame(rows, "client string, broker string, topic string")
    clusters = {"b0": "north", "b1": "north", "b2": "south", "b3": "south"}  # b4 is in none
    table = similarities(frame, spark.createDataFrame([*clusters.items()], "broker string, cluster string"))
    found = {(row.client, row.broker): (row.common, row.topics, row.similarity) for row in table.collect()}
    assert found == naive(rows, clusters)
    assert found.keys() < naive(rows).keys()
