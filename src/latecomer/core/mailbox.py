"""Mailboxes: what waits for the clients of this broker.

A reliable event gets the client's next number and stays until the client confirms it; after a reconnection, or a
restart of the broker, everything unconfirmed is delivered again under the same number, so the client can tell.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import ClientId


@dataclass(slots=True)
class Mailbox:
    """One client's place at this broker."""

    client: ClientId
    connection: int = 0
    """The one the client is connected by; 0 while it is away."""
    number: int = 0
    """Of the newest delivery."""
    waiting: deque[tuple[int, Event]] = field(default_factory=deque)
    subscriptions: dict[Filter, None] = field(default_factory=dict)
    advertisements: dict[Filter, None] = field(default_factory=dict)

    def put(self, event: Event) -> int:
        self.number += 1
        self.waiting.append((self.number, event))
        return self.number

    def confirm(self, number: int) -> bool:
        """The client has everything up to `number`; whether anything waited for that."""
        before = len(self.waiting)
        while self.waiting and self.waiting[0][0] <= number:
            self.waiting.popleft()
        return len(self.waiting) < before
