"""The directory of stores: every store floods its *word*, what it keeps and since when it has everything of it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

import msgspec

from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.messages.link import Keeping
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.topics import topic_covers

TOPICS_MAX = 1000
"""Topic classes of one store."""
WORD_MAX = 65_536
"""Characters of them."""
STRANGER_US = 60_000_000
"""How long a word of a broker stays that nobody else speaks of."""


@dataclass(slots=True)
class Directory:
    """The last word of every broker that keeps, or kept, anything; the newest has the largest (boot, number)."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    brokers_max: int
    words: dict[BrokerId, Keeping] = field(default_factory=dict)
    """Of the others."""
    said: Keeping | None = None
    """Our own."""
    strangers: dict[BrokerId, Instant] = field(default_factory=dict)
    """Who is spoken of, and was in no tree since."""

    def greet(self, peer: BrokerId) -> None:
        """A link session began: tell all that is known."""
        if self.said is not None:
            self.neighbours.send(peer, self.said)
        for word in self.words.values():
            self.neighbours.send(peer, word)

    def on_keeping(self, peer: BrokerId, word: Keeping) -> None:
        known = self.words.get(word.broker)
        if word.broker == self.broker:
            self._correct(word)
            return
        if len(word.topics) > TOPICS_MAX or sum(map(len, word.topics)) > WORD_MAX:
            self.neighbours.reject(peer, f"it tells of a store of {len(word.topics)} topic classes, which are too many")
            return
        if known is not None and (word.boot, word.number) <= (known.boot, known.number):
            return
        if known is None and len(self.words) >= self.brokers_max:
            self.neighbours.reject(peer, f"it tells of more than {self.brokers_max} stores")
            return
        self.words[word.broker] = word
        for other in self.neighbours.up():
            if other != peer:
                self.neighbours.send(other, word)

    def _correct(self, word: Keeping) -> None:
        """What others have heard of us is of an earlier life, or made up."""
        said = self.said
        if said is None:
            if word.boot <= self.orders.boot:
                self.speak({})
        elif word.boot == said.boot and word.number > said.number:
            self.said = msgspec.structs.replace(said, number=word.number + 1)
            self._tell(self.said)

    def complete_since(self, broker: BrokerId, name: str) -> Instant | None:
        """From when on a store has everything of one of its classes, as it says itself; None: it says that it has no
        such class."""
        word = self.said if broker == self.broker else self.words.get(broker)
        if word is None or name not in word.topics:
            return None
        return word.classes[word.topics.index(name)][0] if word.classes else word.since_us

    def answers_since(self, broker: BrokerId, topics: str) -> Instant | None:
        """From when on another store that answers clients has everything of some topics, also as part of more."""
        word = self.words.get(broker)
        return None if word is None else complete_since(word, topics)

    def replicas(self, broker: BrokerId, topics: str) -> list[BrokerId]:
        """The other stores that answer for these topics, as they say themselves."""
        return [other for other in self.words if other != broker and self.answers_since(other, topics) is not None]

    def speak(self, classes: dict[str, tuple[Instant, bool]]) -> None:
        """Tell everybody, if there is news: since when there is everything of each topic class, and whether it is being
        filled."""
        before = self.said
        number = 1 if before is None else before.number + 1
        since_us = max((since_us for since_us, _ in classes.values()), default=0)
        filling = any(filling for _, filling in classes.values())
        told = tuple(classes.values())
        word = Keeping(self.broker, self.orders.boot, number, tuple(classes), since_us, filling, told)
        if before is not None and msgspec.structs.replace(before, number=number) == word:
            return
        self.said = word
        self._tell(word)

    def _tell(self, word: Keeping) -> None:
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


def classes_of(word: Keeping) -> Iterator[tuple[str, Instant, bool]]:
    """The topic classes of a store: since when it has everything of each, and whether it is being filled."""
    for position, name in enumerate(word.topics):
        yield (name, *(word.classes[position] if word.classes else (word.since_us, word.filling)))


def complete_since(word: Keeping, topics: str) -> Instant | None:
    """From when on a store that answers clients has everything of some topics, if it keeps all of them."""
    found = [since_us for name, since_us, filling in classes_of(word) if not filling and topic_covers(name, topics)]
    return min(found, default=None)
