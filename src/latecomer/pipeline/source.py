"""`spark.read.format("latecomer")`: a network's event log and what its stores keep, as tables of Spark.

    records      the event log (the default): option `path`, a folder as `latecomer analyze` takes it
    events       what stores keep: option `path`, the folder of a store, a broker's data, or that of `latecomer up`;
                 option `cold`, the place of their cold tier; one of the two or both
    quarantine   the files of a table that cannot be used, and why; `of` names the table

What is wanted is said by options, `since`, `until` and any column of text (`topic`, `kind`, …), and decides which files
are opened. With `pushdown=true` what Spark's `where` says decides, too. That is not the default, as Spark 4.3 remembers
what was pushed last for the whole DataFrame: used twice with different conditions it would lack rows.

With `mode=fail`, the default, damage ends the query. With `mode=quarantine` the query goes on without it. A stream has
each segment of the log exactly once, and each event on the disks of stores; see docs/guide/notebook.md.

Spark makes these objects anew in other processes, by pickling; they keep nothing that cannot travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructType

from latecomer.model.errors import SettingsError
from latecomer.model.toml_text import choose
from latecomer.model.when import Options as WhenOptions
from latecomer.model.when import make_wish
from latecomer.pipeline import source_events as events
from latecomer.pipeline import source_records as records
from latecomer.pipeline.log import segment_names
from latecomer.pipeline.source_filters import Condition, Wanted, understood
from latecomer.pipeline.source_offsets import Offset, joined, missing
from latecomer.pipeline.source_parts import Asked, Mode, Piece

NAME = "latecomer"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TABLES = {"records": records.RECORDS, "events": events.EVENTS, "quarantine": records.QUARANTINE}
OPTIONS = ("path", "table", "of", "cold", "mode", "pushdown", "maxfilespertrigger", "since", "until")
TIMES = {"records": "at_us", "events": "published"}
HOT, COLD = "hot", "cold"


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(LatecomerSource)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for, checked."""

    table: str
    of: str
    mode: Mode
    path: Path | None
    cold: str
    files: int
    """Of the log, per micro-batch at most; 0: any."""
    pushdown: bool
    wanted: Wanted

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Options:
        table = _one_of(given, "table", tuple(TABLES))
        of = table if table != "quarantine" else _one_of(given, "of", tuple(TIMES))
        path, cold = given.get("path"), given.get("cold", "")
        if path is None and (of == "records" or not cold):
            raise SettingsError("path", "say where to read: .load('/data/network'), or option path")
        if cold and of == "records":
            raise SettingsError("cold", "the event log has no cold tier; it belongs to table=events")
        files = given.get("maxfilespertrigger", "0")
        if not files.isdecimal():
            raise SettingsError("maxFilesPerTrigger", f"{files!r} is no number of files")
        folder = None if path is None else Path(path.removeprefix("file://")).absolute()
        if folder is not None and not folder.is_dir():
            raise SettingsError("path", f"{folder} is not a folder that this Spark can see")
        mode: Mode = "fail" if _one_of(given, "mode", ("fail", "quarantine")) == "fail" else "quarantine"
        pushdown = _one_of(given, "pushdown", ("false", "true")) == "true"
        return cls(table, of, mode, folder, cold, int(files), pushdown, _wanted(given, of))


def _one_of(given: Mapping[str, str], key: str, known: tuple[str, ...]) -> str:
    value = given.get(key, known[0])
    if value not in known:
        raise SettingsError(key, f"there is no {value!r}; {choose(value, known)}")
    return value


