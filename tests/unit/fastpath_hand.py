"""A driver in the hand: the broker's core with real connections on transports and a disk that are not real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from latecomer.core.broker import Broker
from latecomer.core.session.limits import SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import Connect, Packet, Publish
from latecomer.runtime.connection import Connection
from latecomer.runtime.disk import Disk, Durability
from latecomer.runtime.door import Door
from latecomer.runtime.driver import Driver
from latecomer.runtime.metrics import Counters
from latecomer.runtime.plans import SLOW
from latecomer.runtime.security import Gate
from latecomer.runtime.settings import Limits
from latecomer.wire.mqtt import Reader, encode
from tests.unit.mqtt_hand import START_US, measure


class FakeTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.paused = False

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.written += data

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.closed = True

    abort = close


class FakeDisk:
    """Commits when it is told to."""

    def __init__(self, durability: Durability) -> None:
        self.durability = durability
        self.deliver: Callable[..., object] | None = None
        self.waiting: list[Callable[[Exception | None], None]] = []

    def submit(self, writes: list[Any], done: Callable[[Exception | None], None]) -> None:
        self.waiting.append(done)

    def space(self) -> int:
        return 1 << 30

    def commit(self) -> bool:
        """One commit is done; whether there was one."""
        if not self.waiting:
            return False
        self.waiting.pop(0)(None)
        return True


class OpenDoor(Door):
    """Everybody is who they say."""

    def ask(self, connection: Connection, packet: Connect) -> None:
        connection.admitted(packet, "")


class Caller:
    """A client: what it says as bytes, what it hears as packets."""

    def __init__(self, house: House, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.connection = house.door.connection("tcp")
        self.transport = FakeTransport()
        self.connection.connection_made(cast(Any, self.transport))
        self.reader = Reader()
        self.reader.version = version
        self.heard: list[Packet] = []

    def say(self, *packets: Packet) -> None:
        self.say_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def say_bytes(self, data: bytes) -> None:
        if data and not self.transport.closed:
            self.connection.data_received(data)

    def listen(self) -> list[Packet]:
        """What came since the last time."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        packets = self.reader.feed(data)
        assert self.reader.problem is None, self.reader.problem
        assert not self.reader.pending
        self.heard += packets
        return packets

    def got(self) -> list[Publish]:
        return [packet for packet in self.listen() if isinstance(packet, Publish)]

    def lose(self) -> None:
        self.transport.close()
        self.connection.connection_lost(None)


class House:
    """A started driver; to be made inside a running loop. Without `fast` every publication goes by the core."""

    def __init__(self, *, fast: bool = True, durability: Durability = Durability.NONE, **limits: int) -> None:
        self.now = START_US
        self.core = Broker("a", BrokerSettings(), {}, 1, {}, limits=SessionLimits(**cast(Any, limits)), measure=measure)
        self.disk = FakeDisk(durability)
        self.driver = Driver(
            self.core,
            cast(Disk, self.disk),
            Counters(),
            None,
            lambda: self.now,
            self.core.sessions.limits.packet_bytes,
            self._failed,
        )
        self.core.routes.cleared = self.driver.changed
        if not fast:
            self.driver.fastpath.plans._make = lambda topic: SLOW  # type: ignore[method-assign]
        self.door = OpenDoor(self.driver, cast(Gate, None), Limits(connection_rate=0), 1000)
        self.driver.start()
        self.commit()

    def _failed(self, error: Exception) -> None:
        raise error

    def commit(self) -> None:
        while self.disk.commit():
            pass

    def caller(self, name: str, version: int, **options: Any) -> Caller:
        """A client that has said CONNECT."""
        caller = Caller(self, name, version)
        caller.say(Connect(name, version, **options))
        return caller

    def stop(self) -> None:
        self.driver.stop()
        self.door.stop()
        for connection in list(self.driver.connections.values()):
            connection.connection_lost(None)
