"""Each stage on a few rows."""

from __future__ import annotations

import math
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.experiments.workload import shares
from latecomer.model.record import Kind, Record
from latecomer.pipeline.classes import NONE, named
from latecomer.pipeline.log import Window
from latecomer.pipeline.schemas import QUARANTINE, RECORDS
from latecomer.pipeline.stages.distances import answers, distances, hops
from latecomer.pipeline.stages.hand_overs import hand_overs
from latecomer.pipeline.stages.periods import counted_periods
from latecomer.pipeline.stages.rates import chosen_period_s, counted, filtered, rates, smoothed
from latecomer.pipeline.stages.records import judged, refused, sound
from latecomer.pipeline.stages.sessions import sessions
from latecomer.pipeline.stages.subscriptions import changes, matrix, subscriptions
from latecomer.pipeline.stages.transitions import transitions
from latecomer.pipeline.stages.visits import visits
from latecomer.pipeline.stages.zipf import fit, popularity

DAY_US = 86_400_000_000


def table(spark: SparkSession, *records: Record) -> DataFrame:
    rows = [tuple(getattr(one, name) for name in RECORDS.names) for one in records]
    return spark.createDataFrame([(*row[:2], str(row[2]), *row[3:]) for row in rows], RECORDS)


def told(found: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in found.collect()), key=lambda row: [(v is not None, v) for v in row])


def test_rows_that_cannot_be_used(spark: SparkSession) -> None:
    good = (5, "b1", "requested", "b1.1#1", "c", "", "a", "", "", -1, 0, "")
    bad = {
        "no instant": (None, *good[1:]),
        "an instant before 1970": (-1, *good[1:]),
        "an instant more than a day ahead": (1000 + DAY_US + 1, *good[1:]),
        "no broker": (5, "", *good[2:]),
        "an unknown broker": (5, "b9", *good[2:]),
        "no kind": (5, "b1", None, *good[3:]),
        "an unknown kind": (5, "b1", "exploded", *good[3:]),
        "hops below -1": (*good[:9], -2, *good[10:]),
        "a negative count": (*good[:10], -7, ""),
    }
    silent = (1000 + DAY_US, "b1", "started", None, None, None, None, None, None, None, None, None)
    raw = spark.createDataFrame([("s", *row) for row in (good, silent, *bad.values())], QUARANTINE_ROWS)
    rows = judged(raw, 1000, ["b1", "b2"])
    defaults = (*silent[:3], "", "", "", "", "", "", -1, 0, "")
    assert told(sound(rows)) == [good, defaults]
    found = refused(rows)
    assert found.schema.names == QUARANTINE.names
    assert {row[1]: tuple(row)[2:] for row in found.collect()} == bad


QUARANTINE_ROWS = "segment string, " + ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in RECORDS)


def test_clients_that_move(spark: SparkSession) -> None:
    came, went = Kind.CONNECTED, Kind.DISCONNECTED
    stays = sessions(
        table(
            spark,
            Record(1, "b1", came, client="c"),
            Record(2, "b1", went, client="c"),
            Record(2, "b1", came, client="c"),  # it took over its own session
            Record(5, "b1", went, client="c"),
            Record(8, "b2", came, client="c"),  # whose end nobody wrote down
            Record(9, "b1", came, client="d"),
            Record(10, "b2", came, client="c"),
            Record(11, "b2", went, client="c"),
            Record(12, "b1", came, client="c"),
            Record(13, "b1", went, client="x"),  # which came before the log begins
        )
    )
    assert told(stays) == [
        ("c", "b1", 1, 2, "disconnected"),
        ("c", "b1", 2, 5, "disconnected"),
        ("c", "b1", 12, None, "open"),
        ("c", "b2", 8, 10, "reconnected"),
        ("c", "b2", 10, 11, "disconnected"),
        ("d", "b1", 9, None, "open"),
    ]
    seen = visits(stays)
    assert told(seen) == [
        ("c", 1, "b1", 1, 5, 2),
        ("c", 2, "b2", 8, 11, 2),
        ("c", 3, "b1", 12, None, 1),
        ("d", 1, "b1", 9, None, 1),
    ]
    assert told(transitions(seen)) == [("b1", "b2", 1, 1, 3), ("b2", "b1", 1, 1, 1)]


