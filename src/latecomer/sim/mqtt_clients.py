"""Simulated MQTT clients: models of correct ones, with a memory that survives their connections.

What they publish with QoS 1 or 2 they send again, as a duplicate under its packet id, after every reconnection that
finds the session; of QoS 2 deliveries they remember the packet ids until released. They keep to the receive maximum,
take their time over acknowledgements, send those in order, and repeat a SUBSCRIBE until it is answered. A client stays
at one broker.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from latecomer.core.session.limits import NEVER_S
from latecomer.messages.mqtt import (
    NONE,
    V5,
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
    Reason,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId, Instant, Number
from latecomer.sim.disk import Disk
from latecomer.sim.mqtt_pipes import Pipe, Pipes
from latecomer.sim.sides import Observer
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World

RETRY_US = 150_000


@dataclass(slots=True, frozen=True)
class Publication:
    """What a client publishes; the token is in the packet, so that whoever gets it can be asked."""

    token: str
    publisher: ClientId
    seq: int
    topic: str
    qos: int
    retain: bool = False
    value: int = 0
    deletes: bool = False
    expiry_s: int | None = None

    def packet(self, id: int, *, dup: bool) -> Publish:
        payload = b"" if self.deletes else b'{"t":"%s","v":%d}' % (self.token.encode(), self.value)
        user = (("t", self.token),) if self.deletes else ()
        properties = NONE
        if user or self.expiry_s is not None:
            properties = Properties(user=user, message_expiry_s=self.expiry_s)
        return Publish(self.topic, payload, self.qos, self.retain, dup, id, properties)


@dataclass(slots=True)
class Wish:
    """A subscription that a client wants, or wants to be rid of."""

    text: str
    filter: Filter
    qos: int
    group: str = ""
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    id: Number = 0
    past: tuple[tuple[str, str], ...] = ()
    """What it asks of the past, as user properties; an older client writes it into the text."""
    granted: bool = False
    leaving: bool = False

    def request(self) -> Request:
        return Request(self.text, self.qos, self.no_local, self.retain_as_published, self.retain_handling)


@dataclass(slots=True)
class Outgoing:
    """A publication of QoS 1 or 2 under way; released: the broker has it."""

    publication: Publication
    released: bool = False
    refused: bool = False
    """The broker has refused it, and the client has not heard of that."""


@dataclass(slots=True)
class MqttClient:
    """One client and what it remembers."""

    id: ClientId
    broker: BrokerId
    version: int = V5
    expiry_s: int = NEVER_S
    """0: its sessions end with their connections."""
    willing: bool = False
    """Whether it leaves wills."""
    think_us: int = 0
    """How long it takes over an acknowledgement at most."""
    online: bool = True
    """Whether it wants to be connected."""
    pipe: Pipe | None = None
    connected: bool = False
    unanswered: bool = False
    """Its last CONNECT was."""
    stranger: bool = False
    """Its broker has lost its disk, and it has not been welcomed since: whatever it had asked for is forgotten."""
    wishes: dict[str, Wish] = field(default_factory=dict)
    asked: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """SUBSCRIBE and UNSUBSCRIBE packets without an answer on this connection."""
    waiting: deque[Publication] = field(default_factory=deque)
    outgoing: dict[int, Outgoing] = field(default_factory=dict)
    incoming: dict[int, None] = field(default_factory=dict)
    """Packet ids of QoS 2 deliveries that the broker has not released."""
    receive_max: int = 65_535
    server_max: int = 65_535
    unacknowledged: dict[int, None] = field(default_factory=dict)
    """Packet ids of deliveries on this connection that it has not answered for good."""
    acks: int = 0
    acks_at: Instant = 0
    last_id: int = 0
    published: int = 0

    @property
    def durable(self) -> bool:
        return self.expiry_s > 0

    def free_id(self) -> int:
        while True:
            self.last_id = self.last_id % 65_535 + 1
            if self.last_id not in self.outgoing and self.last_id not in self.asked:
                return self.last_id

    def busy(self) -> bool:
        """Whether something it wants has not happened yet."""
        if self.online != self.connected or (self.pipe is not None and self.pipe.cut):
            return True
        if self.waiting or self.outgoing or self.asked or self.acks:
            return True
        return any(wish.leaving or not wish.granted for wish in self.wishes.values())


class MqttWitness(Protocol):
    """Who wants to know what MQTT clients asked, said and got."""

    def violate(self, promise: str, detail: str) -> None: ...
    def asked(self, client: MqttClient, wish: Wish) -> None: ...
    def withdrew(self, client: MqttClient, wish: Wish) -> None: ...
    def published(self, client: MqttClient, publication: Publication) -> None: ...
    def accepted(self, client: MqttClient, publication: Publication) -> None: ...
    def received(self, client: MqttClient, packet: Publish) -> None: ...
    def welcomed(self, client: MqttClient, pipe: Pipe, present: bool) -> None: ...


class MqttClients(Observer):
    """All MQTT clients of a world."""

    pipes: Pipes

    def __init__(self, world: World, witness: MqttWitness, transcript: Transcript | None = None) -> None:
        self.world = world
        self.witness = witness
        self.pipes = self._new_pipes(transcript)
        self.clients: dict[ClientId, MqttClient] = {}
        self.refusals = 0
        self.granted: Callable[[MqttClient, Wish], None] = lambda client, wish: None
        """Called when a SUBACK grants something, and says nothing besides."""
        self.expected: tuple[int, ...] = (Reason.SERVER_UNAVAILABLE,)
        """Reasons with which a CONNECT may be refused."""
        self.resent: Counter[str] = Counter()
        """How often a publication was sent again."""
        self.overtaken: dict[str, int] = {}
        """Publications that were sent again because the broker's refusal never arrived, and the number of the newest
        publication that the client had sent before: the broker may have taken it first, and all between."""
        self._on_packet: dict[type, Callable[[MqttClient, Any], None]] = {
            Connack: self._connack,
            Publish: self._publish,
            Puback: self._puback,
            Pubrec: self._pubrec,
            Pubrel: self._pubrel,
            Pubcomp: self._pubcomp,
            Suback: self._suback,
            Unsuback: self._unsuback,
            Disconnect: self._disconnect,
        }

    def _new_pipes(self, transcript: Transcript | None) -> Pipes:
        return Pipes(self.world, self, transcript)

    # -- what clients do ---------------------------------------------------------------------------------------------

    def join(self, client: MqttClient) -> None:
        self.clients[client.id] = client
        self._connect(client)

    def come_back(self, client: MqttClient) -> None:
        client.online = True
        if client.pipe is None:
            self._connect(client)

    def leave(self, client: MqttClient, goodbye: Disconnect | None) -> None:
        """Go offline with a DISCONNECT, or without a word."""
        client.online = False
        pipe = client.pipe
        if pipe is None:
            return
        if goodbye is not None and client.connected:
            self.pipes.send(pipe, goodbye)
        self._disconnected(client)
        if self.world.random.random() < 0.2:
            self.pipes.break_(pipe)  # the goodbye may be lost
        else:
            self.pipes.hang_up(pipe)

    def subscribe(self, client: MqttClient, wish: Wish) -> None:
        """Ask for it now, or as soon as there is a connection."""
        client.wishes[wish.text] = wish
        self._ask(client, [wish])

    def unsubscribe(self, client: MqttClient, text: str) -> None:
        wish = client.wishes[text]
        wish.leaving = True
        self.witness.withdrew(client, wish)
        self._ask(client, [wish])

    def publish(self, client: MqttClient, publication: Publication) -> None:
        if publication.qos or client.connected:
            client.waiting.append(publication)
            self._pump(client)

    # -- connections -------------------------------------------------------------------------------------------------

    def _connect(self, client: MqttClient) -> None:
        if client.pipe is not None or not client.online:
            return
        client.pipe = self.pipes.open(client.broker, self._connect_packet(client))
        client.connected = False
        client.unanswered = True
        if client.pipe is None:
            self.world.at(self.world.now + RETRY_US, self._connect, client)

    def _connect_packet(self, client: MqttClient) -> Connect:
        random = self.world.random
        client.receive_max = random.choice((1, 2, 5, 100)) if client.version == V5 else 65_535
        properties = NONE
        if client.version == V5:
            user = self._connect_words(client)
            properties = Properties(session_expiry_s=client.expiry_s, receive_maximum=client.receive_max, user=user)
        will = None
        if client.willing and random.random() < 0.8:
            will = self._will(client)
        return Connect(client.id, client.version, self._starts_clean(client), 60, will, properties=properties)

    def _starts_clean(self, client: MqttClient) -> bool:
        """A session that may have ended while nobody said so is not one to rely on."""
        return not client.durable or (client.unanswered and client.expiry_s != NEVER_S)

    def _connect_words(self, client: MqttClient) -> tuple[tuple[str, str], ...]:
        """The user properties of its CONNECT."""
        return ()

    def _will(self, client: MqttClient) -> Will:
        random = self.world.random
        token = f"{client.id}:will{self.pipes.next_number}"
        topic = f"will/{client.id}/{self.pipes.next_number}"
        publication = Publication(token, client.id, 0, topic, random.choice((0, 1, 2)))
        self.witness.published(client, publication)
        delay_s = random.choice((None, 1, 2)) if client.version == V5 else None
        payload = publication.packet(0, dup=False).payload
        return Will(publication.topic, payload, publication.qos, False, Properties(will_delay_s=delay_s))

    def hung_up(self, pipe: Pipe) -> None:
        client = self.clients.get(pipe.client)
        if client is None or client.pipe is not pipe:
            return
        self._disconnected(client)
        wait_us = self.world.random.choice((0, 5_000, 100_000, 700_000))
        self.world.at(self.world.now + wait_us, self._connect, client)

    @staticmethod
    def _disconnected(client: MqttClient) -> None:
        client.pipe, client.connected, client.acks = None, False, 0
        client.asked.clear()

    def set_out(self, pipe: Pipe, packets: Sequence[Packet]) -> None:
        """The broker has sent something, which may never arrive."""
        for packet in packets:
            if isinstance(packet, (Puback, Pubrec)) and packet.reason >= Reason.UNSPECIFIED_ERROR:
                outgoing = self.clients[pipe.client].outgoing.get(packet.packet_id)
                if outgoing is not None:
                    outgoing.refused = True

    def arrived(self, pipe: Pipe, packets: Sequence[Packet]) -> None:
        client = self.clients[pipe.client]
        for packet in packets:
            if client.pipe is not pipe:
                return
            self._on_packet[type(packet)](client, packet)

    def _send(self, client: MqttClient, packet: Packet) -> None:
        assert client.pipe is not None
        self.pipes.send(client.pipe, packet)

    def _connack(self, client: MqttClient, packet: Connack) -> None:
        if packet.reason != Reason.SUCCESS:
            self._refused(client, packet)
            return
        assert client.pipe is not None
        client.connected, client.unanswered = True, False
        client.unacknowledged.clear()
        client.server_max = packet.properties.receive_maximum or 65_535
        present = packet.session_present and not client.stranger
        client.stranger = False
        self.witness.welcomed(client, client.pipe, present)
        if not present:
            client.outgoing.clear()
            client.incoming.clear()
            for text in [text for text, wish in client.wishes.items() if wish.leaving]:
                del client.wishes[text]
            for wish in client.wishes.values():
                wish.granted = False
        for id, outgoing in client.outgoing.items():  # [MQTT-4.4.0-1]
            again = Pubrel(id) if outgoing.released else outgoing.publication.packet(id, dup=True)
            self.resent[outgoing.publication.token] += 1
            if outgoing.refused:
                outgoing.refused = False
                newest = client.waiting[0].seq - 1 if client.waiting else client.published
                self.overtaken[outgoing.publication.token] = newest
            self._send(client, again)
        self._ask(client, [wish for wish in client.wishes.values() if wish.leaving or not wish.granted])
        self._pump(client)

    def _refused(self, client: MqttClient, packet: Connack) -> None:
        if packet.reason in self.expected:
            return  # nobody could say in time whether its session is elsewhere; the end of the connection follows
        assert client.pipe is not None
        if packet.reason == Reason.SESSION_TAKEN_OVER and client.pipe.superseded:
            return  # a CONNECT that it had sent before, and given up, came behind this one
        self.witness.violate("refused", f"{client.id} was refused: {packet.properties.reason_string}")

    def _disconnect(self, client: MqttClient, packet: Disconnect) -> None:
        """Whoever is correct is never told otherwise; the end of the connection follows."""
        if packet.reason not in (Reason.SESSION_TAKEN_OVER, Reason.KEEP_ALIVE_TIMEOUT):
            self.witness.violate("honesty", f"{client.id} was told {packet.reason}: {packet.properties.reason_string}")

    # -- publications ------------------------------------------------------------------------------------------------

    def _pump(self, client: MqttClient) -> None:
        while client.connected and client.waiting and len(client.outgoing) < client.server_max:
            publication = client.waiting.popleft()
            self.witness.published(client, publication)
            id = 0
            if publication.qos:
                id = client.free_id()
                client.outgoing[id] = Outgoing(publication)
            self._send(client, publication.packet(id, dup=False))

    def _puback(self, client: MqttClient, packet: Puback) -> None:
        outgoing = client.outgoing.pop(packet.packet_id, None)
        if outgoing is None or outgoing.publication.qos != 1:
            self.witness.violate("answer", f"{client.id} got a PUBACK for {packet.packet_id}, which awaits none")
            return
        if packet.reason >= Reason.UNSPECIFIED_ERROR:
            self.refusals += 1
        else:
            self.witness.accepted(client, outgoing.publication)
        self._pump(client)

    def _pubrec(self, client: MqttClient, packet: Pubrec) -> None:
        outgoing = client.outgoing.get(packet.packet_id)
        if outgoing is None or outgoing.publication.qos != 2:
            self.witness.violate("answer", f"{client.id} got a PUBREC for {packet.packet_id}, which awaits none")
            return
        if packet.reason >= Reason.UNSPECIFIED_ERROR:
            self.refusals += 1
            del client.outgoing[packet.packet_id]
            self._pump(client)
            return
        if not outgoing.released:
            outgoing.released = True
            self.witness.accepted(client, outgoing.publication)
        self._send(client, Pubrel(packet.packet_id))

    def _pubcomp(self, client: MqttClient, packet: Pubcomp) -> None:
        outgoing = client.outgoing.pop(packet.packet_id, None)
        if outgoing is None or not outgoing.released:
            self.witness.violate("answer", f"{client.id} got a PUBCOMP for {packet.packet_id}, which awaits none")
        self._pump(client)

    # -- deliveries --------------------------------------------------------------------------------------------------

    def _publish(self, client: MqttClient, packet: Publish) -> None:
        if not packet.qos:
            self.witness.received(client, packet)
            return
        client.unacknowledged[packet.packet_id] = None
        if (count := len(client.unacknowledged)) > client.receive_max:  # [MQTT-3.3.4-9]
            self.witness.violate("quota", f"{client.id} got {count} at once, takes {client.receive_max}")
        if packet.qos == 1:
            self.witness.received(client, packet)
            self._acknowledge(client, Puback(packet.packet_id))
            return
        if packet.packet_id not in client.incoming:
            client.incoming[packet.packet_id] = None
            self.witness.received(client, packet)
        elif not packet.dup:
            self.witness.violate("dup", f"{client.id} got {packet.packet_id} again, not marked as a duplicate")
        self._acknowledge(client, Pubrec(packet.packet_id))

    def _pubrel(self, client: MqttClient, packet: Pubrel) -> None:
        client.incoming.pop(packet.packet_id, None)
        self._acknowledge(client, Pubcomp(packet.packet_id))

    def _acknowledge(self, client: MqttClient, packet: Puback | Pubrec | Pubcomp) -> None:
        """[MQTT-4.6.0-2 to -4] In the order of what it answers, when the client gets round to it."""
        client.acks_at = max(client.acks_at, self.world.now + self.world.random.randrange(client.think_us + 1))
        client.acks += 1
        self.world.at(client.acks_at, self._acknowledge_now, client, client.pipe, packet)

    def _acknowledge_now(self, client: MqttClient, pipe: Pipe, packet: Puback | Pubrec | Pubcomp) -> None:
        if client.pipe is pipe:
            client.acks -= 1
            if type(packet) is not Pubrec:
                client.unacknowledged.pop(packet.packet_id, None)
            self._send(client, packet)

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def _ask(self, client: MqttClient, wishes: list[Wish]) -> None:
        if not client.connected:
            return
        for wish in wishes:
            id = client.free_id()
            client.asked[id] = (wish.text,)
            if wish.leaving:
                self._send(client, Unsubscribe(id, (wish.text,)))
                continue
            self.witness.asked(client, wish)
            wish.granted = False
            self._send(client, Subscribe(id, (wish.request(),), self._properties(client, wish)))

    @staticmethod
    def _properties(client: MqttClient, wish: Wish) -> Properties:
        if client.version != V5:
            return NONE
        user = (("filter", str(wish.filter.where)),) if wish.filter.where is not None else ()
        return Properties(subscription_ids=(wish.id,) if wish.id else (), user=(*user, *wish.past))

    def _suback(self, client: MqttClient, packet: Suback) -> None:
        for text, reason in zip(client.asked.pop(packet.packet_id), packet.reasons, strict=True):
            wish = client.wishes.get(text)
            if reason >= Reason.UNSPECIFIED_ERROR:
                self.witness.violate("refused", f"{client.id} may not have {text}: {packet.properties.reason_string}")
            elif wish is not None and text not in (other for texts in client.asked.values() for other in texts):
                wish.granted = True
                if client.version == V5 and packet.properties.reason_string is None:
                    self.granted(client, wish)

    def _unsuback(self, client: MqttClient, packet: Unsuback) -> None:
        for text in client.asked.pop(packet.packet_id):
            wish = client.wishes.get(text)
            if wish is not None and wish.leaving:
                del client.wishes[text]

    # -- the world ---------------------------------------------------------------------------------------------------

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        self.pipes.broker_crashed(broker)
        for client in self.clients.values():
            client.stranger |= client.broker == broker and not keeps_disk

    def idle(self) -> bool:
        """Whether every client has what it wants."""
        return not any(client.busy() or self._awaits_release(client) for client in self.clients.values())

    def _awaits_release(self, client: MqttClient) -> bool:
        """Whether a PUBREL is to come."""
        return bool(client.incoming)
