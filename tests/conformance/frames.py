"""A WebSocket client (RFC 6455) of just the size that chapter 6 needs, under the same `Client`."""

from __future__ import annotations

import base64
import hashlib
import os
import struct

from tests.conformance.raw import Client, Closed

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketClient(Client):
    """Speaks MQTT in binary frames; what a test wants to send differently, it sends with `frame`."""

    def __init__(self, host: str, port: int, version: int, protocols: str = "mqtt", path: str = "/mqtt") -> None:
        super().__init__(host, port, version)
        self.wire = bytearray()
        self.close_code = 0
        self.kinds: list[int] = []
        key = base64.b64encode(os.urandom(16)).decode()
        offer = f"Sec-WebSocket-Protocol: {protocols}\r\n" if protocols else ""
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{offer}\r\n".encode()
        )
        while b"\r\n\r\n" not in self.wire:
            more = super().read_more()
            if not more:
                break
            self.wire += more
        head, _, rest = bytes(self.wire).partition(b"\r\n\r\n")
        self.wire = bytearray(rest)
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1]) if first else 0
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if self.status == 101:
            expected = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
            assert self.headers["sec-websocket-accept"] == expected

    def frame(self, data: bytes, kind: int = BINARY, final: bool = True) -> None:
        mask = os.urandom(4)
        length = len(data)
        if length < 126:
            size = bytes([128 | length])
        elif length < 65_536:
            size = bytes([128 | 126]) + struct.pack("!H", length)
        else:
            size = bytes([128 | 127]) + struct.pack("!Q", length)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        super().send(bytes([final << 7 | kind]) + size + mask + masked)

    def send(self, data: bytes) -> None:
        self.frame(data)

    def need(self, size: int) -> None:
        while len(self.wire) < size:
            more = super().read_more()
            if not more:
                raise Closed
            self.wire += more

    def read_more(self) -> bytes:
        """The payload of the next data frame; nothing at the end."""
        try:
            while True:
                self.need(2)
                kind, length, at = self.wire[0] & 15, self.wire[1], 2
                assert not length & 128, "a server does not mask its frames"
                if length > 125:
                    at = 4 if length == 126 else 10
                    self.need(at)
                    length = int.from_bytes(self.wire[2:at], "big")
                self.need(at + length)
                data = bytes(self.wire[at : at + length])
                del self.wire[: at + length]
                self.kinds.append(kind)
                if kind == CLOSE:
                    self.close_code = int.from_bytes(data[:2], "big")
                    self.frame(data, CLOSE)
                elif kind in (BINARY, CONTINUATION) and data:
                    return data
                else:
                    assert kind in (BINARY, CONTINUATION, PING, PONG), f"a frame of kind {kind}"
        except Closed:
            return b""
