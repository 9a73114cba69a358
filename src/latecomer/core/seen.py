"""Which events this broker has had, so that none is handed to a client twice or out of order.

An origin sends its events in order, and sends again in order from the oldest that is not done (`outbox`). So whatever
this broker is owed comes for the first time in order, and the newest number per origin says it all: what is not newer
has been handed out, or was not asked for when its turn was. One pair of numbers per origin, whatever happens.

The last events of each origin are kept for a while. If their origin goes away before a store has them, the store's
answers lack them; and when the origin sends them again, this broker does not hand them out, because it has had them.
Whoever asks the store through this broker has to be told (`retrieval`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.attributes import attributes_of
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, EventId
from latecomer.model.topics import topic_matches

RECENT_MAX = 256
"""Events of one origin that are kept."""
CONTENT_MAX = 512
"""Bytes of a payload that is kept with them; of a larger one nothing is."""


@dataclass(slots=True)
class Seen:
    """The newest event had from each origin, as (epoch, sequence number)."""

    newest: dict[BrokerId, tuple[int, int]] = field(default_factory=dict)
    recent: dict[BrokerId, deque[Event]] = field(default_factory=dict)
    """The last events had from each origin."""

    def add(self, id: EventId) -> bool:
        """Whether the event is new."""
        stamp = (id.epoch, id.seq)
        if stamp <= self.newest.get(id.origin, (0, 0)):
            return False
        self.newest[id.origin] = stamp
        return True

    def take(self, event: Event) -> bool:
        """Whether the event is new; if so, keep it for a while."""
        if not self.add(event.id):
            return False
        if not event.groups_only:  # which no store gets
            recent = self.recent.get(event.id.origin)
            if recent is None:
                recent = self.recent[event.id.origin] = deque(maxlen=RECENT_MAX)
            large = len(event.payload) > CONTENT_MAX
            recent.append(replace(event, payload=b"", extras=None) if large else event)
        return True

    def recent_of(self, absent: Container[BrokerId], query: Query) -> Iterator[Event]:
        """The last events of brokers that are away, as far as a query asks for them. If it asks for content that was
        not kept, they count."""
        for event in (event for origin, events in self.recent.items() if origin in absent for event in events):
            early = event.published_us < query.since_us
            late = bool(query.until_us) and event.published_us > query.until_us
            if not early and not late and _fits(query.filter, event):
                yield event


def _fits(wanted: Filter, event: Event) -> bool:
    if not topic_matches(wanted.topic, event.topic):
        return False
    blank = not event.payload and event.extras is None and not event.attributes
    return wanted.where is None or blank or wanted.where.matches(attributes_of(event))
