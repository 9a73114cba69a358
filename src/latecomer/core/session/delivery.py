"""From the network to the client: which QoS, under which packet id, when, and until it is settled.

A delivery of QoS 1 or 2 gets the session's next number, from which its packet id follows, and stays in the queue until
the client has settled it. It is sent at once if the client can take more (`quota`), otherwise from the backlog when
something else was settled. After a reconnection everything unsettled is sent again, in order; as a duplicate
[MQTT-3.3.1-1] what was sent before, and what may have been before a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from latecomer.core.attributes import attributes_of
from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.core.session.given import Memory
from latecomer.core.session.limits import Access, SessionLimits
from latecomer.core.session.state import (
    HISTORY_END,
    PACKET_IDS,
    STAGES,
    Flight,
    Grade,
    Parcel,
    Session,
    SessionRow,
    Share,
    Stage,
    Subscription,
    Turn,
    packet_id,
)
from latecomer.messages.mqtt import (
    NONE,
    V5,
    Packet,
    PacketError,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
)
from latecomer.model.event import Event, Value
from latecomer.model.record import Kind
from latecomer.model.when import format_when

SLICE = 256
"""Deliveries that leave the backlog of one session in one step; then it is others' turn."""
LATE = "late"
"""The user property of a PUBLISH that waited in an older session of the client: when it was published."""
GRADES_MAX = 4096
"""Topics whose grade a session remembers."""


