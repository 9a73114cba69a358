"""Looking at every byte of a store: SQLite's structure, the checksum of each row, and the sums of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from latecomer.history import repair
from latecomer.history.cold_errors import ColdError
from latecomer.history.digest import BUCKET_US, digest_of
from latecomer.history.errors import Problem, VerifyReport
from latecomer.history.files import Connection, Row
from latecomer.history.hot import Hot
from latecomer.history.segment import EXTENT, Segment, event_of, progress
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId

if TYPE_CHECKING:
    from latecomer.history.cold import ColdTier

COLD = "cold"
"""What problems of the cold tier are said to be of."""
COLD_EVENTS, COLD_BYTES = 1000, 16 << 20

ROWS = (
    "SELECT at, origin, epoch, seq, topic, crc, body, rowid FROM event NOT INDEXED WHERE rowid > ?"
    " ORDER BY rowid LIMIT 1000"
)

Progress = Callable[[int, int], object]
"""Called with how many segments are done, and how many there are."""


def verify(hot: Hot, cold: ColdTier | None, progress: Progress | None) -> VerifyReport:
    """What is damaged is moved out of the way, as reading would do; the report says what was. The cold tier counts as
    one segment more in what is told of the progress."""
    known = len(hot.problems)
    segments = hot.segments
    steps = len(segments) + (cold is not None)
    tell = progress if progress is not None else lambda done, of: None
    events = cold_events = 0
    for done, segment in enumerate(segments):
        tell(done, steps)
        with hot.guard():
            events += verify_segment(hot, segment)
    problems = tuple(hot.problems[known:])
    if cold is not None:
        tell(len(segments), steps)
        cold_events, unreached = _read_through(cold)
        problems += (*of_cold(cold), *unreached)
    tell(steps, steps)
    return VerifyReport(len(segments), events, problems, cold_events)


def of_cold(cold: ColdTier) -> tuple[Problem, ...]:
    """What has been found damaged there, and is still there."""
    return tuple(Problem(COLD, None, str(damage)) for damage in cold.damaged)


def _read_through(cold: ColdTier) -> tuple[int, tuple[Problem, ...]]:
    """Read every event; how many there are, and why not all could be reached."""
    query, events = Query(Filter("#")), 0
    while True:
        try:
            page = cold.read(query, 0, COLD_EVENTS, COLD_BYTES)
        except ColdError as error:
            return events, (Problem(COLD, None, str(error)),)
        events += len(page.events)
        if page.next is None:
            return events, ()
        query = msgspec.structs.replace(query, after=page.next)


def verify_segment(hot: Hot, segment: Segment) -> int:
    """How many events are in it, after what was damaged has gone out of the way."""
    found = _Findings()
    name = segment.name
    hot.read(segment, found.look)
    if segment.name != name:
        return segment.count  # it was damaged, and repaired while it was read
    with hot.writing:
        if segment not in hot.segments:
            return 0
        hot.suspects += [(segment, row) for row in found.bad]
        repair.quarantine(hot)
        if found.wrong and segment.name == name:
            repair.rebuild(hot, segment, found.wrong)
    return segment.count


class _Findings:
    """What is wrong with a segment."""

    def __init__(self) -> None:
        self.bad: list[Row] = []
        self.wrong = ""
        self.start_us = self.end_us = 0

    def look(self, connection: Connection) -> list[Row]:
        """All in one view of the file, while others may go on writing it."""
        self.bad, self.wrong = [], ""  # a repair looks again
        connection.execute("BEGIN")
        try:
            ((answer,),) = connection.execute("PRAGMA integrity_check(1)")
            if answer != "ok":
                self.wrong = " ".join(str(answer).split())
            self._look(connection)
        finally:
            connection.execute("COMMIT")
        return []

    def _look(self, connection: Connection) -> None:
        ((self.start_us, self.end_us),) = connection.execute(EXTENT)
        names: dict[int, str] = dict(connection.execute("SELECT number, name FROM topic"))
        sums: dict[tuple[int, int], list[int]] = {}
        topics: dict[int, list[int]] = {}
        last = -1
        while rows := connection.execute(ROWS, (last,)):
            last = progress(last, rows[-1])
            for row in rows:
                self._count(row[:7], names, sums, topics)
        stored = {(start, topic): rest for start, topic, *rest in connection.execute("SELECT * FROM sums") if rest[0]}
        totals = {
            number: [count, size, low, high]
            for number, _, count, size, low, high, *_ in connection.execute("SELECT * FROM topic")
            if count
        }
        if not self.wrong and (stored != sums or totals != topics):
            self.wrong = "the sums do not agree with the events"

    def _count(
        self, row: Row, names: dict[int, str], sums: dict[tuple[int, int], list[int]], topics: dict[int, list[int]]
    ) -> None:
        """By what the columns say: a row with a damaged body has its part in the sums as well."""
        at, origin, epoch, seq, number, _, body = row
        event = event_of(row)
        if event is None or names.get(number) != event.topic:
            self.bad.append(row)
        elif not self.start_us <= at < self.end_us:
            self.wrong = "a row is of another time than its segment"
        try:
            digest = digest_of(EventId(origin, epoch, seq))
            bucket = sums.setdefault((at - at % BUCKET_US, number), [0, 0, 0])
            size = len(body)
        except TypeError:
            self.wrong = "a row has lost its type"
            return
        total = topics.setdefault(number, [0, 0, 0, 0])
        for found, amounts in ((bucket, (1,)), (total, (1, size))):
            for i, amount in enumerate((*amounts, digest & 0xFFFFFFFF, digest >> 32)):
                found[i] += amount
