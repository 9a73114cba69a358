"""Files of check-ins → the location model of dynatops (V.A.1): `latecomer checkins`.

The job, for whoever wants to compute the same with something else:

1. *rows*: every line or row of the files but headings and blank lines. A row is **quarantined** that has the wrong
   number of columns, no user, no time that can be read, a time before 1970 or more than a day ahead, or coordinates
   that cannot be read, are out of range or are 0, 0. A good row **outside** the box or the window (each from its lower
   edge up to, not including, its upper one) is left out. Of rows with the same user, time, lat, lon and place all but
   one are **duplicates**. If only regular or busy users are wanted, rows of others are **irregular**. What is left are
   check-ins: rows_read = quarantined + outside + duplicates + irregular + checkins.
2. *cell* of a check-in: (⌊lat / size⌋, ⌊lon / size⌋), written `40,-74`.
3. *visit*: a longest run of check-ins of a user in one cell, in the order of (time, place, lat, lon). It has *arrived*
   with its first check-in, was *seen* with its last, and *left* with the first of the user's next visit.
4. *linger time* of a visit: left − arrived; the last visit of a user has none.
5. *pair*: a user and a cell that met; *seen once* if it has one visit.
6. *transition*: origin and target of successive visits of a user, with how many moves and by how many users.
7. *friends*: four others per user, chosen by hash; with a list of friendships four of those who are in it.
8. *subscriptions*: a user subscribes to the cells that they or a friend are in, from the first to come to the last
   to go (see stages/cell_subscriptions.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from latecomer.model.errors import LatecomerError
from latecomer.pipeline.calibration import Calibration, calibrated
from latecomer.pipeline.checkins_formats import open_friends, open_rows
from latecomer.pipeline.checkins_layouts import AUTO
from latecomer.pipeline.checkins_sums import Sums, linger_quantiles, summed
from latecomer.pipeline.output import Run, opened, read_table, write_table
from latecomer.pipeline.schemas_checkins import DAYS, GROUPS, LINGERS, REPEATS
from latecomer.pipeline.stages.cell_subscriptions import by_day, cell_subscriptions
from latecomer.pipeline.stages.checkin_figures import cell_counts, linger_counts, pair_counts, visit_counts
from latecomer.pipeline.stages.checkins import Region, checkins, numbered, quarantine, reasons, regular, tally
from latecomer.pipeline.stages.friends import FOLLOWED, friends_by_chance, friends_of_list
from latecomer.pipeline.stages.moves import cell_transitions
from latecomer.pipeline.stages.pairs import cells, pairs
from latecomer.pipeline.stages.stays import stays

MAX_BAD = 0.1
"""Of the rows of SNAP's Brightkite one in twenty is at 0, 0."""
FEW = 20
"""Rows below which a share says nothing: then only all of them are too many."""
ROWS_PER_FILE = 1_000_000
ROWS_PER_PARTITION = 2_000_000
"""Of a shuffle: what can be sorted in a gigabyte."""
QUARANTINE = "quarantine"
COUNTS = "counts.json"
CALIBRATION = "calibration.json"
SECOND_US = 1_000_000

