"""The location claims on real check-ins: the same settings, systems and rules of judging, other people.

Check-ins become changes on Spark, once for every seed, as the seed decides who follows whom; then every setting of a
claim is measured with these people instead of made-up ones, and the claim judges what was found as if it were its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log2, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from latecomer.experiments.claim import Claim
from latecomer.experiments.dynatops.location.ground import Ground
from latecomer.experiments.dynatops.location.located import Located, Stage, measured
from latecomer.experiments.dynatops.location.reading import NOTIFIED, load_beside
from latecomer.experiments.dynatops.location.visits import read_workload
from latecomer.experiments.grid import Measures, Spread, Table, alone, measure
from latecomer.experiments.verdict import Verdict
from latecomer.model.errors import LatecomerError, SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.pipeline.stages.checkins import Region

SEEDS = 20
CELLS_LEAST, CELLS_MOST = 50, 2000
"""Clusters have up to 50 brokers; a run with more cells than these takes hours."""
HOURS_LEAST = 528
"""22 days: brokers change places within them even with the longest T_free, which is 504 h."""
USERS_LEAST = 100
EVERY_H = NOTIFIED.every_h
"""Notifications are counted in every so many hours, in all settings: recorded people may do nothing for hours."""
CACHE = "measured-checkins.jsonl"
CONVERTED = "these are options of `latecomer checkins`: give the check-ins that it writes with --out to --checkins"
Told = Callable[[str], None]
"""Told what is being done."""


class Recorded(Located, frozen=True, kw_only=True):
    """A point of a figure with people who were recorded."""

    SOURCES: ClassVar[tuple[str, ...]] = (*Located.SOURCES, "experiments/dynatops/location/recorded.py")

    tables: tuple[str, ...] = ()
    """Changes and publications of each seed: folders, which carry a digest of what they were made from."""

    def measure(self, seed: int) -> Measures:
        folder = Path(self.tables[seed])
        people = read_workload(folder / "changes", folder / "published", self.ground.cells)
        people = replace(people, published=people.published * self.published)
        return measured(Stage(self, seed, people), self.systems, self.sizes)


class People(msgspec.Struct, frozen=True):
    """Who was recorded, and on which ground."""

    rows: int
    columns: int
    south: float
    west: float
    degrees: float
    users: int
    visits: int
    checkins: int
    hours: int
    """From the first check-in to the last."""
    notified: int
    """Check-ins in the hours in which notifications are counted."""
    filled: int
    """Cells in which anybody checked in."""
    first: str
    last: str
    """Check-ins, UTC."""
    tables: tuple[str, ...]

    @property
    def side(self) -> int:
        """Of GeoPS's map, in its cells: the power of two that comes nearest to as many cells; 32 for the paper's."""
        return 1 << round(log2(sqrt(self.rows * self.columns)))


class Judged(msgspec.Struct, frozen=True):
    """A claim on recorded people."""

    verdict: Verdict
    load: str
    """How uneven brokers' loads are, as a sentence."""


def ground_of(region: Region) -> Ground:
    """The cells of a box; a SettingsError if it has too few or too many."""
    rows = round((region.north - region.south) / region.cell)
    columns = round((region.east - region.west) / region.cell)
    if not CELLS_LEAST <= rows * columns <= CELLS_MOST:
        told = f"{rows} × {columns} cells are not from {CELLS_LEAST} to {CELLS_MOST:,}; each has a broker"
        raise SettingsError("--cell", f"{told}: change --cell or --box")
    north, east = region.south + rows * region.cell, region.west + columns * region.cell
    return Ground(rows, columns, region.south, region.west, north, east)


def recorded_people(
    spark: SparkSession, files: Sequence[str], region: Region, out: Path, seeds: int, told: Told = lambda _: None
) -> People:
    """Check-ins → cells → subscriptions → changes, with other friends for every seed."""
    import pyarrow.parquet as pq

    from latecomer.pipeline.checkins_job import Order as Files
    from latecomer.pipeline.checkins_job import analyse_checkins
    from latecomer.pipeline.location_job import Order, location_model
    from latecomer.pipeline.stages.location_changes import Cells

    ground = ground_of(region)
    cells = Cells(ground.rows, ground.columns, ground.south, ground.west, region.cell, region.cell)
    try:
        found = analyse_checkins(spark, Files(files=tuple(files), region=region), out / "checkins", told)
    except LatecomerError as error:
        if "--max-bad" not in str(error):
            raise
        raise LatecomerError(f"{error}; {CONVERTED}") from None
    assert found.path is not None, "it was told where to write"
    table = str(found.path / "checkins")
    made = []
    for seed in range(seeds):
        told(f"friends, {seed + 1} of {seeds}")
        made.append(location_model(spark, Order(checkins=table, cells=cells, seed=seed), out / "location" / str(seed)))
    first = made[0]
    published = pq.read_table(first.published)
    hours = published["hour"].to_numpy() - published["hour"].to_numpy().min()
    counted = published["checkins"].to_numpy()[(hours + 1) % EVERY_H == 0]
    people = People(
        rows=ground.rows,
        columns=ground.columns,
        south=ground.south,
        west=ground.west,
        degrees=region.cell,
        users=first.users,
        visits=first.visits,
        checkins=first.checkins,
        hours=int(hours.max()) + 1,
        notified=int(counted.sum()),
        filled=len(published["cell"].unique()),
        first=found.counts.first,
        last=found.counts.last,
        tables=tuple(str(one.changes.parent) for one in made),
    )
    _check(people)
    return people


def _check(people: People) -> None:
    if people.users < USERS_LEAST:
        told = f"{people.users:,} users are fewer than {USERS_LEAST}"
        raise SettingsError("--checkins", f"{told}, too few to compare brokers by; widen --box, --since or --until")
    if people.hours < HOURS_LEAST:
        told = f"from {people.first} to {people.last} are {people.hours / 24:.0f} days, fewer than {HOURS_LEAST // 24}"
        raise SettingsError("--checkins", f"{told}, in which brokers change places at all; widen --since or --until")
    if not people.notified:
        told = f"no check-in is in one of the hours in which notifications are counted, every {EVERY_H}th"
        raise SettingsError("--checkins", f"{told}; widen --box, --since or --until")


def with_people(setting: Located, people: People) -> Recorded:
    """The same point with other people on their own ground."""
    kept = {name: getattr(setting, name) for name in setting.__struct_fields__}
    kept |= {name: getattr(people, name) for name in ("rows", "columns", "south", "west", "degrees", "tables")}
    kept |= {"users": people.users, "checkins": people.checkins, "seeds": len(people.tables)}
    kept |= {"every_h": EVERY_H, "side": people.side, "branches": (2,) * round(log2(people.side))}
    return Recorded(**kept)


def judge(
    claims: Sequence[Claim],
    people: People,
    folder: Path,
    *,
    quick: bool = False,
    spread: Spread = alone,
    told: Told = lambda _: None,
) -> list[Judged]:
    """The claims of the location model, judged on recorded people; sweeps are left out."""
    found = []
    for claim in claims:

        def measured_so_far(done: int, total: int, id: str = claim.id) -> None:
            told(f"{id}, {done} of {total}")

        settings = [one for axis in claim.axes(quick) for one in axis.settings() if isinstance(one, Located)]
        others = {one: with_people(one, people) for one in settings}
        measured_with = measure(
            list(others.values()), len(people.tables), folder / CACHE, spread=spread, told=measured_so_far
        )
        table = Table({one: measured_with.rows[other] for one, other in others.items()})
        found.append(Judged(claim.judge(table, quick), load_beside(table, settings[0])))
    return found
