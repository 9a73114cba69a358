"""Segments → records that are kept: every segment is read once, also if the brokers have removed it since.

    OUT/batches/batch=000001/records/      what could be used of the segments that one run found new
                            /quarantine/   what could not, with the reason
                            /batch.json    which segments these are

A batch appears in one step, so a job that was killed has taken a segment or has not.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import Instant
from latecomer.pipeline.log import Damaged, Log, Segment, examine, find_log, read_segments, segment_names
from latecomer.pipeline.measure import DoubtError, check_bad, common, retrying, which
from latecomer.pipeline.output import (
    BATCHES,
    HIDDEN,
    OPTION,
    Output,
    OutputError,
    read_table,
    remove,
    replace,
    write_table,
    write_text,
    write_unsorted,
)
from latecomer.pipeline.schemas import QUARANTINE, RECORDS
from latecomer.pipeline.stages.records import judged, refused, sound

ABOUT = "batch.json"
REFUSED = "refused"
"""Where the quarantine of a batch is that had too much in it."""


class Batch(msgspec.Struct, frozen=True):
    """What one run took in."""

    number: int
    segments: tuple[Segment, ...]
    damaged: tuple[Damaged, ...] = ()
    rows: int = 0
    refused: dict[str, int] = {}
    """Rows in quarantine, by reason."""


class Kept(msgspec.Struct, frozen=True):
    """All that was taken in so far."""

    batches: tuple[Batch, ...]
    new: int = 0
    """Segments that the last run took."""
    gone: tuple[str, ...] = ()
    """Segments that were removed before they could be read."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(segment for batch in self.batches for segment in batch.segments)

    @property
    def damaged(self) -> tuple[Damaged, ...]:
        """Those that have not been replaced by a sound one since; the newest word on each."""
        sound = {segment.name for segment in self.segments}
        told = {one.name: one for batch in self.batches for one in batch.damaged}
        return tuple(one for name, one in sorted(told.items()) if name not in sound)

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def refused(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for batch in self.batches:
            for reason, count in batch.refused.items():
                found[reason] = found.get(reason, 0) + count
        return dict(sorted(found.items()))


def ingest(spark: SparkSession, output: Output, folder: Path, *, max_bad: float, now_us: Instant) -> Kept:
    """Take in what is new in a log; what was taken before is not read again."""
    kept = batches_of(output.path)
    log, gone = examine(_new(folder, kept))
    remove(output.path / REFUSED)
    if not log.segments and not log.damaged:
        return Kept(kept.batches, 0, tuple(gone))
    number = max((batch.number for batch in kept.batches), default=0) + 1
    hidden = output.path / BATCHES / f"{HIDDEN}{number:06d}"
    remove(hidden)
    hidden.mkdir(parents=True)

    def take(log: Log) -> Batch:
        counts = _counts(spark, log, now_us)
        batch = Batch(number, log.segments, log.damaged, log.rows, counts)
        rows = judged(read_segments(spark, log), now_us)
        if counts:
            write_table(refused(rows), hidden / "quarantine", sort=QUARANTINE.names)
        _check(batch, kept, hidden, output.path / REFUSED, max_bad)
        if log.segments:
            write_unsorted(sound(rows), hidden / "records")
            _check_rows(batch, hidden)
        return batch

    batch, _, vanished = retrying(log, take)
    gone += vanished
    if not batch.segments and not batch.damaged:
        remove(hidden)
        return Kept(kept.batches, 0, tuple(gone))
    write_text(hidden / ABOUT, msgspec.json.encode(batch).decode())
    replace(hidden, _folder(output.path, number))
    return Kept((*kept.batches, batch), len(batch.segments), tuple(gone))


def batches_of(out: Path) -> Kept:
    """What was taken in by earlier runs."""
    found = []
    for file in sorted((out / BATCHES).glob(f"batch=*/{ABOUT}")):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=Batch))
        except msgspec.DecodeError as error:
            told = f"{file}: cannot be read: {error}; restore it, or remove {out} and analyze the whole log again"
            raise OutputError(told) from None
    return Kept(tuple(found))


def records_of(spark: SparkSession, out: Path, kept: Kept) -> DataFrame:
    """All records that can be used."""
    return _all(spark, out, kept, "records")


def quarantine_of(spark: SparkSession, out: Path, kept: Kept) -> DataFrame:
    """All that cannot; a damaged segment is one line."""
    lines = [(one.name, one.reason, *[None] * len(RECORDS)) for one in kept.damaged]
    return _all(spark, out, kept, "quarantine").union(spark.createDataFrame(lines, QUARANTINE))


def _all(spark: SparkSession, out: Path, kept: Kept, table: str) -> DataFrame:
    schema = {"records": RECORDS, "quarantine": QUARANTINE}[table]
    paths = [_folder(out, batch.number) / table for batch in kept.batches]
    there = [path for path in paths if path.is_dir()]
    return read_table(spark, *there, schema=schema) if there else spark.createDataFrame([], schema)


def _folder(out: Path, number: int) -> Path:
    return out / BATCHES / f"batch={number:06d}"


# -- what is new, and whether it is good enough


def _new(folder: Path, kept: Kept) -> Log:
    """The log without what was taken, and without what was damaged and still is as it was."""
    taken = {segment.name: segment for segment in kept.segments}
    if kept.batches and not any(True for _ in segment_names(folder)):
        return Log(folder)
    for name, segment in taken.items():
        path = folder / name
        if path.exists() and path.stat().st_size != segment.bytes:
            told = f"holds the records of another log, in which {name} was different; name another folder"
            raise SettingsError(OPTION, told)
    log = find_log(folder, known=taken)
    known = set(kept.damaged)
    same = tuple(one for one in log.damaged if one not in known)
    # A page that is damaged shows only when it is read: who was found out before is not tried again.
    bad = {(one.name, one.bytes, one.changed_ns) for one in known}
    sound = tuple(s for s in log.segments if (s.name, s.bytes, (folder / s.name).stat().st_mtime_ns) not in bad)
    return Log(log.folder, sound, same)


def _counts(spark: SparkSession, log: Log, now_us: Instant) -> dict[str, int]:
    if not log.segments:
        return {}
    rows = judged(read_segments(spark, log), now_us).where("reason IS NOT NULL")
    counted = rows.groupBy("reason").agg(f.count("*").alias("rows")).collect()
    return {row["reason"]: int(row["rows"]) for row in sorted(counted, key=lambda row: str(row["reason"]))}


def _check(batch: Batch, kept: Kept, hidden: Path, refused: Path, max_bad: float) -> None:
    """Too much that is bad stops the job, and what was bad stays to be looked at."""
    all = Kept((*kept.batches, batch))
    where = f"see {refused}"
    try:
        check_bad(sum(all.refused.values()), all.rows, max_bad, "rows", common(all.refused), where)
        segments = len(all.segments) + len(all.damaged)
        check_bad(len(all.damaged), segments, max_bad, "segments", which(all.damaged), where)
    except LatecomerError:
        write_text(hidden / ABOUT, msgspec.json.encode(batch).decode())
        replace(hidden, refused)
        raise


def _check_rows(batch: Batch, hidden: Path) -> None:
    """As many rows as the segments said they have, or something is very wrong."""
    written = sum(pq.read_metadata(path).num_rows for path in sorted((hidden / "records").glob("*.parquet")))
    bad = sum(batch.refused.values())
    if written + bad != batch.rows:
        told = f"{batch.rows:,} rows became {written:,} and {bad:,} in quarantine; nothing was taken"
        raise DoubtError(f"{hidden.parent.parent}: {told}: run the job again, and report this")