def test_sessions_that_were_handed_over(spark: SparkSession) -> None:
    records = table(
        spark,
        Record(1, "b2", Kind.MOVED, client="c", peer="b1", count=3, detail="standard, 5 frames, 100 bytes, 10 ms"),
        Record(2, "b2", Kind.MOVED, client="d", peer="b1", detail="standard, 5 frames, 100 bytes, 40 ms"),
        Record(3, "b2", Kind.MOVED, client="c", peer="b1", count=1, detail="of a later version"),
        Record(4, "b1", Kind.MOVED, client="c", peer="b2", detail="standard, 5 frames, 100 bytes, 5 ms"),
        Record(5, "b1", Kind.CONNECTED, client="c", peer="b2"),
    )
    assert told(hand_overs(records)) == [
        ("b1", "b2", "", 1, 1, 1, None, None, None, None, [0] * 16),
        ("b1", "b2", "standard", 2, 2, 3, 10, 200, 25.0, 40, [0, 0, 0, 0, 1, 0, 1, *[0] * 9]),
        ("b2", "b1", "standard", 1, 1, 0, 5, 100, 5.0, 5, [0, 0, 0, 1, *[0] * 12]),
    ]


def test_subscriptions_that_come_and_go(spark: SparkSession) -> None:
    came, went = Kind.SUBSCRIBED, Kind.UNSUBSCRIBED
    changed = changes(
        table(
            spark,
            Record(1, "b1", came, client="c", filter="a/x"),
            Record(2, "b1", came, client="c", filter="a/y ? n > 3"),
            Record(3, "b1", came, client="d", filter="$share/g/a/x"),
            Record(4, "b1", went, client="d", filter="$share/g/a/x"),
            Record(5, "b2", came, client="e", filter="#"),
            Record(6, "b2", went, client="e", filter="b"),
            Record(7, "b2", went, client="e", filter="q"),
            Record(7, "b2", came, client="e", filter="q"),
        )
    )
    assert told(matrix(changed)) == [("c", "b1", "a/x"), ("c", "b1", "a/y"), ("e", "b2", "#"), ("e", "b2", "q")]
    assert told(subscriptions(changed, named(["a/#", "b"]))) == [
        ("", "b2", 1, 1, 1),
        ("a/#", "b1", 1, 3, 1),
        ("a/#", "b2", 1, 1, 0),
        ("b", "b2", 1, 1, 1),
    ]


def test_distances(spark: SparkSession) -> None:
    done = Kind.RECALLED
    ended = answers(
        table(
            spark,
            Record(1, "b1", done, filter="a/x", peer="b2", hops=2, detail="complete"),
            Record(2, "b1", done, filter="$history/last=1/a/x", peer="b2, b3", hops=3, detail="complete"),
            Record(3, "b1", done, filter="#", peer="b1", hops=0, detail="b3 does not answer"),
            Record(4, "b2", done, filter="a/x", hops=-1, detail="no store"),
        )
    )
    assert told(hops(ended)) == [("b1", 0, 1, 1), ("b1", 2, 1, 0), ("b1", 3, 1, 0), ("b2", None, 1, 1)]
    assert told(distances(ended, named(["a/#", "b"]))) == [
        ("a/#", "b1", 3, 0, 1, 5, 13),
        ("a/#", "b2", 0, 1, 1, 0, 0),
        ("b", "b1", 1, 0, 1, 0, 0),
    ]


def test_the_filter_is_exact(spark: SparkSession) -> None:
    """Against one step after the other; periods without anything count, and so does when somebody came."""
    random = Random(4)
    counts = {place: {n: random.randrange(10**6) for n in range(20) if random.random() < 0.4} for place in ("b1", "b2")}
    rows = [("a", place, 100 + n, count) for place, row in counts.items() for n, count in row.items()]
    random.shuffle(rows)
    found = filtered(spark.createDataFrame(rows, "class string, broker string, period long, times long"), 100, 120)
    wanted = []
    for place, row in counts.items():
        value = row.get(0, 0) * 1_000_000
        for n in range(1, 21):
            value = smoothed(value, row.get(n, 0))
        wanted.append(("a", place, sum(row.values()), value))
    assert told(found) == wanted
    exact = float(counts["b1"].get(0, 0))
    for n in range(1, 21):
        exact = 0.3 * counts["b1"].get(n, 0) + 0.7 * exact
    assert wanted[0][3] / 1e6 == pytest.approx(exact, abs=1e-4)


