"""The whole job: what it counts against the same in plain Python, what it writes, and when it stops."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.cli import checkins as verb
from latecomer.cli.main import VERBS, run
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.pipeline.calibration import read_calibration
from latecomer.pipeline.checkins_job import Counts, Order, analyse_checkins
from latecomer.pipeline.stages.checkins import Region
from tests.conftest import EVERYTHING
from tests.pipeline.engine import shipped

BOX = Region(30.0, -80.0, 45.0, -70.0)
BAD = ["7\tnever\t40.5\t-73.5\tx", "7\t2012-04-03T18:00:09Z\t0\t0\tx", "\t2012-04-03T18:00:09Z\t40.5\t-73.5\tx"]
Row = tuple[str, datetime, float, float, str]


def some_rows(seed: int) -> list[Row]:
    """Few users in few cells, some of them outside, some rows twice, and times that coincide."""
    random = Random(seed)
    start = datetime(2012, 4, 1, tzinfo=UTC)
    rows = []
    for _ in range(400):
        place = random.randrange(12)
        lat, lon = 38.5 + place % 4 * 0.5 + 5 * (place == 11), -74.25 - place // 4
        time = start + timedelta(hours=random.randrange(24 * 80), seconds=random.randrange(2))
        rows.append((f"u{random.randrange(15)}", time, lat, lon, f"p{place}"))
    return rows + rows[:20]


def write_snap(file: Path, rows: list[Row], bad: list[str]) -> str:
    lines = [
        "\t".join((user, f"{time:%Y-%m-%dT%H:%M:%SZ}", str(lat), str(lon), place))
        for user, time, lat, lon, place in rows
    ]
    file.write_text("\n".join([*lines, *bad]) + "\n", encoding="utf-8")
    return str(file)


def counted(rows: list[Row]) -> dict[str, Any]:
    """The job once more, in plain Python."""
    inside = [row for row in rows if 30 <= row[2] < 45 and -80 <= row[3] < -70]
    once = set(inside)
    by_user: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(once, key=lambda row: (row[0], row[1], row[4], row[2], row[3])):
        by_user[row[0]].append(row)
    visits: list[tuple[str, tuple[int, int], datetime]] = []
    for user, found in by_user.items():
        last = None
        for _, time, lat, lon, _ in found:
            cell = (int(lat // 1), int(lon // 1))
            if cell != last:
                visits.append((user, cell, time))
            last = cell
    lingers = [(b[2] - a[2]).total_seconds() for a, b in pairwise(visits) if a[0] == b[0]]
    pairs = Counter((user, cell) for user, cell, _ in visits)
    cuts = quantiles(lingers, n=100, method="inclusive")
    return {
        "outside": len(rows) - len(inside),
        "duplicates": len(inside) - len(once),
        "checkins": len(once),
        "users": len(by_user),
        "cells": len({cell for _, cell, _ in visits}),
        "visits": len(visits),
        "moves": len(lingers),
        "lingers": len(lingers),
        "pairs": len(pairs),
        "pairs_seen_once": sum(many == 1 for many in pairs.values()),
        "linger_under_a_day": sum(linger < 86_400 for linger in lingers),
        "linger_over_a_week": sum(linger > 7 * 86_400 for linger in lingers),
        "linger_quantiles_s": {f"p{at}": pytest.approx(cuts[at - 1]) for at in (10, 25, 50, 75, 90, 95, 99)},
        "transitions": len({(a[1], b[1]) for a, b in pairwise(visits) if a[0] == b[0]}),
        "friends": 4 * len(by_user),
        "first": f"{min(row[1] for row in once):%Y-%m-%dT%H:%M:%SZ}",
        "last": f"{max(row[1] for row in once):%Y-%m-%dT%H:%M:%SZ}",
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_counts_and_tables(counts: Counts, path: Path, rows: list[Row]) -> None:
    assert {name: getattr(counts, name) for name in counted(rows)} == counted(rows)
    assert counts.rows_read == len(rows) + len(BAD)
    assert counts.quarantined == sum(counts.reasons.values()) == len(BAD)
    parts = counts.quarantined + counts.outside + counts.duplicates + counts.irregular + counts.checkins
    assert parts == counts.rows_read
    tables = {folder.name: pq.read_table(folder) for folder in path.iterdir() if folder.is_dir()}
    assert {name: table.num_rows for name, table in tables.items() if name not in ("lingers", "repeats", "days")} == {
        "quarantine": len(BAD),
        "checkins": counts.checkins,
        "visits": counts.visits,
        "pairs": counts.pairs,
        "cells": counts.cells,
        "transitions": counts.transitions,
        "friends": counts.friends,
        "subscriptions": counts.subscribed + counts.unsubscribed,
        "groups": tables["groups"].num_rows,
    }
    assert sorted(tables["quarantine"]["row"].to_pylist()) == sorted(BAD)
    assert sum(tables["lingers"]["visits"].to_pylist()) == counts.lingers
    assert sum(tables["repeats"]["pairs"].to_pylist()) == counts.pairs
    assert sum(tables["groups"]["visits"].to_pylist()) == counts.visits
    assert counts.subscribed - counts.unsubscribed >= counts.users  # nobody leaves their last cell
    assert json.loads((path / "counts.json").read_text()) == json.loads(
        json.dumps({name: getattr(counts, name) for name in Counts.__struct_fields__})
    )


def test_too_many_bad_rows_stop_the_job_and_can_be_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    file = write_snap(tmp_path / "snap.txt", some_rows(3)[:20], BAD)
    order = Order(files=(file,), max_bad=0.05)
    with pytest.raises(LatecomerError, match=r"3 of 23 rows cannot be used \(.*1 with no user.*more than the 5% of"):
        analyse_checkins(spark, order, tmp_path / "out")
    assert sorted(pq.read_table(tmp_path / "out" / "quarantine")["row"].to_pylist()) == sorted(BAD)
    assert not (tmp_path / "out" / "latest").exists()
    with pytest.raises(LatecomerError, match="one is '"):
        analyse_checkins(spark, order)


def test_nothing_inside_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    file = write_snap(tmp_path / "snap.txt", some_rows(3)[:20], [])
    with pytest.raises(LatecomerError, match="no check-in is left: 20 lie outside the box or the window; widen --box"):
        analyse_checkins(spark, Order(files=(file,), region=Region(-10.0, 0.0, 0.0, 10.0)))


def test_the_verb_and_the_job_give_the_same_bytes_from_other_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "opened", lambda *_: shipped(spark))
    rows = some_rows(1)
    halves = [write_snap(tmp_path / "b.txt", rows[200:], []), write_snap(tmp_path / "a.txt", rows[:200], BAD)]
    out, picture, measured = tmp_path / "halves", tmp_path / "figure.svg", tmp_path / "calibration.json"
    options = ["--box=30,-80,45,-70", "--json", f"--out={out}", f"--plot={picture}", f"--calibration={measured}"]
    assert run(VERBS, ["checkins", *halves, *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: told[name] for name in counted(rows)} == counted(rows)
    assert "linger time" in picture.read_text(encoding="utf-8")
    assert read_calibration(measured.read_bytes(), "x").users == told["users"]
    check_counts_and_tables(msgspec.convert(told, Counts), out / "latest", rows)
    if not EVERYTHING:  # each job takes ten seconds
        return
    one = write_snap(tmp_path / "whole.txt", rows, BAD)
    whole = analyse_checkins(spark, Order(files=(one,), region=BOX), tmp_path / "whole")
    check_counts_and_tables(whole.counts, tmp_path / "whole" / "latest", rows)
    assert whole.path is not None
    written = {name: text for name, text in contents(whole.path).items() if not name.startswith("quarantine")}
    assert len(written) == 12  # eleven tables of one file each, and the counts
    assert contents(out / "latest").items() >= written.items()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--box=nowhere"], "--box: 'nowhere' is no box; write world, us, paper, or"),
        (["--box=50,-125,24,-66"], "--box: "),
        (["--cell=0"], "--cell: 0 is not from 0.001 to 90 degrees"),
        (["--since=2012-05-01", "--until=2012-04-01"], "--since: it does not lie before --until"),
        (["--since=soon"], "--since: 'soon' is not a time"),
        (["--follow=0"], "--follow: 0 is not from 1 to 1000"),
        (["--max-bad=2"], "--max-bad: 2 is not a share"),
        (["--plot=figure.txt"], "--plot: 'figure.txt' must end in"),
    ],
)
def test_what_cannot_be_meant(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["checkins", "file", *options]) == 2
    assert capsys.readouterr().err.startswith(f"latecomer: {told}")


def test_boxes() -> None:
    assert verb.read_box("24,-125,50,-66") == verb.BOXES["us"]
    with pytest.raises(SettingsError, match="--box"):
        verb.read_box("1,2,3")
    south, west, north, east = verb.BOXES["paper"]
    assert (north - south, east - west) == (20, 60)
