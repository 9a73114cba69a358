"""A calibration of check-ins over all cells of a ground, and check-ins made up with it.

The real check-ins are in 80 cities, as their data keeps well-visited places only, and the paper has 1,200 cells.
*Spread* is a new spatial calibration: the people of a city live around it, the fewer the farther. How often they check
in, when, and when they move is as measured. *Cities* is the calibration as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from latecomer.experiments.dynatops.location.ground import NOWHERE, Ground, kilometres
from latecomer.experiments.dynatops.location.visits import (
    friends_by_chance,
    published_by_hour,
    rows_of,
    workload_of,
)
from latecomer.experiments.dynatops.workload import Workload

if TYPE_CHECKING:
    from latecomer.pipeline.calibration import Calibration

Where = Literal["spread", "cities"]

AROUND_KM = 100.0
STEEP = 3.0
"""Weight of a cell at a distance d from a city: (1 + d / AROUND_KM) ** −STEEP."""
GRAIN = 10_000
"""Calibrations count in whole numbers: people are cut into so many parts."""
START, BATCH = "2010-08-01", 4000
HOURS_A_DAY = 24


def spread_calibration(calibration: Calibration, ground: Ground) -> Calibration:
    """The same people over all cells."""
    from latecomer.pipeline.calibration import Place

    south, west = ground.south / ground.height, ground.west / ground.width
    assert ground.height == ground.width, "a calibration has square cells"
    assert south.is_integer(), "a calibration counts cells from the equator"
    assert west.is_integer(), "and from Greenwich"
    cities = calibration.places
    lat, lon = (np.array([(edge + 0.5) * calibration.cell for edge in edges])
                for edges in ([city.row for city in cities], [city.column for city in cities]))  # fmt: skip
    weight = (1 + kilometres((lat, lon), ground.middles()) / AROUND_KM) ** -STEEP
    share = weight / weight.sum(axis=1, keepdims=True)
    counts = {name: np.array([getattr(city, name) for city in cities]) @ share for name in ("users", "homes", "busy")}
    many = {name: np.maximum(1, np.round(values * GRAIN)).astype(np.int64) for name, values in counts.items()}
    spots = np.maximum(1, np.round(np.array([city.places for city in cities]) @ share)).astype(np.int64)
    row, column = np.divmod(np.arange(ground.cells), ground.columns)
    places = tuple(
        Place(int(south) + int(row[at]), int(west) + int(column[at]), int(many["users"][at]), int(many["homes"][at]),
              int(many["busy"][at]), int(spots[at]))
        for at in range(ground.cells)
    )  # fmt: skip
    source = f"{calibration.source}; spread over {ground.rows} × {ground.columns} cells"
    return msgspec.structs.replace(calibration, source=source, cell=ground.height, places=places)


def made_up(
    ground: Ground, where: Where, *, users: int, months: int, checkins: int, followed: int = 4, seed: int = 0
) -> Workload:
    """People who were made up, here and without Spark: the same check-ins as those of `latecomer synth`.

    Who is never inside the ground is left out.
    """
    from latecomer.pipeline.calibration import built_in
    from latecomer.pipeline.synth_job import orders_of
    from latecomer.pipeline.synth_people import People

    calibration = built_in()
    if where == "spread":
        calibration = spread_calibration(calibration, ground)
    orders = orders_of(calibration, users=users, months=months, start=START, checkins=checkins, seed=seed)
    people = People(calibration, orders)
    parts = [people.checkins(np.arange(at, min(at + BATCH, users))) for at in range(0, users, BATCH)]
    user, time_s, lat, lon = (np.concatenate([part[name] for part in parts]) for name in ("user", "time", "lat", "lon"))
    cell = ground.cell_of(lat, lon)
    inside = cell != NOWHERE
    time_s, cell = time_s[inside], cell[inside]
    known, number = np.unique(user[inside], return_inverse=True)
    friends = friends_by_chance(len(known), followed, np.random.default_rng([seed, 1]))
    rows = rows_of(number.astype(np.int64), time_s, cell, friends)
    published = published_by_hour(time_s, cell, orders.start_s, ground.cells)[: round(orders.days * HOURS_A_DAY)]
    return workload_of(rows, published, orders.start_s, ground.cells, users=len(known), followed=followed)
