"""Brokers in a line or a ring, and MQTT clients that are driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from latecomer.core.broker import Broker
from latecomer.core.inputs import MqttConnected, MqttLost, MqttReceived
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import V5, Connack, Connect, Packet, Properties, Publish, Request, Subscribe, Will
from latecomer.model import topology_generators as generators
from latecomer.sim.world import World

SECOND_US = 1_000_000


@dataclass
class Line:
    """A client's connection; what it was sent, and whether the broker has closed it."""

    broker: str
    number: int
    inbox: list[Packet] = field(default_factory=list)
    closed: bool = False

    @property
    def connack(self) -> Connack:
        return next(packet for packet in self.inbox if isinstance(packet, Connack))

    @property
    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.inbox if isinstance(packet, Publish)]


STANDARD = HandOverSettings()
AHEAD = HandOverSettings(algorithm="prefetching")


class Town:
    """Brokers in a line, or a ring, and clients that are driven by hand."""

    def __init__(
        self, brokers: int = 3, hand_over: HandOverSettings = STANDARD, copies: int = 0, ring: bool = False
    ) -> None:
        settings = BrokerSettings(hand_over=replace(hand_over, copies=copies or brokers))
        shape = generators.ring if ring else generators.line
        self.world = World(shape(brokers, latency_us=5_000), settings, Random(1))
        self.world.sockets = self
        self.lines: dict[int, Line] = {}
        self.world.start_all()
        self.run(1)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + round(seconds * SECOND_US))

    def core(self, broker: str) -> Broker:
        core = self.world.nodes[broker].core
        assert core is not None
        return core

    # what the world tells the far ends of connections
    def attached(self, connection: int) -> None: ...

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None:
        self.lines[connection].inbox += packets

    def closed(self, connection: int, problem: str) -> None:
        self.lines[connection].closed = True

    def read(self, connection: int, go_on: bool) -> None: ...

    # what clients do
    def connect(
        self,
        broker: str,
        client: str = "phone",
        *,
        user: str = "",
        will: Will | None = None,
        expiry_s: int = 3600,
        clean: bool = False,
        version: int = V5,
        words: tuple[tuple[str, str], ...] = (),
        wait: float = 1,
    ) -> Line:
        number = len(self.lines) + 1
        line = self.lines[number] = Line(broker, number)
        properties = Properties(session_expiry_s=expiry_s, user=words) if version == V5 else Properties()
        packet = Connect(client, version, clean, 60, will, properties=properties)
        self.world.tell(broker, MqttConnected(number, packet, user))
        self.run(wait)
        return line

    def say(self, line: Line, *packets: Packet, wait: float = 1) -> None:
        self.world.tell(line.broker, MqttReceived(line.number, packets))
        self.run(wait)

    def hang_up(self, line: Line, wait: float = 1) -> None:
        self.world.tell(line.broker, MqttLost(line.number))
        self.run(wait)

    def publish(self, line: Line, *texts: str, topic: str = "a/b", qos: int = 1) -> None:
        self.say(line, *(Publish(topic, text.encode(), qos, packet_id=at) for at, text in enumerate(texts, 1)))

    def commuter(self, qos: int = 1, **terms: object) -> tuple[Line, Line]:
        """A client that subscribed at b1 and has gone, and one that publishes at b3."""
        phone = self.connect("b1", **terms)  # type: ignore[arg-type]
        self.say(phone, Subscribe(1, (Request("a/#", qos),)))
        sender = self.connect("b3", "sender", expiry_s=0, clean=True)
        return phone, sender

    def owners(self, client: str = "phone") -> list[str]:
        return [id for id, node in self.world.nodes.items() if node.core and client in node.core.sessions.by_client]
