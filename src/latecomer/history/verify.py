"""Looking at every byte of a store: SQLite's structure, the checksum of each row, and the sums of all."""

from __future__ import annotations

from collections.abc import Callable

from latecomer.history import repair
from latecomer.history.digest import BUCKET_US, digest_of
from latecomer.history.errors import VerifyReport
from latecomer.history.files import Connection, Row
from latecomer.history.hot import Hot
from latecomer.history.segment import Segment, event_of, progress
from latecomer.model.ids import EventId

ROWS = (
    "SELECT at, origin, epoch, seq, topic, crc, body, rowid FROM event NOT INDEXED WHERE rowid > ?"
    " ORDER BY rowid LIMIT 1000"
)

Progress = Callable[[int, int], object]
"""Called with how many segments are done, and how many there are."""


def verify(hot: Hot, progress: Progress | None) -> VerifyReport:
    """What is damaged is moved out of the way, as reading would do; the report says what was."""
    known = len(hot.problems)
    segments = hot.segments
    events = 0
    for done, segment in enumerate(segments):
        if progress is not None:
            progress(done, len(segments))
        events += _verify(hot, segment)
    if progress is not None:
        progress(len(segments), len(segments))
    return VerifyReport(len(segments), events, tuple(hot.problems[known:]))


def _verify(hot: Hot, segment: Segment) -> int:
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

    def look(self, connection: Connection) -> list[Row]:
        """All in one view of the file, while others may go on writing it."""
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
