"""One segment: the events that were published in a stretch of time, in an SQLite file of their own.

Theory of operation. Rows stand in the order they came, which is nearly that of time, and two indexes find them: by key,
which also makes an event that is appended twice one event, and by topic and key. (Measured: a table clustered by key
takes half as many events per second, a third when they are large.) Origins are texts in the key and not numbers, since
the order of history is that of the names wherever the clocks agree. The body is the whole event, with a checksum; what
the columns say must agree with it.

`topic` and `sums` say what the rows come to, per topic and per topic and 10 s; they change with the rows, in one
transaction. SQLite has no sums modulo 2⁶⁴, so the two halves of a digest are added up by themselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from latecomer.history.digest import BUCKET_US, digest_of
from latecomer.history.files import Connection, Files, Row, let_go
from latecomer.model.event import Event

APPLICATION = 0x4C617465
"""`PRAGMA application_id`: "Late"."""
SCHEMA_VERSION = 1
SCHEMA = (
    "CREATE TABLE event (at INTEGER NOT NULL, origin TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " topic INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (at, origin, epoch, seq))",
    "CREATE INDEX event_topic ON event (topic, at, origin, epoch, seq)",
    "CREATE TABLE topic (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, count INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, oldest INTEGER NOT NULL,"
    " newest INTEGER NOT NULL)",
    "CREATE TABLE sums (start INTEGER NOT NULL, topic INTEGER NOT NULL, count INTEGER NOT NULL, low INTEGER NOT NULL,"
    " high INTEGER NOT NULL, PRIMARY KEY (start, topic)) WITHOUT ROWID",
    "CREATE TABLE extent (start_us INTEGER NOT NULL, end_us INTEGER NOT NULL)",
    "CREATE TABLE quarantine (at, origin, epoch, seq, topic, crc, body, why TEXT)",
)
CREATE = (
    *SCHEMA,
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
INSERT = "INSERT OR IGNORE INTO event SELECT * FROM (VALUES {}) WHERE column1 IS NOT NULL"
ADD_TOPICS = (
    "INSERT INTO topic SELECT * FROM (VALUES {}) WHERE column1 IS NOT NULL ON CONFLICT (number) DO UPDATE SET"
    " count = count + excluded.count, bytes = bytes + excluded.bytes, low = low + excluded.low,"
    " high = high + excluded.high, oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest)"
)
ADD_SUMS = (
    "INSERT INTO sums SELECT * FROM (VALUES {}) WHERE column1 IS NOT NULL ON CONFLICT (start, topic) DO UPDATE SET"
    " count = count + excluded.count, low = low + excluded.low, high = high + excluded.high"
)
KNOWN = "SELECT 1 FROM event WHERE at = ? AND origin = ? AND epoch = ? AND seq = ?"
TOTALS = (
    "SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0), coalesce(min(oldest), 0), coalesce(max(newest), 0),"
    " coalesce(max(number), 0), coalesce(sum(low), 0), coalesce(sum(high), 0) FROM topic"
)
EXTENT = "SELECT start_us, end_us FROM extent"
CHUNK = 1024
"""Rows per statement; SQLite binds at most 32,766 values."""
CHECKPOINT_PAGES = 2000
"""The journal is copied into the file about every 8 MiB."""
TOPICS_KNOWN_MAX = 20_000
OVERHEAD_BYTES = 150
"""What a row takes besides its body, about."""

Place = tuple[int, str, int, int]
"""A `Key` as SQLite has it."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Event).decode


def place_of(event: Event) -> Place:
    id = event.id
    return (event.published_us, id.origin, id.epoch, id.seq)


