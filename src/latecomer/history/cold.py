"""The cold tier: what a store has rolled out of its own files, as Parquet that any data tool reads as one table.

    cold_names       the names of files: `class=…/day=…/part-….parquet`
    cold_rows        the columns, and the way back to events
    cold_files       the place, and how a file comes into it
    cold_write       events → files
    cold_catalogue   what lies there, remembered
    cold_scan        a walk through many files in the order of history
    cold_sums        what a file adds up to, in its footer
    cold_survey      what all of them add up to, for replicas that compare

Several stores may share a tier: each writes files of its own, and all read everything. What two of them have is served
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TypeVar

import msgspec

from latecomer.core.attributes import attributes_of
from latecomer.history.cold_errors import ColdDamage, ColdError
from latecomer.history.cold_names import encoded
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Page, Query, Slice, key_of
from latecomer.model.ids import NUMBER_MAX

try:
    from latecomer.history.cold_catalogue import Catalogue
    from latecomer.history.cold_files import Moved, Place
    from latecomer.history.cold_scan import Seen, Walk, Want, runs_for
    from latecomer.history.cold_survey import Surveyor
    from latecomer.history.cold_write import Writer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "pyarrow":
        raise
    raise ColdError(
        "the cold tier needs the package pyarrow, which belongs to every complete installation: install it, for "
        "example with 'pip install pyarrow', or leave out 'cold' of the section [store]"
    ) from error

__all__ = ["ColdDamage", "ColdError", "ColdTier"]

FRESH_S = 10.0
"""How old the list of files may be that another store writes into as well; what we write ourselves is known at once."""
LAST_SCAN_MAX = 1_000_000
"""Rows that are looked at for the last so many: a rarer match than that is taken for none."""
ATTEMPTS = 5

T = TypeVar("T")


class ColdTier:
    """A directory, or what a URI of `pyarrow.fs` names (file, s3, gs, abfs, hdfs). `writer` is the broker's name."""

    def __init__(self, path: str, *, writer: str = "", depth: int = 1, fresh_s: float = FRESH_S) -> None:
        assert depth >= 1
        self._place = Place(path)
        self._catalogue = Catalogue(self._place, fresh_s)
        self._surveyor = Surveyor(self._catalogue)
        self._writer_name = encoded(writer)
        self._writer = Writer(self._place, self._catalogue, self._writer_name, depth)
        self._writing = Lock()

    @property
    def damaged(self) -> list[ColdDamage]:
        """Files found damaged and not replaced since; what is whole in them is served."""
        return self._catalogue.damaged

    @property
    def groups_read(self) -> int:
        """Halves of row groups that had to be fetched so far: what pruning and the cache could not spare."""
        return self._catalogue.groups_read

    def write(self, start_us: int, end_us: int, events: Iterable[Event]) -> int:
        """Add events published from `start_us` to `end_us` (both included) to the files of this slot.

        Each file is read back before it replaces what was there; when this returns, everything is safe. Returns how
        many events the slot has now. The events of a slot must fit into memory, about twice.
        """
        assert 0 <= start_us <= end_us
        with self._writing:
            tables = self._writer.sorted_out(start_us, end_us, events)
            return self._again(lambda: self._writer.write(start_us, end_us, tables))

    def read(self, query: Query, now_us: int, events_max: int, bytes_max: int, scan_max: int = 20_000) -> Page:
        """Stored events that match and have not expired, oldest first, as far as the limits allow.

        There is at least one event in a page, if there is any, and a page that was ended by `scan_max` says where to go
        on. `last` is for the first page: its successors go on after the key it names.
        """
        assert events_max > 0
        return self._again(lambda: self._page(query, now_us, events_max, bytes_max, scan_max))

    def reach(self) -> tuple[int, int] | None:
        """When the oldest and the newest event were published; None: there is none. As of the last look there: what
        this store writes is known at once, what others write with the next `read` or `survey`."""
        totals = self._again(self._catalogue.totals)
        return (totals.oldest_us, totals.newest_us) if totals.events else None

    def status(self) -> tuple[int, int]:
        """Events and bytes, of all writers; what two of them have counts twice. As of the last look there."""
        totals = self._again(self._catalogue.totals)
        return totals.events, totals.bytes

    def survey(self, topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
        """What there is from `since_us` to before `until_us`; slices begin at whole multiples of their width.

        Widths of whole hours cost next to nothing; narrower ones a look at every key of that time.
        """
        assert width_us > 0
        if until_us <= since_us:
            return ()
        return self._again(lambda: self._surveyor.survey(topics, since_us, until_us, width_us))

    def drop_before(self, published_us: int, leaving: Callable[[int], None] = lambda from_us: None) -> int:
        """Let go of the whole files, of this writer, in which everything is older; returns how many events. Before the
        first one goes, `leaving` is called."""
        with self._writing:
            return self._again(lambda: self._drop(published_us, leaving))

    # --- inside ---

    def _again(self, work: Callable[[], T]) -> T:
        """Once more, if a file was replaced by another store while we looked at it."""
        for _ in range(ATTEMPTS):
            try:
                return work()
            except Moved:
                self._catalogue.parts(anew=True)
        raise ColdError(
            f"{self._place.name}: the files change faster than they can be read; see that no two stores that share "
            f"this cold tier have the same name"
        )

    def _page(self, query: Query, now_us: int, events_max: int, bytes_max: int, scan_max: int) -> Page:
        want = Want(query.filter.topic, query.since_us, query.until_us or NUMBER_MAX, query.after, None, now_us)
        if query.last and query.after is None:
            start = self._start_of_last(want, query.filter, query.last)
            if start is None:
                return Page((), None)
            want = msgspec.structs.replace(want, start=start, since_us=start.published_us)
        walk = Walk(runs_for(self._catalogue, self._catalogue.parts(), want), want, scan_max=scan_max)
        events: list[Event] = []
        size = 0
        for seen in walk:
            found = seen.event()
            if found is None or not _matches(query.filter, found[0]):
                continue
            event, more = found
            if events and size + more > bytes_max:
                return Page(tuple(events), key_of(events[-1]))
            events.append(event)
            size += more
            if len(events) >= events_max:
                return Page(tuple(events), Key(*seen.key))
        return Page(tuple(events), None if walk.stopped is None else Key(*walk.stopped))

    def _start_of_last(self, want: Want, filter: Filter, count: int) -> Key | None:
        """Where the newest so many begin, or as many as there are; None: there is none."""
        runs = runs_for(self._catalogue, self._catalogue.parts(), want, back=True)
        oldest: Seen | None = None
        for seen in Walk(runs, want, back=True, scan_max=LAST_SCAN_MAX):
            if filter.where is not None:
                found = seen.event()
                if found is None or not _matches(filter, found[0]):
                    continue
            oldest = seen
            count -= 1
            if not count:
                break
        return None if oldest is None else Key(*oldest.key)

    def _drop(self, published_us: int, leaving: Callable[[int], None]) -> int:
        dropped = 0
        for part in self._catalogue.parts(anew=True):
            groups = self._catalogue.groups(part)
            newest = max((group.max_us for group in groups), default=part.end_us)
            if part.writer == self._writer_name and newest < published_us:
                if not dropped:
                    leaving(published_us)
                self._place.delete(part.path)
                self._catalogue.changed(part.path)
                dropped += sum(group.rows for group in groups)
        return dropped


def _matches(filter: Filter, event: Event) -> bool:
    return filter.where is None or filter.where.matches(attributes_of(event))
