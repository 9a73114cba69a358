"""A walk through the rows of many sorted files at once, in the order of history or against it.

Theory of operation. Each file is a *run*: its row groups one after the other, each fetched when the walk has come to
where it begins, and let go of when the walk has left it. A heap has one entry per run: its next row of interest, or,
when there is none left in the row group, the place of that group's last row, or the place where the next group begins.
What stands in several files stands side by side in the walk, and counts once. So the memory that is needed does not
grow with the history, nor with what is asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import total_ordering
from heapq import heapify, heappop, heapreplace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.history.cold_catalogue import Catalogue, Group
from latecomer.history.cold_names import Part, day_of
from latecomer.history.cold_rows import Light
from latecomer.model.event import Event
from latecomer.model.history import Key, key_of
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.topics import topic_matches, topic_overlaps

Place = tuple[Any, ...]
"""A key as a tuple, or only its time: that stands before every key of the time. Empty: there is none."""

FILE_ROWS = 100
"""What opening a file counts for."""
LAST_NAME = "\U0010ffff"


class Want(msgspec.Struct, frozen=True):
    """Which rows a walk is for; `until_us` is included."""

    topics: str
    since_us: int = 0
    until_us: int = NUMBER_MAX
    after: Key | None = None
    start: Key | None = None
    """Nothing before this one, which is included."""
    now_us: int | None = None
    """Leave out what has expired by then; None: do not."""


class Seen(msgspec.Struct):
    """A row that the walk has come to."""

    key: tuple[int, str, int, int]
    run: Run
    row: int
    sound: bool = True
    """If not, the same row of another file takes its place."""

    def event(self) -> tuple[Event, int] | None:
        """The event and its size; None: damaged, and reported."""
        found = self.run.event(self.row)
        self.sound = found is not None
        return found


def parts_for(parts: Sequence[Part], want: Want) -> list[Part]:
    """The files that can have something of what is wanted, judged by their names."""
    since_us = max(want.since_us, want.after.published_us if want.after else 0)
    first, last = day_of(since_us), day_of(want.until_us)
    return [
        part
        for part in parts
        if first <= part.day <= last
        and part.start_us <= want.until_us
        and part.end_us >= since_us
        and (part.levels is None or topic_overlaps(want.topics, f"{part.levels}/#"))
    ]


def runs_for(catalogue: Catalogue, parts: Sequence[Part], want: Want, *, back: bool = False) -> list[Run]:
    """These files, none of which is opened yet."""
    return [Run(catalogue, part, want, back) for part in parts_for(parts, want)]


def _may_match(topics: str, group: Group) -> bool:
    """Can a topic between the least and the greatest of a row group match?"""
    if group.min_topic is None or group.max_topic is None:
        return True
    wild = min((at for sign in "+#" if (at := topics.find(sign)) >= 0), default=-1)
    if wild < 0:
        return group.min_topic <= topics <= group.max_topic
    # 'a/#' matches 'a' as well, so the slash in front of the wildcard says nothing.
    prefix = topics[:wild].removesuffix("/")
    return group.max_topic >= prefix and (group.min_topic <= prefix or group.min_topic.startswith(prefix))


class Run:
    """One file on the walk. `head` is where to look at it next, `row` the row of interest that is there, or -1."""

    def __init__(self, catalogue: Catalogue, part: Part, want: Want, back: bool) -> None:
        self.head: Place = (part.end_us + 1,) if back else (part.start_us,)
        self.row = -1
        self._catalogue = catalogue
        self._part = part
        self._want = want
        self._back = back
        self._groups: tuple[Group, ...] = ()
        self._numbers: list[int] | None = None
        """Of the row groups that can have something, in the order of the walk; None: the file was not opened yet."""
        self._at = -1
        self._light: Light | None = None
        self._rows: Iterator[int] = iter(())
        self._end: Place = ()

    @property
    def pending(self) -> bool:
        """Must something be fetched to go on?"""
        return self._light is None

    def advance(self) -> None:
        """Behind this row, or behind the end of this row group."""
        assert self._light is not None
        if self.row < 0:
            self._begin_next()
            return
        self.row = next(self._rows, -1)
        self.head = self._light.key(self.row) if self.row >= 0 else self._end

    def load(self) -> int:
        """Fetch the footer, or the row group that begins here; returns how many rows that counts for."""
        if self._numbers is None:
            self._open()
            return FILE_ROWS
        light = self._catalogue.light(self._part, self._numbers[self._at], expiring=self._want.now_us is not None)
        if light is None:
            self._begin_next()
            return 0
        low, high = self._range(light)
        if low >= high:
            self._begin_next()
            return 0
        self._light = light
        found = _interesting(light, low, high, self._want)
        self._rows = iter(found[::-1] if self._back else found)
        self._end = light.key(low if self._back else high - 1)
        self.row = next(self._rows, -1)
        self.head = light.key(self.row) if self.row >= 0 else self._end
        return high - low

    def _open(self) -> None:
        self._groups = self._catalogue.groups(self._part)
        since_us = max(self._want.since_us, self._want.after.published_us if self._want.after else 0)
        self._numbers = [
            number
            for number, group in enumerate(self._groups)
            if group.max_us >= since_us and group.min_us <= self._want.until_us and _may_match(self._want.topics, group)
        ]
        if self._back:
            self._numbers.reverse()
        self._begin_next()

    def event(self, row: int) -> tuple[Event, int] | None:
        assert self._numbers is not None
        heavy = self._catalogue.heavy(self._part, self._numbers[self._at])
        if heavy is None:
            return None
        found = heavy.event(row)
        if found is None or self._light is None or msgspec.structs.astuple(key_of(found[0])) != self._light.key(row):
            self._catalogue.report(
                self._part, f"row {row} of row group {self._numbers[self._at]} is not what was written"
            )
            return None
        return found

    def _begin_next(self) -> None:
        assert self._numbers is not None
        self._light = None
        self._at += 1
        self.row = -1
        if self._at >= len(self._numbers):
            self.head = ()
        else:
            group = self._groups[self._numbers[self._at]]
            self.head = (group.max_us + 1,) if self._back else (group.min_us,)

    def _range(self, light: Light) -> tuple[int, int]:
        want = self._want
        low = bisect_left(light.published, want.since_us)
        high = bisect_right(light.published, want.until_us)
        if want.after is not None:
            low = max(low, bisect_right(range(light.rows), msgspec.structs.astuple(want.after), key=light.key))
        if want.start is not None:
            low = max(low, bisect_left(range(light.rows), msgspec.structs.astuple(want.start), key=light.key))
        return low, high


def _interesting(light: Light, low: int, high: int, want: Want) -> Sequence[int]:
    """The rows in this range whose topic matches and that have not expired."""
    codes = [code for code, topic in enumerate(light.topics) if topic_matches(want.topics, topic)]
    if not codes:
        return ()
    mask = None
    if len(codes) < len(light.topics):
        mask = pc.is_in(light.topic_codes.slice(low, high - low), pa.array(codes, light.topic_codes.type))
    if want.now_us is not None:
        assert light.expires is not None
        if light.expires.null_count < light.rows:
            # Without an expiry the comparison is null, and null counts as kept.
            kept = pc.fill_null(pc.greater(light.expires.slice(low, high - low), want.now_us), True)
            mask = kept if mask is None else pc.and_(mask, kept)
    if mask is None:
        return range(low, high)
    return [low + row for row in pc.indices_nonzero(mask).to_pylist()]


@total_ordering
class _Back:
    """A place, in the order of a walk from the newest to the oldest."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place

    def __lt__(self, other: _Back) -> bool:
        return other.place < self.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Back) and other.place == self.place


