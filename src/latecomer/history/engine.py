"""The engine of a store: what is appended is safe on return, and can be read, compared, and let go of.

The past is in two places: on this disk (`hot`), and the older part, if wished, in a cold tier (`cold`). Events that
come late for a time already in the cold tier wait on the disk until they go there too; whoever reads gets both, in
order.

Events from before `kept_from_us` were let go of. They are not taken again (`takes_from_us`), or else a replica that
keeps them longer would bring them back for ever; unless the limits have been widened since.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from latecomer.history import retention, sums
from latecomer.history.errors import Problem, Repaired, StoreFailed, StoreFull, VerifyReport, is_busy
from latecomer.history.files import SETTING, Files, claim, tidy
from latecomer.history.hot import Hot
from latecomer.history.lookup import range_of
from latecomer.history.owned import take_leave
from latecomer.history.pool import Pool
from latecomer.history.scrub import Scrub
from latecomer.history.settings import EngineSettings
from latecomer.history.tiers import Tiers, not_in, survey
from latecomer.history.verify import Progress, of_cold, verify
from latecomer.model.errors import SettingsError
from latecomer.model.event import Event
from latecomer.model.history import Page, Query, Slice, StoreStatus

if TYPE_CHECKING:
    from latecomer.history.cold import ColdTier

SYNCHRONOUS = {"power": "FULL", "process": "NORMAL", "none": "OFF"}
"""What an append survives, in SQLite's words."""
SCAN_MAX = 20_000


