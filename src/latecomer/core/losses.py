"""Losses: events that a broker missed while it was away, because their origin had no room to keep them for it.

The origin notes whom it failed, and since when, and tells them when they are back. A store then knows of a gap that it
could not know of otherwise (`store`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.messages.link import Lost
from latecomer.model.ids import BrokerId, Instant

HEARD_US = 10_000_000
"""A tree that held for so long has carried everything that was sent when it began."""

UNTIL_BACK = 1 << 62
"""In place of the last publication that a broker loses, while it is away."""


@dataclass(slots=True)
class Losses:
    """Whom this broker failed as an origin."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    interest: Interest
    missed: Callable[[Instant, Instant], None]
    """Somebody has failed us, in this time."""
    noted: dict[BrokerId, tuple[Instant, Instant]] = field(default_factory=dict)
    """First and last publication that each broker lost."""
    told: list[BrokerId] = field(default_factory=list)
    """Those who were told in this tree."""
    ready_at: Instant = 0

    def recover(self, disk: Disk) -> None:
        for broker, span in disk.get("lost", {}).get("", {}).items():
            assert isinstance(span, tuple)
            self.noted[str(broker)] = span

    def note(self, brokers: Iterable[BrokerId], published_us: Instant) -> None:
        """These will not get an event."""
        for broker in brokers:
            if broker == self.broker:
                continue  # we had it
            first, last = self.noted.get(broker, (published_us, published_us))
            span = self.noted[broker] = (min(first, published_us), max(last, published_us))
            self.orders.writes.append(Put("lost", "", broker, span))

    def note_all(self, broker: BrokerId, since_us: Instant) -> None:
        """A broker will get nothing from then on, until it is back."""
        self.note((broker,), since_us)
        self.note((broker,), UNTIL_BACK)

    def tree_ready(self) -> None:
        """Tell those who are here."""
        tree = self.interest.tree
        assert tree is not None
        self.ready_at = self.orders.now
        self.told = [broker for broker in self.noted if broker in tree.parent]
        for broker in self.told:
            way = tree.next_hop(self.broker, broker)
            if self.noted[broker][1] == UNTIL_BACK:
                self.noted[broker] = (self.noted[broker][0], self.orders.now)
            self.neighbours.send(way, Lost(self.broker, broker, *self.noted[broker]))

    def tree_lost(self) -> None:
        """Whoever was told in a tree that held for a while has heard it; others are told again."""
        if self.orders.now - self.ready_at >= HEARD_US:
            for broker in self.told:
                del self.noted[broker]
                self.orders.writes.append(Drop("lost", "", broker))
        self.told = []

    def on_lost(self, peer: BrokerId, frame: Lost) -> None:
        tree = self.interest.tree
        assert tree is not None
        if not self.interest.ready or peer not in self.interest.peers:
            return  # it comes late, from another tree
        if frame.origin not in tree.parent or frame.broker not in tree.parent:
            return
        if frame.origin == self.broker or tree.next_hop(self.broker, frame.origin) != peer:
            self.neighbours.reject(peer, f"it tells of losses of {frame.origin!r}, who is not on its side of the tree")
        elif frame.broker == self.broker:
            self.missed(frame.since_us, frame.until_us)
        elif (way := tree.next_hop(self.broker, frame.broker)) != peer:
            self.neighbours.send(way, frame)
