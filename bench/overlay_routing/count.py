"""What is counted: the way of every event, frames by kind, when brokers stop, and what a broker holds in memory."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType

from bench.book import BenchError
from latecomer.messages.link import (
    Adopted,
    Complete,
    LinkMessage,
    LinkStates,
    Publication,
    Run,
    Settled,
    Subscribe,
    Unsubscribe,
)
from latecomer.messages.ring import Round, Wants, WantsChange
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId, EventId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.sides import Observer
from latecomer.sim.world import World

LOOK_US = 500
"""Half of what a link takes."""
FILTERS = (Subscribe, Unsubscribe, Wants, WantsChange)
"""Frames that say who wants what."""
TREES = (Adopted, Complete, Round, Settled)
"""Frames that get a tree ready, whatever is wanted."""
NEWS = (LinkStates,)
"""Frames that say which links there are; the same under every routing."""


@dataclass(slots=True)
class Ways(Observer):
    """The way of every event; witness of the clients, observer of the world."""

    hops: dict[EventId, dict[BrokerId, int]] = field(default_factory=dict)
    """How far from its origin every broker was when it got the event."""
    sends: Counter[BrokerId] = field(default_factory=Counter)
    events: dict[EventId, str] = field(default_factory=dict)
    """Those accepted, with their topics."""
    got: Counter[tuple[EventId, ClientId]] = field(default_factory=Counter)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            if type(frame) is Publication:
                way = self.hops.setdefault(frame.event.id, {frame.event.origin: 0})
                if receiver in way:
                    raise BenchError(f"{receiver} was sent {frame.event.id} twice")
                way[receiver] = way[sender] + 1
                self.sends[sender] += 1
            elif type(frame) is Run:
                raise BenchError("events came in runs, which are not counted")

    def subscribed(self, client: ClientId, filter: Filter) -> None: ...
    def unsubscribed(self, client: ClientId, filter: Filter) -> None: ...
    def forgotten(self, client: ClientId) -> None: ...

    def accepted(self, client: ClientId, event: Event) -> None:
        self.events[event.id] = event.topic

    def received(self, client: ClientId, event: Event) -> None:
        self.got[event.id, client] += 1

    def repeated(self, client: ClientId, event: Event) -> None:
        raise BenchError(f"{client} was given {event.id} again")

    def clear(self) -> None:
        for counts in (self.hops, self.sends, self.events, self.got):
            counts.clear()


@dataclass(slots=True)
class Stops(Observer):
    """How long brokers have no tree that is ready, after a link has failed; they are looked at again and again."""

    world: World
    began: Instant | None = None
    """When an end of the link gave it up."""
    last: Instant = 0
    """When a broker was stopped for the last time."""
    total: int = 0
    """Of all brokers together."""
    until: Instant = 0

    def noted(self, record: Record) -> None:
        if record.kind is Kind.UNLINKED and self.began is None and self.until:
            self.began = self.last = self.world.now
            self.world.at(self.world.now + LOOK_US, self._look)

    def watch(self, until: Instant) -> None:
        self.began, self.last, self.total, self.until = None, 0, 0, until

    def _look(self) -> None:
        cores = [node.core for node in self.world.nodes.values() if node.core is not None]
        if stopped := sum(1 for core in cores if not core.interest.ready):
            self.total += stopped * LOOK_US
            self.last = self.world.now
        if self.world.now < self.until:
            self.world.at(self.world.now + LOOK_US, self._look)


def frames_of(counts: Counter[type], before: Counter[type], kinds: Sequence[type]) -> int:
    return sum(counts[kind] - before[kind] for kind in kinds)


# --- memory ---

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""What a program has once, however many brokers run in it; functions lead to everything."""


def bytes_of(whole: object) -> int:
    """All that can be reached from a core or a part of it, as if it were alone: what brokers share in the simulator, as
    trees and link states, counts in full."""
    seen: set[int] = set()
    todo: list[object] = [whole]
    size = 0
    while todo:
        found = todo.pop()
        if id(found) in seen or isinstance(found, _SHARED):
            continue
        seen.add(id(found))
        size += sys.getsizeof(found)
        todo += gc.get_referents(found)
    return size
