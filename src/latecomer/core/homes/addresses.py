"""The address book: every broker floods where clients find it, and whether it takes new ones."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.session.state import Session
from latecomer.messages.homes import KINDS_MAX, Addresses
from latecomer.model.ids import BrokerId, Instant

STRANGER_US = 60_000_000
"""How long a word of a broker stays that nobody else speaks of."""


@dataclass(slots=True)
class AddressBook:
    """The last word of every broker; the newest has the largest (boot, number)."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    brokers_max: int
    words: dict[BrokerId, Addresses] = field(default_factory=dict)
    """Of the others."""
    said: Addresses | None = None
    """Our own."""
    strangers: dict[BrokerId, Instant] = field(default_factory=dict)
    """Who is spoken of, and was in no tree since."""

    def reference(self, session: Session, to: BrokerId) -> str:
        """The Server Reference that sends a client to another broker; empty: the client does not follow any, or that
        broker has no listener of the kind by which the client is connected."""
        word = self.words.get(to)
        if word is None or not session.follows:
            return ""
        return dict(word.entries).get(session.listener, "")

    def takes_clients(self, broker: BrokerId) -> bool:
        """Whether another broker takes new clients, as far as it says."""
        word = self.words.get(broker)
        return word is None or word.open

    def speak(self, entries: tuple[tuple[str, str], ...], *, open: bool) -> None:
        """Tell everybody where clients find this broker, if that is news."""
        before = self.said
        if before is not None and (before.entries, before.open) == (entries, open):
            return
        number = 1 if before is None else before.number + 1
        self.said = Addresses(self.broker, self.orders.boot, number, entries, open)
        self._tell(self.said)

    def greet(self, peer: BrokerId) -> None:
        """A link session began: tell all that is known."""
        if self.said is not None:
            self.neighbours.send(peer, self.said)
        for word in self.words.values():
            self.neighbours.send(peer, word)

    def on_addresses(self, peer: BrokerId, word: Addresses) -> None:
        known = self.words.get(word.broker)
        if word.broker == self.broker:
            self._correct(word)
            return
        if len(word.entries) > KINDS_MAX:
            self.neighbours.reject(peer, f"it tells of a broker with {len(word.entries)} kinds of listeners")
            return
        if known is not None and (word.boot, word.number) <= (known.boot, known.number):
            return
        if known is None and len(self.words) >= self.brokers_max:
            limit = self.brokers_max
            self.neighbours.reject(peer, f"it tells of more than {limit} brokers, which core.brokers_max allows")
            return
        self.words[word.broker] = word
        for other in self.neighbours.up():
            if other != peer:
                self.neighbours.send(other, word)

    def _correct(self, word: Addresses) -> None:
        """What others have heard of us is of an earlier life, or made up."""
        said = self.said
        if said is None and word.boot <= self.orders.boot:
            self.speak((), open=True)
        elif said is not None and word.boot == said.boot and word.number > said.number:
            self.said = replace(said, number=word.number + 1)
            self._tell(self.said)

    def _tell(self, word: Addresses) -> None:
        for peer in self.neighbours.up():
            self.neighbours.send(peer, word)

    def tree_ready(self, brokers: Container[BrokerId]) -> None:
        """A word may come before the news that its broker exists, and is not repeated; but if nobody has heard of the
        broker for so long, it is made up."""
        now = self.orders.now
        self.strangers = {broker: self.strangers.get(broker, now) for broker in self.words if broker not in brokers}
        for broker, since in self.strangers.items():
            if now - since >= STRANGER_US:
                del self.words[broker]

    def forget(self, brokers: list[BrokerId]) -> None:
        """These will not come back."""
        for broker in brokers:
            self.words.pop(broker, None)
