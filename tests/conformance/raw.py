"""A client that does as it is told: one blocking socket, one packet at a time, and no manners of its own."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.conformance.codec import (
    CONNACK,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
    Hello,
    P,
    Packet,
    Properties,
    decode,
    packet,
    properties,
    string,
    u16,
)

PATIENCE_S = float(os.environ.get("LATECOMER_CONFORMANCE_PATIENCE_S", "45"))
"""How long an answer may take on a busy machine. Only a failing test waits that long."""

Filters = Sequence[tuple[str | bytes, int]]
MARKS = count(1)


class Closed(Exception):
    """The broker has closed the connection."""


class Client:
    def __init__(self, host: str, port: int, version: int = V5) -> None:
        self.version = version
        self.socket = socket.create_connection((host, port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.ids = count(1)
        self.connack = Packet(CONNACK, 0)
        self.early: list[Packet] = []
        """Messages that overtook the acknowledgement that was waited for, which they may (§3.8.4)."""

    def close(self) -> None:
        """Go without a word, as a broken network would."""
        self.socket.close()

    # --- bytes ---

    def send(self, data: bytes) -> None:
        # A broker that has closed may still have said why: what it said is read, not lost to an exception.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def read_more(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def fill(self, size: int) -> None:
        while len(self.buffer) < size:
            try:
                more = self.read_more()
            except TimeoutError:
                raise AssertionError(f"nothing came for {PATIENCE_S:g} s; so far: {self.buffer.hex(' ')}") from None
            if not more:
                assert not self.buffer, f"the connection ends inside a packet: {self.buffer.hex(' ')}"
                raise Closed
            self.buffer += more

    def receive(self) -> Packet:
        return self.early.pop(0) if self.early else self.receive_late()

    def receive_late(self) -> Packet:
        self.fill(2)
        length, at = 0, 1
        while True:
            self.fill(at + 1)
            length |= (self.buffer[at] & 127) << 7 * (at - 1)
            if not self.buffer[at] & 128:
                break
            at += 1
        self.fill(at + 1 + length)
        found = decode(self.buffer[0], bytes(self.buffer[at + 1 : at + 1 + length]), self.version)
        found.size = at + 1 + length
        del self.buffer[: at + 1 + length]
        return found

    # --- expectations ---

    def expect(self, kind: int, **fields: Any) -> Packet:
        """The next packet is of this kind, and has these values."""
        try:
            found = self.receive()
        except Closed:
            raise AssertionError(f"the connection was closed instead of {NAMES[kind]}") from None
        assert found.kind == kind, f"{found} instead of {NAMES[kind]}"
        differences = {name: getattr(found, name) for name, value in fields.items() if getattr(found, name) != value}
        assert not differences, f"{found}: {differences} instead of {fields}"
        return found

    def expect_closed(self) -> None:
        """The broker closes, and says nothing before it does."""
        try:
            found = self.receive()
        except Closed:
            return
        raise AssertionError(f"{found} instead of the end of the connection")

    def expect_end(self, *reasons: int) -> Packet | None:
        """The broker ends the connection: in MQTT 5 it says why [MQTT-4.13.1-1], in 3.1.1 it cannot."""
        farewell = None
        if self.version == V5:
            farewell = self.expect(DISCONNECT)
            assert farewell.reason in reasons, f"{farewell} instead of {', '.join(f'{r:#x}' for r in reasons)}"
            assert farewell.get(P.SESSION_EXPIRY) is None  # [MQTT-3.14.2-2]
        self.expect_closed()  # [MQTT-3.14.4-1], [MQTT-3.14.4-2]
        return farewell

    def ping(self) -> list[Packet]:
        """Everything that came before the answer to a ping; the broker has by then read all that was sent before."""
        self.send(packet(PINGREQ))
        return self.until(PINGRESP)

    def until(self, kind: int) -> list[Packet]:
        found = []
        while True:
            try:
                found.append(self.receive())
            except Closed:
                came = ", ".join(map(str, found))
                raise AssertionError(f"closed before {NAMES[kind]}; came: {came or 'nothing'}") from None
            if found[-1].kind == kind:
                return found[:-1]

    def expect_answer(self, kind: int, packet_id: int) -> Packet:
        """The acknowledgement of this packet; messages that come before it are kept for later."""
        overtaken = []
        try:
            while (found := self.receive()).kind == PUBLISH:
                overtaken.append(found)
        except Closed:
            raise AssertionError(f"the connection was closed instead of {NAMES[kind]}") from None
        assert (found.kind, found.packet_id) == (kind, packet_id), f"{found} instead of {NAMES[kind]} {packet_id}"
        self.early[:0] = overtaken
        return found

    def leftovers(self) -> list[Packet]:
        """Everything that is still on its way to this client: a message to itself goes behind it and ends the wait.

        A ping proves that the broker has read our packets; this proves that it has done with what others sent before.
        """
        mark = f"mark/{id(self)}/{next(MARKS)}"
        self.send(self.subscription([(mark, 0)], 60_001) + self.publication(mark, b"", qos=1))
        wanted = {(SUBACK, "", 60_001), (PUBLISH, mark, 0), (PUBACK, "", 60_000)}
        found: list[Packet] = []
        while wanted:
            one = self.receive()
            key = (one.kind, one.topic, one.packet_id)
            if key in wanted:
                wanted.remove(key)
            else:
                found.append(one)
        return found

    def expect_nothing(self) -> None:
        came = self.leftovers()
        assert not came, f"{', '.join(map(str, came))} instead of nothing"

    # --- packets ---

    def connect(self, hello: Hello) -> Packet:
        self.version = hello.version
        self.send(hello.encode())
        self.connack = self.expect(CONNACK)
        return self.connack

    def props(self, items: Properties) -> bytes:
        return properties(items) if self.version == V5 else b""

    def publication(
        self,
        topic: str | bytes,
        payload: bytes = b"",
        *,
        qos: int = 0,
        packet_id: int = 60_000,
        retain: bool = False,
        dup: bool = False,
        properties: Properties = (),
    ) -> bytes:
        body = string(topic) + (u16(packet_id) if qos else b"") + self.props(properties) + payload
        return packet(PUBLISH, body, dup << 3 | qos << 1 | retain)

    def publish(self, topic: str | bytes, payload: bytes = b"", qos: int = 1, **more: Any) -> Packet | None:
        """Publish and see it through to the last acknowledgement, which is returned."""
        packet_id = more.pop("packet_id", None) or next(self.ids)
        self.send(self.publication(topic, payload, qos=qos, packet_id=packet_id, **more))
        if qos == 2:
            received = self.expect_answer(PUBREC, packet_id)
            if received.reason >= 0x80:
                return received
            self.acknowledge(PUBREL, packet_id)
            return self.expect_answer(PUBCOMP, packet_id)
        return self.expect_answer(PUBACK, packet_id) if qos else None

    def acknowledge(self, kind: int, packet_id: int, reason: int = 0) -> None:
        body = u16(packet_id) + (bytes([reason]) if reason else b"")
        self.send(packet(kind, body, 2 if kind == PUBREL else 0))

    def take(self, **fields: Any) -> Packet:
        """The next message, acknowledged as its QoS demands."""
        found = self.expect(PUBLISH, **fields)
        if found.qos == 1:
            self.acknowledge(PUBACK, found.packet_id)
        elif found.qos == 2:
            self.acknowledge(PUBREC, found.packet_id)
            self.expect_answer(PUBREL, found.packet_id)
            self.acknowledge(PUBCOMP, found.packet_id)
        return found

    def subscription(self, filters: Filters, packet_id: int, properties: Properties = ()) -> bytes:
        body = u16(packet_id) + self.props(properties)
        return packet(SUBSCRIBE, body + b"".join(string(name) + bytes([options]) for name, options in filters), 2)

    def subscribe(self, *filters: tuple[str, int], properties: Properties = ()) -> list[int]:
        packet_id = next(self.ids)
        self.send(self.subscription(filters, packet_id, properties))
        return self.expect_answer(SUBACK, packet_id).reasons

    def unsubscribe(self, *filters: str) -> list[int]:
        packet_id = next(self.ids)
        body = u16(packet_id) + self.props(()) + b"".join(map(string, filters))
        self.send(packet(UNSUBSCRIBE, body, 2))
        return self.expect_answer(UNSUBACK, packet_id).reasons

    def disconnect(self, reason: int = 0, properties: Properties = ()) -> None:
        """Say goodbye, and wait until the broker has understood and closed [MQTT-3.14.4-2]."""
        self.send(farewell(reason, properties))
        try:
            while True:
                found = self.receive()
                assert found.kind == PUBLISH, f"{found} after a DISCONNECT"
        except Closed:
            self.close()


def farewell(reason: int = 0, items: Properties = ()) -> bytes:
    listed = list(items)
    body = bytes([reason]) + properties(listed) if listed else bytes([reason]) if reason else b""
    return packet(DISCONNECT, body)


def expect_refusal(client: Client, *reasons: int) -> None:
    """Before it is connected a client may be told why it is refused, in a CONNACK; then the connection ends.

    A DISCONNECT is not allowed here [MQTT-3.14.0-1], and a refusal never claims a session [MQTT-3.2.2-6].
    """
    try:
        answer = client.receive()
    except Closed:
        return
    assert answer.kind == CONNACK, f"{answer} instead of a CONNACK or the end of the connection"
    assert answer.reason in reasons, f"{answer} instead of {', '.join(f'{r:#x}' for r in reasons)}"
    assert not answer.session_present
    client.expect_closed()
