"""The fast path: publications that need no look at more than their topic, forwarded as the bytes they came in.

Theory of operation. A chunk from a client is walked once, frame by frame, without making an object per frame. For each
topic there is a *plan*: who gets it, and whether the fast path may serve them. Equal audiences share one plan, so that
successive frames with the same plan form a *run*. A run of QoS 0 is written to its receivers as one slice of the chunk;
a run of QoS 1 as one copy in which the packet ids are replaced, shared by all receivers whose next id is the same. The
acknowledgements of a run are a slice of one constant table, and are compared with it when they come in.

The general path (`core`) decides everything: plans are made from the core's routes and sessions, and are void as soon
as anything changed in them (`Driver.generation`). The fast path serves only what it can serve exactly as the core
would: QoS 0 and 1, not retained, no properties, receivers that are connected, take any packet, and of which, for QoS 1,
nothing must be on disk. Everything else becomes packets for the core, in order: a client whose earlier packets still
wait for the disk is not overtaken by itself (`Connection.held`).

Back-pressure. A receiver that has too much under way, in bytes or in unacknowledged messages, stops the publishers that
feed it, each in the middle of its chunk; it lets them go when it has caught up, or when it has made no progress for a
while: then it is *slow*, and is served by the general path, which drops or queues for it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from latecomer.core.inputs import MqttReceived, Relayed
from latecomer.core.session.state import PACKET_IDS, Session, packet_id
from latecomer.messages.link import Run
from latecomer.messages.mqtt import V311, Packet, PacketError, Puback, Publish, Reason
from latecomer.model.record import Kind, Record
from latecomer.wire.mqtt import decode, header

if TYPE_CHECKING:
    from latecomer.runtime.connection import Connection
    from latecomer.runtime.driver import Driver

PUBLISH_0, PUBLISH_1, PUBACK, PINGREQ = 0x30, 0x32, 0x40, 0xC0
PINGRESP = b"\xd0\x00"
TOPICS_MAX = 65_536
ACKS = b"".join(b"\x40\x02" + id.to_bytes(2) for id in range(1, PACKET_IDS + 1))
"""Every PUBACK of a success, in the order of packet ids."""


@dataclass(slots=True, eq=False)
class Plan:
    """What happens to a topic. Receivers are told apart by the form in which they take it."""

    fast0: bool = False
    fast1: bool = False
    plain: dict[int, list[Connection]] = field(default_factory=dict)
    """By version, those who take it with QoS 0 whatever it came with."""
    acked: dict[int, list[Connection]] = field(default_factory=dict)
    """By version, those who take QoS 1."""
    everybody: list[Connection] = field(default_factory=list)
    peers: tuple[str, ...] = ()


SLOW = Plan()
"""For the general path."""


class RunNote(msgspec.Struct, frozen=True):
    """A run, for the event log: what came, by reference. Records are made of it later, in another thread."""

    broker: str
    publisher: str
    """Empty: it came by a link, and was recorded as published elsewhere."""
    frames: bytes
    receivers: int
    at_us: int

    def records(self) -> Iterator[Record]:
        """One line per topic and kind, which stands for `count` publications or deliveries."""
        counts: dict[bytes, int] = {}
        at, data = 0, self.frames
        while at < len(data):
            found = header(data, at)
            assert found is not None
            body, end = found
            topic = data[body + 2 : body + 2 + (data[body] << 8) + data[body + 1]]
            counts[topic] = counts.get(topic, 0) + 1
            at = end
        for topic, count in counts.items():
            text = topic.decode()
            if self.publisher:
                yield Record(self.at_us, self.broker, Kind.PUBLISHED, client=self.publisher, topic=text, count=count)
            if self.receivers:
                yield Record(self.at_us, self.broker, Kind.DELIVERED, topic=text, count=count * self.receivers)


class FastPath:
    """Plans by topic, shared by all connections, and the walk over a chunk."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.generation = -1
        self.by_topic: dict[bytes, Plan] = {}
        self.shared: dict[tuple[object, ...], Plan] = {}

    # -- plans ---------------------------------------------------------------------------------------------------------

    def plan(self, c: Connection, topic: bytes) -> Plan:
        """What to do with a topic that this client publishes to."""
        driver = self.driver
        plan = self._plan(topic)
        if plan is not SLOW:
            session = c.session
            assert session is not None
            text = topic.decode()
            if not driver.core.sessions.access.may_publish(session.user, session.client, text):
                plan = SLOW
            elif any(r.session is not None and r.session.client == session.client for r in plan.everybody) and any(
                sub.no_local for sub in session.subscriptions.values()
            ):
                plan = SLOW
        if len(c.plans) >= TOPICS_MAX:
            c.plans.clear()
        c.plans[topic] = plan
        return plan

    def _plan(self, topic: bytes) -> Plan:
        """What to do with a topic, whoever publishes to it."""
        if self.generation != self.driver.generation:
            self.generation = self.driver.generation
            self.by_topic.clear()
            self.shared.clear()
        plan = self.by_topic.get(topic)
        if plan is None:
            if len(self.by_topic) >= TOPICS_MAX:
                self.by_topic.clear()
            plan = self.by_topic[topic] = self._make(topic)
        return plan

    def _make(self, topic: bytes) -> Plan:
        core = self.driver.core
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return SLOW
        if core.sessions.publishing.topic_problem(text) is not None or core.shares.any_for(text):
            return SLOW
        route = core.routes.of(text)
        if route.picky_clients or route.picky_peers or (route.peers and not core.interest.ready):
            return SLOW
        return self._audience(text, route.clients, route.peers)

    def _audience(self, text: str, clients: tuple[str, ...], peers: tuple[str, ...]) -> Plan:
        core, connections = self.driver.core, self.driver.connections
        fast1 = not peers and core.events.local_only
        key: list[object] = [peers]
        members: list[tuple[Connection, int]] = []
        for client in clients:
            session = core.sessions.by_client.get(client)
            if session is None:
                return SLOW
            qos = core.sessions.deliveries.plain_qos(session, text)
            if qos is None:
                return SLOW
            if qos < 0:
                continue  # it may not have it
            connection = connections.get(session.connection)
            if qos and (session.durable or connection is None):
                fast1 = False
            if connection is None:
                continue  # QoS 0 is for those who are there
            if session.packet_max:
                return SLOW
            members.append((connection, qos))
            key += (connection.id, qos)
        key.append(fast1)
        plan = self.shared.get(tuple(key))
        if plan is None:
            plan = self.shared[tuple(key)] = Plan(True, fast1, peers=peers)
            for connection, qos in members:
                forms = plan.acked if qos else plan.plain
                forms.setdefault(connection.version, []).append(connection)
                plan.everybody.append(connection)
        return plan

    # -- the walk --------------------------------------------------------------------------------------------------------

    def receive(self, c: Connection, data: bytes) -> None:
        """Take a chunk from a connected client; what cannot be taken yet is left with the connection."""
        version5, packet_max = c.version != V311, self.driver.packet_max
        plans = self._plans(c)
        at = start = count = kind = 0
        size = len(data)
        run: Plan | None = None
        ids: list[int] = []
        """Where the packet ids of a run of QoS 1 stand."""
        general: list[Packet] = []
        try:
            while at + 1 < size:
                first = data[at]
                body = at + 2
                end = body + data[at + 1]
                if data[at + 1] > 127:
                    found = header(data, at)
                    if found is None:
                        break
                    body, end = found
                if end - at > packet_max:
                    raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet has at most {packet_max} bytes here")
                if end > size:
                    break
                plan = SLOW
                if (first == PUBLISH_0 or first == PUBLISH_1) and end - body > 4:
                    after = after_topic = body + 2 + (data[body] << 8) + data[body + 1]
                    if first == PUBLISH_1:
                        after += 2
                    if after + version5 <= end and not (version5 and data[after]):
                        topic = data[body + 2 : after_topic]
                        plan = plans.get(topic) or self.plan(c, topic)
                        if not (plan.fast0 if first == PUBLISH_0 else _fast1(plan, data, after_topic)):
                            plan = SLOW
                if plan is not run or first != kind:
                    if run is not None:
                        if not self._forward(c, data, start, at, count, run, kind, ids):
                            at = start
                            return
                        run = None
                    if plan is not SLOW:
                        if general:
                            general = self._to_core(c, general)
                            if c.closing:
                                return
                            plans = self._plans(c)
                            continue  # what the plan was made from may have changed
                        if not c.held:
                            run, kind, start, count, ids = plan, first, at, 0, []
                if run is not None:
                    count += 1
                    if first == PUBLISH_1:
                        ids.append(after_topic)
                    at = end
                elif first == PUBACK and c.ranges and (settled := self._settle(c, data, at, size)):
                    at += 4 * settled
                elif first == PINGREQ and end == body and not c.held and not general:
                    c.write(PINGRESP)
                    at = end
                else:
                    self._odd(c, decode(first, data[body:end], c.version), general)
                    at = end
            if run is not None and not self._forward(c, data, start, at, count, run, kind, ids):
                at = start
        except PacketError as error:
            if run is not None:
                self._forward_now(c, data, start, at, count, run, kind, ids)
            general = self._to_core(c, general)
            c.fail(error.reason, str(error))
        finally:
            self._to_core(c, general)
            if at < size:
                c.keep(data[at:])

    def _plans(self, c: Connection) -> dict[bytes, Plan]:
        if c.generation != self.driver.generation:
            c.generation = self.driver.generation
            c.plans.clear()
        return c.plans

    def _odd(self, c: Connection, packet: Packet, general: list[Packet]) -> None:
        """A packet for the core, unless it is an acknowledgement of what the core has not sent."""
        if not (type(packet) is Puback and c.ranges and self._settle_one(c, packet.packet_id)):
            general.append(packet)

    def _to_core(self, c: Connection, packets: list[Packet]) -> list[Packet]:
        if packets and not c.closing:
            self.driver.tell_from(c, MqttReceived(c.id, packets))
        return []

    # -- runs ------------------------------------------------------------------------------------------------------------

    def _forward(
        self, c: Connection, data: bytes, start: int, end: int, count: int, plan: Plan, kind: int, ids: list[int]
    ) -> bool:
        """Hand a run to its receivers; False: one of them has too much under way, and `c` waits for it."""
        quota = 0 if kind == PUBLISH_0 else count
        for r in plan.everybody:
            if r.choked or (quota and r.session is not None and not _has_room(r, r.session, quota)):
                if not r.slow:
                    c.wait_for(r)
                    return False
                self._decoded(c, data, start, end)
                return True
        self._forward_now(c, data, start, end, count, plan, kind, ids)
        return True

    def _forward_now(
        self, c: Connection, data: bytes, start: int, end: int, count: int, plan: Plan, kind: int, ids: list[int]
    ) -> None:
        driver = self.driver
        counters = driver.counters
        whole = data if start == 0 and end == len(data) else data[start:end]
        forms = _Forms(whole, c.version, kind == PUBLISH_1, [at - start for at in ids])
        if kind == PUBLISH_0:
            for receivers in (plan.plain, plan.acked):
                for version, connections in receivers.items():
                    form = forms.plain(version)
                    for r in connections:
                        r.write(form)
            counters.publish_received[0] += count
            counters.publish_delivered[0] += count * len(plan.everybody)
            if plan.peers:
                assert c.session is not None
                run = Run(driver.core.id, c.session.client, forms.plain(V311))
                driver.tell(Relayed(plan.peers, run))
        else:
            for version, connections in plan.plain.items():
                form = forms.plain(version)
                for r in connections:
                    r.write(form)
            for version, connections in plan.acked.items():
                for r in connections:
                    session = r.session
                    assert session is not None
                    number = session.number
                    r.write(forms.acked(version, packet_id(number + 1)))
                    session.number = number + count
                    session.leased += count
                    r.lease(number + 1, number + count)
            c.write(forms.acknowledgements())
            counters.publish_received[1] += count
            counters.publish_delivered[1] += count * len(plan.everybody)
        counters.bytes_in += end - start
        journal = driver.journal
        if journal is not None:
            assert c.session is not None
            journal.note(RunNote(driver.core.id, c.session.client, whole, len(plan.everybody), driver.now()))

    def _decoded(self, c: Connection, data: bytes, start: int, end: int) -> None:
        """The same by the general path."""
        packets: list[Packet] = []
        at = start
        while at < end:
            found = header(data, at)
            assert found is not None
            packets.append(decode(data[at], data[found[0] : found[1]], c.version))
            at = found[1]
        self._to_core(c, packets)

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _settle(self, c: Connection, data: bytes, at: int, size: int) -> int:
        """How many PUBACKs from here on are exactly those that are due."""
        first, last = c.ranges[0]
        id = packet_id(first)
        count = min((size - at) // 4, last - first + 1, PACKET_IDS + 1 - id)
        while count and data[at : at + 4 * count] != ACKS[4 * id - 4 : 4 * (id - 1 + count)]:
            count //= 2
        if count:
            if count == last - first + 1:
                c.ranges.popleft()
            else:
                c.ranges[0] = (first + count, last)
            self._settled(c, count)
        return count

    def _settle_one(self, c: Connection, id: int) -> bool:
        """A PUBACK out of turn."""
        for position, (first, last) in enumerate(c.ranges):
            number = first + (id - packet_id(first)) % PACKET_IDS
            if number > last:
                continue
            del c.ranges[position]
            if number < last:
                c.ranges.insert(position, (number + 1, last))
            if number > first:
                c.ranges.insert(position, (first, number - 1))
            self._settled(c, 1)
            return True
        return False

    def _settled(self, c: Connection, count: int) -> None:
        session = c.session
        assert session is not None
        session.leased -= count
        self.driver.counters.acks_in += count
        if c.waiters and session.leased * 2 <= session.quota:
            c.let_go()
        if session.backlog:
            self.driver.tell(MqttReceived(c.id, ()))

    # -- from links ----------------------------------------------------------------------------------------------------

    def spread(self, peer: str, run: Run) -> list[Publish]:
        """A run from a neighbour: to the clients of this broker and to the neighbours beyond. Returns what only the
        general path can handle."""
        data = run.frames
        odd: list[Publish] = []
        at = start = 0
        size = len(data)
        before: Plan | None = None
        count = 0
        while at < size:
            found = header(data, at)
            if found is None or found[1] > size or data[at] != PUBLISH_0:
                break  # a neighbour that sends such a thing is broken; nothing of it is served
            body, end = found
            topic = data[body + 2 : body + 2 + (data[body] << 8) + data[body + 1]]
            plan = self._plan(topic)
            if plan is not before:
                if before is not None:
                    self._spread_run(peer, run, data[start:at], count, before)
                before, start, count = plan, at, 0
            if plan is SLOW or any(r.choked for r in plan.everybody):
                try:
                    packet = decode(PUBLISH_0, data[body:end], V311)
                except PacketError:
                    break
                assert isinstance(packet, Publish)
                odd.append(packet)
                before = None
            else:
                count += 1
            at = end
        if before is not None:
            self._spread_run(peer, run, data[start:at], count, before)
        return odd

    def _spread_run(self, peer: str, run: Run, data: bytes, count: int, plan: Plan) -> None:
        forms = _Forms(data, V311, False, [])
        for receivers in (plan.plain, plan.acked):
            for version, connections in receivers.items():
                form = forms.plain(version)
                for r in connections:
                    r.write(form)
        self.driver.counters.publish_delivered[0] += count * len(plan.everybody)
        onward = tuple(other for other in plan.peers if other != peer)
        if onward:
            self.driver.tell(Relayed(onward, Run(run.origin, run.publisher, data)))
        journal = self.driver.journal
        if journal is not None and plan.everybody:
            journal.note(RunNote(self.driver.core.id, "", data, len(plan.everybody), self.driver.now()))


def _fast1(plan: Plan, data: bytes, at: int) -> bool:
    """QoS 1, with a packet id that is one."""
    return plan.fast1 and (data[at] != 0 or data[at + 1] != 0)


def _has_room(r: Connection, session: Session, count: int) -> bool:
    """Whether a receiver can take so many more of QoS 1 right now, in order and under ids that are free."""
    if session.backlog:
        return False
    under_way = session.leased + len(session.inflight)
    if not under_way:
        return True
    if under_way + count > session.quota:
        return False
    oldest = r.ranges[0][0] if r.ranges else session.number
    if session.inflight:
        oldest = min(oldest, next(iter(session.inflight.values())).number)
    return session.number + count - oldest < PACKET_IDS


class _Forms:
    """A run in the forms that its receivers want, each made once."""

    __slots__ = ("acked_forms", "data", "ids", "plain_forms", "qos1", "version")

    def __init__(self, data: bytes, version: int, qos1: bool, ids: list[int]) -> None:
        self.data = data
        self.version = version
        self.qos1 = qos1
        self.ids = ids
        self.plain_forms: dict[int, bytes] = {}
        self.acked_forms: dict[tuple[int, int], bytes] = {}

    def plain(self, version: int) -> bytes:
        """With QoS 0."""
        if version == self.version and not self.qos1:
            return self.data
        form = self.plain_forms.get(version)
        if form is None:
            form = self.plain_forms[version] = self._written_anew(version, 0)
        return form

    def acked(self, version: int, first_id: int) -> bytes:
        """With QoS 1 and packet ids from `first_id` on."""
        data, ids = self.data, self.ids
        if version == self.version and first_id == (data[ids[0]] << 8) + data[ids[0] + 1] and self._in_sequence():
            return data
        form = self.acked_forms.get((version, first_id))
        if form is None:
            form = self._written_anew(version, first_id) if version != self.version else self._patched(first_id)
            self.acked_forms[version, first_id] = form
        return form

    def acknowledgements(self) -> bytes:
        data, ids = self.data, self.ids
        if self._in_sequence():
            first = (data[ids[0]] << 8) + data[ids[0] + 1]
            return ACKS[4 * first - 4 : 4 * (first - 1 + len(ids))]
        return b"".join(b"\x40\x02" + data[at : at + 2] for at in ids)

    def _in_sequence(self) -> bool:
        """Whether the packet ids count up by one."""
        data, ids = self.data, self.ids
        due = (data[ids[0]] << 8) + data[ids[0] + 1]
        if due + len(ids) > PACKET_IDS + 1:
            return False
        for at in ids:
            if (data[at] << 8) + data[at + 1] != due:
                return False
            due += 1
        return True

    def _patched(self, id: int) -> bytes:
        out = bytearray(self.data)
        for at in self.ids:
            out[at] = id >> 8
            out[at + 1] = id & 255
            id = id + 1 if id < PACKET_IDS else 1
        return bytes(out)

    def _written_anew(self, version: int, id: int) -> bytes:
        """Another version, or another QoS: the same messages with other headers."""
        data = self.data
        pieces: list[bytes] = []
        at, size = 0, len(self.data)
        while at < size:
            found = header(data, at)
            assert found is not None
            body, end = found
            topic_end = body + 2 + (data[body] << 8) + data[body + 1]
            payload = topic_end + (2 if self.qos1 else 0) + (0 if self.version == V311 else 1)
            middle = b""
            if id:
                middle = id.to_bytes(2)
                id = id + 1 if id < PACKET_IDS else 1
            if version != V311:
                middle += b"\0"
            first = PUBLISH_1 if id else PUBLISH_0
            length = topic_end - body + len(middle) + end - payload
            pieces += (bytes((first,)), _length(length), data[body:topic_end], middle, data[payload:end])
            at = end
        return b"".join(pieces)


def _length(length: int) -> bytes:
    """A remaining length [MQTT-1.5.5-1]."""
    out = bytearray()
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    out.append(length)
    return bytes(out)
