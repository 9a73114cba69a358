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

from typing import TYPE_CHECKING

from latecomer.core.inputs import MqttReceived, Relayed
from latecomer.core.session.state import PACKET_IDS, packet_id
from latecomer.messages.link import Run
from latecomer.messages.mqtt import V311, Packet, PacketError, Puback, Pubcomp, Publish, Pubrec, Reason
from latecomer.runtime.forms import ACKS, PUBLISH_0, PUBLISH_1, Forms, Positions, alike, frame_at, joined, moved
from latecomer.runtime.plans import SLOW, Plan, Plans
from latecomer.wire.mqtt import decode, header

if TYPE_CHECKING:
    from latecomer.runtime.connection import Connection
    from latecomer.runtime.driver import Driver

PUBACK, PINGREQ = 0x40, 0xC0
PUBLISHES = (PUBLISH_0, PUBLISH_1)
ACKNOWLEDGEMENTS = (Puback, Pubrec, Pubcomp)
PINGRESP = b"\xd0\x00"
TURN_PACKETS = 1024
"""Packets of one client that the core takes before it is others' turn. With 128, a client that acknowledged at once was
behind by `limits.inflight` after a second at 20,000 messages a second, since each turn may wait for the disk."""
TURNS_HELD_MAX = 2
"""Turns of one client that may wait for the disk before its next one."""