Told = Callable[[str], None]
"""Told what is being computed."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted."""

    files: tuple[str, ...]
    format: str = AUTO
    places: str | None = None
    """Where places are, for files that do not say."""
    friends: str | None = None
    region: Region = Region()
    regular: bool = False
    """Only users who check in in every month."""
    least: int = 1
    """Only users with so many check-ins."""
    followed: int = FOLLOWED
    seed: int = 0
    """Of the choice of friends."""
    max_bad: float = MAX_BAD


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints; the module says how each is defined."""

    rows_read: int
    quarantined: int
    reasons: dict[str, int]
    outside: int
    duplicates: int
    irregular: int
    checkins: int
    users: int
    cells: int
    visits: int
    moves: int
    pairs: int
    pairs_seen_once: int
    pairs_of_one_checkin: int
    lingers: int
    """Visits that ended."""
    linger_under_a_day: int
    linger_over_a_week: int
    linger_quantiles_s: dict[str, float]
    """In seconds, over the visits that ended; between two of them in proportion."""
    transitions: int
    friends: int
    """Pairs of a user and somebody they follow."""
    friends_quarantined: int
    subscribed: int
    unsubscribed: int
    first: str
    last: str
    """Check-ins, UTC."""


class Figures(msgspec.Struct, frozen=True):
    """The small tables behind Figure 5, as they are written."""

    repeats: list[dict[str, Any]]
    lingers: list[dict[str, Any]]
    days: list[dict[str, Any]]
    groups: list[dict[str, Any]]


class Analysis(msgspec.Struct, frozen=True):
    """What came out."""

    counts: Counts
    figures: Figures
    calibration: Calibration | None
    """What a generator needs to make more of the same."""
    path: Path | None
    """Where the tables are."""


def analyse_checkins(
    spark: SparkSession,
    order: Order,
    out: Path | None = None,
    told: Told = lambda _: None,
    *,
    calibrate: bool = False,
    now_us: int | None = None,
) -> Analysis:
    """Carry out the job; with `out` all tables are written there, and appear together."""
    now = time.time_ns() // 1000 if now_us is None else now_us
    told("files")
    rows = open_rows(spark, order.files, format=order.format, places=order.places, now_us=now)
    with ExitStack() as stack:
        output = None if out is None else stack.enter_context(opened(out))
        told("rows")
        tallied = _tallied(rows, order.region)
        _check_bad(tallied, rows, order, out)
        run = None if output is None else stack.enter_context(output.run(order, _sizes(order.files)))
        stack.enter_context(_planned_once(spark, 1 + tallied.good // ROWS_PER_PARTITION))
        shelf = stack.enter_context(_Shelf(spark, run, told))
        found = _analysed(spark, order, rows, tallied, shelf, calibrate)
        if run is None:
            return found
        run.text(COUNTS, pretty(found.counts))
        if found.calibration is not None:
            run.text(CALIBRATION, found.calibration.text())
        return msgspec.structs.replace(found, path=run.path)


def pretty(found: msgspec.Struct) -> str:
    """As JSON for people."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


