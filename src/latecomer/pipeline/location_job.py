"""Check-ins → the input of the location model of dynatops, on Spark: tables `changes` and `published`."""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from latecomer.pipeline.output import opened, read_table
from latecomer.pipeline.stages.friends import FOLLOWED, friends_by_chance
from latecomer.pipeline.stages.location_changes import Cells, location_changes, numbered_cells, published_by_hour
from latecomer.pipeline.stages.stays import stays

CHANGES, PUBLISHED = "changes", "published"
ROWS_PER_FILE = 4_000_000


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted."""

    checkins: str
    """A table of check-ins: of `latecomer synth` or of `latecomer checkins`."""
    cells: Cells
    followed: int = FOLLOWED
    seed: int = 0
    """Of the choice of friends."""


class Made(msgspec.Struct, frozen=True):
    """Where the tables are, and how much is in them."""

    changes: Path
    published: Path
    users: int
    visits: int
    checkins: int


def location_model(spark: SparkSession, order: Order, out: Path) -> Made:
    """Carry it out; the tables appear together."""
    found = read_table(spark, Path(order.checkins))
    with opened(out) as output, output.run("location", order) as run:
        placed = numbered_cells(found.select("user", "time", "lat", "lon", "place"), order.cells).persist()
        visits = stays(placed).persist()
        friends = friends_by_chance(visits, followed=order.followed, seed=order.seed)
        size = visits.count()
        files = 1 + (2 + order.followed) * size // ROWS_PER_FILE
        run.write(location_changes(visits, friends), CHANGES, sort=("time_s", "user", "slot"), files=files)
        run.write(published_by_hour(placed), PUBLISHED, sort=("hour", "cell"), files=1)
        users, checkins = visits.select("user").distinct().count(), placed.count()
        placed.unpersist()
        visits.unpersist()
        return Made(run.path / CHANGES, run.path / PUBLISHED, users, size, checkins)
