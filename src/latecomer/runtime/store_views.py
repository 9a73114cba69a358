"""What operators are told about stores: this broker's own, those of others, and the way to the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from latecomer.core.table import SELF
from latecomer.model.ids import BrokerId, Instant
from latecomer.runtime.metrics import StoreCounters

if TYPE_CHECKING:
    from latecomer.core.broker import Broker
    from latecomer.runtime.store import Keeper


class ClassView(msgspec.Struct, frozen=True):
    """A topic class of the store. Instants are microseconds since 1970."""

    topics: str
    since_us: int
    """Everything published from here on is kept, but for the gaps."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Stretches of which something may be missing; an end of 0: it goes on."""
    answering: bool = False
    """False: it is being filled from other stores, and does not answer clients."""
    complete_since_us: int = 0
    """From then on nothing of it is missing; 0: something is, up to now."""


class StoreView(msgspec.Struct, frozen=True):
    """The store of a broker."""

    classes: tuple[ClassView, ...]
    events: int = 0
    bytes: int = 0
    oldest_us: int = 0
    newest_us: int = 0
    kept_from_us: int = 0
    """What was published before this was let go of."""
    cold_events: int = 0
    cold_bytes: int = 0
    complete_since_us: int = 0
    """Of all classes; 0: something is missing up to now."""
    filling: bool = False
    problem: str = ""
    """Why nothing new is kept, or nothing old let go of."""
    appended: int = 0
    """Since the start, as are the following."""
    refused: int = 0
    """Events that found no room."""
    requests_served: int = 0
    hops_mean: float = 0.0
    """How far away those who asked were."""
    events_sent: int = 0
    streams: int = 0
    """Answers under way."""
    plan: str = ""
    """By which plan the topics were assigned, if by one."""


class OtherStoreView(msgspec.Struct, frozen=True):
    """A store elsewhere, by its own word."""

    broker: BrokerId
    topics: tuple[str, ...]
    complete_since_us: int
    filling: bool


class WayView(msgspec.Struct, frozen=True):
    """An entry of the Advertisement Table."""

    topics: str
    hops: int
    ways: tuple[BrokerId, ...]
    """The neighbours behind which the nearest stores are; this broker itself if it is one."""


class StoresView(msgspec.Struct, frozen=True):
    broker: BrokerId
    store: StoreView | None
    others: tuple[OtherStoreView, ...]
    table: tuple[WayView, ...]
    room_bytes: int = 0
    """What a store here may still take in."""
    sizes: dict[str, tuple[int, int]] = {}
    """Events on the disk and their bytes, of the topic filters that were asked about."""


def stores_view(
    core: Broker, keeper: Keeper | None, plan: str, room_bytes: int, sizes: dict[str, tuple[int, int]]
) -> StoresView:
    """Everything known here; the sizes are those that the keeper saw last."""
    words = core.history.directory.words.values()
    others = tuple(
        OtherStoreView(word.broker, word.topics, ended(word.since_us), word.filling) for word in words if word.topics
    )
    table = tuple(
        WayView(topics, entry.hops, tuple(core.id if way == SELF else way for way in entry.ways))
        for topics, entry in sorted(core.advertisements.table.items())
    )
    return StoresView(core.id, None if keeper is None else _own(core, keeper, plan), others, table, room_bytes, sizes)


def _own(core: Broker, keeper: Keeper, plan: str) -> StoreView:
    store, status = core.history.store, keeper.status
    kept_from_us = max(status.kept_from_us, store.kept_from_us)
    classes = tuple(
        ClassView(
            topics,
            row.since_us,
            row.gaps,
            topics in core.advertisements.own,
            _class_since(row.since_us, row.gaps, kept_from_us),
        )
        for topics, row in store.rows.items()
    )
    counted = counters_of(core, keeper)
    return StoreView(
        classes,
        status.events,
        status.bytes,
        status.oldest_us,
        status.newest_us,
        kept_from_us,
        status.cold_events,
        status.cold_bytes,
        complete_since(classes, kept_from_us),
        core.history.replicas.filling,
        "; ".join(keeper.troubles),
        counted.appended,
        counted.refused,
        counted.requests,
        counted.hops / counted.requests if counted.requests else 0.0,
        counted.replayed,
        len(store.streams) + len(store.waiting),
        plan,
    )


def counters_of(core: Broker, keeper: Keeper) -> StoreCounters:
    store = core.history.store
    refused = keeper.refused + store.refused
    return StoreCounters(keeper.appended, refused, store.served, store.served_hops, store.replayed)


def complete_since(classes: tuple[ClassView, ...], kept_from_us: Instant) -> Instant:
    """From when on nothing of any class is missing; 0: a gap goes on."""
    since = [_class_since(each.since_us, each.gaps, kept_from_us) for each in classes]
    return 0 if 0 in since else max(since, default=kept_from_us)


def _class_since(since_us: Instant, gaps: tuple[tuple[int, int], ...], kept_from_us: Instant) -> Instant:
    """The same of one class."""
    if any(not end_us for _, end_us in gaps):
        return 0
    return ended(max(since_us, kept_from_us, *(end_us for _, end_us in gaps)))


def ended(since_us: Instant) -> Instant:
    """A store whose gap goes on, or that has just begun, says that it is complete from the end of time on."""
    return since_us if since_us < 2**60 else 0
