"""From the client to the network: PUBLISH and PUBREL, topic aliases, and what a publication may be.

A publication of QoS 2 is taken on its PUBLISH, together with its packet id and in one write, and never again under
that id until the PUBREL: so it enters the network once, whatever breaks in between [MQTT-4.3.3-10].
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.effects import Drop, Put
from latecomer.core.events import Events
from latecomer.core.orders import Orders
from latecomer.core.session.limits import Access, SessionLimits
from latecomer.core.session.state import Session
from latecomer.messages.mqtt import (
    NONE,
    V5,
    PacketError,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Will,
)
from latecomer.model.errors import FilterError
from latecomer.model.event import Event, Extras
from latecomer.model.ids import EventId
from latecomer.model.record import Kind
from latecomer.model.topics import check_topic

UNBORN = EventId("-", 0, 0)
"""The identity of an event that has none yet."""
TOPICS_MAX = 4096


@dataclass(slots=True)
class Publishing:
    """Takes what clients publish."""

    orders: Orders
    limits: SessionLimits
    access: Access
    events: Events
    legal: dict[str, None] = field(default_factory=dict)
    """Topics that were found to be within the limits."""
    owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each user has retained here: messages, bytes."""
    owned: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By topic, who retained it here and how large it is."""

    def __post_init__(self) -> None:
        self.events.retained.gone = self._disown

    # -- PUBLISH -----------------------------------------------------------------------------------------------------

    def publish(self, session: Session, packet: Publish) -> None:
        topic = self._topic(session, packet)
        if packet.properties.subscription_ids:  # [MQTT-3.3.4-6]
            raise PacketError(Reason.PROTOCOL_ERROR, "a subscription identifier is for servers to send")
        if packet.qos == 2:
            if packet.packet_id in session.incoming:
                session.inherited.pop(packet.packet_id, None)
                self._answer(session, packet, Reason.SUCCESS, "")  # [MQTT-4.3.3-10] it is in the network already
                return
            if len(session.incoming) - len(session.inherited) >= self.limits.receive_maximum:
                problem = f"more than {self.limits.receive_maximum} publications under way"
                raise PacketError(Reason.RECEIVE_MAXIMUM_EXCEEDED, problem)
        reason, problem = self._problem(session.user, session.client, topic, packet.retain, len(packet.payload))
        if packet.properties.response_topic is not None and reason is Reason.SUCCESS:
            reason, problem = self._response_problem(session.user, session.client, packet.properties.response_topic)
        if reason is Reason.SUCCESS:
            reason, problem = self._enter(session, packet, topic)
        if reason >= Reason.UNSPECIFIED_ERROR:
            self.orders.note(
                Kind.REFUSED, client=session.client, topic=topic, detail=f"{reason.name.lower()}: {problem}"
            )
            if session.version != V5 and reason is Reason.QUOTA_EXCEEDED:
                raise PacketError(reason, problem)  # 3.1.1 has no other way to say that it was not taken
        elif packet.qos == 2:
            session.incoming[packet.packet_id] = None
            if session.durable:
                self.orders.writes.append(Put("incoming", session.client, packet.packet_id, 1))
        self._answer(session, packet, reason, problem)

    def _topic(self, session: Session, packet: Publish) -> str:
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if alias > self.limits.topic_alias_maximum:
            problem = f"topic alias {alias} is above {self.limits.topic_alias_maximum}"
            raise PacketError(Reason.TOPIC_ALIAS_INVALID, problem)  # [MQTT-3.3.2-9]
        if packet.topic:
            if self.topic_problem(packet.topic) is None:  # what will be refused is not worth remembering
                session.aliases[alias] = packet.topic
            return packet.topic
        try:
            return session.aliases[alias]
        except KeyError:
            raise PacketError(Reason.PROTOCOL_ERROR, f"topic alias {alias} stands for nothing") from None

    def _problem(self, user: str, client: str, topic: str, retain: bool, size: int) -> tuple[Reason, str]:
        """Why a publication cannot be taken."""
        if topic not in self.legal:
            problem = self.topic_problem(topic)
            if problem is not None:
                return Reason.TOPIC_NAME_INVALID, problem
            if len(self.legal) >= TOPICS_MAX:
                self.legal.clear()
            self.legal[topic] = None
        if topic[0] == "$" if self.access.open_to_all else not self.access.may_publish(user, client, topic):
            return Reason.NOT_AUTHORIZED, "you may not publish to this topic"
        if retain and size and not self._may_retain(user, topic, size + len(topic)):
            return Reason.QUOTA_EXCEEDED, "too much is retained already: delete some, or raise limits.retained_…"
        return Reason.SUCCESS, ""

    def _response_problem(self, user: str, client: str, topic: str) -> tuple[Reason, str]:
        """Bad input 17: nobody makes others answer to where it may neither listen nor speak itself; nor where it is too
        long to be published to here (bad input 7)."""
        problem = self.topic_problem(topic)
        if problem is not None:
            return Reason.TOPIC_NAME_INVALID, f"response topic: {problem}"
        if topic[:1] == "$" or not (
            self.access.may_receive(user, client, topic) or self.access.may_publish(user, client, topic)
        ):
            return Reason.NOT_AUTHORIZED, "you may not have answers sent to this topic"
        return Reason.SUCCESS, ""

    def topic_problem(self, topic: str) -> str | None:
        """Why a topic name is not one, or beyond the limits of this broker (bad input 7)."""
        if topic.count("/") >= self.limits.topic_levels:
            return f"a topic has at most {self.limits.topic_levels} levels here"
        if (len(topic) if topic.isascii() else len(topic.encode("utf-8", "replace"))) > self.limits.topic_bytes:
            return f"a topic has at most {self.limits.topic_bytes} bytes here"
        try:
            check_topic(topic)
        except FilterError as error:
            return error.problem
        return None

    def _enter(self, session: Session, packet: Publish, topic: str) -> tuple[Reason, str]:
        """Into the network."""
        wanted = self.originate(session.client, session.user, topic, packet)
        if wanted is None:
            return Reason.QUOTA_EXCEEDED, "the outbox is full: links are down or slow"
        return (Reason.SUCCESS if wanted else Reason.NO_MATCHING_SUBSCRIBERS), ""

    def originate(self, client: str, user: str, topic: str, message: Publish | Will) -> bool | None:
        """Make an event of a message; whether anybody is known to want it, None if there is no room."""
        properties = message.properties
        now = self.orders.now
        expires_us = 0 if properties.message_expiry_s is None else now + properties.message_expiry_s * 1_000_000
        published_us = now
        if message.retain:
            published_us = self.events.retained.stamp_after(topic, now)
        wanted = self.events.originate(
            Event(
                UNBORN,
                topic,
                client,
                published_us,
                message.qos > 0 or message.retain,  # what is retained must reach every broker
                {},
                message.payload,
                message.qos,
                message.retain,
                expires_us,
                _extras(properties),
            )
        )
        if message.retain and wanted is not None:
            self._note_owner(user, topic, len(message.payload) and len(message.payload) + len(topic))
        return wanted

    def _answer(self, session: Session, packet: Publish, reason: Reason, problem: str) -> None:
        if packet.qos == 0:
            return
        if session.version != V5:
            reason = Reason.SUCCESS  # [MQTT-3.3.5-2] of 3.1.1: acknowledge, or close
        properties = Properties(reason_string=problem) if problem and session.explains else NONE
        answer = Puback if packet.qos == 1 else Pubrec
        self.orders.transmit(session.connection, answer(packet.packet_id, reason, properties))

    def release(self, session: Session, packet: Pubrel) -> None:
        """PUBREL: the packet id may be used again."""
        session.inherited.pop(packet.packet_id, None)
        if session.incoming.pop(packet.packet_id, 0) is None:
            if session.durable:
                self.orders.writes.append(Drop("incoming", session.client, packet.packet_id))
            self.orders.transmit(session.connection, Pubcomp(packet.packet_id))
        else:
            self.orders.transmit(session.connection, Pubcomp(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))

    # -- wills -------------------------------------------------------------------------------------------------------

    def will_problem(self, user: str, client: str, will: Will) -> tuple[Reason, str]:
        """Bad input 20: a will is a publication, and what must not be published must not be left as a will."""
        reason, problem = self._problem(user, client, will.topic, will.retain, len(will.payload))
        if will.properties.response_topic is not None and reason is Reason.SUCCESS:
            return self._response_problem(user, client, will.properties.response_topic)
        return reason, problem

    def publish_will(self, session: Session, will: Will) -> None:
        reason, problem = self.will_problem(session.user, session.client, will)  # rights may have changed since
        if reason is Reason.SUCCESS:
            self.originate(session.client, session.user, will.topic, will)
        else:
            detail = f"{reason.name.lower()}: will: {problem}"
            self.orders.note(Kind.REFUSED, client=session.client, topic=will.topic, detail=detail)

    # -- what is retained, by whom -------------------------------------------------------------------------------------

    def _may_retain(self, user: str, topic: str, size: int) -> bool:
        """Bad input 10. What it would replace does not count."""
        limits, retained = self.limits, self.events.retained
        retained.expire(self.orders.now)
        before = retained.events.get(topic)
        replaced = 0 if before is None else len(before.payload) + len(topic)
        if retained.size - replaced + size > limits.retained_bytes:
            return False
        if before is None and len(retained.events) >= limits.retained_messages:
            return False
        count, total = self.owners.get(user, (0, 0))
        owner, own = self.owned.get(topic, ("", 0))
        if owner == user and own:
            count, total = count - 1, total - own
        return count < limits.retained_per_user and total + size <= limits.retained_bytes_per_user

    def _disown(self, topic: str) -> None:
        """It is no longer retained, or by somebody else."""
        owner, own = self.owned.pop(topic, ("", 0))
        if own:
            count, total = self.owners.pop(owner)
            if count > 1:
                self.owners[owner] = (count - 1, total - own)

    def _note_owner(self, user: str, topic: str, size: int) -> None:
        if size:
            count, total = self.owners.get(user, (0, 0))
            self.owners[user] = (count + 1, total + size)
            self.owned[topic] = (user, size)


def _extras(properties: Properties) -> Extras | None:
    if properties is NONE:
        return None
    extras = Extras(
        properties.payload_format,
        properties.content_type,
        properties.response_topic,
        properties.correlation_data,
        properties.user,
    )
    return None if extras == Extras() else extras
