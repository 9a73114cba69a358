"""Looking at everything, a little at a time, round and round: damage is found while others still have the events.

Theory of operation. A segment is walked in the order of its rows. Each row must pass its checksum and be found by
its place in either index: a wrong bit in an inner page of an index hides rows, and who reads does not miss them. At
the end the file, in the same view in which the last rows were read, must say as many rows, by the indexes and by its
sums, as were walked. Weighted sums modulo a prime stand for the sums of every topic and 10 s, so that nothing is held
in memory. Rows are only ever added, or moved out of the way; then the next round adds them up.

What is found is looked at once more, as a whole (`verify`), before anything is repaired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from latecomer.history import repair
from latecomer.history.digest import BUCKET_US, digest_of
from latecomer.history.files import Connection, Row
from latecomer.history.hot import Hot
from latecomer.history.segment import EXTENT, Segment, event_of, progress
from latecomer.history.verify import verify_segment
from latecomer.model.ids import EventId

PIECE_ROWS = 500
PIECE_BYTES = 1 << 20
"""Read at once, about."""
CALL_BYTES = 16 << 20
"""Read by one call, about."""
PRIME = 2**31 - 1
SUMS_WEIGHT = "(start % 65521 * 40503 + topic * 30011) % 65521 + 1"
TOPIC_WEIGHT = "number * 30011 % 65521 + 1"
ROWS = (
    "SELECT at, origin, epoch, seq, topic, crc, body, (SELECT name FROM topic WHERE number = event.topic), rowid"
    " FROM event NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
FOUND = (
    "SELECT sum(found.rowid = row.rowid) FROM event AS row NOT INDEXED CROSS JOIN event AS found INDEXED BY {}"
    " ON found.at = row.at AND found.origin = row.origin AND found.epoch = row.epoch AND found.seq = row.seq{}"
    " WHERE row.rowid > ? AND row.rowid <= ?"
)
"""How many of some rows an index leads to. The number is not looked for but seen: in a damaged entry it can be another
one than the one found."""
INDEXES = {"sqlite_autoindex_event_1": "", "event_topic": " AND found.topic = row.topic"}
"""With what they have besides the key."""
NAMES = (
    "SELECT coalesce(sum(found.number = row.number), 0) - (SELECT count(number) FROM topic NOT INDEXED)"
    " FROM topic AS row NOT INDEXED CROSS JOIN topic AS found INDEXED BY sqlite_autoindex_topic_1"
    " ON found.name = row.name"
)
LENGTH = "SELECT coalesce(sum(at IS NOT NULL), 0) FROM event INDEXED BY {}"
"""Not count(*): SQLite would count by the index it likes best."""
SUMS = (
    f"SELECT coalesce(sum(count), 0), coalesce(sum(count * ({SUMS_WEIGHT}) % {PRIME}), 0),"
    f" coalesce(sum(low % {PRIME} * ({SUMS_WEIGHT}) % {PRIME}), 0),"
    f" coalesce(sum(high % {PRIME} * ({SUMS_WEIGHT}) % {PRIME}), 0) FROM sums"
)
TOPICS = (
    f"SELECT coalesce(sum(count), 0), coalesce(sum(count * ({TOPIC_WEIGHT}) % {PRIME}), 0),"
    f" coalesce(sum(low % {PRIME} * ({TOPIC_WEIGHT}) % {PRIME}), 0),"
    f" coalesce(sum(high % {PRIME} * ({TOPIC_WEIGHT}) % {PRIME}), 0),"
    f" coalesce(sum(bytes % {PRIME} * ({TOPIC_WEIGHT}) % {PRIME}), 0) FROM topic"
)


@dataclass(slots=True)
class Walk:
    """Through one segment."""

    segment: Segment
    number: int
    moved: int
    last: int = -1
    rows: int = 0
    sums: list[int] = field(default_factory=lambda: [0] * 3)
    topics: list[int] = field(default_factory=lambda: [0] * 4)

    @classmethod
    def through(cls, segment: Segment) -> Walk:
        return cls(segment, segment.number, segment.moved)

    @property
    def is_whole(self) -> bool:
        """What was walked is all still there."""
        return self.segment.moved == self.moved

    def count(self, row: Row) -> None:
        """Add a row to the weighted sums. Raises a `TypeError` if it has lost its type."""
        at, origin, epoch, seq, topic, _, body, *_ = row
        digest = digest_of(EventId(origin, epoch, seq))
        amounts = (1, digest & 0xFFFFFFFF, digest >> 32, len(body))
        weight = ((at - at % BUCKET_US) % 65521 * 40503 + topic * 30011) % 65521 + 1
        for i in range(3):
            self.sums[i] = (self.sums[i] + amounts[i] * weight) % PRIME
        weight = topic * 30011 % 65521 + 1
        for i in range(4):
            self.topics[i] = (self.topics[i] + amounts[i] * weight) % PRIME
        self.rows += 1

    def disagrees(self, ends: Row) -> str:
        """With what the file says at its end; why, if so."""
        by_key, by_topic, sums, topics = ends
        if by_key != self.rows or by_topic != self.rows:
            return "an index has other rows than the table"
        for (count, *weighted), own in ((sums, self.sums), (topics, self.topics)):
            if count != self.rows or [number % PRIME for number in weighted] != own:
                return "the sums do not agree with the events"
        return ""


@dataclass(slots=True)
class Scrub:
    """Where the walk is. A new start begins with the oldest segment; after a stop that was not a proper one with the
    newest, which was being written."""

    hot: Hot
    newest_first: bool
    _queue: deque[Segment] = field(default_factory=deque)
    _walk: Walk | None = None
    _lock: Lock = field(default_factory=Lock)

    def go_on(self, budget_rows: int) -> int:
        """Walk over about so many rows; how many it were."""
        done, bytes_left = 0, CALL_BYTES
        with self._lock:
            for _ in range((self._walk is not None) + len(self.hot.segments)):  # at most one round, and what was begun
                walk = self._next()
                while walk is not None and done < budget_rows and bytes_left > 0:
                    rows = self._piece(walk, budget_rows - done)
                    done += len(rows)
                    bytes_left -= sum(len(row[6]) for row in rows if isinstance(row[6], bytes))
                    if self._walk is not walk:
                        break
                if self._walk is not None or walk is None:
                    break
        return done

    def _next(self) -> Walk | None:
        """The walk that goes on or begins; None: there is nothing to walk through."""
        hot = self.hot
        if self._walk is not None and self._walk.segment in hot.segments:
            if self._walk.number != self._walk.segment.number:  # it was repaired: other rows
                self._walk = Walk.through(self._walk.segment)
            return self._walk
        if not self._queue:
            segments = hot.segments
            self._queue.extend((segments[-1], *segments[:-1]) if self.newest_first and segments else segments)
            self.newest_first = self.newest_first and not segments
        self._walk = None
        while self._queue and self._walk is None:
            segment = self._queue.popleft()
            if segment in hot.segments:
                self._walk = Walk.through(segment)
        return self._walk

    def _piece(self, walk: Walk, rows_max: int) -> list[Row]:
        """Look at the next rows; at the end of the segment the walk ends."""
        segment = walk.segment
        fit = PIECE_BYTES * segment.count // max(1, segment.bytes) + 1
        piece = _Piece(walk.last, max(1, min(rows_max, fit, PIECE_ROWS)), segment)
        rows = self.hot.read(segment, piece.look)
        if segment not in self.hot.segments or walk.number != segment.number:
            self._walk = None  # it was let go of, or repaired: there will be another round
            return rows
        wrong = piece.wrong
        for row in rows:
            try:
                walk.count(row)
            except TypeError:
                wrong = "a row has lost its type"
        if rows:
            walk.last = rows[-1][-1]
        if piece.ends is not None:
            self._walk = None
            if not wrong and walk.is_whole and not piece.bad:
                wrong = walk.disagrees(piece.ends)
        self._repair(segment, piece.bad, wrong)
        return rows

    def _repair(self, segment: Segment, bad: list[Row], wrong: str) -> None:
        hot = self.hot
        if wrong:
            self._walk = None
            verify_segment(hot, segment)
        elif bad:
            with hot.writing:
                hot.suspects += [(segment, row) for row in bad]
                repair.quarantine(hot)


@dataclass(slots=True)
class _Piece:
    """Some rows of a segment, and what is wrong with them: in one view of the file, while others may write it."""

    last: int
    limit: int
    segment: Segment
    bad: list[Row] = field(default_factory=list)
    wrong: str = ""
    ends: Row | None = None
    """Behind the last row: rows by each index, and the sums."""

    def look(self, connection: Connection) -> list[Row]:
        self.bad, self.wrong, self.ends = [], "", None  # a repair looks again
        connection.execute("BEGIN")
        try:
            return self._look(connection.execute)
        finally:
            connection.execute("COMMIT")

    def _look(self, execute: Callable[..., list[Row]]) -> list[Row]:
        rows = execute(ROWS, (self.last, self.limit))
        if rows:
            last = progress(self.last, rows[-1])
            ((start_us, end_us),) = execute(EXTENT)
            for row in rows:
                event = event_of(row[:7])
                if event is None or event.topic != row[7]:
                    self.bad.append(row[:7])
                elif not start_us <= event.published_us < end_us:
                    self.wrong = "a row is of another time than its segment"
            for index, more in INDEXES.items():
                if execute(FOUND.format(index, more), (self.last, last)) != [(len(rows),)]:
                    self.wrong = "an index does not have all rows"
        if len(rows) < self.limit:
            lengths = [execute(LENGTH.format(index))[0][0] for index in INDEXES]
            if execute(NAMES) != [(0,)]:
                self.wrong = "the index of topics does not have all of them"
            self.ends = (*lengths, execute(SUMS)[0], execute(TOPICS)[0])
        return rows
