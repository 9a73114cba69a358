"""Letting go of the oldest segments, whole: by age, size and count; or into the cold tier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from latecomer.history.cold_errors import ColdError
from latecomer.history.files import Connection, Row, size_of
from latecomer.history.hot import Hot
from latecomer.history.segment import Segment, event_of, progress
from latecomer.model.event import Event

if TYPE_CHECKING:
    from latecomer.history.cold import ColdTier

ROWS = (
    "SELECT at, origin, epoch, seq, topic, crc, body, rowid FROM event NOT INDEXED WHERE rowid > ?"
    " ORDER BY rowid LIMIT 1000"
)


def too_old(segments: Sequence[Segment], before_us: int) -> list[Segment]:
    """Those that end before a time."""
    return [segment for segment in segments if segment.end_us <= before_us]


def too_many(hot: Hot, segments: Sequence[Segment]) -> list[Segment]:
    """The oldest of these, until the rest is within the limits; never the newest."""
    settings = hot.settings
    sizes = [size_of(segment.path) for segment in segments] if settings.capacity_bytes else [0] * len(segments)
    size, count = sum(sizes), sum(segment.count for segment in segments)
    gone = []
    for segment, bytes in zip(segments[:-1], sizes, strict=False):
        within = not settings.capacity_bytes or size <= settings.capacity_bytes
        if within and (not settings.events_max or count <= settings.events_max):
            break
        gone.append(segment)
        size -= bytes
        count -= segment.count
    return gone


def roll(hot: Hot, cold: ColdTier, segment: Segment) -> int:
    """Move a segment into the cold tier, which reads it back; only then it goes from here. How many events moved."""
    count = segment.count
    _write(hot, cold, segment)
    with hot.writing:
        if segment not in hot.segments:
            return 0
        if segment.count != count:  # something came late, just now
            count = _write(hot, cold, segment)
        hot.take_out([segment])
    hot.drop([segment])
    return count


def _write(hot: Hot, cold: ColdTier, segment: Segment) -> int:
    sent = 0

    def events() -> Iterator[Event]:
        nonlocal sent
        for event in _events(hot, segment):
            sent += 1
            yield event

    kept = cold.write(segment.start_us, segment.end_us - 1, events())
    if kept < sent:
        raise ColdError(f"{hot.settings.cold}: of {sent} events {kept} are there; they stay on the disk, try again")
    return sent


def _events(hot: Hot, segment: Segment) -> Iterator[Event]:
    """All of a segment, except for what is damaged."""
    last = -1
    while rows := hot.read(segment, partial(_rows, last)):
        last = rows[-1][-1]
        for row in rows:
            event = event_of(row[:7])
            if event is not None:
                yield event
            else:
                hot.suspects.append((segment, row[:7]))


def _rows(last: int, connection: Connection) -> list[Row]:
    rows = connection.execute(ROWS, (last,))
    if rows:
        progress(last, rows[-1])
    return rows
