"""What a store holds of some topics, added up without looking at events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from latecomer.history.digest import BUCKET_US, MODULUS, digest_of
from latecomer.history.files import Connection, Row
from latecomer.history.lookup import Reader, matching
from latecomer.history.segment import Segment
from latecomer.model.history import Slice
from latecomer.model.ids import EventId

SUMS = (
    "SELECT start / ?1 * ?1, sum(count), sum(low), sum(high) FROM sums WHERE start >= ?2 AND start < ?3 {} GROUP BY 1"
)
KEYS = "SELECT at, origin, epoch, seq FROM event WHERE at >= ?2 AND at < ?3 {}"
SOME = "AND topic IN (SELECT value FROM json_each(?4))"
"""The topics as one value, however many they are."""
TOTALS = "SELECT coalesce(sum(count), 0), coalesce(sum(low), 0), coalesce(sum(high), 0) FROM topic {}"
STATUS = "SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0), min(oldest), max(newest) FROM topic {}"
SOME_NUMBERS = "WHERE count > 0 AND number IN (SELECT value FROM json_each(?1))"

Sums = dict[int, list[int]]
"""Start of a slice → count, low and high half of the digest."""


def survey(
    reader: Reader, segments: Sequence[Segment], topics: str, since_us: int, until_us: int, width_us: int
) -> Sums:
    """Per slice of the time from `since_us` to before `until_us`. Slices begin at whole multiples of their width."""
    found: Sums = {}
    for segment in segments:
        number = None
        while number != segment.number:  # a repair gives topics other numbers
            number = segment.number
            rows = _of_segment(reader, segment, topics, since_us, until_us, width_us)
        _add(found, rows)
    return found


def _of_segment(
    reader: Reader, segment: Segment, topics: str, since_us: int, until_us: int, width_us: int
) -> list[Row]:
    low, high = max(since_us, segment.start_us), min(until_us, segment.end_us)
    if low >= high or not segment.count:
        return []
    numbers = matching(reader, segment, topics)
    if numbers is not None and not numbers:
        return []
    start = low - low % width_us
    if (low, high) == (segment.start_us, segment.end_us) and high <= start + width_us:
        return [(start, *sums) for sums in reader(segment, _of_topics(TOTALS, numbers))]
    return reader(segment, _summing(numbers, low, high, width_us))


def slices(sums: Sums) -> tuple[Slice, ...]:
    return tuple(
        Slice(start, count, (low + (high << 32)) % MODULUS)
        for start, (count, low, high) in sorted(sums.items())
        if count
    )


def of_topics(reader: Reader, segment: Segment, topics: str) -> tuple[int, int, int, int]:
    """Events of these topics, the bytes of their bodies, the oldest and the newest of them."""
    numbers = matching(reader, segment, topics)
    for count, size, oldest, newest in reader(segment, _of_topics(STATUS, numbers)):
        return count, size, oldest or 0, newest or 0
    return 0, 0, 0, 0  # it was let go of meanwhile


def _of_topics(sql: str, numbers: tuple[int, ...] | None) -> Callable[[Connection], list[Row]]:
    if numbers is None:
        return lambda connection: connection.execute(sql.format("WHERE count > 0"))
    return lambda connection: connection.execute(sql.format(SOME_NUMBERS), (json.dumps(numbers),))


def _add(found: Sums, rows: Iterable[Row]) -> None:
    for start, *sums in rows:
        slice = found.setdefault(start, [0, 0, 0])
        for i, number in enumerate(sums):
            slice[i] += number


def _summing(numbers: tuple[int, ...] | None, low: int, high: int, width_us: int) -> Callable[[Connection], list[Row]]:
    """Whole buckets from the table of sums; what is cut off at the edges from the keys of the events."""
    some, values = ("", ()) if numbers is None else (SOME, (json.dumps(numbers),))
    first, end = -(-low // BUCKET_US) * BUCKET_US, high // BUCKET_US * BUCKET_US
    if width_us % BUCKET_US or first >= end:
        first = end = high
    edges = [(low, min(first, high)), (max(end, low), high)]

    def run(connection: Connection) -> list[Row]:
        rows = connection.execute(SUMS.format(some), (width_us, first, end, *values)) if first < end else []
        for start, stop in edges:
            if start < stop:
                keys = connection.execute(KEYS.format(some), (0, start, stop, *values))
                rows += [_single(width_us, *key) for key in keys]
        return rows

    return run


def _single(width_us: int, at: int, origin: str, epoch: int, seq: int) -> Row:
    digest = digest_of(EventId(origin, epoch, seq))
    return (at - at % width_us, 1, digest & 0xFFFFFFFF, digest >> 32)