class _Shelf:
    """Where tables are while the job runs: in the run, or else wherever Spark has them.

    Without a run only what is read more than once is kept, and the rest is computed when it is read.
    """

    def __init__(self, spark: SparkSession, run: Run | None, told: Told) -> None:
        self._spark, self._run, self.tell = spark, run, told
        self._kept: list[DataFrame] = []

    def __enter__(self) -> _Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        for table in self._kept:
            table.unpersist()

    @property
    def writes(self) -> bool:
        return self._run is not None

    def put(self, table: DataFrame, name: str, sort: Sequence[str], rows: int = 0, *, often: bool = False) -> DataFrame:
        """The same table to read from; `rows` says about how large it is, `often` that it is read more than once."""
        self.tell(name)
        if self._run is not None:
            path = self._run.write(table, name, sort=sort, files=1 + rows // ROWS_PER_FILE)
            return read_table(self._spark, path, schema=table.schema)
        if often:
            self._kept.append(table.persist())
        return table

    def put_small(self, rows: list[dict[str, Any]], name: str, schema: StructType) -> None:
        """A table that is small enough to have been computed here; the first column says which row is which."""
        if self._run is not None:
            names = schema.fieldNames()
            table = self._spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
            self.put(table, name, names[:1])

    def count(self, name: str) -> int:
        """The rows of a table that was written."""
        assert self._run is not None
        return sum(pq.read_metadata(file).num_rows for file in sorted(self._run.place(name).iterdir()))


@contextmanager
def _planned_once(spark: SparkSession, least: int) -> Iterator[None]:
    """Shuffles have at least so many partitions, however few cores there are.

    On one machine queries are not planned anew between their stages: rows have been counted, so there is nothing to
    learn on the way, and each stage would be a job of its own. A cluster has more partitions than a job of this size
    needs, and joins them on the way. Visits are read a few times only, which is too seldom to pay for compressing them.
    """
    partitions = "spark.sql.shuffle.partitions"
    wanted = {
        partitions: str(max(int(spark.conf.get(partitions) or 1), least)),
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if (spark.conf.get("spark.master", "") or "").startswith("local"):
        wanted["spark.sql.adaptive.enabled"] = "false"
    before = {key: spark.conf.get(key) or "" for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


class _Tally(msgspec.Struct, frozen=True):
    """What became of the rows."""

    good: int
    outside: int
    reasons: dict[str, int]

    @property
    def bad(self) -> int:
        return sum(self.reasons.values())

    @property
    def rows(self) -> int:
        return self.good + self.outside + self.bad


def _tallied(rows: DataFrame, region: Region) -> _Tally:
    found = tally(rows, region).collect()[0]
    bad = [(row["problem"], int(row["rows"])) for row in reasons(rows).collect()] if found["bad"] else []
    return _Tally(good=int(found["good"]), outside=int(found["outside"]), reasons=dict(sorted(bad)))


def _check_bad(found: _Tally, rows: DataFrame, order: Order, out: Path | None) -> None:
    """Stop when too many rows are bad; with `out` they can be looked at there."""
    if not found.bad or (found.good + found.outside and (found.rows < FEW or found.bad <= order.max_bad * found.rows)):
        return
    most = sorted(found.reasons, key=lambda reason: (-found.reasons[reason], reason))[:3]
    why = ", ".join(f"{found.reasons[reason]:,} with {reason}" for reason in most)
    if out is None:
        first = rows.where("problem is not null").select("row").limit(1).collect()[0]["row"]
        where = f"one is {first[:200]!r}"
    else:
        write_table(quarantine(rows), out / QUARANTINE, sort=("file", "reason", "row"))
        where = f"they are in {out / QUARANTINE}"
    told = (
        f"{found.bad:,} of {found.rows:,} rows cannot be used ({why}), more than the {order.max_bad:.0%} of --max-bad"
    )
    raise LatecomerError(f"{told}; {where}; repair the file, name its --format, or raise --max-bad")


def _analysed(
    spark: SparkSession, order: Order, rows: DataFrame, tallied: _Tally, shelf: _Shelf, calibrate: bool
) -> Analysis:
    size = tallied.good
    if tallied.bad and shelf.writes:
        shelf.put(quarantine(rows), QUARANTINE, ("file", "reason", "row"), tallied.bad)
    kept, irregular = _kept(rows, order, shelf, size, calibrate)
    visits = shelf.put(stays(kept), "visits", ("user", "visit"), size // 5, often=True)
    met = shelf.put(pairs(visits), "pairs", ("user", "cell"), size // 10)
    sums = _summed(visits, met, shelf)
    if sums is None:
        told = f"no check-in is left: {tallied.outside:,} lie outside the box or the window"
        raise LatecomerError(f"{told}; widen --box, --since or --until")
    friendships = None if order.friends is None else open_friends(spark, order.friends)
    friends, friends_bad = _friends(order, visits, friendships, shelf)
    events = shelf.put(cell_subscriptions(visits, friends), "subscriptions", ("time", "user", "cell"), size)
    days: list[dict[str, Any]] = by_day(events).toArrow().sort_by("day").to_pylist()
    shelf.put_small(days, "days", DAYS)
    one: dict[str, Any] = {"irregular": irregular, "friends_quarantined": friends_bad, "friends": friends.count()}
    one |= _cells_and_moves(visits, met, order, shelf)
    quantiles = linger_quantiles(sums.lingers, lambda hours: linger_counts(visits, hours).toArrow().to_pylist())
    figures = Figures(repeats=sums.repeats, lingers=sums.lingers, days=days, groups=sums.groups)
    counts = _counts(tallied, one, sums, quantiles, days)
    if not calibrate:
        return Analysis(counts, figures, None, None)
    span = (datetime.fromisoformat(counts.last) - datetime.fromisoformat(counts.first)).total_seconds() / 86_400
    named = ", ".join(Path(file).name for file in order.files)
    source = f"{named}, {counts.first} to {counts.last}: {counts.checkins} check-ins of {counts.users} users"
    measured = calibrated(kept, visits, friendships, cell=order.region.cell, days=span, source=source)
    return Analysis(counts, figures, measured, None)


def _summed(visits: DataFrame, met: DataFrame, shelf: _Shelf) -> Sums | None:
    """What visits and pairs come to; None: there are none."""
    shelf.tell("groups")
    by_hours = visit_counts(visits).toArrow().to_pylist()
    if not by_hours:
        return None
    sums = summed(by_hours, pair_counts(met).toArrow().to_pylist())
    shelf.put_small(sums.groups, "groups", GROUPS)
    shelf.put_small(sums.repeats, "repeats", REPEATS)
    shelf.put_small(sums.lingers, "lingers", LINGERS)
    return sums


def _kept(rows: DataFrame, order: Order, shelf: _Shelf, size: int, calibrate: bool) -> tuple[DataFrame, int]:
    """The check-ins, and how many others there were of users who are not regular."""
    sort = ("user", "time", "place", "lat", "lon")
    few = order.regular or order.least > 1
    if not (few or calibrate or shelf.writes):
        return numbered(rows, order.region), 0  # nobody will see them: only visits are made of them
    found = checkins(rows, order.region)
    if not few:
        return shelf.put(found, "checkins", sort, size, often=True), 0
    everybody = found.persist()
    try:
        chosen = regular(everybody, monthly=order.regular, least=order.least)
        kept = shelf.put(chosen, "checkins", sort, size, often=True)
        return kept, everybody.count() - kept.count()
    finally:
        everybody.unpersist()


def _friends(order: Order, visits: DataFrame, friendships: DataFrame | None, shelf: _Shelf) -> tuple[DataFrame, int]:
    """Who follows whom, and how many lines of the list say nothing."""
    if friendships is None:
        chosen, bad = friends_by_chance(visits, followed=order.followed, seed=order.seed), 0
    else:
        bad = friendships.where("problem is not null").count()
        if bad and shelf.writes:
            shelf.put(quarantine(friendships), f"{QUARANTINE}-friends", ("file", "reason", "row"))
        chosen = friends_of_list(visits, friendships, followed=order.followed, seed=order.seed)
    return shelf.put(chosen, "friends", ("user", "friend"), often=True), bad


def _cells_and_moves(visits: DataFrame, met: DataFrame, order: Order, shelf: _Shelf) -> dict[str, int]:
    """How many cells and transitions there are; their tables only where they are wanted."""
    if not shelf.writes:
        shelf.tell("cells")
        return cell_counts(visits).collect()[0].asDict()
    shelf.put(cells(met, order.region.cell), "cells", ("cell",))
    shelf.put(cell_transitions(visits), "transitions", ("origin", "target"))
    return {name: shelf.count(name) for name in ("cells", "transitions")}


def _counts(
    tallied: _Tally, one: dict[str, Any], sums: Sums, quantiles: dict[str, float], days: list[dict[str, Any]]
) -> Counts:
    return Counts(
        rows_read=tallied.rows,
        quarantined=tallied.bad,
        reasons=tallied.reasons,
        outside=tallied.outside,
        duplicates=tallied.good - one["irregular"] - sums.checkins,
        checkins=sums.checkins,
        users=sums.all_groups("users"),
        visits=sums.all_groups("visits"),
        moves=sums.all_groups("visits") - sums.all_groups("users"),
        pairs=sums.all_groups("pairs"),
        pairs_seen_once=sums.all_groups("pairs_seen_once"),
        pairs_of_one_checkin=sums.all_groups("pairs_of_one_checkin"),
        lingers=sums.all_groups("lingers"),
        linger_under_a_day=sums.all_groups("under_day"),
        linger_over_a_week=sums.all_groups("over_week"),
        linger_quantiles_s={name: us / SECOND_US for name, us in quantiles.items()},
        subscribed=sum(day["subscribed"] for day in days),
        unsubscribed=sum(day["unsubscribed"] for day in days),
        first=sums.first,
        last=sums.last,
        **one,
    )


def _sizes(files: Sequence[str]) -> list[int]:
    """Of those that are here: another size is another input."""
    return [Path(file).stat().st_size if Path(file).is_file() else 0 for file in files]
