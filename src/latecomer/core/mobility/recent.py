"""The recent log of *mobility* §3 (logging): reliable events that this broker originated, received or carried.

It is a cache in memory. Brokers on the way still owe nobody anything, and after a restart the log is empty: what is not
in it travels. Of two copies of an event one may be meant for shared groups, and differ in that; such events are not
kept, so that an id names one content.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from latecomer.core.session.past import size_of
from latecomer.model.event import Event
from latecomer.model.ids import EventId


@dataclass(slots=True)
class RecentLog:
    """The newest events, by id."""

    events_max: int
    bytes_max: int
    events: OrderedDict[EventId, Event] = field(default_factory=OrderedDict)
    bytes: int = 0

    def add(self, event: Event) -> None:
        if not event.reliable or event.shares or event.groups_only or event.id in self.events:
            return
        self.events[event.id] = event
        self.bytes += size_of(event)
        while len(self.events) > self.events_max or self.bytes > self.bytes_max:
            self.bytes -= size_of(self.events.popitem(last=False)[1])

    def get(self, id: EventId) -> Event | None:
        return self.events.get(id)
