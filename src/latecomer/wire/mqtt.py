"""A client's connection as bytes: the packets of MQTT 3.1.1 and 5, cut out of a stream.

    first byte · remaining length, 1–4 bytes · body

`mqtt_decode` and `mqtt_encode` know the bodies, `mqtt_properties` the properties, `mqtt_fields` what both are made of.
"""

from __future__ import annotations

from latecomer.messages.mqtt import PACKET_MAX, Packet, PacketError, Reason
from latecomer.wire.mqtt_decode import decode, protocol_version
from latecomer.wire.mqtt_encode import encode
from latecomer.wire.mqtt_fields import forbidden, read_length
from latecomer.wire.mqtt_properties import CONNECT, NAMES

__all__ = ["Reader", "decode", "encode", "header"]

_HEADER = 2
"""Bytes of the shortest packet."""


def header(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int] | None:
    """Where the body of the packet that begins at `at` starts and ends; None if its length is not there yet."""
    try:
        size, start = read_length(data, at + 1)
    except IndexError:
        return None
    return start, start + size


class Reader:
    """Cuts a byte stream into packets, however the stream was cut into chunks.

    Every byte is copied a bounded number of times: a chunk that ends between packets is never buffered, and a packet
    that comes in pieces is not looked at again before it is whole.

    `version` is 0 until a CONNECT says which; nothing but a CONNECT can be read before that [MQTT-3.1.0-1]. A client,
    to whom nobody sends a CONNECT, sets it. It is also set if the rest of the CONNECT is wrong, so that the answer can
    be in words the client knows; a second CONNECT, which the core refuses, does not change it.
    """

    __slots__ = ("_buffer", "_wanted", "limit", "problem", "problem_type", "version")

    def __init__(self, limit: int = PACKET_MAX) -> None:
        self.limit = limit
        """Bytes of the largest packet, counted as Maximum Packet Size counts them: with its header. May be changed."""
        self.version = 0
        self.problem: PacketError | None = None
        """Why there will be no further packets."""
        self.problem_type = 0
        """The type of the packet that is the problem (§2.1.2): 1 is a CONNECT, which gets a CONNACK as the answer."""
        self._buffer = bytearray()
        self._wanted = _HEADER
        """Bytes the buffer must have before there is anything to do."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Packet]:
        """The packets that are complete now. When `problem` is set these are the last ones."""
        if self.problem is not None:
            return []
        if self._buffer:
            self._buffer += chunk
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
            self._buffer = bytearray()
        else:
            data = bytes(chunk)  # no copy if it is bytes already
        packets: list[Packet] = []
        at = self._cut(data, packets)
        if at < len(data):
            self._buffer += memoryview(data)[at:]
        return packets

    @property
    def pending(self) -> int:
        """Bytes of a packet that is not complete."""
        return len(self._buffer)

    def _cut(self, data: bytes, packets: list[Packet]) -> int:
        """Append the whole packets at the start of the data; returns where the rest begins."""
        at = first = 0
        have = len(data)
        try:
            while have - at >= _HEADER:
                first = data[at]
                size = data[at + 1]
                if size < 0x80:  # nearly all packets
                    start = at + _HEADER
                    end = start + size
                else:
                    found = header(data, at)
                    if found is None:
                        self._wanted = have - at + 1
                        return at
                    start, end = found
                if not self.version or end - at > self.limit:
                    self._check_start(first, data[start : start + 7], end - at)
                if end > have:
                    self._wanted = end - at
                    return at
                body = data[start:end]
                if not self.version:
                    self.version = protocol_version(body)
                packets.append(decode(first, body, self.version))
                at = end
        except PacketError as problem:
            self.problem = problem
            self.problem_type = first >> 4
            return have
        self._wanted = _HEADER
        return at

    def _check_start(self, first: int, beginning: bytes, size: int) -> None:
        """What the header shows: nothing is buffered of what will be refused."""
        kind = first >> 4
        if not self.version and kind != CONNECT:
            raise forbidden(f"the first packet must be a CONNECT, not a {NAMES[kind]}")  # [MQTT-3.1.0-1]
        if size <= self.limit:
            return
        if not self.version and len(beginning) == 7:  # else the length came alone, and there is no more to know
            self.version = protocol_version(beginning)
        raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet of {size} bytes exceeds the limit of {self.limit}")
