"""`latecomer reproduce dynatops --checkins`: people who were recorded, from a file to a verdict."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from latecomer.experiments.dynatops.location import recorded
from latecomer.experiments.dynatops.location.claims import CLAIMS
from latecomer.experiments.dynatops.location.recorded import judge, recorded_people
from latecomer.experiments.dynatops.location.recorded_page import write_recorded
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.pipeline.stages.checkins import Region

START = datetime(2012, 4, 3)
REGION = Region(30.0, -100.0, 35.0, -90.0, 1.0)
"""5 × 10 cells."""


def checked_in(folder: Path, *, users: int = 110, days: int = 24) -> str:
    """Everybody goes to and fro between two cells, once a week each."""
    chance = Random(1)
    rows = []
    for user in range(users):
        places = [(chance.uniform(30, 35), chance.uniform(-100, -90)) for _ in range(2)]
        for number, day in enumerate(range(0, days, 4)):
            lat, lon = places[number % 2]
            time = START + timedelta(days=day, minutes=chance.randrange(24 * 60))
            rows.append({"user": user, "time": time, "lat": lat, "lon": lon, "place": 2 * user + number % 2})
        rows.append({"user": user, "time": START + timedelta(days=days - 1), "lat": lat, "lon": lon, "place": 0})
    file = folder / "made.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return str(file)


def test_from_a_file_to_a_page(spark: SparkSession, tmp_path: Path) -> None:
    told: list[str] = []
    file = checked_in(tmp_path)
    people = recorded_people(spark, [file], REGION, tmp_path / "out", 2, told.append)
    assert (people.users, people.checkins, people.rows, people.columns, people.side) == (110, 770, 5, 10, 8)
    assert len(set(people.tables)) == 2
    assert told[-2:] == ["friends, 1 of 2", "friends, 2 of 2"]
    spread = next(claim for claim in CLAIMS if claim.id == "D4")
    found = judge([spread], people, tmp_path / "out", told=told.append)
    assert told[-1] == "D4, 4 of 4"
    assert found[0].verdict.verdict == "undecided", "two seeds decide nothing"
    assert "DYNATOPS(BS) c=50" in found[0].load
    again = judge([spread], people, tmp_path / "out", spread=lambda jobs: iter([(job, {}) for job in jobs]))
    assert again == found, "what was measured is not measured again"
    page = write_recorded(["made.parquet"], people, found, {"D4": found[0].verdict}, tmp_path / "docs")
    text = page.read_text(encoding="utf-8")
    assert page.name == "dynatops-on-made.md"
    assert "110 users check in 770 times" in text
    assert "| D4 | undecided | undecided |" in text
    assert found[0].load in text


def test_what_is_too_little_is_told_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    few, short = tmp_path / "few", tmp_path / "short"
    few.mkdir()
    short.mkdir()
    with pytest.raises(SettingsError, match="--checkins: 9 users are fewer than 100, too few to compare brokers by"):
        recorded_people(spark, [checked_in(few, users=9)], REGION, tmp_path / "out", 1)
    with pytest.raises(SettingsError, match="are 15 days, fewer than 22, in which brokers change places at all"):
        recorded_people(spark, [checked_in(short, days=16)], REGION, tmp_path / "out", 1)
    later = Region(30.0, -100.0, 35.0, -90.0, 1.0, 1_600_000_000_000_000)
    with pytest.raises(LatecomerError, match="no check-in is left: 63 lie outside the box or the window"):
        recorded_people(spark, [str(few / "made.parquet")], later, tmp_path / "out", 1)


def test_a_bad_file_is_told_where_it_can_be_repaired(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("user,time,lat,lon\n" + "a,yesterday,1,1\n" * 30)
    with pytest.raises(LatecomerError, match=r"30 of 30 rows cannot be used .* options of `latecomer checkins`"):
        recorded_people(spark, [str(file)], REGION, tmp_path / "out", 1)


@pytest.mark.parametrize(("cell", "told"), [(2.5, "2 × 4 cells"), (0.1, "50 × 100 cells")])
def test_a_ground_has_neither_too_few_cells_nor_too_many(cell: float, told: str) -> None:
    with pytest.raises(SettingsError, match=f"--cell: {told} are not from 50 to 2,000; each has a broker"):
        recorded.ground_of(Region(30.0, -100.0, 35.0, -90.0, cell))
