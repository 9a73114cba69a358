"""The section `[hand_over]` of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from latecomer.core.mobility.settings import AlgorithmName, HandOverSettings, OwnerAway
from latecomer.runtime.settings_section import Count, Seconds, Section


class HandOverSection(Section, frozen=True):
    """Sessions that follow their clients from broker to broker."""

    algorithm: AlgorithmName = "standard"
    """How sessions move, unless a client asks for something else (CONNECT user property `hand-over`). `standard`: the
    session is fetched when its client comes. `prefetching`: it goes ahead to where its client probably goes. `logging`:
    as `standard`, but messages that the new broker has had itself do not travel. `home-broker`: the session stays, and
    every packet travels."""
    destinations: Count = 1
    """With `prefetching`: brokers to which a session goes ahead when its client has not said where it goes."""
    owner_away: OwnerAway = "hold"
    """What a client gets whose session is at a broker that is away. `hold`: it is told to try again later (0x88), and
    loses nothing. `go-on`: a new session with its old subscriptions; old messages come when that broker is back."""
    patience_s: Seconds = 5.0
    """How long a CONNECT waits for a session that cannot be had, or for the next part of it, before the client is told
    to try again later."""
    copies: Count = 3
    """Brokers that remember where a session is, beside its own: so a client whose broker is away is told to try again
    later, and a new one is served at once."""
    model: Path | None = None
    """With `prefetching`: a movement model that `latecomer movement --model` wrote, which says where clients probably
    go. Read again when the file changes."""
    guess_after_s: Seconds = 2.0
    """With `prefetching`: how long a client must be away before its session goes ahead."""
    guess_at_least: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """With `prefetching`: how likely the guess must be."""
    arrivals_max: Count = 10_000
    """Clients that may wait for their sessions at once; others are told to try again later."""
    departures_max: Count = 10_000
    """Sessions that may be on their way to other brokers at once; others leave a moment later."""
    pointers_max: Count = 10_000
    """Sessions that left of which the broker remembers where they went."""
    shadows_max: Count = 1_000
    """With `prefetching` to several brokers: copies of sessions that this broker keeps for others."""
    recent_events: Count = 1_000
    """With `logging`: messages that the broker remembers because it has had them recently."""
    recent_bytes: Count = 16 * 1024 * 1024
    """With `logging`: bytes of these messages."""
    tunnel_bytes: Count = 256 * 1024
    """With `home-broker`: bytes that may be under way between a session and its client at another broker, in each
    direction."""

    def core_settings(self) -> HandOverSettings:
        """What the core is told."""
        return HandOverSettings(
            self.algorithm,
            self.destinations,
            self.owner_away,
            round(self.patience_s * 1_000_000),
            self.copies,
            round(self.guess_after_s * 1_000_000),
            self.guess_at_least,
            self.arrivals_max,
            self.departures_max,
            self.pointers_max,
            self.shadows_max,
            self.recent_events,
            self.recent_bytes,
            self.tunnel_bytes,
        )
