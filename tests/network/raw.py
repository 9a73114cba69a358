"""MQTT 3.1.1 by hand: two clients that know exactly what was acknowledged, and what they hold.

Each has a persistent session and comes back whenever its connection breaks, as [MQTT-4.4.0-1] asks: what is not
acknowledged is sent again, with the packet identifier it had.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.network.net import HOST

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
PINGREQ, PINGRESP, DISCONNECT = range(12, 15)
KEEP_ALIVE_SECONDS = 10
AGAIN_SECONDS = 0.05


def text(value: str) -> bytes:
    raw = value.encode()
    return len(raw).to_bytes(2) + raw


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, low = divmod(left, 128)
        length.append(low | (0x80 if left else 0))
        if not left:
            return bytes([kind << 4 | flags]) + bytes(length) + body


def acknowledgement(kind: int, number: int) -> bytes:
    return packet(kind, number.to_bytes(2), 2 if kind == PUBREL else 0)


def publication(topic: str, payload: bytes, qos: int, number: int, again: bool) -> bytes:
    identifier = number.to_bytes(2) if qos else b""
    return packet(PUBLISH, text(topic) + identifier + payload, (8 if again else 0) | qos << 1)


async def read_packet(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Kind, flags, body."""
    first = (await reader.readexactly(1))[0]
    length = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return first >> 4, first & 15, await reader.readexactly(length)


class Client:
    """Connects again and again until `stop`; a subclass says what a packet means to it."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name
        self.writer: asyncio.StreamWriter | None = None
        self.sessions_lost = 0
        self.connections = 0
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._live()
            self.writer = None
            await asyncio.sleep(AGAIN_SECONDS)

    async def _live(self) -> None:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        try:
            # No clean session: flags 0.
            body = text("MQTT") + bytes([4, 0]) + KEEP_ALIVE_SECONDS.to_bytes(2) + text(self.name)
            writer.write(packet(CONNECT, body))
            kind, _, answer = await asyncio.wait_for(read_packet(reader), KEEP_ALIVE_SECONDS)
            if kind != CONNACK or answer[1] != 0:
                return
            present = bool(answer[0] & 1)
            if self.connections and not present:
                self.sessions_lost += 1
            self.connections += 1
            self.writer = writer
            self.connected(present)
            pulse = asyncio.create_task(self._pulse(writer))
            try:
                while True:
                    self.take(*await asyncio.wait_for(read_packet(reader), 2 * KEEP_ALIVE_SECONDS))
            finally:
                pulse.cancel()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _pulse(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_SECONDS / 2)
            writer.write(packet(PINGREQ))

    def send(self, data: bytes) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(data)

    def stop(self) -> None:
        self.stopping = True
        self.send(packet(DISCONNECT))
        if self.writer is not None:
            self.writer.close()

    def connected(self, session_present: bool) -> None:
        raise NotImplementedError

    def take(self, kind: int, flags: int, body: bytes) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class Pending:
    payload: bytes
    released: bool = False
    """QoS 2: the broker has said PUBREC."""


class Publisher(Client):
    """Numbers its messages, and counts what the broker took over."""

    def __init__(self, port: int, name: str, topic: str, qos: int, window: int = 10) -> None:
        super().__init__(port, name)
        self.topic = topic
        self.qos = qos
        self.window = window
        self.pending: dict[int, Pending] = {}
        """By packet identifier, in the order of sending."""
        self.next_identifier = 1
        self.sent = 0
        self.acknowledged: dict[bytes, None] = {}

    def publish(self) -> bool:
        """One more message, unless too many are under way."""
        if self.writer is None or self.writer.is_closing() or len(self.pending) >= self.window:
            return False
        payload = f"{self.name}:{self.sent}".encode()
        self.sent += 1
        number = self.next_identifier
        while number in self.pending:
            number = number % 65535 + 1
        self.next_identifier = number % 65535 + 1
        self.pending[number] = Pending(payload)
        self.send(publication(self.topic, payload, self.qos, number, again=False))
        return True

    def probe(self, topic: str, payload: bytes) -> None:
        self.send(publication(topic, payload, 0, 0, again=False))

    def connected(self, session_present: bool) -> None:
        for number, pending in list(self.pending.items()):
            if pending.released:
                self.send(acknowledgement(PUBREL, number))
            else:
                self.send(publication(self.topic, pending.payload, self.qos, number, again=True))

    def take(self, kind: int, flags: int, body: bytes) -> None:
        number = int.from_bytes(body[:2])
        pending = self.pending.get(number)
        if kind == PUBREC:
            if pending is not None:
                pending.released = True
                self.acknowledged[pending.payload] = None
            self.send(acknowledgement(PUBREL, number))
        elif pending is not None and kind in (PUBACK, PUBCOMP):
            self.acknowledged[pending.payload] = None
            del self.pending[number]


@dataclass(slots=True)
class Got:
    """What a subscriber was handed."""

    count: Counter[bytes] = field(default_factory=Counter)
    order: list[bytes] = field(default_factory=list)

    def add(self, payload: bytes) -> None:
        if payload not in self.count:
            self.order.append(payload)
        self.count[payload] += 1


class Subscriber(Client):
    """Keeps what it got by topic; a QoS 2 packet identifier it holds is the same message again."""

    def __init__(self, port: int, name: str, topics: dict[str, int]) -> None:
        super().__init__(port, name)
        self.topics = topics
        self.subscribed = asyncio.Event()
        self.held: dict[int, None] = {}
        self.got: dict[str, Got] = {}
        self.news: Callable[[str, bytes], None] = lambda topic, payload: None

    def connected(self, session_present: bool) -> None:
        if not session_present:
            self.held.clear()
            body = b"".join(text(topic) + bytes([qos]) for topic, qos in self.topics.items())
            self.send(packet(SUBSCRIBE, (1).to_bytes(2) + body, 2))

    def take(self, kind: int, flags: int, body: bytes) -> None:
        if kind == SUBACK:
            assert 0x80 not in body[2:], "a subscription was refused"
            self.subscribed.set()
        elif kind == PUBREL:
            number = int.from_bytes(body[:2])
            self.held.pop(number, None)
            self.send(acknowledgement(PUBCOMP, number))
        elif kind == PUBLISH:
            self._publication(flags >> 1 & 3, body)

    def _publication(self, qos: int, body: bytes) -> None:
        length = int.from_bytes(body[:2])
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        if qos == 0:
            self.news(topic, rest)
            return
        number, payload = int.from_bytes(rest[:2]), rest[2:]
        if qos == 1 or number not in self.held:
            self.got.setdefault(topic, Got()).add(payload)
        if qos == 2:
            self.held[number] = None
        self.send(acknowledgement(PUBACK if qos == 1 else PUBREC, number))
