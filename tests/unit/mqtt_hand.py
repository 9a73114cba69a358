"""A broker in the hand with MQTT clients: packets in, packets out, a disk to restart from, and a network of hands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from latecomer.core.broker import Broker
from latecomer.core.effects import Append, Close, Drop, Effect, Persist, Put, Send, TakeBack, Transmit, Trim
from latecomer.core.inputs import (
    Input,
    LinkConnected,
    LinkDisconnected,
    LinkReceived,
    MqttConnected,
    MqttLost,
    MqttReceived,
    Started,
)
from latecomer.core.session.limits import Access, Anything, SessionLimits
from latecomer.core.session.state import Session
from latecomer.core.settings import BrokerSettings
from latecomer.core.tables import TABLES
from latecomer.messages.mqtt import (
    NONE,
    V5,
    V311,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Request,
    Suback,
    Subscribe,
    Unsubscribe,
    Will,
)
from latecomer.sim.disk import Disk
from latecomer.wire.mqtt import encode
from tests.unit.hand import COST_US, Hand, of

SECOND_US = 1_000_000
HOUR_S = 3600
START_US = 1_000 * SECOND_US


def measure(packet: Packet, version: int) -> int:
    return len(encode(packet, version))


class Rules:
    """Access that a test changes: everybody may do what is not taken away."""

    open_to_all = False

    def __init__(self) -> None:
        self.no_publish: list[str] = []
        self.no_receive: list[str] = []
        self.no_client: list[str] = []
        self.no_past: list[str] = []

    def client_problem(self, user: str, client: str) -> str | None:
        return "not this one" if client in self.no_client else None

    def may_publish(self, user: str, client: str, topic: str) -> bool:
        return topic not in self.no_publish

    def may_subscribe(self, user: str, client: str, topic_filter: str) -> bool:
        return topic_filter not in self.no_receive

    def may_receive(self, user: str, client: str, topic: str) -> bool:
        return topic not in self.no_receive

    def may_request(self, user: str, client: str, topic_filter: str) -> bool:
        return topic_filter not in self.no_past

    def may_receive_past(self, user: str, client: str, topic: str) -> bool:
        return topic not in self.no_past


class MqttHand(Hand):
    """A started broker, its disk, its time and the connections of its clients."""

    def __init__(
        self,
        *neighbours: str,
        id: str = "a",
        limits: SessionLimits | None = None,
        access: Access | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.id = id
        self.peers = neighbours
        self.limits = limits or SessionLimits()
        self.access = access or Anything()
        self.disk = Disk()
        self.boot = 0
        self.now = START_US
        self._seq = 0
        self.connections = 0
        self.wires: dict[int, Wire] = {}
        self.sent: list[Send] = []
        self.net: Net | None = None
        self.writes: list[Put | Drop | Trim] = []
        """Of the last step."""
        self.start()

    def start(self) -> list[Effect]:
        """Start from the disk, whose rows went through the bytes they are kept as."""
        self.boot += 1
        tables = {
            table: {
                group: {
                    key: msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=TABLES[table])
                    for key, value in rows.items()
                }
                for group, rows in groups.items()
            }
            for table, groups in self.disk.tables.items()
        }
        self.broker = Broker(
            self.id,
            self.settings,
            dict.fromkeys(self.peers, COST_US),
            self.boot,
            tables,
            limits=self.limits,
            access=self.access,
            measure=measure,
        )
        self.first = self.tell(Started())
        return self.first

    def restart(self) -> list[Effect]:
        """The power goes and comes back: every connection is gone, and nobody said so."""
        for wire in self.wires.values():
            wire.closed = "crash"
        self.wires.clear()
        self.sent.clear()
        return self.start()

    def tell(self, fact: Input) -> list[Effect]:
        effects = super().tell(fact)
        writes = [write for persist in of(effects, Persist) for write in persist.writes]
        self.writes = [write for write in writes if not isinstance(write, Append | TakeBack)]
        for effect in effects:
            if isinstance(effect, Transmit) and effect.connection in self.wires:
                self.wires[effect.connection].inbox += effect.packets
            elif isinstance(effect, Close) and effect.connection in self.wires:
                self.wires.pop(effect.connection).closed = effect.problem or "goodbye"
            elif isinstance(effect, Send):
                self.sent.append(effect)
        return effects

    def session(self, client: str) -> Session:
        return self.broker.sessions.by_client[client]

    def wrote(self, table: str) -> list[Put | Drop | Trim]:
        """What the last step wrote to a table."""
        return [write for write in self.writes if write.table == table]

    def rows(self, table: str) -> int:
        return sum(map(len, self.disk.tables.get(table, {}).values()))

    # -- clients -----------------------------------------------------------------------------------------------------

    def dial(self, client: str, version: int = V5) -> Wire:
        """A connection on which nothing was said yet."""
        self.connections += 1
        wire = self.wires[self.connections] = Wire(self, self.connections, client, version)
        return wire

    def client(self, client: str, version: int = V5, **options: Any) -> Wire:
        """A connected client; the CONNACK, which comes first [MQTT-3.2.0-1], is taken."""
        wire = self.dial(client, version)
        wire.connect(**options)
        if not wire.inbox and self.net is not None:  # other brokers are asked for its session
            self.net.quiet(10_000)
        connack = wire.inbox.pop(0)
        assert isinstance(connack, Connack)
        wire.connack = connack
        return wire

    def durable(self, client: str, version: int = V5, **options: Any) -> Wire:
        """A client whose session stays when it goes."""
        if version == V5:
            options.setdefault("session_expiry_s", HOUR_S)
        return self.client(client, version, **{"clean_start": False, **options})


@dataclass(slots=True, eq=False)
class Wire:
    """One connection of a client."""

    hand: MqttHand
    id: int
    client: str
    version: int
    inbox: list[Packet] = field(default_factory=list)
    closed: str | None = None
    """Why the broker closed it."""
    connack: Connack = field(default_factory=Connack)
    packet_id: int = 0

    def connect(
        self,
        *,
        clean_start: bool = True,
        will: Will | None = None,
        user: str = "",
        fresh_id: str = "fresh",
        keep_alive_s: int = 0,
        listener: str = "",
        words: tuple[tuple[str, str], ...] = (),
        **properties: Any,
    ) -> list[Effect]:
        if words:
            properties["user"] = words
        properties_ = Properties(**properties) if properties else NONE
        packet = Connect(self.client, self.version, clean_start, keep_alive_s, will, properties=properties_)
        return self.hand.tell(MqttConnected(self.id, packet, user, fresh_id, listener))

    def send(self, *packets: Packet) -> list[Effect]:
        return self.hand.tell(MqttReceived(self.id, packets))

    def lose(self) -> list[Effect]:
        """The connection breaks."""
        self.closed = "lost"
        self.hand.wires.pop(self.id, None)
        return self.hand.tell(MqttLost(self.id))

    def disconnect(self, reason: int = 0, **properties: Any) -> list[Effect]:
        return self.send(Disconnect(reason, Properties(**properties) if properties else NONE))

    def next_id(self) -> int:
        self.packet_id += 1
        return self.packet_id

    def subscribe(self, *filters: str | Request, qos: int = 2, **properties: Any) -> Suback:
        """Returns the answer; what is retained stays in the inbox."""
        requests = tuple(Request(filter, qos) if isinstance(filter, str) else filter for filter in filters)
        self.send(Subscribe(self.next_id(), requests, Properties(**properties) if properties else NONE))
        position = next(i for i, packet in enumerate(self.inbox) if isinstance(packet, Suback))
        suback = self.inbox.pop(position)
        assert isinstance(suback, Suback)
        return suback

    def unsubscribe(self, *filters: str) -> list[Effect]:
        return self.send(Unsubscribe(self.next_id(), filters))

    def publish(
        self, topic: str, payload: bytes = b"x", qos: int = 0, *, retain: bool = False, id: int = 0, **properties: Any
    ) -> list[Effect]:
        """With QoS 2 the whole exchange, up to the PUBREL."""
        id = id or (self.next_id() if qos else 0)
        properties_ = Properties(**properties) if properties else NONE
        effects = self.send(Publish(topic, payload, qos, retain, False, id, properties_))
        if qos == 2:
            effects += self.send(Pubrel(id))
        return effects

    # -- what came ---------------------------------------------------------------------------------------------------

    def take(self) -> list[Packet]:
        """Everything that came, once."""
        packets, self.inbox = self.inbox, []
        return packets

    def one(self, kind: type[Any]) -> Any:
        """The one packet that came."""
        (packet,) = self.take()
        assert isinstance(packet, kind), packet
        return packet

    def got(self) -> list[Publish]:
        """The publications that came, once; nothing else did."""
        packets = self.take()
        assert all(isinstance(packet, Publish) for packet in packets), packets
        return [packet for packet in packets if isinstance(packet, Publish)]

    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.got()]

    def ack(self, *packets: Publish) -> None:
        """Everything a client says about deliveries that came; what else comes meanwhile stays in the inbox."""
        for packet in packets:
            if packet.qos == 1:
                self.send(Puback(packet.packet_id))
            elif packet.qos == 2:
                self.send(Pubrec(packet.packet_id))
                self.inbox.remove(Pubrel(packet.packet_id))
                self.send(Pubcomp(packet.packet_id))

    def settle(self) -> list[Publish]:
        """The publications that came, and are acknowledged, until none is left."""
        found: list[Publish] = []
        while packets := self.got():
            self.ack(*packets)
            found += packets
        return found


class Net:
    """Brokers in the hand, and the frames between them."""

    def __init__(self, *hands: MqttHand) -> None:
        self.hands = {hand.id: hand for hand in hands}
        for hand in hands:
            hand.net = self
        self.number = 0
        self.numbers: dict[tuple[str, str], int] = {}

    def link(self, one: str, other: str) -> None:
        self.number += 1
        for here, there in ((one, other), (other, one)):
            self.numbers[here, there] = self.number
            self.hands[here].tell(LinkConnected(there, self.number))
        self.quiet()

    def unlink(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            hand = self.hands[here]
            hand.sent = [send for send in hand.sent if send.peer != there]
            hand.tell(LinkDisconnected(there, self.numbers[here, there]))

    def carry(self) -> bool:
        """Hand over what was sent; whether there was anything."""
        moved = False
        for hand in self.hands.values():
            sent, hand.sent = hand.sent, []
            for send in sent:
                self.hands[send.peer].tell(LinkReceived(hand.id, send.frames))
                moved = True
        return moved

    def quiet(self, duration_us: int = SECOND_US) -> None:
        """Let time pass in small steps, carrying what is said."""
        for _ in range(duration_us // 10_000):
            while self.carry():
                pass
            for hand in self.hands.values():
                hand.wait(10_000)
        while self.carry():
            pass


def pair(*, ahead_us: int = 0, **options: Any) -> tuple[Net, MqttHand, MqttHand]:
    """Two brokers with a link and a tree; the clock of the second one may be ahead."""
    a, b = MqttHand("b", id="a", **options), MqttHand("a", id="b", **options)
    b.now += ahead_us
    net = Net(a, b)
    net.link("a", "b")
    assert a.broker.interest.ready
    assert b.broker.interest.ready
    return net, a, b


__all__ = ["V5", "V311", "MqttHand", "Net", "Rules", "Wire", "pair"]
