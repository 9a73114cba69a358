"""Slots: by which part of its topic an event finds its way, where brokers route by rendezvous.

The first levels of a topic are its *key*; the hash of the key is its *slot*, one of `SLOTS`. Every slot is a fixed
point on the ring, so slots never move; only the broker that is responsible for one does. What one origin publishes in
one slot is a *stream*: events of a stream arrive in order, events of different streams need not. Where one tree carries
everything there are no slots, and a stream is what one origin publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated

import msgspec

from latecomer.model.ids import NAME_MAX, BrokerId
from latecomer.model.ring import BITS

SLOTS = 1024
Stream = str
"""Its name: that of the origin; with slots, behind it the slot."""
StreamName = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX + 5)]
"""Such a name as it may come from outside."""
Stamp = tuple[int, int]
"""Epoch and number of an event: in a stream, later is larger."""
NEVER: Stamp = (0, 0)
_BETWEEN = "\x1f"
"""No broker id has this character: they are printable."""


def key_of(topic: str, levels: int) -> str:
    """The first levels of a topic."""
    end = -1
    for _ in range(levels):
        end = topic.find("/", end + 1)
        if end < 0:
            return topic
    return topic[:end]


def slot_of(key: str, pins: Mapping[str, int]) -> int:
    """The slot of a key: its hash, or where it was pinned."""
    pinned = pins.get(key)
    if pinned is not None:
        return pinned
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % SLOTS


def key_of_filter(topic_filter: str, levels: int) -> str | None:
    """The key of all topics that a filter matches; None: it crosses keys."""
    parts = topic_filter.split("/", levels)
    head = parts[:levels]
    if "+" in head or "#" in head:
        return None
    return "/".join(head)


def point_of_slot(slot: int) -> int:
    """Where a slot is on the ring."""
    return (slot << BITS) // SLOTS


def stream_of(origin: BrokerId, slot: int) -> Stream:
    """What an origin publishes in a slot."""
    return f"{origin}{_BETWEEN}{slot}"


def origin_of(stream: Stream) -> BrokerId:
    """The broker whose stream it is."""
    return stream.partition(_BETWEEN)[0]


def reached(stamps: Mapping[Stream, Stamp], stream: Stream) -> Stamp:
    """How far a stream had got, by what is known of it and of all streams of its origin."""
    return max(stamps.get(stream, NEVER), stamps.get(origin_of(stream), NEVER))
