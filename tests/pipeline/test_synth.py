"""Check-ins that are made up: the same however they are made, and like what they were calibrated with."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.cli import synth as verb
from latecomer.cli.main import VERBS, run
from latecomer.model.errors import SettingsError
from latecomer.pipeline.calibration import Calibration, built_in, read_calibration
from latecomer.pipeline.stages import habits
from latecomer.pipeline.synth_job import made_checkins, made_friends, orders_of
from latecomer.pipeline.synth_people import Orders, People, chance, expected, gamma_knots
from tests.pipeline.engine import shipped

START_S = 1_280_620_800
"""2010-08-01."""
DAYS = 92
ORDERS = Orders(1000, START_S, DAYS, 1.0, 5)


@pytest.fixture(scope="module")
def people() -> People:
    return People(built_in(), ORDERS)


def table(columns: dict[str, Any]) -> pa.Table:
    return pa.table(columns)


def test_chance_is_even_and_depends_on_everything() -> None:
    users = np.arange(20_000)
    drawn = chance(users, 0, 1, 0)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert np.histogram(drawn, 10, (0, 1))[0].tolist() == pytest.approx([2000] * 10, abs=200)
    for other in (chance(users, 1, 1, 0), chance(users, 0, 2, 0), chance(users, 0, 1, 1), chance(users + 1, 0, 1, 0)):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.03


@pytest.mark.parametrize("shape", [0.5, 4.0, 200.0])
def test_the_gamma_distribution_has_its_mean_and_variance(shape: float) -> None:
    knots = gamma_knots(shape)[:-1]
    assert knots.mean() == pytest.approx(1, rel=0.02)
    assert knots.var() == pytest.approx(1 / shape, rel=0.05)


def test_a_user_is_the_same_in_any_batch(people: People) -> None:
    users = np.arange(300)
    whole = table(people.checkins(users))
    parts = [table(people.checkins(part)) for part in np.split(users, [1, 2, 57, 200])]
    assert pa.concat_tables(parts).equals(whole)
    friends = table(people.friendships(users))
    assert pa.concat_tables([table(people.friendships(part)) for part in np.split(users, [100])]).equals(friends)


def test_check_ins_are_in_order_in_time_and_in_their_cells(people: People) -> None:
    found = people.checkins(np.arange(400))
    cells = {(place.row, place.column) for place in built_in().places}
    assert set(zip(np.floor(found["lat"]).astype(int), np.floor(found["lon"]).astype(int), strict=True)) <= cells
    assert found["time"].min() >= START_S
    assert found["time"].max() < START_S + DAYS * 86_400 + 3600  # two in one second are put a second apart
    rows = list(zip(found["user"].tolist(), found["time"].tolist(), strict=True))
    assert all(a < b for a, b in pairwise(rows))
    assert set(found["user"].tolist()) == set(range(400))
    spots = set(zip(*(found[name].tolist() for name in ("place", "lat", "lon")), strict=True))
    assert len(spots) == len(set(found["place"].tolist()))  # a place stays where it is


def test_they_are_as_many_as_were_measured(people: People) -> None:
    real = built_in()
    found = people.checkins(np.arange(1000))
    assert len(found["user"]) / 1000 == pytest.approx(expected(real, ORDERS), rel=0.15)
    assert expected(real, ORDERS) == pytest.approx(real.checkins / real.users * DAYS / real.days, rel=0.05)
    friends = people.friendships(np.arange(1000))
    mean = float(np.sum(np.diff(habits.KNOTS) * (np.array(real.friends)[1:] + np.array(real.friends)[:-1]) / 2))
    assert 2 * len(friends["user"]) / 1000 == pytest.approx(mean, rel=0.3)
    assert all(user != friend for user, friend in zip(friends["user"], friends["friend"], strict=True))


def test_a_total_that_is_asked_for_is_met() -> None:
    orders = orders_of(built_in(), users=2000, months=3, start="2010-08-01", checkins=100_000, seed=0)
    assert orders.days == DAYS
    assert len(People(built_in(), orders).checkins(np.arange(2000))["user"]) == pytest.approx(100_000, rel=0.1)


def test_any_number_of_parts_makes_the_same(spark: SparkSession) -> None:
    people = People(built_in(), msgspec.structs.replace(ORDERS, users=60))
    one = made_checkins(spark, people, 1).toArrow()
    assert one.equals(made_checkins(spark, people, 3, batch=7).toArrow().combine_chunks())
    assert made_friends(spark, people, 2).toArrow().equals(made_friends(spark, people, 1).toArrow())


def test_the_verb(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "opened", lambda *_: shipped(spark))
    like = tmp_path / "measured"
    like.mkdir()
    (like / "calibration.json").write_text(built_in().text(), encoding="utf-8")
    asked = ["synth", "--users=50", "--months=2", "--out", str(tmp_path / "out"), "--like", str(like), "--json"]
    assert run(VERBS, asked) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["users"], made["first"], made["until"]) == (50, "2010-08-01T00:00:00Z", "2010-10-01T00:00:00Z")
    rows = pq.read_table(tmp_path / "out" / "latest" / "checkins")
    assert rows.num_rows == made["checkins"]
    assert rows.schema.names == ["user", "time", "lat", "lon", "place"]
    assert pq.read_table(tmp_path / "out" / "latest" / "friends").num_rows == made["friendships"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--users=0", "--months=1"], "--users: 0 is not from 1 to"),
        (["--users=1", "--months=0"], "--months: 0 is not from 1 to"),
        (["--users=1", "--months=1", "--start=2010-08-02"], "--start: '2010-08-02' is not the first day of a month"),
        (["--users=1", "--months=1", "--start=soon"], "--start: 'soon' is not the first day of a month"),
        (["--users=9", "--months=1", "--checkins=8"], "--checkins: 8 is not from 1 to 10,000 for each of 9 users"),
        (["--users=1", "--months=1", "--like=nothing.json"], "--like: nothing.json: No such file"),
        (["--users=1", "--months=1", "--like=."], "--like: . has no calibration.json; write one with"),
    ],
)
def test_what_cannot_be_made(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(VERBS, ["synth", *options, "--out=out"]) == 2
    assert capsys.readouterr().err.startswith(f"latecomer: {told}")


def test_a_calibration_is_checked() -> None:
    good = built_in()
    assert read_calibration(good.text().encode(), "x") == good
    with pytest.raises(SettingsError, match="x: --like: this is no calibration"):
        read_calibration(b"{}", "x")

    def changed(**fields: Any) -> bytes:
        bad: Calibration = msgspec.structs.replace(good, **fields)
        return bad.text().encode()

    with pytest.raises(SettingsError, match="week must have 168 numbers"):
        read_calibration(changed(week=(1.0,)), "x")
    with pytest.raises(SettingsError, match="no cells that anybody lives in"):
        read_calibration(changed(places=()), "x")
