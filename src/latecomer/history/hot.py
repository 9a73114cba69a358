"""The segments of a store on this disk.

Theory of operation. Time is cut into segments that do not overlap, each a file; an event goes into the segment of the
time it was published, whenever it comes. Writing is one thread's at a time; readers have connections of their own and
see what was committed when they look. The tuple of segments is replaced, never changed, so whoever walks over it needs
no lock; a file that is let go of while somebody reads it lives until that reader is done.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from latecomer.history import repair
from latecomer.history.digest import BUCKET_US
from latecomer.history.errors import (
    Problem,
    StoreBusy,
    StoreFailed,
    StoreFull,
    is_busy,
    is_damage,
    is_full,
    is_unreadable,
)
from latecomer.history.files import (
    COMPANIONS,
    KEPT,
    SETTING,
    Connection,
    Files,
    Row,
    damaged_in,
    remove,
    segments_in,
    size_of,
)
from latecomer.history.journal import damage
from latecomer.history.kept import Kept, limits_of, parse_kept
from latecomer.history.pool import COPIED, Pool, settle, whole
from latecomer.history.segment import (
    CHECKPOINT_PAGES,
    SCHEMA_VERSION,
    Place,
    Segment,
    append,
    create,
    format_of,
    place_of,
)
from latecomer.history.settings import EngineSettings
from latecomer.model.errors import SettingsError
from latecomer.model.event import Event
from latecomer.model.ids import NUMBER_MAX

PIECES = 8
"""A store that is limited in size or number consists of at least so many segments when it is full."""


@dataclass(slots=True)
class Hot:
    """What is on this disk. `writing` is held by whoever changes it."""

    directory: Path
    settings: EngineSettings
    files: Files
    pool: Pool
    segments: tuple[Segment, ...] = ()
    """By time."""
    kept: Kept = field(default_factory=Kept)
    takes_from_us: int = 0
    """What was published before this is not taken."""
    problems: list[Problem] = field(default_factory=list)
    failure: Exception | None = None
    suspects: list[tuple[Segment, Row]] = field(default_factory=list)
    """Rows that a reader found damaged; the writer moves them out of the way."""
    writing: RLock = field(default_factory=RLock)
    next_number: int = 1

    # --- opening ---

    def load(self) -> None:
        """Find the segments; what was left in journals is read by SQLite."""
        numbers = segments_in(self.directory)
        self._see_formats(numbers)
        self.next_number = 1 + max([*numbers, *damaged_in(self.directory)], default=0)
        for number in numbers:
            segment = Segment(number, self.directory / f"{number}.db", 0, 0)
            try:
                self._load(segment)
            except sqlite3.DatabaseError as error:
                if not is_unreadable(error):
                    raise
                if not repair.rebuild(self, segment, str(error)):
                    continue
            self.add(segment)
        self._load_kept()
        while (segments := self._superseded()) is not None:
            self._merge(*segments)

    def _see_formats(self, numbers: Sequence[int]) -> None:
        """A store of a later version is left alone. One segment that alone has another format is damaged."""
        formats = [format_of(self.directory / f"{number}.db") for number in numbers]
        later = [format for format in formats if format is not None and format > SCHEMA_VERSION]
        if later and (len(later) == len(formats) or len(set(later)) < len(later)):
            raise SettingsError(
                SETTING,
                f"the store in {str(self.directory)!r} has format {max(later)} and this Latecomer knows "
                f"{SCHEMA_VERSION}; use the version that wrote it",
            )

    def _load(self, segment: Segment) -> None:
        journal = segment.path.with_name(f"{segment.name}-wal")
        if self.files.alone or (journal.exists() and journal.stat().st_size):
            connection = self.pool.writer(segment)
            ((_, frames, _),) = connection.execute(COPIED)
            if (what := damage(journal, max(0, frames))) is not None:
                kept = repair.keep_copy(self, journal)
                why = f"{what}: unless the power failed while that was written, events are missing; kept as {kept}"
                self.problems.append(Problem(segment.name, None, why))
            segment.load(connection)
        else:
            with self.pool.reader(segment) as connection:
                segment.load(connection)

    def _superseded(self) -> tuple[Segment, Segment] | None:
        """Two segments of the same time, the later one last: a repair was interrupted at its very end, or one of them
        does not say the truth about its time."""
        for left, right in zip(self.segments, self.segments[1:], strict=False):
            if right.start_us < left.end_us:
                return (left, right) if left.number < right.number else (right, left)
        return None

    def _merge(self, old: Segment, new: Segment) -> None:
        """The later one counts; what only the other one has goes there, or wherever its time is."""
        self.pool.forget(old)
        self.take_out([old])
        batch: list[Event] = []
        added = 0
        for event in repair.readable(self, old.path):
            batch.append(event)
            if len(batch) >= repair.COPY_ROWS:
                added += self._add(batch)
                batch = []
        added += self._add(batch)
        kept = repair.set_aside(self, old)
        self.problems.append(
            Problem(old.name, None, f"is of the time of {new.name}: {added} events went elsewhere; kept as {kept}")
        )

    def _load_kept(self) -> None:
        try:
            self.kept = parse_kept((self.directory / KEPT).read_bytes())
        except FileNotFoundError:
            return
        except ValueError:
            oldest_us = self.segments[0].start_us if self.segments else 0
            self.kept = Kept(oldest_us, oldest_us)
            self.problems.append(Problem(KEPT, None, "is damaged: what is older than the oldest event counts as gone"))
        self.takes_from_us = self.kept.takes_from_us(self.settings)
        from_us = self.kept.from_us
        self.drop([s for s in self.segments if (s.newest_us < from_us if s.count else s.end_us <= from_us)])

    # --- errors ---

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn errors of the disk into ours; after a failure nothing is touched any more."""
        if self.failure is not None:
            raise self._failed(self.failure)
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if is_full(error):
                raise StoreFull(f"the disk is full ({error}): make room in {str(self.directory)!r}") from error
            if is_busy(error):
                raise StoreBusy(
                    f"no more files can be opened ({error}): raise the limit of open files (ulimit -n), or have fewer "
                    f"connections"
                ) from error
            self.failure = error
            self.pool.abandon()
            raise self._failed(error) from error

    def _failed(self, cause: Exception) -> StoreFailed:
        return StoreFailed(
            f"the store's disk failed ({cause}): the broker must stop; check the disk, then start it again"
        )

    # --- reading ---

    def read(self, segment: Segment, job: Callable[[Connection], list[Row]]) -> list[Row]:
        """Do something with a connection to a segment; nothing, if it was let go of meanwhile."""
        for again in (True, False):
            try:
                if self.files.alone:
                    with self.writing:
                        return job(self.pool.writer(segment))
                with self.pool.reader(segment) as connection:
                    return job(connection)
            except sqlite3.Error as error:
                if segment not in self.segments:
                    return []
                if not again or not is_damage(error):
                    raise
                with self.writing:
                    repair.rebuild(self, segment, str(error))
        raise AssertionError

    # --- writing ---

    def append(self, events: Sequence[Event]) -> int:
        """How many were new."""
        with self.writing, self.guard():
            reserve = self.settings.reserve_bytes
            if reserve and self.files.free(self.directory) < reserve:
                raise StoreFull(f"less than {reserve} bytes are free: make room in {str(self.directory)!r}")
            if self.suspects:
                repair.quarantine(self)
            return self._add(events)

    def take_back(self, origin: str, epoch: int, after: int, since_us: int) -> int:
        """How many were there."""
        with self.writing, self.guard():
            late = [segment for segment in self.segments if segment.end_us > since_us]
            return sum(repair.take_back(self, segment, origin, epoch, after, since_us) for segment in late)

    def _add(self, events: Sequence[Event]) -> int:
        batches: dict[int, tuple[Segment, dict[Place, Event]]] = {}
        segment: Segment | None = None
        for event in events:
            at = event.published_us
            if at < self.takes_from_us or at >= NUMBER_MAX:
                continue
            if at < self.kept.from_us:  # the next opening must not take it for what was to go
                self._keep(Kept(self.kept.gone_us, self.takes_from_us, self.kept.at_us, limits_of(self.settings)))
            if segment is None or not segment.start_us <= at < segment.end_us:
                segment = self._at(at)
            batch = batches.get(segment.number)
            if batch is None:
                batch = batches[segment.number] = (segment, {})
            batch[1].setdefault(place_of(event), event)
        return sum(self._commit(*batch) for batch in batches.values())

    def _at(self, at: int) -> Segment:
        """The segment of a time, which is made if need be."""
        segments = self.segments
        i = bisect_right(segments, at, key=lambda segment: segment.start_us)
        if i and at < segments[i - 1].end_us:
            return segments[i - 1]
        start = at - at % self.settings.segment_us
        end = min(start + self.settings.segment_us, NUMBER_MAX)
        if i:
            start = max(start, segments[i - 1].end_us)
        if i < len(segments):
            end = min(end, segments[i].start_us)
        number = self.next_number
        self.next_number += 1
        segment = create(self.files, self.directory, number, start, end, self.pool.pragma)
        self.add(segment)
        return segment

    def _commit(self, segment: Segment, events: dict[Place, Event]) -> int:
        before = segment.bytes
        try:
            new = self._append(segment, events)
        except sqlite3.Error as error:
            if not is_damage(error) or not repair.rebuild(self, segment, str(error)):
                raise
            new = self._append(segment, events)
        connection = self.pool.writer(segment)
        segment.until_checkpoint -= new + (segment.bytes - before) // 4096
        if segment.until_checkpoint <= 0:
            self._checkpoint(segment, connection)
        if self._too_large(segment):
            self._cut(segment, connection)
        return new

    def _append(self, segment: Segment, events: dict[Place, Event]) -> int:
        connection = self.pool.writer(segment)
        with whole(connection):
            return append(connection, segment, events)

    def _checkpoint(self, segment: Segment, connection: Connection) -> None:
        """Copy the journal into the file, so that it starts anew; and learn how many events fill it."""
        segment.until_checkpoint = segment.between_checkpoints
        try:
            ((_, pages, _),) = connection.execute(COPIED)
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            return  # a full disk keeps its journal a little longer
        between = segment.between_checkpoints * CHECKPOINT_PAGES // max(1, pages)
        segment.between_checkpoints = segment.until_checkpoint = min(max(between, 100), 100_000)

    def _too_large(self, segment: Segment) -> bool:
        settings = self.settings
        size = min(settings.segment_bytes, settings.capacity_bytes // PIECES or settings.segment_bytes)
        return segment.weight > size or 0 < settings.events_max // PIECES < segment.count

    def _cut(self, segment: Segment, connection: Connection) -> None:
        """Let a busy segment end at the next full 10 s, so that later events go into another one."""
        end = segment.newest_us - segment.newest_us % BUCKET_US + BUCKET_US
        if end >= segment.end_us:
            return
        try:
            connection.execute("UPDATE extent SET end_us = ?", (end,))
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            return
        segment.end_us = end
        # Its journal is not needed any more, and counts; but readers are not waited for.
        connection.execute("PRAGMA busy_timeout = 0")
        settle(connection)
        connection.execute("PRAGMA busy_timeout = 5000")

    # --- the list ---

    def add(self, segment: Segment) -> None:
        self.segments = tuple(sorted((*self.segments, segment), key=lambda segment: segment.start_us))

    def take_out(self, gone: Sequence[Segment]) -> None:
        self.segments = tuple(segment for segment in self.segments if segment not in gone)

    def drop(self, gone: Sequence[Segment]) -> None:
        """Let go of whole segments. Taking a large file away takes time, which appends need not wait for."""
        with self.writing:
            self.take_out(gone)
            for segment in gone:
                self.pool.forget(segment)
        for segment in gone:
            remove(self.files, segment.path)

    def keep_from(self, us: int, now_us: int) -> None:
        """Remember from when on everything is kept, before anything is let go of."""
        if us > self.takes_from_us:
            self._keep(Kept(max(us, self.kept.gone_us), us, now_us, limits_of(self.settings)))

    def _keep(self, kept: Kept) -> None:
        self.files.write(self.directory / KEPT, kept.encoded())
        self.kept, self.takes_from_us = kept, kept.from_us

    def size(self) -> int:
        return sum(size_of(segment.path) for segment in self.segments)

    def close(self) -> None:
        """Copy the journals into their files. Readers leave theirs behind, empty."""
        self.pool.close()
        for segment in self.segments:
            journal = segment.path.with_name(f"{segment.name}-wal")
            if journal.exists() and not journal.stat().st_size:
                for end in COMPANIONS:
                    self.files.unlink(segment.path.with_name(segment.name + end))