class Walk:
    """The rows of interest of all runs, in order, each key once.

    It stops before it fetches something more when `scan_max` rows have been looked at. Then `stopped` is the place up
    to which everything has been looked at, which lies behind the place where the walk began: every walk gets somewhere.
    """

    def __init__(self, runs: list[Run], want: Want, *, back: bool = False, scan_max: int | None = None) -> None:
        self.stopped: Place | None = None
        self._runs = runs
        self._begin: Place = (want.since_us,) if want.after is None else msgspec.structs.astuple(want.after)
        self._back = back
        self._scan_left = scan_max
        self._passed: Place | None = None

    def __iter__(self) -> Iterator[Seen]:
        runs, order = self._runs, _Back if self._back else _same
        heap: list[tuple[Any, int]] = [(order(run.head), number) for number, run in enumerate(runs)]
        heapify(heap)
        last: Place | None = None
        while heap:
            number = heap[0][1]
            run = runs[number]
            if run.pending:
                if self._is_enough(run.head):
                    return
                rows = run.load()
                if self._scan_left is not None:
                    self._scan_left -= rows
            else:
                place = run.head
                self._passed = place
                if run.row >= 0 and place != last:
                    seen = Seen(place, run, run.row)
                    yield seen
                    if seen.sound:
                        last = place
                run.advance()
            if run.head:
                heapreplace(heap, (order(run.head), number))
            else:
                heappop(heap)

    def _is_enough(self, head: Place) -> bool:
        if self._scan_left is None or self._scan_left > 0:
            return False
        if self._back:
            return True
        # Whatever was published before this moment has been looked at, whoever published it.
        before = (head[0] - 1, LAST_NAME, NUMBER_MAX, NUMBER_MAX)
        place = before if self._passed is None else max(self._passed, before)
        if self._passed is None and place <= self._begin:
            return False
        self.stopped = place
        return True


def _same(place: Place) -> Place:
    return place
