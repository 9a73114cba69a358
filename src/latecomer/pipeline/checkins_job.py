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

from latecomer.model.errors import LatecomerError
from latecomer.pipeline.calibration import Calibration, calibrated
from latecomer.pipeline.checkins_formats import open_friends, open_rows
from latecomer.pipeline.checkins_layouts import AUTO
from latecomer.pipeline.output import Run, opened, read_table, write_table
from latecomer.pipeline.stages.cell_subscriptions import by_day, cell_subscriptions
from latecomer.pipeline.stages.checkin_figures import QUANTILES, groups_of_users, visit_figures
from latecomer.pipeline.stages.checkins import BAD, GOOD, OUTSIDE, Region, checkins, quarantine, regular, tally
from latecomer.pipeline.stages.friends import FOLLOWED, friends_by_chance, friends_of_list
from latecomer.pipeline.stages.lingers import lingers
from latecomer.pipeline.stages.moves import cell_transitions
from latecomer.pipeline.stages.pairs import cells, pairs, repeats
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
        stack.enter_context(_partitions(spark, 1 + tallied.good // ROWS_PER_PARTITION))
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
    """Where tables are kept while the job runs, so that each is computed once: in the run, or else by Spark itself."""

    def __init__(self, spark: SparkSession, run: Run | None, told: Told) -> None:
        self._spark, self._run, self._told = spark, run, told
        self._kept: dict[str, DataFrame] = {}

    def __enter__(self) -> _Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is None:
            for table in self._kept.values():
                table.unpersist()

    def keep(self, table: DataFrame, name: str, sort: Sequence[str], rows: int = 0) -> DataFrame:
        """The same table, computed; `rows` says about how large it is."""
        self._told(name)
        if self._run is None:
            self._kept[name] = table.persist()
        else:
            path = self._run.write(table, name, sort=sort, files=1 + rows // ROWS_PER_FILE)
            self._kept[name] = read_table(self._spark, path, schema=table.schema)
        return self._kept[name]

    def count(self, name: str) -> int:
        """The rows of a table."""
        if self._run is None:
            return self._kept[name].count()
        return sum(pq.read_metadata(file).num_rows for file in sorted(self._run.place(name).iterdir()))

    def rows(self, name: str, sort: str) -> list[dict[str, Any]]:
        """All of a small table."""
        table = self._kept[name].toArrow() if self._run is None else pq.read_table(self._run.place(name))
        found: list[dict[str, Any]] = table.sort_by(sort).to_pylist()
        return found


@contextmanager
def _partitions(spark: SparkSession, least: int) -> Iterator[None]:
    """Shuffles have at least so many, however few cores there are."""
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key) or "1"
    spark.conf.set(key, str(max(int(before), least)))
    try:
        yield
    finally:
        spark.conf.set(key, before)


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
    found = [(row["verdict"], row["reason"], int(row["rows"])) for row in tally(rows, region).collect()]
    reasons = {reason: count for verdict, reason, count in found if verdict == BAD}
    return _Tally(
        good=sum(count for verdict, _, count in found if verdict == GOOD),
        outside=sum(count for verdict, _, count in found if verdict == OUTSIDE),
        reasons=dict(sorted(reasons.items())),
    )


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
    if tallied.bad:
        shelf.keep(quarantine(rows), QUARANTINE, ("file", "reason", "row"), tallied.bad)
    kept, irregular = _kept(rows, order, shelf, size)
    visits = shelf.keep(stays(kept), "visits", ("user", "visit"), size // 5)
    met = shelf.keep(pairs(visits), "pairs", ("user", "cell"), size // 10)
    shelf.keep(groups_of_users(visits, met), "groups", ("group",))
    groups = shelf.rows("groups", "group")
    if not groups:
        told = f"no check-in is left: {tallied.outside:,} lie outside the box or the window"
        raise LatecomerError(f"{told}; widen --box, --since or --until")
    friendships = None if order.friends is None else open_friends(spark, order.friends)
    friends, friends_bad = _friends(order, visits, friendships, shelf)
    events = shelf.keep(cell_subscriptions(visits, friends), "subscriptions", ("time", "user", "cell"), size)
    shelf.keep(cells(met, order.region.cell), "cells", ("cell",))
    shelf.keep(cell_transitions(visits), "transitions", ("origin", "target"))
    shelf.keep(repeats(met), "repeats", ("visits",))
    shelf.keep(lingers(visits), "lingers", ("hours",))
    shelf.keep(by_day(events), "days", ("day",))
    figures = Figures(
        repeats=shelf.rows("repeats", "visits"),
        lingers=shelf.rows("lingers", "hours"),
        days=shelf.rows("days", "day"),
        groups=groups,
    )
    one: dict[str, Any] = visit_figures(visits).toArrow().to_pylist()[0]
    one |= {name: shelf.count(name) for name in ("checkins", "cells", "transitions", "friends")}
    one |= {"irregular": irregular, "friends_quarantined": friends_bad}
    counts = _counts(tallied, one, figures)
    if not calibrate:
        return Analysis(counts, figures, None, None)
    days = (datetime.fromisoformat(counts.last) - datetime.fromisoformat(counts.first)).total_seconds() / 86_400
    named = ", ".join(Path(file).name for file in order.files)
    source = f"{named}, {counts.first} to {counts.last}: {counts.checkins} check-ins of {counts.users} users"
    measured = calibrated(kept, visits, friendships, cell=order.region.cell, days=days, source=source)
    return Analysis(counts, figures, measured, None)


def _kept(rows: DataFrame, order: Order, shelf: _Shelf, size: int) -> tuple[DataFrame, int]:
    """The check-ins, and how many others there were of users who are not regular."""
    sort = ("user", "time", "place", "lat", "lon")
    found = checkins(rows, order.region)
    if not order.regular and order.least <= 1:
        return shelf.keep(found, "checkins", sort, size), 0
    everybody = found.persist()
    try:
        kept = shelf.keep(regular(everybody, monthly=order.regular, least=order.least), "checkins", sort, size)
        return kept, everybody.count() - kept.count()
    finally:
        everybody.unpersist()


def _friends(order: Order, visits: DataFrame, friendships: DataFrame | None, shelf: _Shelf) -> tuple[DataFrame, int]:
    """Who follows whom, and how many lines of the list say nothing."""
    if friendships is None:
        chosen, bad = friends_by_chance(visits, followed=order.followed, seed=order.seed), 0
    else:
        bad = friendships.where("problem is not null").count()
        if bad:
            shelf.keep(quarantine(friendships), f"{QUARANTINE}-friends", ("file", "reason", "row"))
        chosen = friends_of_list(visits, friendships, followed=order.followed, seed=order.seed)
    return shelf.keep(chosen, "friends", ("user", "friend")), bad


def _counts(tallied: _Tally, one: dict[str, Any], figures: Figures) -> Counts:
    def all_groups(name: str) -> int:
        return sum(group[name] for group in figures.groups)

    quantiles = one["quantiles_us"] or []
    return Counts(
        rows_read=tallied.rows,
        quarantined=tallied.bad,
        reasons=tallied.reasons,
        outside=tallied.outside,
        duplicates=tallied.good - one["irregular"] - one["checkins"],
        irregular=one["irregular"],
        checkins=one["checkins"],
        users=all_groups("users"),
        cells=one["cells"],
        visits=all_groups("visits"),
        moves=all_groups("visits") - all_groups("users"),
        pairs=all_groups("pairs"),
        pairs_seen_once=all_groups("pairs_seen_once"),
        pairs_of_one_checkin=all_groups("pairs_of_one_checkin"),
        lingers=all_groups("lingers"),
        linger_under_a_day=all_groups("under_day"),
        linger_over_a_week=all_groups("over_week"),
        linger_quantiles_s={f"p{q * 100:.0f}": us / SECOND_US for q, us in zip(QUANTILES, quantiles, strict=False)},
        transitions=one["transitions"],
        friends=one["friends"],
        friends_quarantined=one["friends_quarantined"],
        subscribed=sum(day["subscribed"] for day in figures.days),
        unsubscribed=sum(day["unsubscribed"] for day in figures.days),
        first=one["first"],
        last=one["last"],
    )


def _sizes(files: Sequence[str]) -> list[int]:
    """Of those that are here: another size is another input."""
    return [Path(file).stat().st_size if Path(file).is_file() else 0 for file in files]
