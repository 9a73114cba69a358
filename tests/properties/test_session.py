"""One publisher, one subscriber, one broker, and whatever may go wrong between them, against what was promised.

Both clients are models of correct ones: what they must remember outlives their connections, what they have not read
when a connection ends is gone. The promises: QoS 1 at least once, QoS 2 exactly once, in order, nothing lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from latecomer.messages.mqtt import V5, V311, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.unit.mqtt_hand import MqttHand, Wire


@dataclass
class Sender:
    """A publisher that keeps what it has not been told is safe."""

    wire: Wire | None = None
    count: int = 0
    packet_id: int = 0
    under_way: dict[int, Packet] = field(default_factory=dict)
    """By packet id, what it sends again after a reconnection, in order [MQTT-4.4.0-1]."""

    def publish(self, qos: int) -> None:
        assert self.wire is not None
        self.count += 1
        self.packet_id = self.packet_id % 65_535 + 1
        packet = Publish("t", b"%d %d" % (qos, self.count), qos, packet_id=self.packet_id)
        self.under_way[self.packet_id] = packet
        self.wire.send(packet)

    def resume(self) -> None:
        assert self.wire is not None
        for id, packet in list(self.under_way.items()):
            if isinstance(packet, Publish):
                packet = Publish(packet.topic, packet.payload, packet.qos, False, True, id)
            self.wire.send(packet)

    def read(self, count: int) -> None:
        wire = self.wire
        assert wire is not None
        for packet in [wire.inbox.pop(0) for _ in range(min(count, len(wire.inbox)))]:
            if isinstance(packet, (Puback, Pubcomp)):
                self.under_way.pop(packet.packet_id, None)
            elif isinstance(packet, Pubrec) and packet.packet_id in self.under_way:
                self.under_way[packet.packet_id] = Pubrel(packet.packet_id)
                wire.send(Pubrel(packet.packet_id))


@dataclass
class Receiver:
    """A subscriber that knows which QoS 2 packet ids it has seen and not released."""

    wire: Wire | None = None
    receive_maximum: int = 65_535
    got: list[bytes] = field(default_factory=list)
    seen: dict[int, None] = field(default_factory=dict)
    open: dict[int, bytes] = field(default_factory=dict)
    """Packet ids on this connection that are not settled, and for what."""
    answers: list[Packet] = field(default_factory=list)
    """What it has to say, in the order of what came [MQTT-4.6.0-2, -3]."""

    def read(self, count: int) -> None:
        wire = self.wire
        assert wire is not None
        for packet in [wire.inbox.pop(0) for _ in range(min(count, len(wire.inbox)))]:
            if isinstance(packet, Publish):
                assert packet.packet_id not in self.open, "a packet id that is in use"
                self.open[packet.packet_id] = packet.payload
                assert len(self.open) <= self.receive_maximum
                if packet.qos == 1:
                    self.got.append(packet.payload)
                    self.answers.append(Puback(packet.packet_id))
                else:
                    if packet.packet_id not in self.seen:
                        self.got.append(packet.payload)
                    self.seen[packet.packet_id] = None
                    self.answers.append(Pubrec(packet.packet_id))
            else:
                assert isinstance(packet, Pubrel), packet
                self.seen.pop(packet.packet_id, None)
                self.answers.append(Pubcomp(packet.packet_id))

    def say(self, count: int) -> None:
        assert self.wire is not None
        for packet in [self.answers.pop(0) for _ in range(min(count, len(self.answers)))]:
            if isinstance(packet, (Puback, Pubcomp)):
                self.open.pop(packet.packet_id, None)
            self.wire.send(packet)


counts = st.integers(0, 6)


class Promises(RuleBasedStateMachine):
    @initialize(version=st.sampled_from([V5, V311]), qos=st.sampled_from([1, 2]), start=st.sampled_from([0, 65_532]))
    def begin(self, version: int, qos: int, start: int) -> None:
        self.hand = MqttHand()
        self.version = version
        self.granted = qos
        self.known: list[str] = []
        self.sender, self.receiver = Sender(), Receiver()
        self.sender_comes()
        self.receiver_comes(20)
        assert self.receiver.wire is not None
        self.receiver.wire.subscribe("t", qos=qos)
        self.hand.session("s").number = start  # packet ids begin again soon

    @precondition(lambda self: self.sender.wire is None)
    @rule()
    def sender_comes(self) -> None:
        self.sender.wire = self.hand.durable("p", self.version)
        assert self.sender.wire.connack.session_present == (
            "p" in self.hand.disk.tables["session"][""] and self.met("p")
        )
        self.sender.resume()

    def met(self, client: str) -> bool:
        """Whether it was here before: a session that was made is never lost."""
        before = client in self.known
        self.known.append(client)
        return before

    @precondition(lambda self: self.receiver.wire is None)
    @rule(receive_maximum=st.sampled_from([1, 2, 5, 20]))
    def receiver_comes(self, receive_maximum: int) -> None:
        options = {"receive_maximum": receive_maximum} if self.version == V5 else {}
        self.receiver.receive_maximum = receive_maximum if self.version == V5 else 65_535
        self.receiver.wire = self.hand.durable("s", self.version, **options)
        assert self.receiver.wire.connack.session_present == self.met("s")

    @precondition(lambda self: self.sender.wire is not None and len(self.sender.under_way) < 50)
    @rule(lot=st.lists(st.sampled_from([1, 2]), min_size=1, max_size=4))
    def sender_publishes(self, lot: list[int]) -> None:
        for qos in lot:
            self.sender.publish(qos)

    @precondition(lambda self: self.sender.wire is not None)
    @rule(count=counts)
    def sender_reads(self, count: int) -> None:
        self.sender.read(count)

    @precondition(lambda self: self.receiver.wire is not None)
    @rule(count=counts)
    def receiver_reads(self, count: int) -> None:
        self.receiver.read(count)

    @precondition(lambda self: self.receiver.wire is not None)
    @rule(count=counts)
    def receiver_says(self, count: int) -> None:
        self.receiver.say(count)

    @precondition(lambda self: self.receiver.wire is not None)
    @rule(count=counts, more=counts)
    def receiver_goes_on(self, count: int, more: int) -> None:
        self.receiver.read(count)
        self.receiver.say(count)
        self.receiver.read(more)

    @rule(what=st.sampled_from(["sender", "receiver", "politely", "taken over", "crash", "crash"]))
    def something_breaks(self, what: str) -> None:
        sender, receiver = self.sender.wire, self.receiver.wire
        if what == "crash":
            self.hand.restart()
            self.sender.wire = None
            self.forget_receiver()
        elif what == "sender" and sender is not None:
            sender.lose()
            self.sender.wire = None
        elif what != "sender" and receiver is not None:
            if what == "receiver":
                receiver.lose()
            elif what == "politely":
                receiver.disconnect()
            self.forget_receiver()
            if what == "taken over":
                self.receiver_comes(20)

    def forget_receiver(self) -> None:
        """What belonged to the connection."""
        self.receiver.wire = None
        self.receiver.open.clear()
        self.receiver.answers.clear()

    @invariant()
    def promises_are_kept(self) -> None:
        if not hasattr(self, "receiver"):
            return
        exact = [payload for payload in self.receiver.got if self.granted == 2 and payload[:1] == b"2"]
        assert len(exact) == len(set(exact)), "QoS 2 was delivered twice"
        for lot in (exact, [payload for payload in self.receiver.got if payload not in exact]):
            firsts = list(dict.fromkeys(lot))
            assert firsts == sorted(firsts, key=lambda payload: int(payload.split()[1])), "out of order"

    def teardown(self) -> None:
        """Everybody is there and answers: then everything has arrived, and nothing is left anywhere."""
        if not hasattr(self, "receiver"):
            return
        if self.sender.wire is None:
            self.sender_comes()
        if self.receiver.wire is None:
            self.receiver_comes(20)
        assert self.sender.wire is not None
        assert self.receiver.wire is not None
        while self.sender.wire.inbox or self.receiver.wire.inbox or self.receiver.answers:
            self.sender.read(100)
            self.receiver.read(100)
            self.receiver.say(100)
        self.promises_are_kept()
        assert self.sender.under_way == {}
        assert self.receiver.seen == {}
        assert {int(payload.split()[1]) for payload in self.receiver.got} == set(range(1, self.sender.count + 1))
        session = self.hand.session("s")
        assert (len(session.queue), len(session.inflight), len(session.backlog), session.queue_bytes) == (0, 0, 0, 0)
        assert self.hand.rows("queue") == self.hand.rows("incoming") == self.hand.rows("outbox") == 0


Promises.TestCase.settings = settings(max_examples=250, stateful_step_count=40)
TestPromises = Promises.TestCase