def test_counts_per_period(spark: SparkSession) -> None:
    events = [(0, "b1", "x", 2), (9_999_999, "b1", "y", 1), (10_000_000, "b1", "x", 5), (1, "b2", "z", 1)]
    table = spark.createDataFrame(events, "at_us long, broker string, t string, times long")
    assert told(counted(table, "t", named(["x", "+"]), 10)) == [
        ("+", "b1", 0, 3, 1),
        ("+", "b1", 1, 5, 0),
        ("+", "b2", 0, 1, 1),
        ("x", "b1", 0, 2, 2),
        ("x", "b1", 1, 5, 5),
    ]
    assert [chosen_period_s(s * 1_000_000) for s in (1, 200, 201, 3600, 10**9)] == [1, 1, 10, 60, 7 * 86_400]


def test_an_analysis_and_a_watch_count_the_same(spark: SparkSession) -> None:
    asked, published = Kind.REQUESTED, Kind.PUBLISHED
    late = 12_000_000
    records = table(
        spark,
        Record(0, "b1", asked, client="c", filter="x/b"),  # of both classes
        Record(1, "b1", asked, client="c", filter="$history/since=-1h/x/#"),
        Record(1, "b1", Kind.RECALLED, client="c", filter="x/#", peer="b2", hops=1),
        Record(late, "b1", published, client="c", topic="x/b", count=7),
        Record(late, "b2", published, client="c", topic="y/b"),  # one, whatever it says
        Record(late, "b2", asked, client="c", filter="z"),  # of no class
    )
    classes = named(["x/#", "+/b"])
    assert told(rates(records, classes, 10)) == [
        (NONE, "b2", 10_000_000, 1, 1, 0),
        ("+/b", "b1", 0, 2, 0, 0),
        ("+/b", "b1", 10_000_000, 0, 0, 7),
        ("+/b", "b2", 10_000_000, 0, 0, 1),
        ("x/#", "b1", 0, 2, 2, 0),
        ("x/#", "b1", 10_000_000, 0, 0, 7),
    ]
    watched = counted_periods(records.withColumn("reason", f.lit(None).cast("string")), classes, 10)
    begin = (f.col("period") * 10_000_000).alias("begin_us")
    of_watch = watched.select("class", "broker", begin, "requests", "once", "publications")
    assert told(of_watch) == told(rates(records, classes, 10))


# -- Zipf


@pytest.mark.parametrize("exponent", [0.4, 1.0, 1.7])
def test_the_exponent_that_was_drawn_is_found(exponent: float) -> None:
    """Within four standard errors, in each of many draws; and the errors are as large as they say."""
    random, law = Random(11), shares(50, exponent)
    deviations = []
    for _ in range(40):
        counts = [0] * 50
        for rank in random.choices(range(50), law, k=4000):
            counts[rank] += 1
        found = fit(counts)
        assert found is not None
        deviations.append((found.exponent - exponent) / found.error)
    assert max(map(abs, deviations)) < 4
    assert 0.6 < math.sqrt(sum(d * d for d in deviations) / len(deviations)) < 1.6


def test_fits_of_little() -> None:
    assert fit([]) is None
    assert fit([7]) is None
    assert fit([0, 0, 0]) is None
    flat = fit([5, 5, 5, 5])
    assert flat is not None
    assert (flat.exponent, flat.ranks, flat.events) == (0.0, 4, 20)
    assert flat.error > 0
    steep = fit([9, 0, 0])
    assert steep is not None
    assert steep.exponent > 20
    assert fit([1, 2, 3]) == fit([3, 1, 2]), "ranks come from the counts"


def test_popularity_and_locality(spark: SparkSession) -> None:
    rows = [("a", "b1", 3), ("a", "b2", 1), ("b", "b1", 4), ("", "b1", 9)]
    demand = spark.createDataFrame(rows, "class string, broker string, requests long")
    assert told(popularity(demand, ["b", "a", "c"], 4)) == [
        ("a", 4, 0.5, 1, 2, 0.5, 1),
        ("b", 4, 0.5, 2, 1, 0.25, 2),
        ("c", 0, 0.0, 3, 0, 0.0, 3),
    ]


def test_windows_in_seconds() -> None:
    assert Window(1_500_000, 4_000_000).seconds == 2.5