class Engine:
    """A store on disk. Any thread may call any method; appends wait for one another, reading does not wait for them."""

    def __init__(self, hot: Hot, cold: ColdTier | None, lock: int, *, left: bool) -> None:
        self._hot = hot
        self._cold = cold
        self._lock = lock
        self._closed = False
        self._scrub = Scrub(hot, newest_first=not left)

    @classmethod
    def open(
        cls, directory: Path, settings: EngineSettings, *, durability: str = "power", vfs: Files | None = None
    ) -> Engine:
        """Open the store in a directory of its own, or begin it. Raises a `SettingsError` about the key `data`."""
        cold = _cold(settings)
        files = vfs if vfs is not None else Files(synced=durability != "none")
        pool = Pool(files, f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        lock, left = claim(directory)
        try:
            tidy(files, directory)
            hot = Hot(directory, settings, files, pool)
            hot.load()
        except BaseException as error:
            os.close(lock)
            pool.abandon()
            if isinstance(error, sqlite3.Error | OSError):
                if is_busy(error):
                    error = OSError(f"{error}: too many files are open, raise the limit (ulimit -n)")
                raise SettingsError(SETTING, f"the store in {str(directory)!r} cannot be opened: {error}") from error
            raise
        return cls(hot, cold, lock, left=left)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found damaged since the opening, and in the cold tier also what still is."""
        return (*self._hot.problems, *(() if self._cold is None else of_cold(self._cold)))

    @property
    def takes_from_us(self) -> int:
        """What was published before this is not taken. Earlier than `StoreStatus.kept_from_us` when the settings allow
        to keep again what was once let go of: others may have it."""
        return self._hot.takes_from_us

    # --- writing ---

    def append(self, events: Sequence[Event]) -> int:
        """Keep events; on return they are as safe as `durability` says. Those already kept are passed over; how many
        were new. One commit for each segment: after a `StoreFull` some may be kept, and all can be appended again."""
        hot = self._hot
        with hot.writing:
            return hot.append(events if self._cold is None else not_in(self._cold, events))

    def take_back(self, origin: str, epoch: int, after: int, since_us: int) -> int:
        """Remove the events of one origin and epoch that are numbered higher than `after`, none of which was published
        before `since_us`; how many there were. For a crash that left them safe, and not what belongs to them."""
        return self._hot.take_back(origin, epoch, after, since_us)

    # --- reading ---

    def read(self, query: Query, now_us: int, events_max: int, bytes_max: int, scan_max: int = SCAN_MAX) -> Page:
        """The next events of an answer, oldest first. Go on with `after=page.next`, which ends what `last` began.

        At most about `scan_max` rows are looked at, so a page may be empty and not the last. For `last` the newest
        million rows are searched.
        """
        while True:
            before = self._hot.segments
            try:
                page = self._read(query, now_us, events_max, bytes_max, scan_max)
            except Repaired:
                continue
            if self._cold is None or all(segment in self._hot.segments for segment in before):
                return page
            # A segment went to the cold tier, perhaps after we had looked there and before we looked here.

    def _read(self, query: Query, now_us: int, events_max: int, bytes_max: int, scan_max: int) -> Page:
        low, high = range_of(query)
        cold = self._cold
        reach = None if cold is None else cold.reach()
        tiers = Tiers(self._hot, None if reach is None or reach[1] < low[0] else cold, query, now_us, scan_max)
        if query.last and query.after is None:
            found = tiers.last(low, high, query.last)
            if found is None:
                return Page((), None)
            low, high = found
        return tiers.page(low, high, events_max, bytes_max)

    def survey(self, topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
        """What was published from `since_us` to before `until_us`, in slices that begin at multiples of `width_us`, a
        multiple of 10 s. No event is looked at, except where the limits cut through 10 s."""
        return survey(self._hot, self._cold, topics, since_us, until_us, width_us)

    def status(self, topics: str | None = None) -> StoreStatus:
        """What is kept: of all topics, with the bytes on disk; or of some, with the bytes of their events. Then only
        the disk counts: the cold tier is not looked through for topics."""
        hot = self._hot
        with hot.guard():
            found = [s for s in hot.segments if s.count]
            if topics is None:
                parts = [(s.count, 0, s.oldest_us, s.newest_us) for s in found]
            else:
                parts = [part for s in found if (part := sums.of_topics(hot.read, s, topics))[0]]
            status = StoreStatus(
                events=sum(part[0] for part in parts),
                bytes=hot.size() if topics is None else sum(part[1] for part in parts),
                oldest_us=min((part[2] for part in parts), default=0),
                newest_us=max((part[3] for part in parts), default=0),
                kept_from_us=hot.kept.gone_us,
            )
        reach = None if self._cold is None or topics is not None else self._cold.reach()
        if self._cold is None or reach is None:
            return status
        events, size = self._cold.status()
        oldest = min(reach[0], status.oldest_us) if status.events else reach[0]
        newest = max(reach[1], status.newest_us)
        return replace(status, oldest_us=oldest, newest_us=newest, cold_events=events, cold_bytes=size)

    # --- letting go ---

    def expire(self, now_us: int, leaving: Callable[[int], None] = lambda from_us: None) -> int | None:
        """Let go of the oldest segments as far as the settings demand; if any went, from when on events are taken.
        Before any goes, `leaving` is called with that: who reads afterwards and misses something must know.

        A segment goes when all of it is older than `keep_us`: that is how long events are kept at least.
        """
        hot, keep_us = self._hot, self._hot.settings.keep_us
        gone = 0
        with hot.guard():
            with hot.writing:
                old = retention.too_old(hot.segments, now_us - keep_us) if keep_us else []
                rest = [segment for segment in hot.segments if segment not in old]
                many = retention.too_many(hot, rest) if self._cold is None else []
                # A segment that goes for its size may end in the future: only what it had is gone.
                gone = max([segment.end_us for segment in old] + [segment.newest_us + 1 for segment in many], default=0)
                hot.keep_from(gone, now_us)
            if gone:
                leaving(hot.takes_from_us)
            with hot.writing:
                # What came meanwhile to a segment that is too much is not to go: that one goes the next time.
                going = [*old, *(segment for segment in many if segment.newest_us < hot.takes_from_us)]
                hot.take_out(going)
            hot.drop(going)

        def gone_cold(from_us: int) -> None:
            with hot.guard(), hot.writing:
                hot.keep_from(from_us, now_us)
            leaving(hot.takes_from_us)

        if self._cold is not None and keep_us and self._cold.drop_before(now_us - keep_us, gone_cold):
            gone = now_us - keep_us
        return hot.takes_from_us if gone else None

    def roll(self, now_us: int) -> int:
        """Move segments that are older than `hot_us`, and the oldest of those that are too many, into the cold tier;
        how many events. Raises a `ColdError` if that cannot take them: they stay here."""
        hot, cold = self._hot, self._cold
        if cold is None:
            return 0
        with hot.guard():
            old = retention.too_old(hot.segments, now_us - hot.settings.hot_us)
            many = retention.too_many(hot, [segment for segment in hot.segments if segment not in old])
        return sum(retention.roll(hot, cold, segment) for segment in (*old, *many))

    # --- damage ---

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Look at everything. What is damaged is moved out of the way and never served; `progress` is called with the
        number of segments done, and of all."""
        return verify(self._hot, self._cold, progress)

    def scrub(self, budget_rows: int = 2_000) -> int:
        """Look at about so many events, where the last call ended, round and round, the oldest segment first; how many
        it were. What is damaged is moved out of the way, as reading would do, and is among the `problems`."""
        with self._hot.guard():
            return self._scrub.go_on(budget_rows)

    # --- the end ---

    def close(self) -> None:
        """Copy the journals into their files, and let go of the directory. After a failure nothing is touched."""
        if self._closed:
            return
        self._closed = True
        if self._hot.failure is not None:
            return
        try:
            with self._hot.writing, self._hot.guard():
                self._hot.close()
        except (StoreFailed, StoreFull):
            os.close(self._lock)
        else:
            take_leave(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cold(settings: EngineSettings) -> ColdTier | None:
    if not settings.cold or not settings.hot_us:
        return None
    from latecomer.history.cold import ColdTier  # with Arrow, which takes long to load and much memory

    return ColdTier(settings.cold, writer=settings.writer)
