"""Which events this broker has had, so that none is handed to a client twice or out of order.

An origin sends its events in order, and sends again in order from the oldest that is not done (`outbox`). So whatever
this broker is owed comes for the first time in order, and the newest number per origin says it all: what is not newer
has been handed out, or was not asked for when its turn was. One pair of numbers per origin, whatever happens.

With slots (`model/slots`) events of one origin come by different ways, and are in order within a slot only: there is a
pair of numbers per origin and slot. Not per origin and way: slots move from one way to another, and what was had by the
one would then be unknown, or what is owed by the other taken for had.

The last events of each origin are kept for a while. If their origin goes away before a store has them, the store's
answers lack them; and when the origin sends them again, this broker does not hand them out, because it has had them.
Whoever asks the store through this broker has to be told (`retrieval`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.attributes import attributes_of
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId
from latecomer.model.slots import NEVER, Stamp, Stream, stream_of
from latecomer.model.topics import topic_matches

RECENT_MAX = 256
"""Events of one origin that are kept."""
CONTENT_MAX = 512
"""Bytes of a payload that is kept with them; of a larger one nothing is."""


@dataclass(slots=True)
class Seen:
    """The newest event had of each stream."""

    slot: Callable[[str], int] | None = None
    """The slot of a topic; None: there are no slots."""
    newest: dict[Stream, Stamp] = field(default_factory=dict)
    recent: dict[BrokerId, deque[Event]] = field(default_factory=dict)
    """The last events had from each origin."""

    def stream(self, event: Event) -> Stream:
        """The stream that an event belongs to."""
        return event.id.origin if self.slot is None else stream_of(event.id.origin, self.slot(event.topic))

    def has(self, event: Event) -> bool:
        """Whether this broker has had the event, or something newer of its stream."""
        return (event.id.epoch, event.id.seq) <= self.newest.get(self.stream(event), NEVER)

    def take(self, event: Event) -> Stream | None:
        """The stream of an event that is new, which is kept for a while; None if it is not new."""
        id = event.id
        stream = id.origin if self.slot is None else stream_of(id.origin, self.slot(event.topic))
        stamp = (id.epoch, id.seq)
        if stamp <= self.newest.get(stream, NEVER):
            return None
        self.newest[stream] = stamp
        if not event.groups_only:  # which no store gets
            recent = self.recent.get(event.id.origin)
            if recent is None:
                recent = self.recent[event.id.origin] = deque(maxlen=RECENT_MAX)
            large = len(event.payload) > CONTENT_MAX
            recent.append(replace(event, payload=b"", extras=None) if large else event)
        return stream

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
