"""Each stage of the location model on a handful of rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from latecomer.pipeline.schemas_checkins import (
    CELLS,
    CHECKINS,
    FRIENDS,
    PAIRS,
    ROWS,
    STAYS,
    SUBSCRIPTIONS,
    TRANSITIONS,
)
from latecomer.pipeline.stages.cell_subscriptions import by_day, cell_subscriptions
from latecomer.pipeline.stages.checkins import Region, checkins, regular
from latecomer.pipeline.stages.friends import friends_by_chance, friends_of_list
from latecomer.pipeline.stages.moves import cell_transitions
from latecomer.pipeline.stages.pairs import cells, pairs
from latecomer.pipeline.stages.stays import stays

NOON = datetime(2012, 4, 3, 12, tzinfo=UTC)
HOME, WORK, SEA = "40,-74", "40,-75", "39,-74"


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def table(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: StructType) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def told(frame: DataFrame, schema: StructType) -> list[tuple[Any, ...]]:
    assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in schema]
    found = [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in frame.collect()]
    return sorted(found, key=str)


def visit(user: str, number: int, cell: str, arrived: float, left: float | None) -> tuple[Any, ...]:
    linger = None if left is None else round((left - arrived) * 3_600_000_000)
    return user, number, cell, at(arrived), at(arrived), None if left is None else at(left), 1, linger


def test_check_ins_are_good_inside_and_there_once(spark: SparkSession) -> None:
    def row(user: str, lat: float, lon: float, hours: float = 0, problem: str | None = None) -> tuple[Any, ...]:
        return "file", "row", user, at(hours), lat, lon, "park", problem

    rows = [
        row("a", 40.5, -73.5),
        row("a", 40.5, -73.5),  # again
        row("a", 40.5, -73.5, problem="no"),
        row("b", 41.0, -73.0),  # on the edges in the north and east
        row("b", 40.0, -74.0),  # on those in the south and west
        row("b", 40.5, -73.5, hours=-1),
        row("b", 40.5, -73.5, hours=1),
    ]
    since, until = (int(at(h).timestamp()) * 1_000_000 for h in (0, 1))
    region = Region(40.0, -74.0, 41.0, -73.0, 0.5, since, until)
    found = checkins(table(spark, rows, ROWS), region)
    assert told(found, CHECKINS) == [
        ("a", at(0), 40.5, -73.5, "park", "81,-147"),
        ("b", at(0), 40.0, -74.0, "park", "80,-148"),
    ]


def test_the_poles_and_the_date_line_are_in_the_world(spark: SparkSession) -> None:
    rows = [("file", "row", "a", at(0), 90.0, 180.0, "x", None), ("file", "row", "a", at(0), -90.0, -180.0, "y", None)]
    assert [row[5] for row in told(checkins(table(spark, rows, ROWS), Region()), CHECKINS)] == ["-90,-180", "90,180"]


def test_regular_users_are_seen_in_every_month(spark: SparkSession) -> None:
    month = 24 * 31
    rows = [("a", at(h), 1.5, 1.5, "x", "1,1") for h in (0, month)] + [("b", at(0), 1.5, 1.5, "x", "1,1")] * 5
    everybody = table(spark, rows, CHECKINS)
    assert [row[0] for row in told(regular(everybody, monthly=True, least=1), CHECKINS)] == ["a", "a"]
    assert [row[0] for row in told(regular(everybody, monthly=False, least=3), CHECKINS)] == ["b"] * 5


def test_successive_check_ins_in_one_cell_are_one_visit(spark: SparkSession) -> None:
    def checkin(user: str, hours: float, cell: str, place: str = "x") -> tuple[Any, ...]:
        return user, at(hours), 0.5, 0.5, place, cell

    rows = [
        checkin("a", 30, HOME),
        checkin("a", 0, HOME),
        checkin("a", 2, HOME),
        checkin("a", 5, WORK, "z"),
        checkin("a", 5, SEA, "y"),  # at the same time: the places decide
        checkin("b", 1, HOME),
    ]
    hour = 3_600_000_000
    assert told(stays(table(spark, rows, CHECKINS)), STAYS) == [
        ("a", 0, HOME, at(0), at(2), at(5), 2, 5 * hour),
        ("a", 1, SEA, at(5), at(5), at(5), 1, 0),
        ("a", 2, WORK, at(5), at(5), at(30), 1, 25 * hour),
        ("a", 3, HOME, at(30), at(30), None, 1, None),
        ("b", 0, HOME, at(1), at(1), None, 1, None),
    ]


def test_pairs_cells_and_moves(spark: SparkSession) -> None:
    visits = table(
        spark,
        [visit("a", 0, HOME, 0, 1.5), visit("a", 1, WORK, 1.5, 3), visit("a", 2, HOME, 3, None),
         visit("b", 0, HOME, 0, 26), visit("b", 1, WORK, 26, None)],
        STAYS,
    )  # fmt: skip
    met = pairs(visits)
    assert told(met, PAIRS) == [
        ("a", HOME, 2, 2, at(0), at(3)),
        ("a", WORK, 1, 1, at(1.5), at(1.5)),
        ("b", HOME, 1, 1, at(0), at(0)),
        ("b", WORK, 1, 1, at(26), at(26)),
    ]
    assert told(cells(met, 0.5), CELLS) == [(HOME, 20.0, -37.0, 3, 3, 2, 1), (WORK, 20.0, -37.5, 2, 2, 2, 2)]
    assert told(cell_transitions(visits), TRANSITIONS) == [(HOME, WORK, 2, 2), (WORK, HOME, 1, 1)]


def test_one_subscription_serves_all_who_are_in_a_cell(spark: SparkSession) -> None:
    visits = table(
        spark,
        [visit("a", 0, HOME, 0, 2), visit("a", 1, SEA, 2, None),
         visit("b", 0, WORK, 1, 3), visit("b", 1, HOME, 3, 9), visit("b", 2, SEA, 9, None),
         visit("c", 0, HOME, 1, 9), visit("c", 1, WORK, 9, None)],
        STAYS,
    )  # fmt: skip
    friends = table(spark, [("a", "b"), ("a", "c"), ("b", "a")], FRIENDS)
    events = cell_subscriptions(visits, friends)
    found = told(events, SUBSCRIPTIONS)
    assert [row for row in found if row[1] == "a"] == [
        (at(0), "a", HOME, "subscribed"),  # is there; then c is, who leaves as b does at 9
        (at(1), "a", WORK, "subscribed"),  # b is there
        (at(2), "a", SEA, "subscribed"),  # goes there; b comes later
        (at(3), "a", WORK, "unsubscribed"),
        (at(9), "a", HOME, "unsubscribed"),
        (at(9), "a", WORK, "subscribed"),  # c went there
    ]
    assert [row for row in found if row[1] == "c"] == [
        (at(1), "c", HOME, "subscribed"),
        (at(9), "c", HOME, "unsubscribed"),
        (at(9), "c", WORK, "subscribed"),
    ]
    days = {row["day"]: (row["subscribed"], row["unsubscribed"]) for row in by_day(events).collect()}
    assert list(days) == ["2012-04-03"]
    ended = sum(row[3] == "unsubscribed" for row in found)
    assert days["2012-04-03"] == (len(found) - ended, ended)


def test_everybody_follows_others_by_chance(spark: SparkSession) -> None:
    visits = table(spark, [visit(f"u{n}", 0, HOME, 0, None) for n in range(30)], STAYS)
    found = told(friends_by_chance(visits, followed=4), FRIENDS)
    assert len(found) == len(set(found)) == 4 * 30
    assert all(user != friend for user, friend in found)
    assert {user for user, _ in found} == {f"u{n}" for n in range(30)}
    assert told(friends_by_chance(visits.repartition(3), followed=4), FRIENDS) == found
    few = told(friends_by_chance(visits.where("user in ('u1', 'u2', 'u3')"), followed=4), FRIENDS)
    assert few == [(a, b) for a in ("u1", "u2", "u3") for b in ("u1", "u2", "u3") if a != b]


def test_friends_of_a_list_are_those_who_check_in(spark: SparkSession) -> None:
    visits = table(spark, [visit(user, 0, HOME, 0, None) for user in "abcdef"], STAYS)
    lines = [("a", friend, None) for friend in "bcdef"] + [("b", "a", None), ("a", "a", None), ("b", "z", None)]
    friendships = spark.createDataFrame([*lines, (None, None, "bad")], "user string, friend string, problem string")
    found = told(friends_of_list(visits, friendships, followed=4), FRIENDS)
    assert len([row for row in found if row[0] == "a"]) == 4
    assert [row for row in found if row[0] != "a"] == [(user, "a") for user in "bcdef"]
