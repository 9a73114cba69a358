"""What brokers that route by rendezvous count, so that an operator sees what positions cost and finds better ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Traffic:
    """Since this broker began. QoS 0 that drivers forward in bursts is not in it."""

    slot: Callable[[str], int]
    """Of a topic."""
    published: dict[int, int] = field(default_factory=dict)
    """Events of this broker's own clients, by slot."""
    delivered: int = 0
    """Events of others that clients here wanted."""
    hops: int = 0
    """Links that those had come along, added up."""
    relayed: int = 0
    """Events of others that were only sent on."""

    def publish(self, topic: str) -> None:
        slot = self.slot(topic)
        self.published[slot] = self.published.get(slot, 0) + 1

    def carry(self, hops: int, *, wanted: bool, sent_on: bool) -> None:
        """An event of another broker has come."""
        if wanted:
            self.delivered += 1
            self.hops += hops
        elif sent_on:
            self.relayed += 1
