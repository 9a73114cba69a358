"""What travels between brokers that route by rendezvous on a ring (`docs/protocol/ring.md`)."""

from __future__ import annotations

import msgspec

from latecomer.model.filters import Filter
from latecomer.model.ids import Name, Number

BROKERS_MAX = 500
"""Larger networks use the agreed tree: finding the longest route takes a second at a thousand brokers."""
ROUNDS_MAX = 65_536
"""Links on the longest way through a network."""
WORD_MAX = 2_097_152
"""Characters of one broker's filters that cross slots, by `size_of`."""
FILTERS_MAX = 65_536
"""How many such filters."""

Roots = tuple[Name, ...]
"""Brokers whose trees are meant, each once."""


class Round(msgspec.Struct, frozen=True, tag="round", array_like=True):
    """To every neighbour in the ring's trees: I have heard round `number` - 1 of this family of trees from all of mine,
    and told you all that I learned by it."""

    version: str
    number: Number


class Wants(msgspec.Struct, frozen=True, tag="wants", array_like=True):
    """Flooded: the filters of one broker's clients that cross slots, all of them: its last word. Told at the start of a
    link session and of a broker's life."""

    broker: Name
    boot: Number
    number: Number
    filters: tuple[Filter, ...]


class WantsChange(msgspec.Struct, frozen=True, tag="wants-change", array_like=True):
    """Flooded: what changed of them since its word with the number before this one."""

    broker: Name
    boot: Number
    number: Number
    added: tuple[Filter, ...]
    dropped: tuple[Filter, ...]


class FlushWanted(msgspec.Struct, frozen=True, tag="flush-wanted", array_like=True):
    """Along the agreed tree: send me a `Flush` of this number along the trees of these roots."""

    from_broker: Name
    to: Name
    number: Number
    roots: Roots


class Flush(msgspec.Struct, frozen=True, tag="flush", array_like=True):
    """From one broker to another along the trees of these roots, behind all that went those ways before; it parts where
    the ways part. With `answered`, who gets it says `flushed` of each root."""

    from_broker: Name
    to: Name
    number: Number
    roots: Roots
    answered: bool = False


class Flushed(msgspec.Struct, frozen=True, tag="flushed", array_like=True):
    """Along the agreed tree: a `Flush` of this number has come, of these roots."""

    from_broker: Name
    to: Name
    number: Number
    roots: Roots


def size_of(filter: Filter) -> int:
    """Characters of a filter in a word, about."""
    return 64 + len(str(filter))


RingFrame = Round | Wants | WantsChange | FlushWanted | Flush | Flushed
