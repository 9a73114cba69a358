"""The algorithms of *mobility* §3: one walk, three answers.

The hand-over itself is written once (`arrival`, `departure`). An algorithm decides what a broker does when a client
comes whose session is elsewhere, to which brokers the session goes ahead when its client has left, and whether events
travel whole or as an outline that the new broker fills from its recent log. A client may ask for an algorithm of its
own (CONNECT user property `hand-over`); it goes before the broker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeAlias, get_args

import msgspec

from latecomer.core.mobility.settings import AlgorithmName, HandOverSettings
from latecomer.model.ids import BrokerId
from latecomer.model.movement import Guess

ALGORITHMS: tuple[str, ...] = get_args(AlgorithmName)


class Ahead(NamedTuple):
    """Where a session goes before its client comes."""

    brokers: tuple[BrokerId, ...] = ()
    take: bool = True
    """Whether the broker takes the session over; otherwise it gets a copy (a *shadow*), and the owner stays."""


NOWHERE = Ahead()


class Standard(msgspec.Struct, frozen=True, tag="standard"):
    """The session is fetched when its client comes; it goes ahead only where the client says."""

    attaches: ClassVar[bool] = False
    outline: ClassVar[bool] = False
    guesses: ClassVar[int] = 0

    def ahead(self, likely: Sequence[Guess], misses: int) -> Ahead:
        return NOWHERE


class Logging(Standard, frozen=True, tag="logging"):
    """As standard, but events that the new broker has in its recent log do not travel."""

    outline: ClassVar[bool] = True


class HomeBroker(Standard, frozen=True, tag="home-broker"):
    """The session stays where it began; the client reaches it through the broker it is connected to."""

    attaches: ClassVar[bool] = True


class Prefetching(msgspec.Struct, frozen=True, tag="prefetching"):
    """The session goes ahead to where its client probably goes. To one broker: that takes it over. To several: each
    has a copy, and the one to which the client comes takes it over."""

    attaches: ClassVar[bool] = False
    outline: ClassVar[bool] = False
    destinations: int = 1
    at_least: float = 0.5

    @property
    def guesses(self) -> int:
        return self.destinations

    def ahead(self, likely: Sequence[Guess], misses: int) -> Ahead:
        """Each wrong guess in a row halves the chance of being wrong again that is accepted. Of several destinations,
        all together must be likely enough."""
        wanted = 1 - (1 - self.at_least) / 2**misses
        chosen = likely[: self.destinations]
        if not chosen or sum(each.probability for each in chosen) < wanted:
            return NOWHERE
        return Ahead(tuple(each.place for each in chosen), take=self.destinations == 1)


Strategy: TypeAlias = Standard | Prefetching | Logging | HomeBroker


def strategy_named(name: str, settings: HandOverSettings) -> Strategy:
    """The strategy with a name of `ALGORITHMS`, with the broker's parameters."""
    match name:
        case "prefetching":
            return Prefetching(settings.destinations, settings.guess_at_least)
        case "logging":
            return Logging()
        case "home-broker":
            return HomeBroker()
        case _:
            return Standard()
