"""What an operator may set about sessions that follow their clients."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from latecomer.model.errors import SettingsError

SECOND_US = 1_000_000
AlgorithmName: TypeAlias = Literal["standard", "prefetching", "logging", "home-broker"]
"""The algorithms of *mobility* §3, by the paper's names."""
OwnerAway: TypeAlias = Literal["hold", "go-on"]


class HandOverSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times are microseconds, sizes are counts unless their names say otherwise."""

    algorithm: AlgorithmName = "standard"
    """How sessions move, unless their clients ask for something else."""
    destinations: int = 1
    """*prefetching*: brokers to which a session goes ahead when nobody has said where its client goes."""
    owner_away: OwnerAway = "hold"
    """A client whose session is at a broker that is away: wait for it, or go on with a new session."""
    patience_us: int = 5 * SECOND_US
    """How long a CONNECT waits for a session that cannot be had, or for its next page."""
    copies: int = 3
    """Brokers that remember where a session is, beside its own."""
    guess_after_us: int = 2 * SECOND_US
    """*prefetching*: how long a client must be away before its session goes ahead."""
    guess_at_least: float = 0.5
    """*prefetching*: how likely a destination must be."""
    arrivals_max: int = 10_000
    """Sessions on their way here, or looked for."""
    departures_max: int = 10_000
    """Sessions on their way to other brokers."""
    pointers_max: int = 10_000
    """Sessions that left of which it is remembered where they went."""
    shadows_max: int = 1_000
    """*prefetching*: sessions of other brokers of which a copy is kept here."""
    recent_events: int = 1_000
    """*logging*: events in the recent log."""
    recent_bytes: int = 16 * 1024 * 1024
    """*logging*: bytes of the recent log."""
    tunnel_bytes: int = 256 * 1024
    """*home-broker*: bytes under way between a session and its client at another broker, in each direction."""

    def check(self) -> None:
        """Raise `SettingsError` naming the key that cannot work."""
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if type(value) is int and value < 1:
                raise SettingsError(f"hand_over.{key}", f"must be at least 1, not {value}")
        if not 0 <= self.guess_at_least <= 1:
            raise SettingsError("hand_over.guess_at_least", f"must be from 0 to 1, not {self.guess_at_least}")
