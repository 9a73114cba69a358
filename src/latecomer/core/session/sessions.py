"""Sessions from CONNECT to their end: take-over, expiry, wills, and who handles which packet.

Theory of operation. A session belongs to a client id and to the user who made it. While connected it has exactly one
connection; facts about any other are ignored. When the connection goes, the session waits for `expiry_s`; its will
waits for the shorter of that and its own delay. A session that outlives its connection (`durable`) stands on disk with
everything that belongs to it; one that does not leaves nothing there but its will, so that the will is published also
if it is this broker that died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

import msgspec

from latecomer.core.clients import Clients, Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.handing_on import hand_on
from latecomer.core.inputs import MqttConnected, MqttFailed, MqttLost, MqttReceived, RulesChanged, SessionEnded
from latecomer.core.orders import Orders
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.limits import NEVER_S, Access, SessionLimits
from latecomer.core.session.publishing import Publishing
from latecomer.core.session.recall import Recalls
from latecomer.core.session.state import PACKET_IDS, Parcel, Refusal, Session, SessionRow, Subscription
from latecomer.core.session.subscribing import Subscribing
from latecomer.core.session.terms import connack_to, terms_of
from latecomer.core.shares import GroupName, Shares
from latecomer.messages.mqtt import (
    V5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Subscribe,
    Unsubscribe,
)
from latecomer.model.event import Event
from latecomer.model.ids import ClientId, Instant
from latecomer.model.record import SESSION_ENDED, Kind

CLIENT_ID_BYTES = 1024
SECOND_US = 1_000_000
TIMERS_SPARE = 64


@dataclass(slots=True)
class Sessions:
    """The MQTT clients of this broker, by client id and by connection."""

    orders: Orders
    limits: SessionLimits
    access: Access
    durability: str
    clients: Clients
    shares: Shares
    deliveries: Deliveries
    publishing: Publishing
    subscribing: Subscribing
    recalls: Recalls
    by_client: dict[ClientId, Session] = field(default_factory=dict)
    by_connection: dict[int, Session] = field(default_factory=dict)
    per_user: dict[str, int] = field(default_factory=dict)
    timers: list[tuple[Instant, int, Session]] = field(default_factory=list)
    _order: int = 0
    _on_packet: dict[type, Callable[[Session, Any], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        deliveries, publishing, subscribing = self.deliveries, self.publishing, self.subscribing
        self._on_packet = {
            Publish: publishing.publish,
            Pubrel: publishing.release,
            Puback: deliveries.acknowledged,
            Pubrec: deliveries.acknowledged,
            Pubcomp: deliveries.acknowledged,
            Subscribe: subscribing.subscribe,
            Unsubscribe: subscribing.unsubscribe,
            Pingreq: lambda session, _: self.orders.transmit(session.connection, Pingresp()),
            Disconnect: self._said_goodbye,
            Auth: self._auth,
        }
        self.clients.deliver_shared = self._deliver_shared

    # -- facts -------------------------------------------------------------------------------------------------------

    def on_connected(self, fact: MqttConnected) -> None:
        try:
            self._connect(fact)
        except Refusal as refusal:
            version = fact.packet.version
            properties = Properties(reason_string=refusal.problem) if version == V5 else Properties()
            detail = f"{refusal.reason.name.lower()}: {refusal.problem}"
            self.orders.note(Kind.REFUSED, client=fact.packet.client_id, detail=detail)
            self.orders.transmit(fact.connection, Connack(False, refusal.reason, properties))
            self.orders.close(fact.connection, refusal.problem)

    def on_received(self, fact: MqttReceived) -> None:
        handlers = self._on_packet
        if not fact.packets and (session := self.by_connection.get(fact.connection)) is not None:
            self.deliveries.pump(session)  # the driver says that more can be sent
        for packet in fact.packets:
            session = self.by_connection.get(fact.connection)
            if session is None:
                return  # closed by what came before
            handler = handlers.get(type(packet))
            try:
                if handler is None:
                    raise PacketError(Reason.PROTOCOL_ERROR, _unexpected(packet))
                handler(session, packet)
            except PacketError as error:
                self._fail(session, error.reason, str(error))
                return
        session = self.by_connection.get(fact.connection)
        if session is not None and session.past is not None:
            self.recalls.go_on(session)

    def on_failed(self, fact: MqttFailed) -> None:
        session = self.by_connection.get(fact.connection)
        if session is not None:
            self._fail(session, fact.reason, fact.problem)

    def on_lost(self, fact: MqttLost) -> None:
        session = self.by_connection.get(fact.connection)
        if session is not None:
            self._away(session, "the connection broke", keep_will=True)

    def on_ended(self, fact: SessionEnded) -> None:
        """The operator ends a session. Its will is published: that is what a session's end means [MQTT-3.1.2-8]."""
        session = self.by_client.get(fact.client)
        if session is None:
            return
        if session.connection:
            self._fail(session, Reason.ADMINISTRATIVE_ACTION, fact.reason)
        if self.by_client.get(fact.client) is session:  # it has not ended with its connection
            self._end(session, f"by the operator: {fact.reason}")

    def on_rules_changed(self, _: RulesChanged) -> None:
        for session in list(self.by_client.values()):
            self.subscribing.recheck(session)

    def woken(self) -> None:
        """Publish wills and end sessions whose time has come."""
        now = self.orders.now
        while self.timers and self.timers[0][0] <= now:
            _, _, session = heappop(self.timers)
            if self.by_client.get(session.client) is session and not session.connection:
                self._keep_time(session)
        self.subscribing.woken()
        self.subscribing.subacks.woken()
        self.recalls.woken()

    def _keep_time(self, session: Session) -> None:
        """Do what is due for a session that is away."""
        now = self.orders.now
        if session.will_due is not None and session.will_due <= now:
            self._publish_will(session)
        if session.ends_at is not None and session.ends_at <= now:
            self._end(session, "expired")

    def due(self) -> Instant | None:
        timer = self.timers[0][0] if self.timers else None
        found = (timer, self.subscribing.due, self.subscribing.subacks.due(), self.recalls.due())
        dues = [due for due in found if due is not None]
        return min(dues) if dues else None

    def recover(self, disk: Disk) -> None:
        """Find the sessions as they were; nobody is connected, and those who were have just gone."""
        now = self.orders.now
        subscriptions, queues, incoming = (disk.get(table, {}) for table in ("subscriptions", "queue", "incoming"))
        recalls, held = disk.get("recall", {}), disk.get("held", {})
        for client, row in disk.get("session", {}).get("", {}).items():
            assert isinstance(row, SessionRow)
            session = Session(str(client), row.user, row.version, row.expiry_s, will=row.will, stored=True)
            session.away_since = row.away_since_us or now
            self._enter(session)
            for subscription in subscriptions.get(session.client, {}).values():
                assert isinstance(subscription, Subscription)
                self.subscribing.recover(session, subscription)
            self.deliveries.recover(session, queues.get(session.client, {}), row)
            if not row.away_since_us:
                self._store(session)  # another crash must not give it, or its will, more time
            session.incoming = {int(id): None for id in incoming.get(session.client, {})}
            self.recalls.recover(session, recalls.get(session.client, {}), held.get(session.client, {}))
            if not self.access.open_to_all:
                self.subscribing.recheck(session)  # the rules may be others than before
        self._hand_on_orphans(queues)
        for session in list(self.by_client.values()):  # all subscriptions are there now: wills may be published
            self._wait(session, session.away_since)

    # -- CONNECT -----------------------------------------------------------------------------------------------------

    def _connect(self, fact: MqttConnected) -> None:
        packet = fact.packet
        client = self._client_id(fact)
        self._check(fact, client)
        self._check_connack(packet, client)
        session = self.by_client.get(client)
        if session is not None and not session.connection:
            self._keep_time(session)  # a broker that was stopped or dead may hear of the client before its alarms
            session = self.by_client.get(client)
        if session is not None:
            if session.user != fact.user:  # bad input 21
                raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "this client id belongs to somebody else")
            if session.connection:
                self._take_over(session)
        # A session that ended with the connection taken over is gone by now.
        session = self.by_client.get(client)
        if session is not None and packet.clean_start:
            self._end(session, "clean start")  # [MQTT-3.1.2-4]
            session = None
        present = session is not None
        if session is None:
            self._check_room(fact.user)
            session = Session(client, fact.user)
            self._enter(session)
        self._attach(session, fact)
        self.orders.note(Kind.CONNECTED, client=client, count=len(session.queue), detail=f"mqtt {packet.version}")
        connack = connack_to(packet, client, present, self.limits, self.durability)
        self.orders.transmit(session.connection, connack)
        self.deliveries.resume(session)
        self.recalls.resume(session)

    def _client_id(self, fact: MqttConnected) -> ClientId:
        packet = fact.packet
        if packet.client_id:
            return packet.client_id
        if packet.version != V5 and not packet.clean_start:
            # [MQTT-3.1.3-8] of 3.1.1
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "a client without an id must ask for a clean session")
        return fact.fresh_id

    def _check(self, fact: MqttConnected, client: ClientId) -> None:
        packet = fact.packet
        if packet.properties.authentication_method is not None:
            raise Refusal(Reason.BAD_AUTHENTICATION_METHOD, "no enhanced authentication here: use a password")
        if len(client.encode()) > CLIENT_ID_BYTES:
            problem = f"a client id has at most {CLIENT_ID_BYTES} bytes here"
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, problem)
        problem = self.access.client_problem(fact.user, client) or ""
        if problem:
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, problem)
        if client in self.clients.mailboxes:
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "this client id is in use inside the broker")
        limits = self.limits
        too_long = packet.keep_alive_s == 0 or packet.keep_alive_s > limits.keep_alive_max_s
        if packet.version != V5 and too_long and not limits.keep_alive_longer_for_311:
            problem = f"keep-alive must be 1 to {limits.keep_alive_max_s} s"
            raise Refusal(Reason.NOT_AUTHORIZED, problem)  # bad input 6
        if packet.will is not None:
            reason, problem = self.publishing.will_problem(fact.user, client, packet.will)
            if reason is not Reason.SUCCESS:
                raise Refusal(reason, f"will: {problem}")

    def _check_room(self, user: str) -> None:
        """Bad input 11."""
        limits = self.limits
        if len(self.by_client) >= limits.sessions or self.per_user.get(user, 0) >= limits.sessions_per_user:
            raise Refusal(Reason.QUOTA_EXCEEDED, "too many sessions")

    def _attach(self, session: Session, fact: MqttConnected) -> None:
        """What belongs to a connection."""
        packet, limits = fact.packet, self.limits
        properties = packet.properties
        wanted_s, keep_alive_s = terms_of(packet, limits)
        if session.durable and not wanted_s:  # it ends with this connection, or with this process
            self._erase_queue(session, but_shares=True)
            self._erase(session)
        session.version = packet.version
        session.expiry_s = wanted_s
        session.keep_alive_s = keep_alive_s
        session.connection = fact.connection
        session.away_since = 0
        session.ends_at = None
        session.will, session.will_due = packet.will, None
        session.quota = min(properties.receive_maximum or PACKET_IDS, limits.inflight)
        session.packet_max = properties.maximum_packet_size or 0
        session.explains = properties.request_problem_information != 0 and packet.version == V5
        session.aliases.clear()
        session.leased = 0
        session.choked = False
        self.by_connection[fact.connection] = session
        if session.durable or session.will is not None:
            self._store(session)

    def _check_connack(self, packet: Connect, client: ClientId) -> None:
        """[MQTT-3.1.2-24] A client that takes no packet as large as its CONNACK cannot be served: it is refused before
        a session is made or taken over. What the CONNACK may leave out does not count [MQTT-3.2.2-20]."""
        most = packet.properties.maximum_packet_size
        if most is None:
            return
        whole = connack_to(packet, client, False, self.limits, self.durability)
        brief = msgspec.structs.replace(whole, properties=msgspec.structs.replace(whole.properties, user=()))
        if self.deliveries.measure(brief, packet.version) > most:
            raise Refusal(Reason.PACKET_TOO_LARGE, "the client takes no packet as large as its CONNACK")

    def _take_over(self, session: Session) -> None:
        """[MQTT-3.1.4-3] The newer connection wins."""
        self._fail(session, Reason.SESSION_TAKEN_OVER, "another connection uses this client id")

    # -- the end of a connection -------------------------------------------------------------------------------------

    def _said_goodbye(self, session: Session, packet: Disconnect) -> None:
        expiry_s = packet.properties.session_expiry_s
        if expiry_s and not session.expiry_s:  # [MQTT-3.14.2-2]
            raise PacketError(Reason.PROTOCOL_ERROR, "a session without expiry cannot get one when it ends")
        if expiry_s:
            session.expiry_s = min(expiry_s, self.limits.session_expiry_max_s)
        self.orders.close(session.connection, "")
        keep_will = packet.reason != Reason.SUCCESS  # [MQTT-3.14.4-3]
        self._away(session, "the client said goodbye", keep_will=keep_will, ends=expiry_s == 0)

    def _auth(self, session: Session, packet: Auth) -> None:
        raise PacketError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")

    def _fail(self, session: Session, reason: Reason, problem: str) -> None:
        """End a connection that cannot go on, and say why."""
        if session.version == V5:
            properties = Properties(reason_string=problem[:512])
            self.orders.transmit(session.connection, Disconnect(reason, properties))
        why = f"{reason.name.lower()}: {problem}"
        self.orders.close(session.connection, why)
        self._away(session, why, keep_will=True)

    def _away(self, session: Session, why: str, *, keep_will: bool, ends: bool = False) -> None:
        """The connection is over; the session may not be."""
        now = self.orders.now
        del self.by_connection[session.connection]
        session.connection = 0
        session.away_since = now
        session.leased = 0
        session.choked = False
        self.orders.note(Kind.DISCONNECTED, client=session.client, detail=why)
        if not keep_will:
            session.will = None
        if ends or not session.durable:
            self._end(session, "")
            return
        self.recalls.away(session)
        self.subscribing.keep_retained(session)
        self._store(session)
        self._wait(session, now)

    def _wait(self, session: Session, since: Instant) -> None:
        """Set the alarms of a session that is away."""
        session.ends_at = None if session.expiry_s == NEVER_S else since + session.expiry_s * SECOND_US
        if session.will is not None:
            delay_s = min(session.will.properties.will_delay_s or 0, session.expiry_s)
            if not delay_s:
                self._publish_will(session)
            else:
                session.will_due = since + delay_s * SECOND_US
        for due in (session.ends_at, session.will_due):
            if due is not None:
                self._order += 1
                heappush(self.timers, (self.orders.wake(due), self._order, session))
        if len(self.timers) > TIMERS_SPARE + 4 * len(self.by_client):
            self._forget_old_timers()

    def _forget_old_timers(self) -> None:
        """Clients that come and go leave alarms behind that mean nothing and may be due in a hundred years."""
        self.timers = [
            timer
            for timer in self.timers
            if self.by_client.get(timer[2].client) is timer[2] and timer[0] in (timer[2].ends_at, timer[2].will_due)
        ]
        heapify(self.timers)

    def _publish_will(self, session: Session) -> None:
        will, session.will, session.will_due = session.will, None, None
        if will is not None:
            if session.stored:
                self._store(session)
            self.publishing.publish_will(session, will)

    def _end(self, session: Session, why: str) -> None:
        """The session is over [MQTT-3.1.2-23]; a will that still waits does not wait longer [MQTT-3.1.3-9]."""
        if session.will is not None:
            self.publishing.publish_will(session, session.will)
        self.recalls.end(session)
        unfinished = self.deliveries.unfinished(session)
        for subscription in list(session.subscriptions.values()):
            self.subscribing.leave(session, subscription)
        self._erase_queue(session)
        if session.stored:
            self._erase(session)
        session.will = None
        del self.by_client[session.client]
        del self.clients.receivers[session.client]
        left = self.per_user[session.user] - 1
        if left:
            self.per_user[session.user] = left
        else:
            del self.per_user[session.user]
        if why:
            self.orders.note(Kind.DISCONNECTED, client=session.client, detail=f"{SESSION_ENDED}{why}")
        for event, share in unfinished:
            hand_on(self.publishing.events, event, [(share.group, str(share.filter))])

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _enter(self, session: Session) -> None:
        self.by_client[session.client] = session
        self.per_user[session.user] = self.per_user.get(session.user, 0) + 1
        take, held = self.deliveries.take, self.recalls.holding.take
        self.clients.receivers[session.client] = lambda event, hops: (
            take(session, event, hops) if session.past is None else held(session, event, hops)
        )

    def _store(self, session: Session) -> None:
        session.stored = True
        self.orders.writes.append(Put("session", "", session.client, session.row()))

    def _erase(self, session: Session) -> None:
        """Leave nothing of it on disk."""
        writes, client = self.orders.writes, session.client
        session.stored = False
        writes.append(Drop("session", "", client))
        if session.durable:
            writes += [Drop("subscriptions", client, text) for text in session.subscriptions]
            writes += [Drop("incoming", client, id) for id in session.incoming]
            self.recalls.erase(session)

    def _erase_queue(self, session: Session, *, but_shares: bool = False) -> None:
        """Leave no deliveries on disk, or only those that other members of a group are owed if the broker dies."""
        for number, parcel in session.queue.items():
            keeps = but_shares and parcel is not None and parcel.share is not None and parcel.share.stored
            if session.stores(parcel) and not keeps:
                self.orders.writes.append(Drop("queue", session.client, number))

    # -- shared subscriptions ----------------------------------------------------------------------------------------

    def _deliver_shared(self, event: Event, hops: int) -> None:
        """To one member of each group: whoever is connected and can take more, in turn; else whoever is connected; else
        whoever comes back. A group without members here has them elsewhere, if anywhere."""
        gone: list[GroupName] = []
        for name, key, group in self.shares.mine(event.shares):
            if key is None or group is None:
                gone.append(name)
                continue
            members = [self.by_client[client] for client in group.rotate()]
            may = self.access.may_receive
            allowed = [member for member in members if may(member.user, member.client, event.topic)]
            if not allowed:
                continue
            session = min(allowed, key=_reluctance)
            outlives = any(member.durable for member in members) or self.shares.elsewhere(key)
            for subscription in session.subscriptions.values():
                if (subscription.group, subscription.filter) == key:
                    self.deliveries.give_shared(session, event, subscription, hops, outlives=outlives)
                    break
        if gone and event.reliable:
            hand_on(self.publishing.events, event, gone)

    def _hand_on_orphans(self, queues: Mapping[str, Mapping[int | str, object]]) -> None:
        """Deliveries to members of groups whose sessions died with this broker's last life go to other members."""
        for client, queue in queues.items():
            if client in self.by_client:
                continue
            for number in sorted(queue, key=int):
                parcel = queue[number]
                self.orders.writes.append(Drop("queue", client, number))
                if isinstance(parcel, Parcel) and parcel.share is not None and parcel.share.stored:
                    name = (parcel.share.group, str(parcel.share.filter))
                    hand_on(self.publishing.events, parcel.event, [name])


def _reluctance(session: Session) -> int:
    if not session.connection:
        return 2
    return 1 if len(session.inflight) + session.leased >= session.quota else 0


def _unexpected(packet: Packet) -> str:
    name = type(packet).__name__.upper()
    return "a second CONNECT on one connection" if type(packet) is Connect else f"{name} is for servers to send"
