"""Clients of MQTT 5, as many as one process bears: one that publishes, one that moves.

What there is most of, PUBLISH and its acknowledgements, is read and written as bytes here, and answers to one chunk
leave together: the generator must cost less than the brokers it measures. The project's own codec does the rest.
"""

from __future__ import annotations

import asyncio
import struct
import time
from contextlib import suppress
from dataclasses import dataclass

from latecomer.core.mobility.mobility import PREVIOUS
from latecomer.core.mobility.wishes import NEXT
from latecomer.messages.mqtt import V5, Connack, Connect, Disconnect, Packet, Properties, Request, Suback, Subscribe
from latecomer.wire.mqtt import decode, encode, header

HOST = "127.0.0.1"
KEEP_S = 3600
ANSWER_S = 30.0
GOODBYE = encode(Disconnect(), V5)
PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x30, 0x40, 0x50, 0x62, 0x70
ACKNOWLEDGEMENTS = (PUBACK, PUBREC, PUBREL, PUBCOMP)
DUP = 0x08
REFUSED = 0x80
BODY = struct.Struct("<Qd")
"""How a payload begins: its number, and when it was sent."""


def payload(number: int, size: int = 64) -> bytes:
    return BODY.pack(number, time.perf_counter()).ljust(size, b".")


class Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.transport: asyncio.Transport | None = None
        self.rest = b""
        self.out = bytearray()
        """What is to be sent together."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        client, at, size = self.client, 0, len(data)
        while at + 1 < size:
            first, body = data[at], at + 2
            end = body + data[at + 1]
            if data[at + 1] > 127:
                body, end = header(data, at) or (at, size + 1)
            if end > size:
                break
            if first in ACKNOWLEDGEMENTS:
                reason = data[body + 2] if end - body > 2 else 0
                client.acknowledged(first, (data[body] << 8) + data[body + 1], reason)
            elif first & 0xF0 == PUBLISH:
                after = body + 2 + (data[body] << 8) + data[body + 1]
                qos = first >> 1 & 3
                id = (data[after] << 8) + data[after + 1] if qos else 0
                after += 2 if qos else 0
                assert data[after] < 128, "longer properties than any that are sent here"
                client.published(qos, id, data, after + 1 + data[after])
            else:
                client.take(decode(first, data[body:end], V5))
            at = end
        self.rest = data[at:]
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.client.lost()

    def answer(self, kind: int, id: int) -> None:
        """Acknowledge, together with whatever else is to be sent."""
        self.out += bytes((kind, 2, id >> 8, id & 255))

    def flush(self) -> None:
        if self.out and self.transport is not None:
            self.transport.write(bytes(self.out))
        self.out.clear()

    def send(self, packet: Packet) -> None:
        if self.transport is not None:
            self.transport.write(encode(packet, V5))


class Client:
    """Connects when it is told to. A subclass says what publications and acknowledgements mean to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wire: Wire | None = None
        self.gone = asyncio.Event()
        self.admitted = False
        self.connect_sent = 0.0
        self._connack: asyncio.Future[Connack | None] | None = None
        self._suback: asyncio.Future[Suback] | None = None

    async def connect(
        self, port: int, *, clean: bool = False, keep_s: int = KEEP_S, previous: str = ""
    ) -> Connack | None:
        """The answer to a CONNECT; None if there is none. OSError: there is nobody to connect to. `previous` is the
        broker where it was last, if it says so."""
        loop = asyncio.get_running_loop()
        self.gone.clear()
        _, wire = await loop.create_connection(lambda: Wire(self), HOST, port)
        self.wire = wire
        answer: asyncio.Future[Connack | None] = loop.create_future()
        self._connack = answer
        self.connect_sent = time.perf_counter()
        word = ((PREVIOUS, previous),) if previous else ()
        wire.send(Connect(self.name, V5, clean, 0, properties=Properties(session_expiry_s=keep_s, user=word)))
        with suppress(TimeoutError):
            connack = await asyncio.wait_for(answer, ANSWER_S)
            if connack is not None and connack.reason == 0:
                return connack
            self.abort()
            return connack
        self.abort()
        return None

    async def subscribe(self, filter: str, qos: int) -> None:
        assert self.wire is not None
        self._suback = asyncio.get_running_loop().create_future()
        self.wire.send(Subscribe(1, (Request(filter, qos),)))
        answer = await asyncio.wait_for(self._suback, ANSWER_S)
        assert answer.reasons[0] == qos, answer

    @property
    def connected(self) -> bool:
        """Whether it has its CONNACK: what it published before would be ahead of what it has to send again."""
        return self.admitted and self.wire is not None and self.wire.transport is not None

    def leave(self, following: str = "") -> None:
        """Say goodbye, and perhaps to which broker it goes."""
        if self.wire is not None and self.wire.transport is not None:
            word = Disconnect(properties=Properties(user=((NEXT, following),)))
            self.wire.transport.write(encode(word, V5) if following else GOODBYE)
            self.wire.transport.close()

    def abort(self) -> None:
        if self.wire is not None and self.wire.transport is not None:
            self.wire.transport.abort()

    def take(self, packet: Packet) -> None:
        """Anything but a publication and what acknowledges one."""
        if isinstance(packet, Connack):
            if self._connack is not None and not self._connack.done():
                self._connack.set_result(packet)
            if packet.reason == 0:
                self.admitted = True
                self.resume()
        elif isinstance(packet, Suback) and self._suback is not None and not self._suback.done():
            self._suback.set_result(packet)

    def lost(self) -> None:
        self.admitted = False
        self.gone.set()
        if self._connack is not None and not self._connack.done():
            self._connack.set_result(None)

    def resume(self) -> None:
        """It is connected: go on where it stopped."""

    def published(self, qos: int, id: int, data: bytes, at: int) -> None:
        """A publication; `at` is where its payload begins."""

    def acknowledged(self, kind: int, id: int, reason: int) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP."""


@dataclass(slots=True)
class _Pending:
    frame: bytes
    qos: int
    released: bool = False


class Publisher(Client):
    """Keeps what is not acknowledged, and sends it again [MQTT-4.4.0-1]."""

    def __init__(self, name: str, window: int = 500) -> None:
        super().__init__(name)
        self.window = window
        self.pending: dict[int, _Pending] = {}
        self.number = 0
        self.acknowledgements = 0
        self.refused = 0
        """Publications that the broker turned down."""
        self.stopping = False

    async def stay(self, port: int) -> None:
        """Connected to this broker, again and again."""
        while not self.stopping:
            with suppress(OSError):
                answer = await self.connect(port)
                if answer is not None and answer.reason == 0:
                    await self.gone.wait()
            await asyncio.sleep(0.05)

    def publish(self, topic: str, payload: bytes, qos: int, *, at_once: bool = True) -> bool:
        """False: too much is not acknowledged yet, or there is no connection. Otherwise `flush` when there is more."""
        if len(self.pending) >= self.window or not self.connected:
            return False
        while True:
            self.number = self.number % 65_535 + 1
            if self.number not in self.pending:
                break
        name = topic.encode()
        rest = len(name) + 5 + len(payload)
        assert rest < 128, "a longer frame than any that is sent here"
        frame = b"%c%c%c%c%b%c%c\0%b" % (
            *(PUBLISH | qos << 1, rest, len(name) >> 8, len(name) & 255),
            *(name, self.number >> 8, self.number & 255, payload),
        )
        self.pending[self.number] = _Pending(frame, qos)
        assert self.wire is not None
        self.wire.out += frame
        if at_once:
            self.wire.flush()
        return True

    def resume(self) -> None:
        assert self.wire is not None
        for number, pending in self.pending.items():
            if pending.released:
                self.wire.answer(PUBREL, number)
            else:
                self.wire.out += bytes((pending.frame[0] | DUP,)) + pending.frame[1:]
        self.wire.flush()

    def acknowledged(self, kind: int, id: int, reason: int) -> None:
        pending = self.pending.get(id)
        if kind == PUBREC and reason < REFUSED:
            assert self.wire is not None
            if pending is not None:
                pending.released = True
            self.wire.answer(PUBREL, id)
        elif pending is not None:
            del self.pending[id]
            self.acknowledgements += 1
            self.refused += reason >= REFUSED


class Subscriber(Client):
    """Counts what it gets."""

    def __init__(self, name: str, topic: str, qos: int) -> None:
        super().__init__(name)
        self.topic = topic
        self.qos = qos
        self.count: dict[int, int] = {}
        self.newest = -1
        self.disordered = 0
        self.held: dict[int, None] = {}
        self.waiting_since: float | None = None
        """When it connected; None: it has got something it had missed since then, or does not measure."""
        self.first: list[float] | None = None
        """Where the time until then goes."""
        self.latency: list[float] | None = None

    @property
    def repeated(self) -> int:
        return sum(self.count.values()) - len(self.count)

    def acknowledged(self, kind: int, id: int, reason: int) -> None:
        if kind == PUBREL:
            assert self.wire is not None
            self.held.pop(id, None)
            self.wire.answer(PUBCOMP, id)

    def published(self, qos: int, id: int, data: bytes, at: int) -> None:
        assert self.wire is not None
        if qos != 2 or id not in self.held:
            self._count(*BODY.unpack_from(data, at))
        if qos == 1:
            self.wire.answer(PUBACK, id)
        elif qos == 2:
            self.held[id] = None
            self.wire.answer(PUBREC, id)

    def _count(self, number: int, sent: float) -> None:
        if self.waiting_since is not None:
            if sent < self.waiting_since and self.first is not None:
                self.first.append(time.perf_counter() - self.waiting_since)
            self.waiting_since = None
        if self.latency is not None:
            self.latency.append(time.perf_counter() - sent)
        before = self.count.get(number, 0)
        self.count[number] = before + 1
        if not before:
            self.disordered += number < self.newest
            self.newest = max(self.newest, number)