@dataclass(slots=True)
class Deliveries:
    """Hands events to sessions."""

    orders: Orders
    limits: SessionLimits
    access: Access
    measure: Callable[[Packet, int], int]
    """Bytes of a packet for a version: the codec lives elsewhere."""
    going_on: dict[int, Session] = field(default_factory=dict)
    """By connection: sessions that can be sent more when it is their turn again."""
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.orders)

    # -- from the network --------------------------------------------------------------------------------------------

    def take(self, session: Session, event: Event, hops: int) -> None:
        """An event for this session, by the subscriptions that are its own."""
        grade = self.grade_of(session, event)
        if grade is None:
            return
        self.give(session, event, grade, event.retain and grade.retain_as_published, hops)

    def grade_of(self, session: Session, event: Event) -> Grade | None:
        """What the subscriptions say about an event, whoever published it."""
        if session.no_local and event.publisher == session.client:
            return self._echo_grade(session, event)
        return self.grade(session, event)

    def grade(self, session: Session, event: Event) -> Grade | None:
        """What the subscriptions say about an event; None: nothing, or the client may not have it."""
        topic = event.topic
        if not session.picky:
            try:
                return session.grades[topic]
            except KeyError:
                pass
        if not self.access.may_receive(session.user, session.client, topic):
            grade = None  # bad inputs 14, 19: whatever a filter let through, the topic decides
        else:
            grade = _grade(session, topic, attributes_of(event) if session.picky else {})
        if not session.picky:
            if len(session.grades) >= GRADES_MAX:
                session.grades.clear()
            session.grades[topic] = grade
        return grade

    def plain_qos(self, session: Session, topic: str) -> int | None:
        """For drivers that deliver QoS 0 and 1 themselves: the QoS of a topic, at most 1; -1: the client does not get
        it; None: there is more to it than a QoS."""
        if session.picky or (session.past is not None and session.past.concerns(topic)):
            return None
        grade = session.grades.get(topic)
        if grade is None:
            if not self.access.may_receive(session.user, session.client, topic):
                return -1
            grade = _grade(session, topic, {})
        if grade is None:
            return -1
        return None if grade.ids else min(grade.qos, 1)

    def _echo_grade(self, session: Session, event: Event) -> Grade | None:
        """[MQTT-3.8.3-3] No Local: only subscriptions without it have a say about the client's own publications."""
        if not self.access.may_receive(session.user, session.client, event.topic):
            return None
        return _grade(session, event.topic, attributes_of(event) if session.picky else {}, echo=True)

    def give_shared(
        self, session: Session, event: Event, subscription: Subscription, hops: int, *, outlives: bool
    ) -> None:
        """An event for this session as a member of a group; `outlives`: the group has members that would be there after
        a crash of this broker. With QoS 2 nobody else may get it then, as it may have been sent [MQTT-4.8.2-5]."""
        ids = (subscription.id,) if subscription.id else ()
        qos = min(event.qos, subscription.qos) if event.reliable else 0
        share = Share(subscription.group, subscription.filter, qos == 1 and (outlives or session.durable))
        retain = event.retain and subscription.retain_as_published
        self.hand(session, Parcel(event, qos, retain, ids, share=share), hops)

    def unfinished(self, session: Session) -> list[tuple[Event, Share]]:
        """What other members of its groups get when a session ends: QoS 1 that was not acknowledged, and QoS 2 that was
        not sent [MQTT-4.8.2-5]."""
        waiting = {number: None for number in session.backlog if number > session.recovered}
        return [
            (parcel.event, parcel.share)
            for number, parcel in session.queue.items()
            if parcel is not None and parcel.share is not None and (parcel.qos == 1 or number in waiting)
        ]

    @staticmethod
    def shared_after(session: Session, number: int) -> list[tuple[Event, Share]]:
        """What a session was given after this delivery as a member of groups."""
        late: list[tuple[Event, Share]] = []
        for newer, parcel in reversed(session.queue.items()):
            if newer <= number:
                break
            if parcel is not None and parcel.share is not None:
                late.append((parcel.event, parcel.share))
        return late[::-1]

    def keep_shared_only(self, session: Session) -> None:
        """Leave no deliveries on disk but those that other members of a group are owed if the broker dies."""
        for number, parcel in session.queue.items():
            if parcel is None or parcel.share is None or not parcel.share.stored:
                self.orders.writes.append(Drop("queue", session.client, number))

    def give(self, session: Session, event: Event, grade: Grade, retain: bool, hops: int) -> None:
        """Hand an event over, or keep it for the client."""
        qos = min(event.qos, grade.qos) if event.reliable else 0
        self.hand(session, Parcel(event, qos, retain, grade.ids), hops)

    def replay(self, session: Session, event: Event, grade: Grade) -> None:
        """Hand over an event of the past."""
        qos = min(event.qos, grade.qos) if event.reliable else 0
        self.hand(session, Parcel(event, qos, False, grade.ids, True), -1)

    def hand(self, session: Session, parcel: Parcel, hops: int) -> None:
        event = parcel.event
        if parcel.qos == 0:
            self.orders.awaited |= session.durable  # the session may outlive a crash, and must not get it again
            if session.choked:
                self.dropped(session, event, "slow consumer")
            elif session.connection and self._send(session, parcel, 0, dup=False):
                self._note(session, parcel, hops)  # QoS 0 is for those who are there
            return
        self._make_room(session, parcel.size)
        session.number += 1
        session.queue[session.number] = parcel
        session.queue_bytes += parcel.size
        if session.stores(parcel):
            self.orders.writes.append(Put("queue", session.client, session.number, parcel))
        self._note(session, parcel, hops)
        if session.given is not None and event.reliable:
            self.memory.note(session, event.id)
        session.backlog.append(session.number)
        if session.connection:
            self.pump(session)

    def _note(self, session: Session, parcel: Parcel, hops: int) -> None:
        event = parcel.event
        if event.topic != HISTORY_END:  # which is nobody's publication
            kind = Kind.REPLAYED if parcel.past else Kind.DELIVERED
            self.orders.note(kind, client=session.client, topic=event.topic, event=str(event.id), hops=hops)

    def _make_room(self, session: Session, size: int) -> None:
        """Bad input 13: beyond its bounds a queue loses its oldest delivery that is not under way, and says so."""
        limits = self.limits
        while len(session.queue) >= limits.queue_messages or session.queue_bytes + size > limits.queue_bytes:
            number = self._expendable(session)
            if number is None:
                return
            parcel = session.queue[number]
            assert parcel is not None
            self._forget(session, number)
            self.dropped(session, parcel.event, "queue full")

    @staticmethod
    def _expendable(session: Session) -> int | None:
        """Take the oldest delivery off the backlog that can be let go of. What may have been sent with QoS 2 cannot:
        the client may hold its packet id, and would take the next delivery under it for this one."""
        for position, number in enumerate(session.backlog):
            parcel = session.queue[number]
            if parcel is not None and parcel.event.topic == HISTORY_END:
                continue  # who waits for it would wait for ever
            if number > session.recovered or (parcel is not None and parcel.qos == 1):
                del session.backlog[position]
                return number
        return None

    def dropped(self, session: Session, event: Event, why: str) -> None:
        session.dropped += 1
        self.orders.note(Kind.DROPPED, client=session.client, topic=event.topic, event=str(event.id), detail=why)

    # -- to the client -----------------------------------------------------------------------------------------------

    def pump(self, session: Session) -> None:
        """Send from the backlog what the client can take; a client that can take very much gets it in slices."""
        if session.connection in self.going_on:
            return
        backlog, inflight = session.backlog, session.inflight
        left = SLICE
        while backlog and not session.choked and len(inflight) + session.leased < session.quota:
            if not left:
                self.going_on[session.connection] = session
                self.orders.wake(self.orders.now)
                return
            left -= 1
            number = backlog[0]
            id = packet_id(number)
            if id in inflight or (session.leased and number - session.leased_from >= PACKET_IDS):
                return  # 65,535 deliveries later the id is still taken: wait for it
            backlog.popleft()
            parcel = session.queue[number]
            assert parcel is not None
            event = parcel.event
            begun = session.found < number <= session.recovered
            if 0 < event.expires_us <= self.orders.now and not begun:
                self._expire(session, number, parcel)
                continue
            inflight[id] = Flight(number, Stage.PUBACK if parcel.qos == 1 else Stage.PUBREC)
            session.sent = max(session.sent, number)
            if not self._send(session, parcel, id, dup=number <= session.recovered):
                del inflight[id]
                self._forget(session, number)

    def woken(self) -> None:
        """Send the next slice, to one session after the other."""
        for connection, session in list(self.going_on.items()):
            del self.going_on[connection]
            if session.connection == connection:
                self.pump(session)
                break
        if self.going_on:
            self.orders.wake(self.orders.now)

    def _expire(self, session: Session, number: int, parcel: Parcel) -> None:
        """[MQTT-3.3.2-5] It came too late. If it may have been sent before a restart with QoS 2, the client may hold
        its packet id, and is told to let go of it; a client that does not know it says so, and nothing is lost."""
        self.dropped(session, parcel.event, "expired")
        if number > session.found or parcel.qos == 1:
            self._forget(session, number)
            return
        id = packet_id(number)
        flight = session.inflight[id] = Flight(number, Stage.PUBREC)
        self._release(session, id, flight)

    def resume(self, session: Session) -> None:
        """[MQTT-4.4.0-1] After a reconnection: what was under way again, under its id, then the rest."""
        again = [flight.number for flight in session.inflight.values() if flight.stage is not Stage.PUBCOMP]
        for number in again:
            del session.inflight[packet_id(number)]
        session.backlog.extendleft(reversed(again))
        session.recovered = max(session.recovered, *again, 0)
        for id in session.inflight:
            self.orders.transmit(session.connection, Pubrel(id))
        self.pump(session)

    def recheck(self, session: Session) -> None:
        """Bad input 19: what waits is not handed over to who may no longer have it. What is under way to a connected
        client has left already."""
        under_way: dict[int, int] = {}
        if not session.connection:
            flights = session.inflight.items()
            under_way = {flight.number: id for id, flight in flights if flight.stage is not Stage.PUBCOMP}
        for number in [*session.backlog, *under_way]:
            parcel = session.queue[number]
            assert parcel is not None
            if not self._may_have(session, parcel):
                if number in under_way:
                    del session.inflight[under_way[number]]
                self._forget(session, number)
                self.dropped(session, parcel.event, "no longer allowed")
        session.backlog = deque(number for number in session.backlog if number in session.queue)

    def _may_have(self, session: Session, parcel: Parcel) -> bool:
        topic = parcel.event.topic
        allowed = self.access.may_receive_past if parcel.past else self.access.may_receive
        return topic == HISTORY_END or allowed(session.user, session.client, topic)

    @staticmethod
    def recover_one(session: Session, number: int, parcel: object) -> None:
        """Find a delivery as it was before a restart, or at another broker; in ascending order."""
        assert parcel is None or isinstance(parcel, Parcel)
        session.queue[number] = parcel
        session.number = number
        if parcel is None:
            session.inflight[packet_id(number)] = Flight(number, Stage.PUBCOMP)
        else:
            session.queue_bytes += parcel.size
            session.backlog.append(number)

    def recovered(self, session: Session, row: SessionRow) -> None:
        """The queue is as it was before a restart. What may have been sent goes out as a duplicate: a client that has
        seen the packet id recognises it. That is what had been sent when the session's row was written, and, of a
        client that was connected then, as many of the oldest as may be under way at once: they are sent in order, and
        the next one only after it is safe that an older one is settled. What came while the client was away was never
        sent."""
        session.sent = session.number if row.sent is None else row.sent
        if not row.away_since_us and row.sent is not None:
            under_way = list(islice(session.queue, row.quota))
            session.sent = max(session.sent, *under_way[-1:], 0)
        session.number = max(session.number, session.sent)
        session.recovered = session.found = session.sent

    def _send(self, session: Session, parcel: Parcel, id: int, *, dup: bool) -> bool:
        """Whether it could be sent: a packet beyond the client's limit is dropped [MQTT-3.1.2-25]."""
        event = parcel.event
        properties = self._properties(parcel) if session.version == V5 else NONE
        publish = Publish(event.topic, event.payload, parcel.qos, parcel.retain, dup, id, properties)
        if session.packet_max and self.measure(publish, session.version) > session.packet_max:
            self.dropped(session, event, "larger than the client takes")
            return False
        self.orders.transmit(session.connection, publish)
        return True

    def tell(self, session: Session, parcel: Parcel) -> None:
        """Send what is nobody's publication: nothing is noted, and what is too large for the client is left out."""
        event = parcel.event
        properties = self._properties(parcel) if session.version == V5 else NONE
        publish = Publish(event.topic, event.payload, 0, parcel.retain, False, 0, properties)
        if not session.packet_max or self.measure(publish, session.version) <= session.packet_max:
            self.orders.transmit(session.connection, publish)

    def _properties(self, parcel: Parcel) -> Properties:
        event = parcel.event
        extras = event.extras
        if extras is None and not event.expires_us and not parcel.ids and not (parcel.past or parcel.late):
            return NONE
        left_s = None
        if event.expires_us:  # [MQTT-3.3.2-6] what is left of it, and never more than was given
            left_s = max(0, -((self.orders.now - event.expires_us) // 1_000_000))
        told: tuple[tuple[str, str], ...] = ()
        if parcel.past:  # behind the publisher's own [MQTT-3.3.2-17, -18]
            told = (("published", format_when(event.published_us)), ("event", str(event.id)))
        if parcel.late:
            told += ((LATE, format_when(event.published_us)),)
        if extras is None:
            return Properties(message_expiry_s=left_s, subscription_ids=parcel.ids, user=told)
        return Properties(
            payload_format=extras.payload_format,
            message_expiry_s=left_s,
            content_type=extras.content_type,
            response_topic=extras.response_topic,
            correlation_data=extras.correlation_data,
            subscription_ids=parcel.ids,
            user=extras.user + told,
        )

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def acknowledged(self, session: Session, packet: Puback | Pubrec | Pubcomp) -> None:
        """The client said something about a delivery."""
        flight = session.inflight.get(packet.packet_id)
        if flight is None:
            self._unknown(session, packet)
            return
        turn = STAGES.get((flight.stage, type(packet)))
        if turn is None:
            awaited = flight.stage.value.upper()
            problem = f"{type(packet).__name__.upper()} for packet id {packet.packet_id}, which awaits {awaited}"
            raise PacketError(Reason.PROTOCOL_ERROR, problem)
        if turn is Turn.RELEASE and packet.reason < Reason.UNSPECIFIED_ERROR:
            self._release(session, packet.packet_id, flight)
            return
        del session.inflight[packet.packet_id]
        self._forget(session, flight.number)
        self.pump(session)

    def _release(self, session: Session, id: int, flight: Flight) -> None:
        """[MQTT-4.3.3-2] From here on the client has it; what remains is to let go of the packet id."""
        if flight.stage is not Stage.PUBCOMP:
            flight.stage = Stage.PUBCOMP
            parcel = session.queue[flight.number]
            assert parcel is not None
            session.queue[flight.number] = None
            session.queue_bytes -= parcel.size
            if session.durable:
                self.orders.writes.append(Put("queue", session.client, flight.number, None))
        self.orders.transmit(session.connection, Pubrel(id))

    def _unknown(self, session: Session, packet: Puback | Pubrec | Pubcomp) -> None:
        """An id that is not in use: only a PUBREC has an answer, and must get it or it would come again for ever."""
        if type(packet) is Pubrec and packet.reason < Reason.UNSPECIFIED_ERROR:
            self.orders.transmit(session.connection, Pubrel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))

    def _forget(self, session: Session, number: int) -> None:
        parcel = session.queue.pop(number)
        if parcel is not None:
            session.queue_bytes -= parcel.size
        if session.stores(parcel):
            self.orders.writes.append(Drop("queue", session.client, number))


def _grade(session: Session, topic: str, attributes: Mapping[str, Value], *, echo: bool = False) -> Grade | None:
    return grade_of([sub for sub in session.matching(topic, attributes) if not (echo and sub.no_local)])


def grade_of(matching: Sequence[Subscription]) -> Grade | None:
    """What these subscriptions say together."""
    if not matching:
        return None
    return Grade(
        max(sub.qos for sub in matching),
        tuple(sub.id for sub in matching if sub.id),
        any(sub.retain_as_published for sub in matching),
    )