def _wanted(given: Mapping[str, str], of: str) -> Wanted:
    """What the options say about rows: a time, and columns of text, each with a value or a JSON list of some."""
    texts = {field.name for field in TABLES[of].fields if field.dataType == StringType() and field.name != "store"}
    found: list[Condition] = []
    for key, text in given.items():
        name = key.lower()
        if name in texts:
            found.append(Condition(name, "in", _values(name, text)))
        elif name not in OPTIONS:
            raise SettingsError(key, f"is no option of the source; {choose(key, (*OPTIONS, *sorted(texts)))}")
    times = WhenOptions(given.get("since", "").strip(), given.get("until", "").strip())
    wish = make_wish(times, time_ns() // 1000)
    if wish.since:
        found.append(Condition(TIMES[of], ">=", (wish.since,)))
    if wish.until:
        found.append(Condition(TIMES[of], "<", (wish.until,)))
    return Wanted(tuple(found))


def _values(key: str, text: str) -> tuple[str, ...]:
    if not text.startswith("["):
        return (text,)
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except msgspec.DecodeError:
        raise SettingsError(key, f'{text!r} is no value and no list like ["a", "b"]') from None


class LatecomerSource(DataSource):
    """The format."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.asked = Options.read(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return TABLES[self.asked.table]

    def reader(self, schema: StructType) -> DataSourceReader:
        given = Asked(self._checked(schema), self.asked.wanted, self.asked.mode)
        return (PushedReader if self.asked.pushdown else Reader)(self.asked, given)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self.asked.table == "quarantine":
            raise SettingsError("table", "quarantine is no stream: read it as a table")
        given = Asked(self._checked(schema), self.asked.wanted, self.asked.mode)
        return RecordStream(self.asked, given) if self.asked.table == "records" else EventStream(self.asked, given)

    def _checked(self, schema: StructType) -> StructType:
        """Fewer columns may be asked for, which spares reading the others; other ones may not."""
        own = {field.name: field.dataType for field in TABLES[self.asked.table].fields}
        for field in schema.fields:
            if field.name not in own:
                raise SettingsError(
                    "schema", f"{self.asked.table} has no column {field.name!r}; it has {', '.join(own)}"
                )
            if field.dataType != own[field.name]:
                told = f"column {field.name!r} is {own[field.name].simpleString()}, not {field.dataType.simpleString()}"
                raise SettingsError("schema", told)
        return schema


class Reader(DataSourceReader):
    """A table as it is now."""

    def __init__(self, options: Options, asked: Asked) -> None:
        self.options = options
        self.asked = asked

    def partitions(self) -> list[Piece]:
        options, wanted = self.options, self.asked.wanted
        if options.of == "records":
            assert options.path is not None
            names = list(segment_names(options.path))
            if not names:
                raise SettingsError(
                    "path", f"there is no segment of an event log in {options.path}; see 'latecomer analyze'"
                )
            return records.pieces(options.path, names)
        # First the disks: what moves to the cold tier in between is rather found twice than not at all.
        hot = [] if options.path is None else events.segments_of(options.path, options.cold)
        parts = events.cold_parts(options.cold) if options.cold else []
        if not hot and not parts:
            raise SettingsError("path", f"no store keeps anything in {options.path or options.cold}; name its folder")
        rows = 1 << 62 if options.table == "quarantine" else events.PIECE_ROWS
        return [*events.hot_pieces(hot, wanted, parts, rows), *events.cold_pieces(options.cold, parts, wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Piece):  # Spark's own, where there is nothing to read
            return iter(())
        if self.options.table == "quarantine":
            told = records.read_damaged if self.options.of == "records" else events.read_damaged_events
            return told(partition, self.asked)
        return (records.read_records if self.options.table == "records" else events.read_events)(partition, self.asked)


class PushedReader(Reader):
    """The same, told by Spark what of it is wanted."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """All of them are left to Spark as well: whether a row is wanted is Spark's word."""
        if self.options.table != "quarantine":
            wanted = Wanted((*self.options.wanted.conditions, *understood(filters).conditions))
            self.asked = replace(self.asked, wanted=wanted)
        return filters


class RecordStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows, segment by segment, each exactly once."""

    def __init__(self, options: Options, asked: Asked) -> None:
        assert options.path is not None
        self.folder = options.path
        self.files = options.files
        self.asked = asked
        self.last: list[str] | None = None

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.files) if self.files else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Offset:
        new = missing(list(segment_names(self.folder)) if self.last is None else self.last, start)
        new.sort(key=lambda name: name.rpartition("/")[2])  # by time, whoever wrote it
        return joined(start, new[: limit.max_files] if isinstance(limit, ReadMaxFiles) else new)

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = list(segment_names(self.folder))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Piece]:
        names = list(segment_names(self.folder))
        later = frozenset(missing(names, end))
        return records.pieces(self.folder, [name for name in missing(names, start) if name not in later])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Piece)
        return records.read_records(partition, self.asked)


class EventStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What stores take, by row number; in the beginning also what is in their cold tier by then."""

    def __init__(self, options: Options, asked: Asked) -> None:
        self.options = options
        self.asked = asked
        self.last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {HOT: {}, COLD: False}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._now() if self.last is None else self.last

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = self._now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Piece]:
        options = self.options
        found: list[Piece] = []
        if end[COLD] and not start[COLD]:
            found = events.cold_pieces(options.cold, events.cold_parts(options.cold), self.asked.wanted)
        new = [
            events.beyond(segment, start[HOT].get(segment.key, 0), end[HOT][segment.key])
            for segment in self._segments()
            if segment.key in end[HOT]
        ]
        return [*found, *events.hot_pieces(new, self.asked.wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Piece)
        return events.read_events(partition, self.asked)

    def _now(self) -> dict[str, Any]:
        return {HOT: {segment.key: segment.upto for segment in self._segments()}, COLD: bool(self.options.cold)}

    def _segments(self) -> list[events.Segment]:
        return [] if self.options.path is None else events.segments_of(self.options.path)
