"""A broker's store in the simulator: the meaning of `latecomer.history`'s engine, in a list in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from random import Random

from latecomer.core.attributes import attributes_of
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Page, Query, Slice, key_of
from latecomer.model.ids import NUMBER_MAX, BrokerId, EventId, Instant
from latecomer.model.topics import topic_matches

LOOKED_AT_MAX = 256
"""Events that one page looks at: a page may end behind the last event that matches, as the engine's do."""
DIGEST_MODULUS = 2**64


@dataclass(slots=True)
class SimStore:
    """Events in the order of history, each once."""

    keys: list[Key] = field(default_factory=list)
    events: dict[Key, Event] = field(default_factory=dict)
    kept_from_us: Instant = 0
    """What was published before this has been let go of."""
    mortal: int = 0
    """How many of them expire."""

    def append(self, event: Event) -> bool:
        """Keep an event; False if it is there already."""
        key = key_of(event)
        if key in self.events:
            return False
        insort(self.keys, key)
        self.events[key] = event
        self.mortal += event.expires_us > 0
        return True

    def read(self, query: Query, now: Instant, events_max: int, bytes_max: int) -> Page:
        """The next piece of what was asked for, oldest first: at least one event if there is one."""
        first, behind = self._bounds(query)
        if query.last:
            first = self._first_of_last(query, now, first, behind)
        found: list[Event] = []
        size = 0
        for position in range(first, behind):
            key = self.keys[position]
            event = self.events[key]
            if self._asked_for(query, event, now):
                size += _size(event)
                if found and (size > bytes_max or len(found) >= events_max):
                    return Page(tuple(found), self.keys[position - 1])
                found.append(event)
            if position - first >= LOOKED_AT_MAX and position + 1 < behind:
                return Page(tuple(found), key)
        return Page(tuple(found), None)

    def _bounds(self, query: Query) -> tuple[int, int]:
        first = bisect_left(self.keys, Key(query.since_us, "", 0, 0))
        if query.after is not None:
            first = max(first, bisect_right(self.keys, query.after))
        until = query.until_us or NUMBER_MAX
        behind = bisect_right(self.keys, until, key=lambda key: key.published_us)
        return first, behind

    def _first_of_last(self, query: Query, now: Instant, first: int, behind: int) -> int:
        """Where the newest so many begin."""
        missing, position = query.last, behind
        while position > first and missing:
            position -= 1
            missing -= self._asked_for(query, self.events[self.keys[position]], now)
        return position

    @staticmethod
    def _asked_for(query: Query, event: Event, now: Instant) -> bool:
        return not _expired(event, now) and matches(query.filter, event)

    def survey(self, topics: str, since_us: Instant, until_us: Instant, width_us: int) -> tuple[Slice, ...]:
        """What there is of a topic filter, slice by slice."""
        keys, events = self.keys, self.events
        first = bisect_left(keys, Key(since_us, "", 0, 0))
        behind = bisect_left(keys, Key(until_us, "", 0, 0))
        slices = []
        while first < behind:
            start = keys[first].published_us - keys[first].published_us % width_us
            end = bisect_left(keys, Key(start + width_us, "", 0, 0), first, behind)
            inside = (events[key] for key in keys[first:end])
            digests = [digest_of(event.id) for event in inside if known_topic_matches(topics, event.topic)]
            if digests:
                slices.append(Slice(start, len(digests), sum(digests) % DIGEST_MODULUS))
            first = end
        return tuple(slices)

    def trim(self, before_us: Instant) -> None:
        """Let go of what was published before an instant."""
        behind = bisect_left(self.keys, Key(before_us, "", 0, 0))
        for key in self.keys[:behind]:
            self.mortal -= self.events.pop(key).expires_us > 0
        del self.keys[:behind]
        self.kept_from_us = max(self.kept_from_us, before_us)

    def take_back(self, origin: BrokerId, epoch: int, after: int, since_us: Instant) -> int:
        """Remove the events of one origin and epoch numbered higher than `after`; how many."""
        first = bisect_left(self.keys, Key(since_us, "", 0, 0))
        gone = [key for key in self.keys[first:] if (key.origin, key.epoch) == (origin, epoch) and key.seq > after]
        for key in gone:
            self.mortal -= self.events.pop(key).expires_us > 0
        if gone:
            self.keys = [key for key in self.keys if key in self.events]
        return len(gone)

    def crashed(self, random: Random) -> None:
        """The broker died. What was appended is safe."""

    def remove_expired(self, now: Instant) -> int:
        """Let go of what has outlived its lifetime; returns how many."""
        if not self.mortal:
            return 0
        dead = [key for key in self.keys if _expired(self.events[key], now)]
        for key in dead:
            del self.events[key]
        if dead:
            self.keys = [key for key in self.keys if key in self.events]
            self.mortal -= len(dead)
        return len(dead)


@lru_cache(maxsize=65_536)
def digest_of(id: EventId) -> int:
    """64 bits of an event's identity."""
    return int.from_bytes(blake2b(str(id).encode(), digest_size=8).digest(), "big")


def matches(filter: Filter, event: Event) -> bool:
    """Whether an event belongs to what a filter asks for."""
    if not known_topic_matches(filter.topic, event.topic):
        return False
    return filter.where is None or filter.where.matches(attributes_of(event))


def _expired(event: Event, now: Instant) -> bool:
    return 0 < event.expires_us <= now


def _size(event: Event) -> int:
    return len(event.topic) + len(event.publisher) + len(event.payload)


known_topic_matches = lru_cache(maxsize=65_536)(topic_matches)
"""Few topics and few filters, asked again and again."""
