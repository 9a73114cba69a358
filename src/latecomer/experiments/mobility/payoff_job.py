"""Real movements → what sending sessions ahead would have cost: learned on Spark, asked on weeks not learned from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow.parquet as parquet

from latecomer.experiments.mobility.payoff import Payoff, Predicted, payoff
from latecomer.model.errors import SettingsError
from latecomer.pipeline.movement_files import Columns
from latecomer.pipeline.movement_job import Order, predict_movement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_US = 60 * 1_000_000
ANSWERS = "move_answers"


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A file of who was where and when, and how it is read."""

    name: str
    title: str
    file: str
    columns: Columns = Columns()
    test_weeks: float = 4.0
    each: bool = False


RECORDED = (
    Recorded(name="us", title="Foursquare, US", file="foursquare_us_checkins.parquet", test_weeks=12.0),
    Recorded(
        name="nyc", title="Foursquare, New York", file="foursquare_nyc_checkins.parquet", columns=Columns(cell=0.05)
    ),
    Recorded(
        name="brightkite",
        title="Brightkite",
        file="brightkite_weekly_checkins.parquet",
        columns=Columns(time="rel_minute", unit="min"),
        each=True,
    ),
    Recorded(name="flights", title="Aircraft", file="flights_us_2013_events.parquet", columns=Columns(place="airport")),
    Recorded(
        name="buses",
        title="Buses of Austin",
        file="bus_austin_2016_positions.parquet",
        columns=Columns(cell=0.02),
        test_weeks=1 / 7,
    ),
)


def recorded_in(data: Path) -> list[Recorded]:
    """The sets that are in a folder."""
    found = [one for one in RECORDED if (data / one.file).is_file()]
    if not found:
        names = ", ".join(one.file for one in RECORDED)
        raise SettingsError("--data", f"{data} has none of {names}; name the folder that has them")
    return found


def payoffs(spark: SparkSession, data: Path, out: Path, tell: Callable[[str], None]) -> list[Payoff]:
    """Of every set in a folder; what was computed before, from the same file, is not computed again."""
    found = []
    for one in recorded_in(data):
        file = out / f"payoff-{one.name}.json"
        stamp = str((data / one.file).stat().st_size)
        known = _read(file, stamp)
        if known is None:
            tell(f"movement of {one.title}")
            known = _measured(spark, one, data / one.file, out / "movement" / one.name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.json.encode(_Kept(stamp, known)))
        found.append(known)
    return found


class _Kept(msgspec.Struct, frozen=True):
    stamp: str
    payoff: Payoff


def _read(file: Path, stamp: str) -> Payoff | None:
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    return kept.payoff if kept.stamp == stamp else None


def _measured(spark: SparkSession, one: Recorded, file: Path, out: Path) -> Payoff:
    order = Order(files=(str(file),), columns=one.columns, test_weeks=one.test_weeks, each=one.each)
    outcome = predict_movement(spark, order, out, lambda what: None)
    assert outcome.folder is not None
    rows = parquet.read_table(outcome.folder / ANSWERS).to_pylist()
    moves = [Predicted(row["place"], row["next"], tuple(row["named"]), row["times"]) for row in rows]
    places = dict.fromkeys(name for row in moves for name in (row.old, row.new, *row.guesses))
    return payoff(one.title, moves, _located(one, file, list(places)), _away_min(one, file))


def _located(one: Recorded, file: Path, names: list[str]) -> dict[str, tuple[float, float]]:
    """Where places are: a cell says so itself, others have a mean."""
    if not one.columns.place:
        pairs = {name: name.split(",") for name in names}
        return {
            name: (int(south) * one.columns.cell, int(west) * one.columns.cell) for name, (south, west) in pairs.items()
        }
    table = parquet.read_table(file, columns=[one.columns.place, "lat", "lon"])
    means = table.group_by(one.columns.place).aggregate([("lat", "mean"), ("lon", "mean")]).to_pylist()
    known = {str(row[one.columns.place]): (float(row["lat_mean"]), float(row["lon_mean"])) for row in means}
    return {name: known[name] for name in names}


def _away_min(one: Recorded, file: Path) -> float:
    """The median time between being seen at a place and at the next other one."""
    time = one.columns.time or "time"
    wanted = ["user", time, *([one.columns.place] if one.columns.place else ["lat", "lon"])]
    table = parquet.read_table(file, columns=wanted)
    user = table["user"].to_numpy()
    when = table[time].to_numpy()
    minutes = when.astype("datetime64[us]").astype(np.int64) / MINUTE_US if when.dtype.kind == "M" else when
    if one.columns.place:
        _, place = np.unique(table[one.columns.place].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    else:
        south, west = (np.floor(table[name].to_numpy() / one.columns.cell).astype(np.int64) for name in ("lat", "lon"))
        place = south * 1_000_000 + west
    order = np.lexsort((minutes, user))
    user, minutes, place = user[order], minutes[order], place[order]
    moved = (user[1:] == user[:-1]) & (place[1:] != place[:-1])
    return float(np.median(np.diff(minutes)[moved]))
