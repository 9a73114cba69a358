"""Where connections come from."""

from __future__ import annotations

import asyncio


def address_of(transport: asyncio.BaseTransport) -> str:
    """Where a connection comes from, without its port."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else "local"
