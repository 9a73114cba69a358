"""The past: where an event stands in it, what can be asked of it, and what the answer is worth."""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, Name, Number


class Key(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """The place of an event in history, the same in every store: when it was published, then which it is.

    An origin never stamps an event earlier than the one before, so the events of one origin stand in the order of their
    numbers. Which of two brokers' clocks is right nobody knows: between origins the order is the clocks' word.
    """

    published_us: Number
    origin: Name
    epoch: Number
    seq: Number


def key_of(event: Event) -> Key:
    id = event.id
    return Key(event.published_us, id.origin, id.epoch, id.seq)


class Query(msgspec.Struct, frozen=True, array_like=True):
    """Stored events that match a filter, published from `since_us` to `until_us`, both included."""

    filter: Filter
    since_us: Number = 0
    until_us: Number = 0
    """0: without end."""
    last: Number = 0
    """Only so many, the newest; 0: all. They come oldest first all the same."""
    after: Key | None = None
    """Only what stands behind this one: where an interrupted answer goes on. Not together with `last`."""


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of a store's history, short enough to compare: how many events, and the sum (mod 2⁶⁴) of the digests of
    their ids. Slices without events are left out."""

    start_us: Number
    count: Number
    digest: Annotated[int, msgspec.Meta(ge=0)]


class Page(msgspec.Struct, frozen=True):
    """One piece of what a store found, oldest first."""

    events: tuple[Event, ...]
    next: Key | None
    """Where to go on; None: there is no more. It may lie behind the last event, which was looked at in vain."""


class StoreStatus(msgspec.Struct, frozen=True):
    """What a store holds."""

    events: int = 0
    bytes: int = 0
    oldest_us: int = 0
    newest_us: int = 0
    kept_from_us: int = 0
    """What was published before this has been let go of, by age, size or count."""
    cold_events: int = 0
    cold_bytes: int = 0


NOT_SO_FAR = "the store does not reach back so far"
"""What an answer lacks that begins later than was asked for."""


class Outcome(msgspec.Struct, frozen=True):
    """How a request for history ended."""

    stores: tuple[BrokerId, ...] = ()
    """Who answered; empty: nobody keeps what was asked for."""
    hops: int = 0
    """To the farthest of them."""
    from_us: int = 0
    """Complete from here on; the time asked for, if the stores reach back so far."""
    complete: bool = True
    problem: str = ""
    """Why not, in words."""
