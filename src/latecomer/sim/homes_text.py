"""What brokers tell one another about clients that may be sent to other brokers, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latecomer.messages.homes import Addresses, Profile, ProfileWanted


def _addresses(m: Addresses) -> str:
    places = ", ".join(f"{kind} {address}" for kind, address in m.entries) or "none"
    return f"addresses of {m.broker}{'' if m.open else ' (closed)'}: {places}"


def _profile(m: Profile) -> str:
    counts = f"{m.clients} clients, {m.subscriptions} subscriptions, +{len(m.added)} -{len(m.removed)}"
    return f"profile {m.number} of {m.from_broker} for {m.to}, after {m.base}: {counts}"


HOMES: dict[type, Callable[[Any], str]] = {
    Addresses: _addresses,
    ProfileWanted: lambda m: f"profile-wanted of {m.to} by {m.from_broker}, which has {m.number}",
    Profile: _profile,
}
