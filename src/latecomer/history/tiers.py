"""The disk and the cold tier as one history.

Mostly one ends where the other begins. But an event that comes late, for a time already in the cold tier, waits on the
disk; so both are asked for what is behind a place, and what they found is merged as far as both have looked. What both
have, as while a segment goes from one to the other, or when several stores share a cold tier, is there once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from latecomer.history import sums
from latecomer.history.cold_errors import ColdError
from latecomer.history.digest import BUCKET_US, MODULUS, digest_of
from latecomer.history.errors import Repaired
from latecomer.history.hot import Hot
from latecomer.history.lookup import LAST_SCAN_MAX, Lookup, just_after, just_before, range_of
from latecomer.history.segment import OVERHEAD_BYTES, Place, place_of
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Page, Query, Slice

if TYPE_CHECKING:
    from latecomer.history.cold import ColdTier

PAGE_EVENTS = 1000
PAGE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Tiers:
    """One call of `Engine.read`."""

    hot: Hot
    cold: ColdTier | None
    """None: there is none, or it does not reach what was asked for."""
    query: Query
    now_us: int
    scan_max: int

    def page(self, low: Place, high: Place, events_max: int, bytes_max: int) -> Page:
        """What lies between, as far as the limits allow."""
        if self.cold is None:
            return self._hot_page(low, high, events_max, bytes_max)
        old = self._cold_page(low, high, events_max, bytes_max)
        events = [event for event in old.events if place_of(event) < high]
        bytes_left = bytes_max - sum(len(event.payload) + OVERHEAD_BYTES for event in events)
        top = high if old.next is None else min(high, just_after(_place(old.next)))
        new = self._hot_page(low, top, max(1, events_max - len(events)), max(1, bytes_left))
        ends = [page.next for page in (old, new) if page.next is not None]
        end = min(ends, default=None)
        merged = {place_of(event): event for event in (*new.events, *events)}
        places = sorted(place for place in merged if end is None or place <= _place(end))
        return Page(tuple(merged[place] for place in places), end)

    def last(self, low: Place, high: Place, count: int) -> tuple[Place, Place] | None:
        """The places around the newest so many; None: there is not one."""
        with self.hot.guard():
            lookup = Lookup(self.hot.read, self.query, self.now_us, LAST_SCAN_MAX)
            found = lookup.last(self.hot.segments, low, high, count)
            self.hot.suspects += lookup.bad
        if self.cold is not None:
            found = sorted({*found, *self._last_of_cold(low, high, count)}, reverse=True)[:count]
        return (just_before(found[-1]), just_after(found[0])) if found else None

    def _hot_page(self, low: Place, high: Place, events_max: int, bytes_max: int) -> Page:
        with self.hot.guard():
            lookup = Lookup(self.hot.read, self.query, self.now_us, self.scan_max)
            page = lookup.page(self.hot.segments, low, high, events_max, bytes_max)
            self.hot.suspects += lookup.bad
        return page

    def _cold_page(self, low: Place, high: Place, events_max: int, bytes_max: int, last: int = 0) -> Page:
        assert self.cold is not None
        query = msgspec.structs.replace(
            self.query,
            since_us=low[0],
            until_us=high[0],
            after=Key(*low) if low[1] else None,
            last=last,
        )
        return self.cold.read(query, self.now_us, events_max, bytes_max, self.scan_max)

    def _last_of_cold(self, low: Place, high: Place, count: int) -> list[Place]:
        found: list[Place] = []
        page = self._cold_page(low, high, PAGE_EVENTS, PAGE_BYTES, count)
        while True:
            found += [place for event in page.events if (place := place_of(event)) < high]
            if page.next is None or len(found) >= count:
                return found
            page = self._cold_page(_place(page.next), high, PAGE_EVENTS, PAGE_BYTES)


def survey(
    hot: Hot, cold: ColdTier | None, topics: str, since_us: int, until_us: int, width_us: int
) -> tuple[Slice, ...]:
    """What both have together. Of a slice in which they differ the parts are looked at, down to single events."""
    with hot.guard():
        here = sums.slices(sums.survey(hot.read, hot.segments, topics, since_us, until_us, width_us))
    if cold is None:
        return here
    # Second, so that what goes there meanwhile is in both, and not in neither.
    slices = {slice.start_us: slice for slice in cold.survey(topics, since_us, until_us, width_us)}
    for slice in here:
        start_us = slice.start_us
        if slices.setdefault(start_us, slice) != slice:
            low, high = max(since_us, start_us), min(until_us, start_us + width_us)
            if width_us > 1:
                parts = survey(hot, cold, topics, low, high, BUCKET_US if width_us > BUCKET_US else 1)
            else:
                parts = _single(hot, cold, topics, low)
            digest = sum(part.digest for part in parts) % MODULUS
            slices[start_us] = Slice(start_us, sum(part.count for part in parts), digest)
    return tuple(slices[start_us] for start_us in sorted(slices))


def _single(hot: Hot, cold: ColdTier, topics: str, at_us: int) -> tuple[Slice, ...]:
    """Each event of a microsecond by itself."""
    query = Query(Filter(topics), at_us, at_us)
    tiers = Tiers(hot, cold, query, 0, LAST_SCAN_MAX)
    low, high = range_of(query)
    found: list[Slice] = []
    while True:
        try:
            page = tiers.page(low, high, PAGE_EVENTS, PAGE_BYTES)
        except Repaired:
            continue
        found += [Slice(at_us, 1, digest_of(event.id)) for event in page.events]
        if page.next is None:
            return tuple(found)
        low = _place(page.next)


def not_in(cold: ColdTier, events: Sequence[Event]) -> Sequence[Event]:
    """Events that the cold tier does not have."""
    try:
        reach = cold.reach()
        late: dict[str, list[int]] = {}
        for event in events:
            if reach is not None and event.published_us <= reach[1]:
                late.setdefault(event.topic, []).append(event.published_us)
        known: set[Place] = set()
        for topic, times in late.items():
            query = Query(Filter(topic), min(times), max(times))
            while True:
                page = cold.read(query, 0, PAGE_EVENTS, PAGE_BYTES)
                known.update(place_of(event) for event in page.events)
                if page.next is None:
                    break
                query = msgspec.structs.replace(query, after=page.next)
    except ColdError:
        return events  # kept on the disk for now; what both have is served once
    return [event for event in events if place_of(event) not in known] if known else events


def _place(key: Key) -> Place:
    return (key.published_us, key.origin, key.epoch, key.seq)
