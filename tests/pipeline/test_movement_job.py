"""The whole job and its verb: from files and logs to accuracies, tables and the model."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from latecomer.cli import movement as verb
from latecomer.cli.main import VERBS, run
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.movement import read_movement
from latecomer.model.record import Kind
from latecomer.pipeline import movement_job
from latecomer.pipeline.movement_files import Columns, good, read_files, read_log, refused
from latecomer.pipeline.movement_job import (
    BACK,
    LEARNED_METHODS,
    OWN,
    SECOND,
    STRICT,
    Order,
    _check_span,
    predict_movement,
)
from latecomer.pipeline.stages.movement import KNOWN, TEST, parted, transitions
from tests.conftest import EVERYTHING
from tests.pipeline.engine import shipped
from tests.pipeline.logs import BEGIN_US, record, write_log

DAY_S = 86_400
NOW_US = BEGIN_US + 1000 * DAY_S * 1_000_000
WEEKS = 6
ROUNDS = {"ann": "hwg", "bob": "hwp", "cid": "hsw"}
"""Home, work, and something between."""


def commuters(file: Path, *, last_week: str = "") -> Path:
    """Three people who go round three places each, now and then astray; in the last week to `last_week`, if any."""
    chance = Random(11)
    lines = ["who,when,where"]
    for who, places in ROUNDS.items():
        for step in range(WEEKS * 7 * 3):
            place = places[step % 3] if chance.random() < 0.85 else chance.choice("hwgps")
            if last_week and step >= (WEEKS - 1) * 7 * 3:
                place = last_week[step % len(last_week)]
            lines.append(f"{who},{BEGIN_US // 1_000_000 + step * DAY_S // 3},{place}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


WHO = Columns(client="who", time="when", unit="s", place="where")
COLUMNS = ["--client=who", "--time=when", "--unit=s", "--place=where"]


def test_the_verb_learns_tests_and_exports(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "opened", lambda *_: shipped(spark))
    if not EVERYTHING:  # every method and every size takes seconds
        monkeypatch.setattr(movement_job, "LEARNED_METHODS", {SECOND: LEARNED_METHODS[SECOND]})
        monkeypatch.setattr(movement_job, "STRICT", {name: STRICT[name] for name in ("most frequent of all", OWN)})
        monkeypatch.setattr(movement_job, "KEEP_ABOVE", ())
    file, model, picture = commuters(tmp_path / "log.csv"), tmp_path / "m.movement", tmp_path / "m.svg"
    wanted = ["movement", str(file), *COLUMNS, "--test-weeks=1", "--order=2", "--keep-above=0.5"]
    assert run(VERBS, [*wanted, "--json", f"--model={model}", f"--plot={picture}", f"--out={tmp_path / 'out'}"]) == 0
    report = json.loads(capsys.readouterr().out)
    move, following = report["tasks"]
    assert (report["visits"], report["clients"], report["places"]) == (378, 3, 5)
    assert (move["predicted"], following["predicted"]) == ("move", "next")
    top1 = {one["method"]: one["top1"]["mean"] for one in move["methods"]}
    assert 0 < top1[BACK] < top1[SECOND]
    assert top1[SECOND] > 0.6 > top1["most frequent of all"]
    assert [one["accuracy"]["top1"]["mean"] for one in move["sizes"] if one["keep_above"] is None] == [top1[SECOND]]
    assert move["sizes"][0]["bytes"] > move["sizes"][-1]["bytes"]
    assert any(one["method"] == "stay" for one in following["methods"])
    assert picture.read_text(encoding="utf-8").count("<svg") == 1
    loaded = read_movement(model.read_bytes(), str(model))
    assert loaded.predict("ann", "w", 8, "h")[0].place == "g"
    assert loaded.predict("stranger", "h", 8)[0].place in "ws"
    tables = sorted(path.name for path in (tmp_path / "out" / "latest").iterdir())
    assert tables == [
        "model.movement",
        "move_answers",
        "move_transitions",
        "next_answers",
        "next_transitions",
        "report.json",
    ]
    answers = pq.read_table(tmp_path / "out" / "latest" / "move_answers").to_pylist()
    assert sum(one["times"] for one in answers) == move["tested"]


def test_the_weeks_of_the_test_teach_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def parts(last_week: str) -> tuple[list[Row], list[Row]]:
        file = commuters(tmp_path / f"log{last_week}.csv", last_week=last_week)
        visits = good(read_files(spark, [file], WHO, NOW_US))
        week_us = 7 * DAY_S * 1_000_000
        moves = transitions(visits, moves_only=False, band_h=4)
        found = parted(moves, test_us=week_us, tune_us=week_us, each=False).orderBy("client", "left_us").collect()
        return [row for row in found if row["part"] in KNOWN], [row for row in found if row["part"] == TEST]

    (learned, tested), (other_learned, other_tested) = parts(""), parts("gp")
    assert learned == other_learned
    assert tested != other_tested
    assert [row["came_us"] for row in tested] == [row["came_us"] for row in other_tested]


def test_rows_that_are_no_visits_are_kept_apart_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text(
        "user,time,lat,lon\n"
        "ann,2012-04-03T18:00:00Z,40.75,-73.99\n"
        ",2012-04-03T18:00:00Z,40.75,-73.99\n"
        "ann,yesterday,40.75,-73.99\n"
        "ann,2099-04-03T18:00:00Z,40.75,-73.99\n"
        "ann,2012-04-03T18:00:00Z,here,-73.99\n"
        "ann,2012-04-03T18:00:00Z,40.75,-190\n"
        "ann,2012-04-03T18:00:00Z,0,0\n",
        encoding="utf-8",
    )
    rows = read_files(spark, [file], Columns(cell=0.5), NOW_US).persist()
    assert [tuple(row) for row in good(rows).collect()] == [
        ("ann", "81,-148", 1_333_476_000_000_000, 1_333_476_000_000_000)
    ]
    assert sorted(row["reason"] for row in refused(rows).collect()) == [
        "coordinates 0, 0",
        "coordinates cannot be read",
        "coordinates out of range",
        "no user",
        "time before 1970 or in the future",
        "time cannot be read",
    ]
    assert {row["file"] for row in refused(rows).collect()} == {"some.csv"}
    order = Order(files=(str(file),) * 4, max_bad=0.5)
    with pytest.raises(LatecomerError, match=r"24 of 28 rows cannot be used \(.*see .*quarantine"):
        predict_movement(spark, order, tmp_path / "out", lambda _: None, NOW_US)
    kept = pq.read_table(tmp_path / "out" / "quarantine").to_pylist()
    assert len(kept) == 24
    assert sum(one["row"] == "ann,yesterday,40.75,-73.99" for one in kept) == 4


def test_parquet_with_times_from_and_until(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "stays.parquet"
    stays = {"user": [1, 1], "time": [60, 120], "until": [90, 100], "airport": ["JFK", "LGA"]}
    pq.write_table(pa.table(stays), file)
    rows = read_files(spark, [file], Columns(until="until", unit="min", place="airport"), NOW_US)
    assert [tuple(row) for row in good(rows).collect()] == [("1", "JFK", 3_600_000_000, 5_400_000_000)]
    assert [row["reason"] for row in refused(rows).collect()] == ["an end before its beginning"]


def test_timestamps_of_pandas_in_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "pandas.parquet"
    at_us = 1_333_476_009_000_000
    begin, end = ([number * 1000 for number in numbers] for numbers in ((at_us, 60_000_000), (at_us + 7, 61_000_000)))
    columns = {name: pa.array(numbers, pa.timestamp("ns")) for name, numbers in (("time", begin), ("gone", end))}
    pq.write_table(pa.table({"user": [1, 2], "room": ["a", "b"], **columns}), file)
    rows = read_files(spark, [file], Columns(until="gone", place="room"), NOW_US)
    assert sorted(tuple(row) for row in good(rows).collect()) == [
        ("1", "a", at_us, at_us + 7),
        ("2", "b", 60_000_000, 61_000_000),
    ]


def test_a_log_says_when_clients_were_at_which_broker(spark: SparkSession, tmp_path: Path) -> None:
    told = [
        record(0, "b1", Kind.CONNECTED, client="ann"),
        record(50, "b1", Kind.DISCONNECTED, client="ann"),
        record(60, "b2", Kind.CONNECTED, client="ann"),
        record(70, "", Kind.CONNECTED, client="bob"),
    ]
    write_log(tmp_path, told)
    visits, rows, bad = read_log(spark, tmp_path, NOW_US)
    assert (rows, bad) == (4, 1)
    assert [tuple(row) for row in visits.orderBy("from_us").collect()] == [
        ("ann", "b1", BEGIN_US, BEGIN_US + 50_000_000),
        ("ann", "b2", BEGIN_US + 60_000_000, None),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "name files, or a log with --from-log"),
        (["x.csv", "--from-log=y"], "name files, or a log with --from-log"),
        (["x.csv", "--cell=0"], "--cell: 0 is not from"),
        (["x.csv", "--test-weeks=0"], "--test-weeks: 0 is not a number of weeks"),
        (["x.csv", "--band-hours=5"], "--band-hours: 5 is not 1, 2"),
        (["x.csv", "--order=3"], "--order: 3 is neither"),
        (["x.csv", "--keep-above=nan"], "--keep-above: nan is not a gain"),
        (["x.csv", "--max-bad=2"], "--max-bad: 2 is not a share"),
        (["x.csv", "--plot=x.txt"], "--plot"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_told_before_spark_starts(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ["movement", *options]) == 2
    assert told in capsys.readouterr().err


def test_files_that_do_not_fit_are_told(spark: SparkSession, tmp_path: Path) -> None:
    def tried(**wish: object) -> str:
        with pytest.raises(SettingsError) as error:
            predict_movement(spark, Order(**wish), None, lambda _: None, NOW_US)  # type: ignore[arg-type]
        return str(error.value)

    file = str(commuters(tmp_path / "log.csv"))
    text = tmp_path / "notes.txt"
    text.write_text("dear diary", encoding="utf-8")
    assert tried(files=(str(tmp_path / "none.csv"),)).endswith("there is no such file")
    assert "no known layout fits it; say --format" in tried(files=(str(text),))
    assert "--client: " in (told := tried(files=(file,), columns=Columns(client="whom")))
    assert "did you mean" in told
    assert "--test-weeks: all visits lie within 5.95 weeks" in tried(files=(file,), columns=WHO, test_weeks=4)
    brief = (
        "all visits lie within 1.51 minutes, so a test of 4 weeks leaves too little to learn from; name files or a log"
    )
    with pytest.raises(SettingsError, match=brief):
        _check_span(Order(test_weeks=4.0), 9, 0, int(1.51 * 60e6))
