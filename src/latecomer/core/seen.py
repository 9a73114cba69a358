"""Which events this broker has had, so that none is handed to a client twice or out of order.

An origin sends its events in order, and sends again in order from the oldest that is not done (`outbox`). So whatever
this broker is owed comes for the first time in order, and the newest number per origin says it all: what is not newer
has been handed out, or was not asked for when its turn was. One pair of numbers per origin, whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.model.ids import BrokerId, EventId


@dataclass(slots=True)
class Seen:
    """The newest event had from each origin, as (epoch, sequence number)."""

    newest: dict[BrokerId, tuple[int, int]] = field(default_factory=dict)

    def add(self, id: EventId) -> bool:
        """Whether the event is new."""
        stamp = (id.epoch, id.seq)
        if stamp <= self.newest.get(id.origin, (0, 0)):
            return False
        self.newest[id.origin] = stamp
        return True
