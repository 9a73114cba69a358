"""What brokers tell one another about clients that may be sent to other brokers, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latecomer.messages.homes import Addresses


def _addresses(m: Addresses) -> str:
    places = ", ".join(f"{kind} {address}" for kind, address in m.entries) or "none"
    return f"addresses of {m.broker}{'' if m.open else ' (closed)'}: {places}"


HOMES: dict[type, Callable[[Any], str]] = {Addresses: _addresses}