@dataclass(slots=True, eq=False)
class Segment:
    """What is known of a segment without opening it. Only the writer changes it."""

    number: int
    path: Path
    start_us: int
    end_us: int
    """Not included."""
    count: int = 0
    bytes: int = 0
    """Of all bodies."""
    oldest_us: int = 0
    newest_us: int = 0
    low: int = 0
    high: int = 0
    """The halves of the digest of all."""
    topics_max: int = 0
    """The highest number of a topic."""
    topics: dict[str, int] = field(default_factory=dict)
    """Numbers of topics, as many as are worth remembering; the writer's."""
    matching: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Topic filter → the topics that match, and up to which number they were looked at; the readers'."""
    moved: int = 0
    """Rows that were moved out of the way since the opening."""
    until_checkpoint: int = CHECKPOINT_PAGES
    between_checkpoints: int = CHECKPOINT_PAGES

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def weight(self) -> int:
        """Bytes in the file, about."""
        return self.bytes + self.count * OVERHEAD_BYTES

    def load(self, connection: Connection) -> None:
        """See that the file is ours, and count what is in it."""
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != APPLICATION:
            raise sqlite3.DatabaseError("its head does not say that it is of Latecomer")
        if version != SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"its head says format {version}, which other segments have not")
        schema = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if sorted(sql for (sql,) in schema) != sorted(SCHEMA):
            raise sqlite3.DatabaseError("its tables are not those of a segment")
        extent, totals = connection.execute(EXTENT), connection.execute(TOTALS)[0]
        if not _is_extent(extent) or any(type(total) is not int for total in totals):
            raise sqlite3.DatabaseError("it does not say of which time it is, or what is in it")
        ((start_us, end_us),) = extent
        self.count, self.bytes, self.oldest_us, self.newest_us, self.topics_max, self.low, self.high = totals
        if self.count and not start_us <= self.oldest_us <= self.newest_us < end_us:
            raise sqlite3.DatabaseError("its events are of another time than it says")
        self.start_us, self.end_us = start_us, end_us


def _is_extent(rows: list[Row]) -> bool:
    return len(rows) == 1 and all(type(us) is int for us in rows[0]) and rows[0][0] < rows[0][1]


def format_of(path: Path) -> int | None:
    """The number of the format, by the head of the file; None if that is not one of ours."""
    with path.open("rb") as file:
        head = file.read(72)
    if len(head) < 72 or not head.startswith(b"SQLite format 3\0") or head[68:72] != APPLICATION.to_bytes(4, "big"):
        return None
    return int.from_bytes(head[60:64], "big", signed=True)


def create(files: Files, directory: Path, number: int, start_us: int, end_us: int, pragma: str) -> Segment:
    """An empty segment under its name. Until it is complete it has another one."""
    fresh, path = directory / f"new-{number}.db", directory / f"{number}.db"
    make(files, fresh, start_us, end_us, pragma)
    files.rename(fresh, path)
    files.sync(directory)
    return Segment(number, path, start_us, end_us)


def make(files: Files, path: Path, start_us: int, end_us: int, pragma: str) -> None:
    """The file of an empty segment."""
    for end in ("", "-wal", "-shm", "-journal"):
        files.unlink(path.with_name(path.name + end))
    files.create(path)
    connection = files.connect(path, False)
    try:
        if files.alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute(pragma)
        connection.execute("PRAGMA journal_mode = OFF")  # half a file is thrown away
        connection.execute("BEGIN IMMEDIATE")
        for statement in CREATE:
            connection.execute(statement)
        connection.execute("INSERT INTO extent VALUES (?, ?)", (start_us, end_us))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException as error:
        let_go(connection, error)
        raise
    connection.close()


# --- append ---


def append(connection: Connection, segment: Segment, events: dict[Place, Event]) -> int:
    """One transaction; how many were new. After an error it is still to be rolled back, and nothing has changed."""
    connection.execute("BEGIN IMMEDIATE")
    numbers = _numbers(connection, segment, events.values())
    cells, sizes = _rows(events, numbers)
    inserted = 0
    for statement, part in statements(INSERT, 7, cells):
        connection.execute(statement, part)
        ((changes,),) = connection.execute("SELECT changes()")
        inserted += changes
    if inserted < len(events):
        # Some are known. Which ones SQLite does not say, so begin again without them.
        connection.execute("ROLLBACK")
        fresh = {place: event for place, event in events.items() if not connection.execute(KNOWN, place)}
        return append(connection, segment, fresh) if fresh else 0
    topics, sums = _sums(events, numbers, sizes)
    for statement, part in statements(ADD_TOPICS, 8, topics):
        connection.execute(statement, part)
    for statement, part in statements(ADD_SUMS, 5, sums):
        connection.execute(statement, part)
    connection.execute("COMMIT")
    _remember(segment, numbers, topics)
    return inserted


