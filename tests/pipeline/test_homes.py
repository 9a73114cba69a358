"""Which clients would be better where: on Spark the same numbers as in a few lines of numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from latecomer.cli.main import VERBS, run
from latecomer.cli.overlay_log import LogWindow, measured_overlay
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.record import Kind
from latecomer.model.subscriptions import Change, Subscription
from latecomer.pipeline.classes import Classes
from latecomer.pipeline.homes_job import HomesWish, advise, changes_of, held_of, logged
from latecomer.pipeline.log import find_log
from latecomer.pipeline.overlay_log import measure_overlay
from latecomer.pipeline.stages.homes import better_homes
from latecomer.pipeline.stages.similarity import SCHEMA, Form, similarities
from tests.pipeline.homes_reference import Row, flips, moves, reference
from tests.pipeline.logs import record, write_log

CLUSTERS = {"b0": "north", "b1": "north", "b2": "north", "b3": "south", "b4": "south", "b5": "south", "b6": "west"}
"""b5 has no clients, b6 is alone."""


def drawn(seed: int, clients: int = 40) -> list[Row]:
    """Three interests, mixed over the brokers; with repeats, and with a topic of one client alone."""
    chance = Random(seed)
    rows = []
    for number in range(clients):
        client, broker = f"c{number}", chance.choice(("b0", "b1", "b2", "b3", "b4"))
        liked = chance.randrange(3)
        for _ in range(chance.randint(1, 4)):
            topic = liked * 4 + chance.randrange(4) if chance.random() < 0.8 else chance.randrange(12)
            rows.append((client, broker, f"t{topic}"))
    return [*rows, *rows[:5], ("alone", "b6", "t99"), ("lonely", "b0", "t98")]


def held(rows: list[Row]) -> list[Subscription]:
    return [Subscription(*row) for row in rows]


@pytest.mark.parametrize(
    ("form", "own"),
    [
        ("cheap", False),
        pytest.param("cheap", True, marks=pytest.mark.long),
        pytest.param("full", False, marks=pytest.mark.long),
        ("full", True),
    ],
)
def test_similarities_and_better_homes_are_those_of_the_reference(spark: SparkSession, form: Form, own: bool) -> None:
    rows = drawn(3 + own)
    weight = 0.7 if own else None
    members = spark.createDataFrame([*CLUSTERS.items()], "broker string, cluster string")
    table = similarities(held_of(spark, held(rows)), members, form, own=own).persist()
    assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in SCHEMA]
    expected = reference(rows, CLUSTERS, form, own=own)
    number = {name: at for at, name in enumerate(expected.clients)}
    place = {name: at for at, name in enumerate(expected.brokers)}
    seen = set()
    for row in table.collect():
        at = number[row.client], place[row.broker]
        seen.add(at)
        assert row.similarity == pytest.approx(expected.similarity[at], abs=1e-15)
        assert row.load == expected.load[at[1]]
    for v, b in zip(*expected.similarity.nonzero(), strict=True):
        assert (v, b) in seen or not expected.near[expected.home[v], b]
    found = {row.client: (row.home, row.broker, row.gain) for row in better_homes(table, weight, 0.05).collect()}
    wanted = moves(expected, weight, 0.05)
    assert found.keys() == wanted.keys()
    for client, (home, broker, gain) in wanted.items():
        assert found[client][:2] == (home, broker)
        assert found[client][2] == pytest.approx(gain)
    assert found
    table.unpersist()


def test_the_literal_form_moves_nobody_without_load(spark: SparkSession) -> None:
    """At its present broker a client has all its own topics: similarity 1."""
    wish = HomesWish(own=True, load_weight=0.0, hysteresis=0.0)
    assert advise(spark, held_of(spark, held(drawn(3))), CLUSTERS, wish).wished == 0


def after(rows: list[Row], going: Mapping[str, str]) -> list[Row]:
    return [(client, going.get(client, broker), topic) for client, broker, topic in rows]


def test_a_file_without_changes_has_none(spark: SparkSession) -> None:
    found = advise(spark, held_of(spark, held(drawn(7))), CLUSTERS, HomesWish(), changes_of(spark, []))
    assert (found.client_changes, found.before.changes, found.after.changes) == (0, 0, 0)


def test_advice_counts_what_brokers_do_before_and_after(spark: SparkSession) -> None:
    rows, chance = drawn(7), Random(1)
    clients = sorted({row[0] for row in rows})
    told = [(chance.choice(clients), f"t{chance.randrange(12)}", chance.random() < 0.5) for _ in range(150)]
    changes = changes_of(spark, [Change(*one) for one in told])
    found = advise(spark, held_of(spark, held(rows)), CLUSTERS, HomesWish(most=0.2, hysteresis=0.1), changes)
    wanted = moves(reference(rows, CLUSTERS, "cheap", own=False), None, 0.1)
    assert found.wished == len(wanted)
    first = sorted(wanted, key=lambda client: (-wanted[client][2], client))[: len(clients) // 5]
    assert [move.client for move in found.moves] == first
    then = after(rows, {move.client: move.broker for move in found.moves})
    was, will = ({(broker, topic) for _, broker, topic in one} for one in (rows, then))
    assert (found.before.broker_subscriptions, found.after.broker_subscriptions) == (len(was), len(will))
    assert (found.joined, found.left) == (len(will - was), len(was - will))
    assert (found.client_changes, found.before.changes) == flips(rows, told)
    assert (found.client_changes, found.after.changes) == flips(then, told)
    assert found.after.broker_subscriptions < found.before.broker_subscriptions
    for state, one in ((found.before, rows), (found.after, then)):
        loads = reference(one, CLUSTERS, "cheap", own=False)
        assert state.load_max == pytest.approx((loads.load * loads.near.sum(axis=1)).max())


# --- from a log ---


def city(folder: Path) -> Path:
    """Two brokers; c moves from b1 to b2; d changes its mind; publications every second."""
    records = [
        record(0, "b1", Kind.SUBSCRIBED, client="c", filter="a/1"),
        record(1, "b2", Kind.SUBSCRIBED, client="d", filter="a/2"),
        record(2, "b2", Kind.SUBSCRIBED, client="e", filter="b/#"),
        record(3, "b1", Kind.UNSUBSCRIBED, client="c", filter="a/1"),
        record(4, "b2", Kind.SUBSCRIBED, client="c", filter="a/1"),
        record(5, "b2", Kind.UNSUBSCRIBED, client="d", filter="a/2"),
        record(6, "b1", Kind.SUBSCRIBED, client="f", filter="b/+"),
        *(record(second, "b1", Kind.PUBLISHED, client="p", topic="a/1") for second in range(10)),
        record(0, "b2", Kind.PUBLISHED, client="q", topic="b/1", count=4),
    ]
    write_log(folder, records)
    return folder


def test_rates_and_sets_of_a_log(spark: SparkSession, tmp_path: Path) -> None:
    found = measure_overlay(spark, find_log(city(tmp_path / "log")), Classes(depth=1))
    assert found.demand.topics == ("a/#", "b/#")
    assert found.subscriptions == {"b1": ("b/#",), "b2": ("a/#", "b/#")}
    assert (found.began, found.ended) == (5, 2)
    assert found.demand.publications["a/#"] == {"b1": pytest.approx(1.0)}
    # 4 in the first second, then none for nine: 4 · 0.7⁹ by the exponential filter with α = 0.3
    assert found.demand.publications["b/#"] == {"b2": pytest.approx(4 * 0.7**9, rel=1e-4)}


def test_both_verbs_on_a_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("overlay", "homes"):
        monkeypatch.setattr(f"latecomer.cli.{verb}.opened", lambda *_: nullcontext(spark))
    log = str(city(tmp_path / "log"))
    assert run(VERBS, ["overlay", "plan", "--from-log", log]) == 0
    told = capsys.readouterr().out
    assert "2 brokers, 2 topics, 3,600 s; best" in told
    assert "5 subscriptions began and 2 ended" in told
    assert run(VERBS, ["homes", "advise", "--from-log", log, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["clients"], found["brokers"], found["before"]["broker_subscriptions"]) == (3, 2, 3)
    # Played again from the end, c and d take and leave a/# at b2 in turn, and one of them always has it.
    assert (found["client_changes"], found["before"]["changes"]) == (4, 0)


def test_a_log_that_says_too_little(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "silent", [record(0, "b1", Kind.SUBSCRIBED, client="c", filter="a")])
    with pytest.raises(SettingsError, match="--from-log: nothing was published"):
        measured_overlay(LogWindow(tmp_path / "silent"), lambda: nullcontext(spark))
    write_log(tmp_path / "unheard", [record(0, "b1", Kind.PUBLISHED, client="p", topic="a")])
    with pytest.raises(SettingsError, match="--from-log: nobody subscribes to anything"):
        measured_overlay(LogWindow(tmp_path / "unheard"), lambda: nullcontext(spark))


def test_homes_of_a_log(spark: SparkSession, tmp_path: Path) -> None:
    found = logged(spark, find_log(city(tmp_path / "log")), Classes(depth=1))
    assert found.brokers == ("b1", "b2")
    assert sorted(map(tuple, found.held.collect())) == [("c", "b2", "a/#"), ("e", "b2", "b/#"), ("f", "b1", "b/#")]
    assert found.changes.count() == 7


def test_a_log_without_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "log", [record(0, "b1", Kind.PUBLISHED, client="p", topic="a")])
    with pytest.raises(LatecomerError, match="nobody subscribed to anything in this window"):
        logged(spark, find_log(tmp_path / "log"), Classes(depth=1))


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (HomesWish(load_weight=-1), "--load-weight: -1; it must not be negative"),
        (HomesWish(hysteresis=float("nan")), "--hysteresis: nan"),
        (HomesWish(most=0), "--most: 0 is not a share"),
    ],
)
def test_wishes_that_cannot_be_met(wish: HomesWish, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        wish.check()
