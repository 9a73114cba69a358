"""Real movements, learned on Spark and counted: `latecomer reproduce mobility --data`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from latecomer.experiments.mobility.payoff_job import RECORDED, _away_min, _located, payoffs, recorded_in
from latecomer.model.errors import SettingsError

BUSES = next(one for one in RECORDED if one.name == "buses")
FLIGHTS = next(one for one in RECORDED if one.name == "flights")
STOPS = [(30.21, -97.71), (30.25, -97.75), (30.29, -97.79)]


def drive(folder: Path, days: int = 6) -> Path:
    """Three buses that go round three stops, a quarter of an hour from one to the next."""
    start = datetime(2016, 11, 24)
    rows = [
        {"user": bus, "time": start + timedelta(minutes=15 * step), "lat": lat, "lon": lon}
        for bus in (1, 2, 3)
        for step in range(days * 24 * 4)
        for lat, lon in [STOPS[(bus + step) % 3]]
    ]
    file = folder / BUSES.file
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return file


def test_only_what_is_there_is_looked_at(tmp_path: Path) -> None:
    drive(tmp_path, days=1)
    assert recorded_in(tmp_path) == [BUSES]
    with pytest.raises(SettingsError, match="has none of foursquare_us"):
        recorded_in(tmp_path / "empty")


def test_how_long_and_how_far(tmp_path: Path) -> None:
    file = drive(tmp_path, days=1)
    assert _away_min(BUSES, file) == 15.0
    assert _located(BUSES, file, ["1510,-4886"])["1510,-4886"] == pytest.approx((30.2, -97.72))
    airports = [{"airport": "JFK", "lat": 40.0, "lon": -73.0}, {"airport": "JFK", "lat": 42.0, "lon": -75.0}]
    parquet.write_table(pa.Table.from_pylist(airports), tmp_path / FLIGHTS.file)
    assert _located(FLIGHTS, tmp_path / FLIGHTS.file, ["JFK"]) == {"JFK": (41.0, -74.0)}


@pytest.mark.long
def test_buses_that_go_round_are_predicted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    drive(tmp_path)
    told: list[str] = []
    (found,) = payoffs(spark, tmp_path, tmp_path / "out", told.append)
    assert found.title == "Buses of Austin"
    assert found.right[1] == 100.0
    assert found.ahead[1].each == 0.0
    assert found.ahead[1].fixed == found.standard.fixed
    assert found.standard.each == 2.0, "three places have one broker above them"
    assert told == ["movement of Buses of Austin"]
    assert payoffs(spark, tmp_path, tmp_path / "out", told.append) == [found]
    assert len(told) == 1, "not learned again"
