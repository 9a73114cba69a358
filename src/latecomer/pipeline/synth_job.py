"""Check-ins that were made up, on Spark: `latecomer synth`.

Users are numbers in a range that Spark cuts into parts; each part makes its users in batches and writes one file. No
user knows of another, so there is nothing to shuffle, and any number of workers makes the same check-ins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType, TimestampType

from latecomer.model.errors import SettingsError
from latecomer.pipeline.calibration import Calibration
from latecomer.pipeline.output import opened, read_table, write_unsorted
from latecomer.pipeline.synth_people import Orders, People, expected

CHECKINS = StructType(
    [
        StructField("user", LongType()),
        StructField("time", TimestampType()),
        StructField("lat", DoubleType()),
        StructField("lon", DoubleType()),
        StructField("place", LongType()),
    ]
)
FRIENDS = StructType([StructField("user", LongType()), StructField("friend", LongType())])
ROWS_PER_BATCH = 500_000
USERS_PER_BATCH = 10_000
ROWS_PER_FILE = 1_000_000
FILES_LEAST, FILES_MOST = 2, 4096
USERS_MOST, MONTHS_MOST = 1_000_000_000, 1200
SYNTH = "synth.json"

Told = Callable[[str], None]


class Made(msgspec.Struct, frozen=True):
    """What was made."""

    users: int
    checkins: int
    friendships: int
    first: str
    until: str
    seed: int
    calibration: str
    """Where its numbers come from."""
    path: str = ""


def synthesize(
    spark: SparkSession,
    calibration: Calibration,
    out: Path,
    *,
    users: int,
    months: int,
    start: str,
    checkins: int | None = None,
    seed: int = 0,
    told: Told = lambda _: None,
) -> Made:
    """Make them up and write them: tables `checkins` and `friends`, each there whole or not at all."""
    orders = orders_of(calibration, users=users, months=months, start=start, checkins=checkins, seed=seed)
    people = People(calibration, orders)
    mean = expected(calibration, orders)
    files = min(FILES_MOST, max(FILES_LEAST, math.ceil(users * mean / ROWS_PER_FILE)))
    with opened(out) as output, output.run("synth", orders, calibration) as run:
        told("check-ins")
        write_unsorted(
            made_checkins(spark, people, files, batch=max(1, int(ROWS_PER_BATCH / mean))), run.place("checkins")
        )
        told("friends")
        write_unsorted(made_friends(spark, people, files), run.place("friends"))
        made = Made(
            users=users,
            checkins=read_table(spark, run.place("checkins"), schema=CHECKINS).count(),
            friendships=read_table(spark, run.place("friends"), schema=FRIENDS).count(),
            first=_iso(orders.start_s),
            until=_iso(orders.start_s + round(orders.days * 86_400)),
            seed=seed,
            calibration=calibration.source,
        )
        run.text(SYNTH, msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n")
        return msgspec.structs.replace(made, path=str(run.path))


def orders_of(
    calibration: Calibration, *, users: int, months: int, start: str, checkins: int | None, seed: int
) -> Orders:
    """What is wanted, checked."""
    for option, value, most in (("--users", users, USERS_MOST), ("--months", months, MONTHS_MOST)):
        if not 1 <= value <= most:
            raise SettingsError(option, f"{value} is not from 1 to {most:,}")
    try:
        first = datetime.strptime(start, "%Y-%m-%d").replace(tzinfo=UTC)
        whole = first.year * 12 + first.month - 1 + months
        last = first.replace(year=whole // 12, month=whole % 12 + 1)
    except ValueError:
        raise SettingsError("--start", f"{start[:40]!r} is not the first day of a month, such as 2010-08-01") from None
    if first.day != 1 or first.year < 1970:
        raise SettingsError("--start", f"{start[:40]!r} is not the first day of a month since 1970")
    days = (last - first).days
    plain = Orders(users, int(first.timestamp()), days, 1.0, seed)
    if checkins is None:
        return plain
    if not users <= checkins <= 10_000 * users:
        raise SettingsError("--checkins", f"{checkins:,} is not from 1 to 10,000 for each of {users:,} users")
    return msgspec.structs.replace(plain, scale=_scale(calibration, plain, checkins))


def _scale(calibration: Calibration, plain: Orders, checkins: int) -> float:
    """By which everybody is busier so that so many are to be expected; nobody has fewer than one."""
    low, high = 0.0, 1.0
    while _all(calibration, plain, high) < checkins:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _all(calibration, plain, middle) < checkins else (low, middle)
    return high


def _all(calibration: Calibration, plain: Orders, scale: float) -> float:
    return plain.users * expected(calibration, msgspec.structs.replace(plain, scale=scale))


def made_checkins(spark: SparkSession, people: People, files: int, *, batch: int = USERS_PER_BATCH) -> DataFrame:
    """All check-ins, by user and time, in so many parts."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for users in _users(batches, batch):
            yield _batch(people.checkins(users))

    return spark.range(0, people.orders.users, 1, files).mapInArrow(make, CHECKINS)


def made_friends(spark: SparkSession, people: People, files: int) -> DataFrame:
    """Who is whose friend; each friendship is there once."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for users in _users(batches, USERS_PER_BATCH):
            yield _batch(people.friendships(users))

    return spark.range(0, people.orders.users, 1, files).mapInArrow(make, FRIENDS)


def _users(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size]


def _batch(columns: dict[str, Any]) -> pa.RecordBatch:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    if "time" in arrays:
        arrays["time"] = pa.array(columns["time"] * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(arrays)


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
