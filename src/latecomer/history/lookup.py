"""A query over the segments: forwards in pages, and backwards for the last so many.

Theory of operation. Segments are pruned by time. In one of them the rows of a few topics come merged from the index by
topic, those of many from the index by key, with the others passed over; either way as many rows are touched as the
budget allows, wherever in the file they stand. Nothing depends on how much is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from latecomer.core.attributes import attributes_of
from latecomer.history.errors import Repaired
from latecomer.history.files import Connection, Row
from latecomer.history.segment import Place, Segment, event_of
from latecomer.model.event import Event
from latecomer.model.history import Key, Page, Query
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.topics import topic_matches

COLUMNS = "SELECT at, origin, epoch, seq, topic, crc, body FROM event"
BETWEEN = "(at, origin, epoch, seq) > (?1, ?2, ?3, ?4) AND (at, origin, epoch, seq) < (?5, ?6, ?7, ?8)"
FORWARDS = "ORDER BY at, origin, epoch, seq"
BACKWARDS = "ORDER BY at DESC, origin DESC, epoch DESC, seq DESC"
MERGED_MAX = 64
"""So many topics are read by their own index; SQLite merges them as it goes."""
ROWS_MIN, ROWS_MAX = 16, 1000
"""Per statement."""
SEGMENT_ROWS = 100
"""What looking into a segment that has nothing counts for."""
LAST_BYTES = 1 << 20
"""Held in memory while looking backwards, about."""
LAST_SCAN_MAX = 1_000_000
"""Rows that are looked at for the last so many: a rarer match than that is taken for none."""
FILTERS_KNOWN_MAX = 64
LAST_NAME = "\U0010ffff"

Reader = Callable[[Segment, Callable[[Connection], list[Row]]], list[Row]]
"""Runs something with a connection to a segment."""


def beginning(us: int) -> Place:
    """Before everything that was published then: no origin has an empty name."""
    return (us, "", 0, 0)


def just_before(place: Place) -> Place:
    return (*place[:3], place[3] - 1)


def just_after(place: Place) -> Place:
    at, origin, epoch, seq = place
    return (at, origin, epoch, seq + 1) if seq < NUMBER_MAX else (at, f"{origin}\0", 0, 0)


def range_of(query: Query) -> tuple[Place, Place]:
    """The places between which a query looks; neither is included."""
    low = beginning(query.since_us)
    if query.after is not None:
        after = query.after
        low = max(low, (after.published_us, after.origin, after.epoch, after.seq))
    until_us = query.until_us if query.until_us else NUMBER_MAX
    return low, beginning(until_us + 1) if until_us < NUMBER_MAX else (NUMBER_MAX, LAST_NAME, NUMBER_MAX, NUMBER_MAX)


@dataclass(slots=True)
class Lookup:
    """One call of `Engine.read`."""

    reader: Reader
    query: Query
    now_us: int
    scan_left: int
    bad: list[tuple[Segment, Row]] = field(default_factory=list)
    """Rows that are not what was written."""
    _topics: dict[str, bool] = field(default_factory=dict)
    _set_of: tuple[int, ...] = ()
    _set: frozenset[int] = frozenset()
    _number: int = 0
    """Of the segment, when its topics were looked up."""
    _looked_at: int = 0
    """The highest number of a topic when the topics that match were looked up."""

    def page(self, segments: Sequence[Segment], low: Place, high: Place, events_max: int, bytes_max: int) -> Page:
        """What lies between, oldest first, as far as the limits allow; at least one event, if there is any."""
        events: list[Event] = []
        bytes_left = bytes_max
        for segment in segments:
            end = (segment.end_us - 1, LAST_NAME, NUMBER_MAX, NUMBER_MAX)
            if end <= low or not segment.count:
                continue
            if segment.start_us > high[0]:
                break
            numbers = self._matching(segment)
            while numbers is None or numbers:
                limit = self._limit(segment, numbers, events_max - len(events), bytes_left)
                rows = self._rows(segment, numbers, low, high, limit, FORWARDS)
                for row in rows:
                    event = self._wanted(segment, row, numbers)
                    if event is not None:
                        bytes_left -= len(row[6])
                        if events and bytes_left < 0:
                            return Page(tuple(events), Key(*low))
                        events.append(event)
                    low = row[:4]
                    if len(events) >= events_max:
                        return Page(tuple(events), Key(*low))
                if len(rows) < limit:
                    break
                if self.scan_left <= 0:
                    return Page(tuple(events), Key(*low))
            self.scan_left -= SEGMENT_ROWS
            if self.scan_left <= 0 and segment is not segments[-1]:
                return Page(tuple(events), Key(*end))
        return Page(tuple(events), None)

    def last(self, segments: Sequence[Segment], low: Place, high: Place, count: int) -> list[Place]:
        """Where the newest so many stand, newest first."""
        found: list[Place] = []
        for segment in reversed(segments):
            if segment.start_us > high[0] or not segment.count:
                continue
            if segment.end_us <= low[0]:
                break
            numbers = self._matching(segment)
            top = high
            while numbers is None or numbers:
                limit = self._limit(segment, numbers, count - len(found), LAST_BYTES)
                rows = self._rows(segment, numbers, low, top, limit, BACKWARDS)
                for row in rows:
                    top = row[:4]
                    if self._wanted(segment, row, numbers) is not None:
                        found.append(top)
                        if len(found) == count:
                            return found
                if len(rows) < limit:
                    break
                if self.scan_left <= 0:
                    return found
        return found

    def _limit(self, segment: Segment, numbers: tuple[int, ...] | None, events_left: int, bytes_left: int) -> int:
        """How many rows to ask for at once: about as many as fit, so that memory is bounded."""
        fit = bytes_left * segment.count // max(1, segment.bytes) + 1
        all_match = self.query.filter.where is None and (numbers is None or len(numbers) <= MERGED_MAX)
        wanted = events_left if all_match else ROWS_MAX
        return max(1, min(self.scan_left, max(ROWS_MIN, min(fit, wanted, ROWS_MAX))))

    def _rows(
        self, segment: Segment, numbers: tuple[int, ...] | None, low: Place, high: Place, limit: int, order: str
    ) -> list[Row]:
        if numbers is not None and len(numbers) <= MERGED_MAX:
            sql, values = _merged(len(numbers), order), (*low, *high, limit, *numbers)
        else:
            sql, values = _scanned(order), (*low, *high, limit)
        rows = self.reader(segment, lambda connection: _in_order(connection.execute(sql, values), low, high, order))
        if segment.number != self._number:
            raise Repaired  # and its topics have other numbers now
        self.scan_left -= len(rows)
        return rows

    def _wanted(self, segment: Segment, row: Row, numbers: tuple[int, ...] | None) -> Event | None:
        if numbers is not None and len(numbers) > MERGED_MAX and row[4] not in self._wanted_numbers(numbers):
            return None
        event = event_of(row)
        if event is None or not self._is_of_topic(event.topic):
            if numbers is not None or event is None or row[4] <= self._looked_at:
                self.bad.append((segment, row))
            return None  # or else it is of a topic that came up just now
        if event.expires_us and event.expires_us <= self.now_us:
            return None
        where = self.query.filter.where
        return event if where is None or where.matches(attributes_of(event)) else None

    def _wanted_numbers(self, numbers: tuple[int, ...]) -> frozenset[int]:
        if self._set_of is not numbers:
            self._set_of, self._set = numbers, frozenset(numbers)
        return self._set

    def _is_of_topic(self, topic: str) -> bool:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = topic_matches(self.query.filter.topic, topic)
        return found

    def _matching(self, segment: Segment) -> tuple[int, ...] | None:
        self._number, self._looked_at = segment.number, segment.topics_max
        return matching(self.reader, segment, self.query.filter.topic)


def matching(reader: Reader, segment: Segment, pattern: str) -> tuple[int, ...] | None:
    """The numbers of the topics that match; None: all of them."""
    upto, numbers = segment.matching.get(pattern, (0, ()))
    highest = segment.topics_max
    if upto < highest:
        sql, values = _names(pattern, upto)
        rows = reader(segment, lambda connection: connection.execute(sql, values))
        numbers += tuple(number for number, name in rows if topic_matches(pattern, name))
        if len(segment.matching) >= FILTERS_KNOWN_MAX:
            segment.matching.clear()
        highest = max([highest, *(number for number, _ in rows)])
        segment.matching[pattern] = (highest, numbers)
    else:
        highest = upto
    return None if len(numbers) >= highest else numbers


def _names(pattern: str, upto: int) -> tuple[str, tuple[object, ...]]:
    """Topics above a number that could match: those that begin as the filter does before its first wildcard."""
    levels = pattern.split("/")
    fixed = next((i for i, level in enumerate(levels) if level in ("+", "#")), len(levels))
    if fixed == len(levels):
        return "SELECT number, name FROM topic WHERE number > ? AND name = ?", (upto, pattern)
    prefix = "/".join(levels[:fixed])
    if not prefix:
        return "SELECT number, name FROM topic WHERE number > ?", (upto,)
    # '0' is the character behind '/'. 'a/#' matches 'a' too.
    return (
        "SELECT number, name FROM topic WHERE number > ?1 AND (name = ?2 OR (name >= ?2 || '/' AND name < ?2 || '0'))",
        (upto, prefix),
    )


def _in_order(rows: list[Row], low: Place, high: Place, order: str) -> list[Row]:
    """A damaged index can lead back to where we were, and so round and round."""
    if not rows:
        return rows
    places = [low, *(row[:4] for row in (rows if order == FORWARDS else reversed(rows))), high]
    try:
        if all(left < right for left, right in pairwise(places)):
            return rows
    except TypeError:
        pass
    raise sqlite3.DatabaseError("its rows are out of order")


@cache
def _scanned(order: str) -> str:
    return f"{COLUMNS} WHERE {BETWEEN} {order} LIMIT ?9"


@cache
def _merged(topics: int, order: str) -> str:
    parts = [f"{COLUMNS} WHERE topic = ?{10 + i} AND {BETWEEN}" for i in range(topics)]
    return f"{' UNION ALL '.join(parts)} {order} LIMIT ?9"
