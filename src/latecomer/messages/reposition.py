"""What travels between brokers when they change their positions on the ring (`docs/protocol/links.md`).

Positions are a *word* of the whole network: one map from brokers to positions, with the stamp of whoever made it. All
but `Prepared` is flooded over every link; `Prepared` goes along the tree.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.model.ids import NAME_MAX, Name, Number

PROBLEM_MAX = 300
"""Characters of the reason why a broker cannot prepare."""

Place = tuple[Name, Number]
"""A broker and its position."""


class Stamp(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True):
    """Which positions are meant; the larger is the newer. Whoever makes new ones takes the next epoch and adds its own
    name and life, so two never make the same stamp."""

    epoch: Number
    by: Annotated[str, msgspec.Meta(max_length=NAME_MAX)]
    boot: Number

    def __str__(self) -> str:
        return f"{self.epoch} by {self.by}.{self.boot}" if self.epoch else "none"


NO_STAMP = Stamp(0, "", 0)
"""Of the positions at the start of a network: every broker stands at the hash of its name."""


class Positions(msgspec.Struct, frozen=True, tag="positions", array_like=True):
    """Flooded: where brokers stand from now on. Those that are not named stand at the hash of their name."""

    stamp: Stamp
    places: tuple[Place, ...]


class PositionsKnown(msgspec.Struct, frozen=True, tag="positions-known", array_like=True):
    """At the start of a session: which positions the sender has. Answered with newer ones, or with what the receiver
    has if that is older, so that the sender tells."""

    stamp: Stamp


class Proposal(msgspec.Struct, frozen=True, tag="proposal", array_like=True):
    """Flooded: get ready for these positions, which are to follow those with the stamp `base`."""

    stamp: Stamp
    base: Stamp
    places: tuple[Place, ...]


class Prepared(msgspec.Struct, frozen=True, tag="prepared", array_like=True):
    """To who proposed: the sender has the links it needs; or `problem` says why it will not have them."""

    from_broker: Name
    to: Name
    stamp: Stamp
    problem: Annotated[str, msgspec.Meta(max_length=PROBLEM_MAX)] = ""


class Withdrawn(msgspec.Struct, frozen=True, tag="withdrawn", array_like=True):
    """Flooded: nothing comes of this proposal."""

    stamp: Stamp


RepositionFrame = Positions | PositionsKnown | Proposal | Prepared | Withdrawn