def _numbers(connection: Connection, segment: Segment, events: Iterable[Event]) -> dict[str, int]:
    """The numbers of the topics of these events; new ones are counted on."""
    numbers: dict[str, int] = {}
    highest = segment.topics_max
    for event in events:
        name = event.topic
        if name in numbers:
            continue
        number = segment.topics.get(name)
        if number is None:
            found = connection.execute("SELECT number FROM topic WHERE name = ?", (name,))
            if found:
                ((number,),) = found
            else:
                highest += 1
                number = highest
        numbers[name] = number
    return numbers


def _rows(events: dict[Place, Event], numbers: dict[str, int]) -> tuple[list[Any], list[int]]:
    cells: list[Any] = []
    sizes = []
    for place, event in events.items():
        body = encode(event)
        cells += place
        cells += (numbers[event.topic], crc32(body), body)
        sizes.append(len(body))
    return cells, sizes


def _sums(events: dict[Place, Event], numbers: dict[str, int], sizes: list[int]) -> tuple[list[Any], list[Any]]:
    """What the rows add to the tables `topic` and `sums`, as cells."""
    topics: dict[str, list[Any]] = {}
    sums: dict[tuple[int, int], list[int]] = {}
    for (at, *_), event, size in zip(events, events.values(), sizes, strict=True):
        digest = digest_of(event.id)
        low, high = digest & 0xFFFFFFFF, digest >> 32
        topic = topics.get(event.topic)
        if topic is None:
            topics[event.topic] = [numbers[event.topic], event.topic, 1, size, low, high, at, at]
        else:
            topic[2] += 1
            topic[3] += size
            topic[4] += low
            topic[5] += high
            topic[6] = min(topic[6], at)
            topic[7] = max(topic[7], at)
        place = (at - at % BUCKET_US, numbers[event.topic])
        bucket = sums.get(place)
        if bucket is None:
            sums[place] = [1, low, high]
        else:
            bucket[0] += 1
            bucket[1] += low
            bucket[2] += high
    return (
        [cell for topic in topics.values() for cell in topic],
        [cell for place, bucket in sums.items() for cell in (*place, *bucket)],
    )


def _remember(segment: Segment, numbers: dict[str, int], topics: list[Any]) -> None:
    """What has been committed."""
    if len(segment.topics) > TOPICS_KNOWN_MAX:
        segment.topics.clear()
    segment.topics.update(numbers)
    for start in range(0, len(topics), 8):
        number, _, count, size, low, high, oldest, newest = topics[start : start + 8]
        segment.oldest_us = min(segment.oldest_us, oldest) if segment.count else oldest
        segment.newest_us = max(segment.newest_us, newest)
        segment.count += count
        segment.bytes += size
        segment.low += low
        segment.high += high
        segment.topics_max = max(segment.topics_max, number)


def statements(sql: str, columns: int, cells: list[Any]) -> list[tuple[str, list[Any]]]:
    """One statement for these rows, several for very many; filled up with NULL to a power of two, so that few different
    ones exist and all of them stay prepared. sqlite3 lets go of the interpreter at every step of a statement: a
    statement per row is ten times slower next to a busy event loop."""
    found = []
    for start in range(0, len(cells), CHUNK * columns):
        part = cells[start : start + CHUNK * columns]
        rows = 1 << (len(part) // columns - 1).bit_length()
        part += [None] * (rows * columns - len(part))
        found.append((_statement(sql, columns, rows), part))
    return found


@cache
def _statement(sql: str, columns: int, rows: int) -> str:
    one = f"({', '.join('?' * columns)})"
    return sql.format(", ".join([one] * rows))


# --- rows ---


def event_of(row: Row) -> Event | None:
    """The event of a row of `lookup.ROWS`; None if it is not what was once written."""
    at, origin, epoch, seq, _, crc, body = row
    if type(body) is not bytes or crc32(body) != crc:
        return None
    try:
        event = decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return event if place_of(event) == (at, origin, epoch, seq) else None


def progress(last: int, row: Row) -> int:
    """The number of the last row of a piece, which must be larger than that of the piece before: a damaged file can
    lead round and round."""
    number = row[-1]
    if not isinstance(number, int) or number <= last:
        raise sqlite3.DatabaseError("its rows are out of order")
    return number
