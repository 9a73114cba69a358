"""Words: filters that cross slots, told to every broker.

Every broker floods the filters of its clients that lie in no single slot: everything at the start of a link session,
afterwards what changed. The last word of a broker is the one with its largest (boot, number). An event goes towards
every broker whose word matches it, along the event's own tree.

A word that would become too large for a frame is told as `#`, which asks for everything. That does not match what
begins with `$` [MQTT-4.7.2-1], so such filters are told as well, each as `#` below its first level.

Decision: of more such first levels than one word can hold, the rest is not told. Nobody could read the word otherwise,
and no link would hold on which it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from latecomer.core.index import FilterIndex
from latecomer.core.orders import Orders
from latecomer.messages.link import SessionFrame
from latecomer.messages.ring import FILTERS_MAX, WORD_MAX, Wants, WantsChange, size_of
from latecomer.model.filters import Filter, filter_satisfiable
from latecomer.model.ids import BrokerId

EVERYTHING = Filter("#")


@dataclass(slots=True)
class _Word:
    boot: int
    number: int
    filters: dict[Filter, None] = field(default_factory=dict)
    size: int = 0
    """Characters of them."""


@dataclass(slots=True)
class Words:
    """What this broker and the others say of such filters."""

    broker: BrokerId
    orders: Orders
    send: Callable[[BrokerId, SessionFrame], None]
    neighbours: Callable[[], list[BrokerId]]
    heard: Callable[[], None]
    """Called when others want something else."""
    reject: Callable[[BrokerId, str], None]
    brokers_max: int
    own: dict[Filter, None] = field(default_factory=dict)
    number: int = 1
    """Of the last word that this broker told in this life."""
    told: dict[BrokerId, _Word] = field(default_factory=dict)
    """The last word of every other broker."""
    _size: int = 0
    """Characters of our own."""
    _index: FilterIndex = field(default_factory=FilterIndex)
    _holders: dict[Filter, dict[BrokerId, None]] = field(default_factory=dict)

    def holders(self, topic: str) -> Iterator[tuple[Filter, BrokerId]]:
        """The other brokers that want a topic, and by which filter."""
        for filter in self._index.match(topic):
            for broker in self._holders[filter]:
                yield filter, broker

    # -- own filters -------------------------------------------------------------------------------------------------

    def add(self, filter: Filter) -> None:
        if filter_satisfiable(filter):  # nobody could ever be sent anything because of another one
            self._change(filter, (filter,), (), 1)

    def drop(self, filter: Filter) -> None:
        if filter in self.own:
            self._change(filter, (), (filter,), -1)

    def _change(self, filter: Filter, added: tuple[Filter, ...], dropped: tuple[Filter, ...], step: int) -> None:
        before = self._too_large
        if added:
            self.own[filter] = None
        else:
            del self.own[filter]
        self._size += step * size_of(filter)
        self.number += 1
        frame: Wants | WantsChange
        if before or self._too_large:
            frame = self._word()
        else:
            frame = WantsChange(self.broker, self.orders.boot, self.number, added, dropped)
        self._flood(frame)

    @property
    def _too_large(self) -> bool:
        return _exceeds(len(self.own), self._size)

    def _word(self) -> Wants:
        filters = _in_short(self.own) if self._too_large else self.own
        return Wants(self.broker, self.orders.boot, self.number, tuple(filters))

    # -- between brokers ---------------------------------------------------------------------------------------------

    def greet(self, peer: BrokerId) -> None:
        """A link session began: tell everything. An empty word counts too: it ends that of an earlier life."""
        self.send(peer, self._word())
        for broker, word in self.told.items():
            self.send(peer, Wants(broker, word.boot, word.number, tuple(word.filters)))

    def on_wants(self, peer: BrokerId, frame: Wants) -> None:
        if not self._is_news(frame):
            return
        word = self.told.get(frame.broker)
        if word is None and len(self.told) >= self.brokers_max:
            self.reject(peer, f"it tells of more than {self.brokers_max} brokers, which core.brokers_max allows")
            return
        before = {} if word is None else word.filters
        added = tuple(filter for filter in frame.filters if filter not in before)
        kept = dict.fromkeys(frame.filters)
        self._apply(peer, frame, added, tuple(filter for filter in before if filter not in kept))

    def on_change(self, peer: BrokerId, frame: WantsChange) -> None:
        if not self._is_news(frame):
            return
        word = self.told.get(frame.broker)
        if word is None or (word.boot, word.number + 1) != (frame.boot, frame.number):
            # A session begins with everything, and whoever tells a change has told the word before it.
            self.reject(peer, f"it tells a change of what {frame.broker!r} wants without what was before it")
            return
        gone = [filter for filter in frame.dropped if filter in word.filters]
        size = word.size + sum(map(size_of, frame.added)) - sum(map(size_of, gone))
        if _exceeds(len(word.filters) + len(frame.added) - len(gone), size):
            self.reject(peer, f"it tells more of what {frame.broker!r} wants than one word can hold")
            return
        self._apply(peer, frame, frame.added, frame.dropped)

    def _is_news(self, frame: Wants | WantsChange) -> bool:
        if frame.broker == self.broker:
            return False
        word = self.told.get(frame.broker)
        return word is None or (word.boot, word.number) < (frame.boot, frame.number)

    def _apply(
        self, peer: BrokerId, frame: Wants | WantsChange, added: tuple[Filter, ...], dropped: tuple[Filter, ...]
    ) -> None:
        broker = frame.broker
        word = self.told.setdefault(broker, _Word(0, 0))
        word.boot, word.number = frame.boot, frame.number
        for filter in dropped:
            if filter in word.filters:
                del word.filters[filter]
                word.size -= size_of(filter)
                self._leave(filter, broker)
        for filter in added:
            if filter not in word.filters:
                word.filters[filter] = None
                word.size += size_of(filter)
                self._enter(filter, broker)
        self._flood(frame, peer)
        if added or dropped:
            self.heard()

    def _enter(self, filter: Filter, broker: BrokerId) -> None:
        holders = self._holders.get(filter)
        if holders is None:
            self._index.add(filter)
            holders = self._holders[filter] = {}
        holders[broker] = None

    def _leave(self, filter: Filter, broker: BrokerId) -> None:
        holders = self._holders[filter]
        del holders[broker]
        if not holders:
            del self._holders[filter]
            self._index.remove(filter)

    def _flood(self, frame: Wants | WantsChange, told_by: BrokerId = "") -> None:
        for peer in self.neighbours():
            if peer != told_by:
                self.send(peer, frame)


def _exceeds(count: int, size: int) -> bool:
    return count > FILTERS_MAX or size > WORD_MAX


def _in_short(filters: Iterable[Filter]) -> dict[Filter, None]:
    """A few filters that ask for at least as much."""
    short, size = {EVERYTHING: None}, size_of(EVERYTHING)
    for filter in filters:
        if filter.topic.startswith("$"):
            below = Filter(filter.topic.partition("/")[0] + "/#")
            if below not in short:
                size += size_of(below)
                if _exceeds(len(short) + 1, size):
                    break
                short[below] = None
    return short
