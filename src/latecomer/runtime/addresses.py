"""Where connections come from, and where clients find a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from latecomer.client.addresses import Address, parse_references
from latecomer.runtime.settings import Listener

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts of listeners that listen on all addresses of the machine."""


def address_of(transport: asyncio.BaseTransport) -> str:
    """Where a connection comes from, without its port."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else "local"


def public_address(listener: Listener, port: int) -> str:
    """Where clients find a listener, with its port; empty: nobody has said so. `port` is the one that it has."""
    if listener.public_address is not None:
        return str(parse_references(listener.public_address, port)[0])
    return "" if listener.host in EVERYWHERE else str(Address(listener.host, port))


def public_addresses(listening: Iterable[tuple[Listener, int]]) -> tuple[tuple[str, str], ...]:
    """One address for each kind of listener, the first that is known."""
    found: dict[str, str] = {}
    for listener, port in listening:
        if address := public_address(listener, port):
            found.setdefault(listener.kind, address)
    return tuple(found.items())
