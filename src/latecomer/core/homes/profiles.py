"""What the clients of a broker want, as brokers tell one another: numbers of filters, and how many clients there are.

Theory of operation. Whoever wants to know asks, once per update, and says which word it has; the answer is what has
changed since. So nobody keeps a list of listeners, a word that was lost with its tree is asked for again, and a broker
that does not take part is not known. A filter's number is a digest of its text, the same in every process. A broker
with too many filters tells of those with the smallest numbers: a sample that all brokers draw alike.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.messages.homes import PROFILE_MAX, Profile, ProfileWanted
from latecomer.model.filters import Filter
from latecomer.model.ids import NUMBER_MAX, BrokerId, ClientId, Instant

CHANGES_MAX = 4
"""Words back to which the difference is remembered; whoever has an older one is told everything."""
AT_ONCE = 500
"""Filters, or clients, that are looked at before other work gets its turn."""
SILENT_UPDATES = 3
"""Who has not answered for so long is not known any more."""
BETWEEN = "of what clients want between"


def number_of(filter: Filter) -> int:
    digest = hashlib.blake2b(str(filter).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") & NUMBER_MAX


@dataclass(slots=True)
class Known:
    """The last word of another broker."""

    boot: int = 0
    number: int = 0
    clients: int = 0
    subscriptions: int = 0
    below: int = 0
    numbers: dict[int, None] = field(default_factory=dict)
    heard_at: Instant = 0


@dataclass(slots=True)
class Profiles:
    """Our own word, and those of others."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    subscribers: Mapping[Filter, Mapping[ClientId, None]]
    filters_max: int
    update_us: int
    connected: Callable[[], int]
    """How many clients are."""
    speaks: bool
    """Whether this broker takes part."""
    numbers: dict[Filter, int] = field(default_factory=dict)
    """Of the filters of our clients."""
    told: dict[int, None] = field(default_factory=dict)
    """Those that our newest word names."""
    number: int = 0
    """Of our newest word; 0: there is none yet."""
    below: int = NUMBER_MAX
    subscriptions: int = 0
    """Of all our clients, when our word was made."""
    changes: deque[tuple[int, dict[int, None], dict[int, None]]] = field(default_factory=deque)
    """What our newest words added and removed, the newest at the end."""
    known: dict[BrokerId, Known] = field(default_factory=dict)
    asked: dict[BrokerId, None] = field(default_factory=dict)
    """Who has not answered the last question."""
    answered: dict[BrokerId, Instant] = field(default_factory=dict)
    """When whom was told last."""

    # -- our own word --------------------------------------------------------------------------------------------------

    def gather(self) -> Iterator[None]:
        """Make our own word anew, a part at a time."""
        before, subscriptions = self.numbers, 0
        numbers: dict[Filter, int] = {}
        for at, filter in enumerate(list(self.subscribers)):
            subscriptions += len(self.subscribers.get(filter, ()))
            numbers[filter] = before.get(filter) or number_of(filter)
            if at % AT_ONCE == AT_ONCE - 1:
                yield
        self.numbers, self.subscriptions = numbers, subscriptions
        chosen = sorted(dict.fromkeys(numbers.values()))
        if len(chosen) >= AT_ONCE:
            yield
        self.below = NUMBER_MAX if len(chosen) <= self.filters_max else chosen[self.filters_max]
        told = dict.fromkeys(chosen[: self.filters_max])
        added = {one: None for one in told if one not in self.told}
        removed = {one: None for one in self.told if one not in told}
        if added or removed or not self.number:
            self.number += 1
            self.changes.append((self.number, added, removed))
            if len(self.changes) > CHANGES_MAX:
                self.changes.popleft()
        self.told = told

    def counts(self) -> tuple[int, int]:
        """Clients that are connected, and subscriptions."""
        return self.connected(), self.subscriptions

    def on_wanted(self, peer: BrokerId, frame: ProfileWanted) -> None:
        if not self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
            return
        now, last = self.orders.now, self.answered.get(frame.from_broker)
        if not self.speaks or not self.number or (last is not None and now - last < self.update_us // 2):
            return
        self.answered[frame.from_broker] = now
        self.passage.send(frame.from_broker, self._word(frame))

    def _word(self, frame: ProfileWanted) -> Profile:
        base = frame.number if frame.boot == self.orders.boot else 0
        if not self.changes[0][0] - 1 <= base <= self.number:
            base = 0  # too long ago, or made up
        added, removed = self._since(base) if base else (self.told, {})
        if len(added) + len(removed) > len(self.told):
            base, added, removed = 0, self.told, {}
        counts, boot = self.counts(), self.orders.boot
        return Profile(
            self.broker, frame.from_broker, boot, self.number, base, *counts, self.below, tuple(added), tuple(removed)
        )

    def _since(self, base: int) -> tuple[dict[int, None], dict[int, None]]:
        """What was added and removed since one of our words."""
        added: dict[int, None] = {}
        removed: dict[int, None] = {}
        for number, more, less in self.changes:
            if number > base:
                for one in more:
                    removed.pop(one, None)
                    added[one] = None
                for one in less:
                    added.pop(one, None)
                    removed[one] = None
        return added, removed

    # -- the words of others -------------------------------------------------------------------------------------------

    def ask(self, brokers: Iterable[BrokerId]) -> None:
        """Ask these, and forget all others, and who has been silent for long."""
        now = self.orders.now
        wanted = dict.fromkeys(brokers)
        for broker in [broker for broker, known in self.known.items() if self._is_old(broker, known, wanted, now)]:
            del self.known[broker]
        self.asked.clear()
        for broker in wanted:
            known = self.known.get(broker)
            boot, number = (0, 0) if known is None else (known.boot, known.number)
            if self.passage.send(broker, ProfileWanted(self.broker, broker, boot, number)):
                self.asked[broker] = None
        self.answered = {broker: at for broker, at in self.answered.items() if now - at < self.update_us}

    def _is_old(self, broker: BrokerId, known: Known, wanted: Container[BrokerId], now: Instant) -> bool:
        return broker not in wanted or now - known.heard_at > SILENT_UPDATES * self.update_us

    def on_profile(self, peer: BrokerId, word: Profile) -> None:
        """Nobody is told what it has not asked for; a difference from another word than ours is of no use."""
        if not self.passage.arrived(peer, word.from_broker, word.to, word, BETWEEN):
            return
        broker = word.from_broker
        if broker not in self.asked:
            return
        known = self.known.get(broker)
        if word.base and (known is None or (known.boot, known.number) != (word.boot, word.base)):
            return
        del self.asked[broker]
        numbers = {} if known is None or not word.base else known.numbers
        for one in word.removed:
            numbers.pop(one, None)
        for one in word.added:
            numbers[one] = None
        if len(numbers) > PROFILE_MAX:
            self.known.pop(broker, None)  # no broker has so many to tell of: it is made up
            return
        now, counts = self.orders.now, (word.clients, word.subscriptions)
        self.known[broker] = Known(word.boot, word.number, *counts, word.below, numbers, now)