class FastPath:
    """The walk over a chunk, and over a neighbour's run."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.plans = Plans(driver)

    # -- the walk ----------------------------------------------------------------------------------------------------

    def receive(self, c: Connection, data: bytes) -> None:
        """Take a chunk from a connected client; what cannot be taken yet is left with the connection."""
        version5, packet_max, size = c.version != V311, self.driver.packet_max, len(data)
        plans, only = self.plans.of(c), b""  # the topic of a run that has one only
        at = start = count = kind = 0
        run: Plan | None = None
        ids: Positions = []  # of the packet ids of a run of QoS 1
        general: list[Packet] = []
        try:
            while at + 1 < size:
                first = data[at]
                body = at + 2
                end = body + data[at + 1]
                if data[at + 1] > 127:
                    body, end = header(data, at) or (at, size + 1)
                if end - at > packet_max:
                    raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet has at most {packet_max} bytes here")
                if end > size:
                    break
                plan = SLOW
                if first in PUBLISHES and end - body > 4:
                    after_topic = body + 2 + (data[body] << 8) + data[body + 1]
                    after = after_topic + 2 if first == PUBLISH_1 else after_topic
                    if after + version5 <= end and not (version5 and data[after]):
                        topic = data[body + 2 : after_topic]
                        plan = plans.get(topic) or self.plans.make(c, topic)
                        if not (plan.fast0 if first == PUBLISH_0 else _fast1(plan, data, after_topic)):
                            plan = SLOW
                if plan is not run or first != kind or (count == plan.most and first == PUBLISH_1):
                    if run is not None:
                        if not self._forward(c, data, start, at, count, run, kind, ids, only):
                            at = start
                            return
                        run = None
                    if plan is not SLOW:
                        if general:
                            general = self._to_core(c, general)
                            if not c.attached:
                                return
                            plans = self.plans.of(c)
                            continue  # what the plan was made from may have changed
                        if not c.held:
                            run, kind, start, count, ids, only = plan, first, at, 0, [], topic
                if run is not None:
                    count, only = count + 1, only if topic == only else b""
                    more = 0
                    if end < size and data[end] == first:
                        more = alike(data, at, end, after_topic, after, version5, plan.most - count)
                    if first == PUBLISH_1:
                        ids = joined(ids, range(after_topic, after_topic + (more + 1) * (end - at), end - at))
                    count, end = count + more, end + more * (end - at)
                elif first == PUBACK and c.ranges and (settled := self._settle(c, data, at, size)):
                    end = at + 4 * settled
                elif first == PINGREQ and end == body and not c.held and not general:
                    self._answer_ping(c)
                elif not self._odd(c, decode(first, data[body:end], c.version), general):
                    at = end
                    return
                at = end
            if run is not None and not self._forward(c, data, start, at, count, run, kind, ids, only):
                at = start
        except PacketError as error:
            if run is not None:
                self._decoded(c, data, start, at)
            general = self._to_core(c, general)
            c.fail(error.reason, str(error))
        finally:
            self._to_core(c, general)
            if at < size and c.attached:
                c.keep(data[at:])

    def _end_turn(self, c: Connection) -> None:
        """Take no more from a client before others had their turn, and the disk most of what this one sent: a client
        that says very much at once, such as a hundred thousand acknowledgements, must not make the others wait."""
        if c.waits_for is c:
            return  # some transports hand over what they have read although they are paused
        c.waits_for, c.waiters[c] = c, None
        c.pause()
        if c.held + 1 < TURNS_HELD_MAX:
            self.driver.loop.call_soon(c.let_go)

    def _answer_ping(self, c: Connection) -> None:
        c.write(PINGRESP)
        self.driver.counters.others_in += 1
        self.driver.counters.others_out += 1

    def _odd(self, c: Connection, packet: Packet, general: list[Packet]) -> bool:
        """A packet for the core, unless it is an acknowledgement of what the core has not sent; whether the next one
        may follow at once."""
        if self.driver.full and type(packet) is Publish and (packet.qos or packet.retain):
            c.refuse_publication(packet)
        elif not (c.ranges and isinstance(packet, ACKNOWLEDGEMENTS) and self._settle_one(c, packet)):
            general.append(packet)
        if len(general) == TURN_PACKETS:
            self._end_turn(c)
            return False
        return c.attached

    def _to_core(self, c: Connection, packets: list[Packet]) -> list[Packet]:
        if packets and c.attached:
            received = self.driver.counters.publish_received
            for packet in packets:
                if type(packet) is Publish:
                    received[packet.qos] += 1
                else:
                    self.driver.counters.others_in += 1
            self.driver.tell_from(c, MqttReceived(c.id, packets))
        return []

    # -- runs --------------------------------------------------------------------------------------------------------

    def _forward(
        self,
        c: Connection,
        data: bytes,
        start: int,
        end: int,
        count: int,
        plan: Plan,
        kind: int,
        ids: Positions,
        only: bytes,
    ) -> bool:
        """Hand a run to its receivers; False: one of them has too much under way, and `c` waits for it."""
        quota = 0 if kind == PUBLISH_0 else count
        if quota or self.driver.choked or self.driver.writing:
            for r in plan.everybody:
                if r.held:  # what it was promised waits for the disk, perhaps its CONNACK [MQTT-3.2.0-1]
                    return self._decoded(c, data, start, end)
                if r.choked or (quota and not _has_room(r, quota)):
                    if r.slow:
                        return self._decoded(c, data, start, end)
                    c.wait_for(r)
                    return False
        self._forward_now(c, data, start, end, count, plan, kind, ids)
        self._note(c, data, start, end, count, plan, only)
        return True

    def _forward_now(
        self, c: Connection, data: bytes, start: int, end: int, count: int, plan: Plan, kind: int, ids: Positions
    ) -> None:
        driver = self.driver
        counters = driver.counters
        whole = data if start == 0 and end == len(data) else data[start:end]
        if kind == PUBLISH_0:
            if plan.version == c.version and not plan.peers:
                for r in plan.everybody:
                    try:
                        r.write(whole)
                    except Exception as error:
                        driver.containment.write_failed(r, error)
                counters.bytes_out += len(whole) * len(plan.everybody)
            else:
                self._forward_plain(c, whole, plan)
            counters.publish_received[0] += count
            counters.publish_delivered[0] += count * len(plan.everybody)
        else:
            if count == 1 and plan.uniform and plan.version == c.version:
                self._forward_single(c, whole, ids[0] - start, plan)
            else:
                self._forward_acked(c, Forms(whole, c.version, True, moved(ids, -start)), count, plan)
            counters.publish_received[1] += count
            counters.others_out += count
            counters.publish_delivered[1] += count * plan.acking
            counters.publish_delivered[0] += count * (len(plan.everybody) - plan.acking)

    def _note(self, c: Connection, data: bytes, start: int, end: int, count: int, plan: Plan, only: bytes) -> None:
        """For the event log."""
        journal = self.driver.journal
        if journal is None or c.session is None:
            return
        if only:
            journal.run(c.session.client, only, count, len(plan.everybody))
        else:
            journal.mixed_run(c.session.client, data[start:end], len(plan.everybody))

    def _forward_plain(self, c: Connection, whole: bytes, plan: Plan) -> None:
        """QoS 0 to receivers of both versions, and to neighbours."""
        forms = Forms(whole, c.version, False, [])
        self._write_plain(forms, plan.plain)
        self._write_plain(forms, plan.acked)
        if plan.peers:
            assert c.session is not None
            run = Run(self.driver.core.id, c.session.client, forms.plain(V311))
            self.driver.tell(Relayed(plan.peers, run))

    def _write_plain(self, forms: Forms, receivers: dict[int, list[Connection]]) -> None:
        """With QoS 0, each version in its form."""
        for version, connections in receivers.items():
            form = forms.plain(version)
            for r in connections:
                try:
                    r.write(form)
                except Exception as error:
                    self.driver.containment.write_failed(r, error)
            self.driver.counters.bytes_out += len(form) * len(connections)

    def _forward_single(self, c: Connection, frame: bytes, at: int, plan: Plan) -> None:
        """The same for one message and receivers of one kind: most of what it takes is not needed."""
        id = frame[at : at + 2]
        for r in plan.everybody:
            session = r.session
            assert session is not None
            number = session.number = session.number + 1
            if not session.leased:
                session.leased_from = number
            session.leased += 1
            r.lease(number, number)
            own = packet_id(number).to_bytes(2)
            try:
                r.write(frame if own == id else frame[:at] + own + frame[at + 2 :])
            except Exception as error:
                self.driver.containment.write_failed(r, error)
        c.write(b"\x40\x02" + id)
        self.driver.counters.bytes_out += len(frame) * len(plan.everybody) + 4

    def _forward_acked(self, c: Connection, forms: Forms, count: int, plan: Plan) -> None:
        """QoS 1, under packet ids of each receiver's own."""
        self._write_plain(forms, plan.plain)
        for version, connections in plan.acked.items():
            for r in connections:
                session = r.session
                assert session is not None
                number = session.number
                if not session.leased:
                    session.leased_from = number + 1
                form = forms.acked(version, packet_id(number + 1))
                try:
                    r.write(form)
                except Exception as error:
                    self.driver.containment.write_failed(r, error)
                self.driver.counters.bytes_out += len(form)
                session.number = number + count
                session.leased += count
                r.lease(number + 1, number + count)
        answer = forms.acknowledgements() if plan.wanted or c.version == V311 else forms.unwanted()
        c.write(answer)
        self.driver.counters.bytes_out += len(answer)

    def _decoded(self, c: Connection, data: bytes, start: int, end: int) -> bool:
        """The same by the general path; whether the connection stands."""
        packets: list[Packet] = []
        at = start
        while at < end:
            found = header(data, at)
            assert found is not None
            packets.append(decode(data[at], data[found[0] : found[1]], c.version))
            at = found[1]
        self._to_core(c, packets)
        return c.attached

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def settles(self, c: Connection, data: bytes) -> bool:
        """Take a chunk that has nothing but the PUBACKs that are due; False: it has something else."""
        first, last = c.ranges[0]
        id, count = packet_id(first), len(data) // 4
        if count > last - first + 1 or data != ACKS[4 * id - 4 : 4 * (id - 1 + count)]:
            return False
        self._settle_first(c, count)
        return True

    def _settle(self, c: Connection, data: bytes, at: int, size: int) -> int:
        """How many PUBACKs from here on are exactly those that are due."""
        first, last = c.ranges[0]
        id = packet_id(first)
        count = min((size - at) // 4, last - first + 1, PACKET_IDS + 1 - id)
        while count and data[at : at + 4 * count] != ACKS[4 * id - 4 : 4 * (id - 1 + count)]:
            count //= 2
        if count:
            self._settle_first(c, count)
        return count

    def _settle_first(self, c: Connection, count: int) -> None:
        first, last = c.ranges[0]
        if count == last - first + 1:
            c.ranges.popleft()
        else:
            c.ranges[0] = (first + count, last)
        self._settled(c, count)

    def _settle_one(self, c: Connection, packet: Puback | Pubrec | Pubcomp) -> bool:
        """A PUBACK out of turn; nothing else can be said of a delivery of QoS 1."""
        id = packet.packet_id
        for position, (first, last) in enumerate(c.ranges):
            number = first + (id - packet_id(first)) % PACKET_IDS
            if number > last:
                continue
            if type(packet) is not Puback:
                problem = f"{type(packet).__name__.upper()} for packet id {id}, which awaits PUBACK"
                raise PacketError(Reason.PROTOCOL_ERROR, problem)
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
        self.driver.counters.others_in += count
        session.leased -= count
        session.leased_from = c.ranges[0][0] if c.ranges else 0
        if session.leased * 2 <= session.quota:
            if c.waiters:
                c.let_go()
            if not c.choked and not session.backlog:
                c.slow = False  # it has caught up
        if session.backlog:
            self.driver.tell(MqttReceived(c.id, ()))

    # -- from links --------------------------------------------------------------------------------------------------

    def spread(self, peer: str, run: Run) -> list[Publish]:
        """A run from a neighbour: to the clients of this broker and to the neighbours beyond. Returns what only the
        general path can handle."""
        data = run.frames
        odd: list[Publish] = []
        at = start = 0
        size = len(data)
        before: Plan | None = None
        plan, topic, slow = SLOW, b"", True
        count = 0
        while at < size:
            found = frame_at(data, at)
            if found is None:
                break  # a neighbour that sends such a thing is broken; what follows is not served
            body, after_topic, end = found
            if data[body + 2 : after_topic] != topic:
                topic = data[body + 2 : after_topic]
                plan = self.plans.anybodys(topic)
            if plan is not before:
                if before is not None:
                    self._spread_run(peer, run, data[start:at], count, before)
                before, start, count = plan, at, 0
                slow = plan is SLOW or any(r.choked or r.held for r in plan.everybody)
            if slow:
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
        forms = Forms(data, V311, False, [])
        self._write_plain(forms, plan.plain)
        self._write_plain(forms, plan.acked)
        self.driver.counters.publish_delivered[0] += count * len(plan.everybody)
        onward = tuple(other for other in plan.peers if other != peer)
        if onward:
            self.driver.tell(Relayed(onward, Run(run.origin, run.publisher, data)))
        journal = self.driver.journal
        if journal is not None and plan.everybody:
            journal.mixed_run("", data, len(plan.everybody))


def _fast1(plan: Plan, data: bytes, at: int) -> bool:
    """QoS 1, with a packet id that is one."""
    return plan.fast1 and (data[at] != 0 or data[at + 1] != 0)


def _has_room(r: Connection, count: int) -> bool:
    """Whether a receiver can take so many more of QoS 1 right now, in order and under ids that are free."""
    session = r.session
    if session is None or session.backlog:
        return False
    number, inflight = session.number, session.inflight
    if session.leased + len(inflight) + count > session.quota:
        return False
    if session.leased and number + count - session.leased_from >= PACKET_IDS:
        return False
    return not inflight or not any(packet_id(number + ahead) in inflight for ahead in range(1, count + 1))
