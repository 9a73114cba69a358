"""Check-ins → what the location model of dynatops takes: Spark next to the small reference, which is arrays."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from latecomer.experiments.dynatops.location.ground import NOWHERE, Ground
from latecomer.experiments.dynatops.location.visits import published_by_hour, read_workload, rows_of
from latecomer.pipeline.location_job import Order, location_model
from latecomer.pipeline.output import write_table
from latecomer.pipeline.schemas_checkins import FRIENDS
from latecomer.pipeline.stages import location_changes as stage
from latecomer.pipeline.stages.stays import stays
from latecomer.pipeline.synth_job import CHECKINS

GROUND = Ground(rows=2, columns=3, south=0.0, west=0.0, north=2.0, east=3.0)
CELLS = stage.Cells(2, 3, 0.0, 0.0, 1.0, 1.0)
USERS, ROWS = 7, 160
START_S = 1_280_620_800


def checkins(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """User, time, lat and lon, in the order of user and time; some are outside, all users are somewhere inside."""
    random = np.random.default_rng(seed)
    user = np.sort(np.concatenate([np.arange(USERS), random.integers(0, USERS, ROWS - USERS)]))
    time_s = START_S + random.permutation(ROWS * 900)[:ROWS]
    order = np.lexsort((time_s, user))
    lat, lon = random.uniform(-0.2, 2.2, ROWS), random.uniform(-0.2, 3.2, ROWS)
    first = np.append(True, user[1:] != user[:-1])
    lat[first], lon[first] = 0.5, 0.5
    return user, time_s[order], lat, lon


def on_spark(spark: SparkSession, user: np.ndarray, time_s: np.ndarray, lat: np.ndarray, lon: np.ndarray):  # type: ignore[no-untyped-def]
    rows = [
        (int(u), datetime.fromtimestamp(int(t), UTC), float(a), float(o), 0)
        for u, t, a, o in zip(user, time_s, lat, lon, strict=True)
    ]
    return spark.createDataFrame(rows, CHECKINS)


def test_the_stage_makes_the_rows_of_the_reference(spark: SparkSession) -> None:
    user, time_s, lat, lon = checkins(1)
    friends = np.array([sorted((one + step) % USERS for step in (1, 3, 4, 6)) for one in range(USERS)])
    cell = GROUND.cell_of(lat, lon)
    inside = cell != NOWHERE
    assert not inside.all()
    wanted = rows_of(user[inside], time_s[inside], cell[inside], friends)

    placed = stage.numbered_cells(on_spark(spark, user, time_s, lat, lon), CELLS)
    pairs = [(str(one), str(other)) for one in range(USERS) for other in friends[one]]
    made = stage.location_changes(stays(placed), spark.createDataFrame(pairs, FRIENDS))
    found = sorted((r["time_s"], r["user"], r["slot"], r["cell"]) for r in made.collect())
    assert found == sorted(zip(*(values.tolist() for values in wanted), strict=True))

    start_s = int(time_s[inside].min()) // 3600 * 3600
    hours = published_by_hour(time_s[inside], cell[inside], start_s, GROUND.cells)
    counted = {
        (r["hour"] - start_s // 3600, r["cell"]): r["checkins"] for r in stage.published_by_hour(placed).collect()
    }
    assert counted == {(hour, place): hours[hour, place] for hour, place in zip(*np.nonzero(hours), strict=True)}


def test_the_tables_of_the_job_are_the_workload_of_the_model(spark: SparkSession, tmp_path: Path) -> None:
    user, time_s, lat, lon = checkins(2)
    write_table(on_spark(spark, user, time_s, lat, lon), tmp_path / "checkins", sort=("user", "time"))
    made = location_model(
        spark, Order(checkins=str(tmp_path / "checkins"), cells=CELLS, followed=2, seed=3), tmp_path / "out"
    )
    workload = read_workload(made.changes, made.published, GROUND.cells)
    inside = GROUND.cell_of(lat, lon) != NOWHERE
    assert (made.users, made.checkins) == (USERS, int(inside.sum())) == (len(workload.where), workload.published.sum())
    assert (workload.where == 0).all()  # where everybody is seen first
    assert (workload.slots == 0).all()
    assert workload.slots.shape == (USERS, 3)
    assert int((workload.changes.slot == -1).sum()) == made.visits - USERS
    assert (np.diff(workload.changes.time) >= 0).all()
