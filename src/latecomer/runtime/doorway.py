"""What stands before the protocol that speaks MQTT while a connection is in the handshakes of TLS and WebSocket.

The event loop's own TLS server tells nobody of a connection before the handshake is done, so that one that stays silent
would count against no limit. Here sockets are accepted without TLS, counted, and TLS is begun on them afterwards.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from latecomer.runtime.addresses import address_of
from latecomer.runtime.connection import Connection
from latecomer.runtime.door import Arrival, Door


class Visit:
    """One connection on its way to MQTT."""

    def __init__(self, door: Door, transport_name: str, arrival: Arrival | None = None) -> None:
        self.door = door
        self.transport_name = transport_name
        self.arrival = arrival

    def came(self, transport: asyncio.BaseTransport) -> float | None:
        """It has been accepted: how many seconds it may take; None: there is no room for it."""
        if self.arrival is None:
            self.arrival = self.door.arrived(address_of(transport))
        if self.arrival is None:
            return None
        return max(0.0, self.arrival.at + self.door.limits.connect_s - self.door.loop.time())

    def connection(self) -> Connection:
        """It speaks MQTT from here on."""
        return self.door.connection(self.transport_name, self.arrival)

    def left(self) -> None:
        """It is gone."""
        if self.arrival is not None:
            self.door.left(self.arrival)


class TlsDoorway(asyncio.Protocol):
    """Takes a socket out of the loop's hands before anything is read, and begins TLS on it."""

    def __init__(self, door: Door, context: ssl.SSLContext, factory: Callable[[Arrival], asyncio.Protocol]) -> None:
        self.door = door
        self.context = context
        self.factory = factory

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        arrival = self.door.arrived(address_of(accepted))
        if arrival is not None:
            try:
                sock: socket.socket = accepted.get_extra_info("socket").dup()
            except OSError:  # no file is left for it
                self.door.left(arrival)
            else:
                sock.setblocking(False)
                self.door.shake_hands(arrival, sock, self.context, lambda: self.factory(arrival))
        accepted.abort()
