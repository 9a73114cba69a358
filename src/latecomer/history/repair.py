"""Damage: what cannot be trusted is kept and not served, the rest goes on.

Bits flip on disks. A row carries a checksum: one that fails it moves to the table `quarantine` of its segment and
counts no more, so replicas see that it is missing here, and what they send takes its place. SQLite's own structure
carries none: when it is found wrong, every event that can still be read goes into a new segment, and the old file is
kept under another name. It is not written to again, as one wrong pointer in it may lead anywhere.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from latecomer.history.digest import BUCKET_US, digest_of
from latecomer.history.errors import Problem, is_busy, is_damage, is_unreadable
from latecomer.history.files import COMPANIONS, Connection, Row, let_go, size_of, tidy
from latecomer.history.pool import settle, whole
from latecomer.history.salvage import bodies
from latecomer.history.segment import Place, Segment, append, decode, event_of, make, place_of, progress
from latecomer.model.event import Event
from latecomer.model.history import Key
from latecomer.model.ids import EventId

if TYPE_CHECKING:
    from latecomer.history.hot import Hot

ROWS = "SELECT at, CAST(origin AS BLOB), epoch, seq, topic, crc, body, rowid FROM event NOT INDEXED WHERE rowid {}"
"""Texts as bytes: damage can make texts that are none."""
COPY_ROWS = 500
PAGE_BYTES = 4096
ROW_BYTES_MIN = 40
INTO_QUARANTINE = "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
UNSOUND = "fails its checksum"
ROW = "SELECT at, origin, epoch, seq, topic, crc, body"
AT = "WHERE at = ? AND origin = ? AND epoch = ? AND seq = ?"


# --- single rows ---


def quarantine(hot: Hot) -> None:
    """Move the rows that readers found damaged out of the way."""
    suspects, hot.suspects = hot.suspects, []
    done: set[tuple[int, Any]] = set()
    for segment, row in suspects:
        if segment not in hot.segments or (segment.number, row[:4]) in done:
            continue
        done.add((segment.number, row[:4]))
        if not set_apart(hot, segment, row):
            rebuild(hot, segment, "a row is not where it belongs")


def set_apart(hot: Hot, segment: Segment, row: Row) -> bool:
    """Move one row, if it is damaged indeed; False if what stands around it is not as it should be either."""
    connection = hot.pool.writer(segment)
    try:
        with whole(connection):
            moved = _move(connection, row[:4])
        if moved:
            segment.moved += 1
            segment.load(connection)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False
    if moved:
        hot.problems.append(Problem(segment.name, Key(*row[:4]), UNSOUND))
    return moved is not None


def _move(connection: Connection, place: Place) -> bool | None:
    """Into the quarantine; False if there is no need to, None if it cannot be done as it should."""
    found = connection.execute(f"{ROW}, (SELECT name FROM topic WHERE number = event.topic) FROM event {AT}", place)
    if not found:
        return False if connection.execute(f"SELECT 1 FROM quarantine {AT}", place) else None
    (*row, name) = found[0]
    event = event_of(tuple(row))
    if event is not None and event.topic == name:
        return False
    if _sound(tuple(row)) is not None or not isinstance(row[6], bytes) or not isinstance(row[0], int):
        return None  # what stands around a sound body can be made anew from it
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INTO_QUARANTINE, (*row, UNSOUND))
    complete = take_out(connection, tuple(row))
    connection.execute("COMMIT" if complete else "ROLLBACK")
    return True if complete else None


def take_out(connection: Connection, row: Row) -> bool:
    """Remove a row, and what it added to the sums; False if these are not as they should be."""
    at, origin, epoch, seq, number, _, body = row
    if not isinstance(body, bytes):
        return False
    digest = digest_of(EventId(origin, epoch, seq))
    halves = (digest & 0xFFFFFFFF, digest >> 32)
    complete = True
    for sql, values in (
        (f"DELETE FROM event {AT}", row[:4]),
        (
            "UPDATE topic SET count = count - 1, bytes = bytes - ?, low = low - ?, high = high - ? WHERE number = ?",
            (len(body), *halves, number),
        ),
        (
            "UPDATE sums SET count = count - 1, low = low - ?, high = high - ? WHERE start = ? AND topic = ?",
            (*halves, at - at % BUCKET_US, number),
        ),
    ):
        connection.execute(sql, values)
        complete = complete and connection.execute("SELECT changes()") == [(1,)]
    return complete


def take_back(hot: Hot, segment: Segment, origin: str, epoch: int, after: int, since_us: int) -> int:
    """Remove the events of one origin and epoch numbered higher than `after`: what belongs to them is not safe."""
    wanted = (since_us, origin, epoch, after)
    try:
        count, why = _take_back(hot.pool.writer(segment), wanted), "its sums are wrong"
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        count, why = None, str(error)
    if count is None:
        count = _take_back(hot.pool.writer(segment), wanted) if rebuild(hot, segment, why) else None
    if count:
        segment.moved += count
        segment.load(hot.pool.writer(segment))
    return count or 0


def _take_back(connection: Connection, wanted: tuple[int, str, int, int]) -> int | None:
    """How many there were; None: they are still there, since the sums are not as they should be."""
    with whole(connection):
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(f"{ROW} FROM event WHERE at >= ? AND origin = ? AND epoch = ? AND seq > ?", wanted)
        complete = all(take_out(connection, row) for row in rows)
        connection.execute("COMMIT" if complete else "ROLLBACK")
    return len(rows) if complete else None


# --- whole segments ---


def readable(hot: Hot, path: Path) -> Iterator[Event]:
    """The sound events of a file that nobody else has open."""
    source = hot.files.connect(path, False)
    try:
        for row in _readable(source, size_of(path) // ROW_BYTES_MIN):
            event = _sound(row)
            if event is not None:
                yield event
    finally:
        with suppress(sqlite3.Error):
            source.close()


def rebuild(hot: Hot, segment: Segment, why: str) -> bool:
    """Make a new segment of what can be read of a damaged one; False if that is nothing."""
    number = hot.next_number
    hot.next_number += 1
    fresh, path = hot.directory / f"new-{number}.db", hot.directory / f"{number}.db"
    hot.pool.forget(segment)
    good, bad, extent = _copy(hot, segment.path, segment, fresh)
    if not good:
        good, bad, extent = _copy(hot, _with_new_head(hot, segment.path), segment, fresh)
    if good:
        hot.files.rename(fresh, path)
        hot.files.sync(hot.directory)
    kept = set_aside(hot, segment)
    hot.problems += [Problem(segment.name, key, UNSOUND) for key in bad]
    hot.problems.append(Problem(segment.name, None, f"was damaged ({why}): {good} events were read; kept as {kept}"))
    if not good:
        tidy(hot.files, hot.directory)
        hot.take_out([segment])
        return False
    segment.number, segment.path = number, path
    segment.start_us, segment.end_us = extent
    segment.topics.clear()
    segment.matching.clear()
    segment.load(hot.pool.writer(segment))
    return True


def _with_new_head(hot: Hot, path: Path) -> Path:
    """A copy whose first page, without which SQLite reads nothing, is that of a new segment: all begin alike."""
    head, copy = hot.directory / "new-head.db", hot.directory / "new-copy.db"
    make(hot.files, head, 0, 1, hot.pool.pragma)
    for end in ("", "-wal"):
        hot.files.unlink(copy.with_name(copy.name + end))
        with suppress(FileNotFoundError):
            shutil.copy2(path.with_name(path.name + end), copy.with_name(copy.name + end))
    page = bytearray(head.read_bytes()[:PAGE_BYTES])
    page[92:96] = bytes(4)  # so that the size in it does not count (https://www.sqlite.org/fileformat2.html, 1.3.7)
    with copy.open("r+b") as file:
        file.write(page)
    return copy


def _copy(hot: Hot, old: Path, segment: Segment, fresh: Path) -> tuple[int, list[Key | None], tuple[int, int]]:
    """What can be read, into a new file: how many events, what was bad, and the time it is of."""
    connections: list[Connection] = []
    try:
        source = hot.files.connect(old, False)
        connections.append(source)
        extent = _extent(source) or ((segment.start_us, segment.end_us) if segment.end_us else None)
        make(hot.files, fresh, *(extent or (0, 0)), hot.pool.pragma)
        new = hot.files.connect(fresh, False)
        connections.append(new)
        if hot.files.alone:
            for connection in connections:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        new.execute(hot.pool.pragma)
        copy = Segment(0, fresh, 0, 0)
        bad = _fill(new, copy, source, size_of(old) // ROW_BYTES_MIN)
        _salvage(new, copy, old)
        if extent is None or (copy.count and not extent[0] <= copy.oldest_us <= copy.newest_us < extent[1]):
            # By what is in it: that cannot reach into the time of another.
            extent = (copy.oldest_us, copy.newest_us + 1)
            new.execute("UPDATE extent SET start_us = ?, end_us = ?", extent)
        settle(new)
    except BaseException as error:
        for connection in connections:
            let_go(connection, error)
        raise
    new.close()
    with suppress(sqlite3.Error):
        source.close()
    return copy.count, bad, extent


def _fill(new: Connection, copy: Segment, old: Connection, rows_max: int) -> list[Key | None]:
    """Sound events as they were, and what is not sound into the quarantine, with the keys it is told by."""
    bad: list[Key | None] = []
    events: dict[Place, Event] = {}
    for row in _readable(old, rows_max):
        event = _sound(row)
        if event is None:
            new.execute(INTO_QUARANTINE, (*row[:7], UNSOUND))
            bad.append(_key(row))
            continue
        events[place_of(event)] = event
        if len(events) >= COPY_ROWS:
            append(new, copy, events)
            events = {}
    if events:
        append(new, copy, events)
    with suppress(sqlite3.DatabaseError):
        for row in old.execute("SELECT * FROM quarantine"):
            new.execute(INTO_QUARANTINE, row)
    return bad


def _salvage(new: Connection, copy: Segment, old: Path) -> None:
    """What SQLite did not find."""
    events: dict[Place, Event] = {}
    for body in bodies(old):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            event = decode(body)
            events[place_of(event)] = event
        if len(events) >= COPY_ROWS:
            append(new, copy, events)
            events = {}
    if events:
        append(new, copy, events)


def _extent(connection: Connection) -> tuple[int, int] | None:
    try:
        ((start, end),) = connection.execute("SELECT start_us, end_us FROM extent")
    except (sqlite3.DatabaseError, ValueError) as error:
        if is_busy(error):
            raise
        return None
    return (start, end) if isinstance(start, int) and isinstance(end, int) and start < end else None


def _readable(connection: Connection, rows_max: int) -> Iterator[Row]:
    """Rows up to the damage, from the end back to it, and one by one in between."""
    low, high = -1, -1
    try:
        while rows := connection.execute(f"{ROWS.format('> ?')} ORDER BY rowid LIMIT {COPY_ROWS}", (low,)):
            following = progress(low, rows[-1])
            yield from rows
            low = following
        return
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error):
            raise
    try:
        high = 2**63 - 1
        while rows := connection.execute(
            f"{ROWS.format('> ? AND rowid < ?')} ORDER BY rowid DESC LIMIT 50", (low, high)
        ):
            following = -progress(-high, (-rows[-1][-1],))
            yield from rows
            high = following
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error):
            raise
    for number in range(low + 1, min(high, rows_max)):
        with suppress(sqlite3.DatabaseError):
            yield from connection.execute(ROWS.format("= ?"), (number,))


def _sound(row: Row) -> Event | None:
    """The event of a row, if its body is what was once written; the columns follow from it."""
    crc, body = row[5:7]
    if not isinstance(body, bytes) or crc32(body) != crc:
        return None
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _key(row: Row) -> Key | None:
    at, origin, epoch, seq = row[:4]
    try:
        return msgspec.convert((at, origin.decode(), epoch, seq), Key)
    except (msgspec.ValidationError, UnicodeDecodeError, AttributeError):
        return None


def set_aside(hot: Hot, segment: Segment) -> str:
    """Give the files of a segment a name under which nobody touches them."""
    hot.pool.forget(segment)
    kept = segment.path.with_name(f"damaged-{segment.name}")
    for end in ("", *COMPANIONS):
        with suppress(FileNotFoundError):
            hot.files.rename(segment.path.with_name(segment.name + end), kept.with_name(kept.name + end))
    hot.files.sync(hot.directory)
    return kept.name


def keep_copy(hot: Hot, path: Path) -> str:
    """Copy a file to where nobody touches it."""
    copy = path.with_name(f"damaged-{path.name}")
    shutil.copy2(path, copy)
    hot.files.sync(hot.directory)
    return copy.name
