"""Sessions from CONNECT to their end: take-over, expiry, wills, and who handles which packet.

Theory of operation. A session belongs to a client id and to the user who made it. While connected it has exactly one
connection; facts about any other are ignored. When the connection goes, the session waits for `expiry_s`; its will
waits for the shorter of that and its own delay. A session that outlives its connection (`durable`) stands on disk with
everything that belongs to it; one that does not leaves nothing there but its will, so that the will is published also
if it is this broker that died.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from latecomer.core.clients import Clients, Disk
from latecomer.core.effects import Attach, Put
from latecomer.core.handing_on import hand_on
from latecomer.core.inputs import MqttConnected, MqttFailed, MqttLost, MqttReceived, RulesChanged, SessionEnded
from latecomer.core.orders import Orders
from latecomer.core.session.admission import Admission
from latecomer.core.session.cuts import Cuts
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.erasing import Erasing
from latecomer.core.session.limits import NEVER_S, Access, SessionLimits
from latecomer.core.session.publishing import Publishing
from latecomer.core.session.recall import Recalls
from latecomer.core.session.restoring import RESTORED, Restoring
from latecomer.core.session.sharing import SharedDeliveries
from latecomer.core.session.state import PACKET_IDS, Refusal, Session, SessionRow, Subscription
from latecomer.core.session.subscribing import Subscribing
from latecomer.core.session.terms import connack_to, follows, hand_over_of, owner_away_of, terms_of, unexpected
from latecomer.core.shares import Shares
from latecomer.messages.mqtt import (
    V5,
    Auth,
    Connack,
    Disconnect,
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
from latecomer.model.ids import ClientId, Instant
from latecomer.model.record import SESSION_ENDED, Kind

if TYPE_CHECKING:
    from latecomer.core.mobility.mobility import Mobility
    from latecomer.core.mobility.particulars import Restored

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
    mobility: Mobility = field(init=False)
    """Sessions that follow their clients from broker to broker."""
    sharing: SharedDeliveries = field(init=False)
    admission: Admission = field(init=False)
    restoring: Restoring = field(init=False)
    cuts: Cuts = field(init=False)
    erasing: Erasing = field(init=False)
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
        self.sharing = SharedDeliveries(
            self.orders, self.access, self.clients, self.shares, deliveries, publishing.events, self.by_client
        )
        self.clients.deliver_shared = self.sharing.deliver
        self.erasing = Erasing(self.orders)
        self.restoring = Restoring(self.orders, deliveries, self.recalls, self.erasing)
        self.cuts = Cuts(self.orders, self.clients, self.publishing.events.seen.stream, self.restoring.give)
        parts = (self.clients, deliveries, publishing, self.by_client, self.per_user)
        self.admission = Admission(self.limits, self.access, self.durability, *parts)

    # -- facts -------------------------------------------------------------------------------------------------------

    def on_connected(self, fact: MqttConnected) -> None:
        try:
            client = self.admission.check(fact)
            if not self.mobility.holds_up(fact, client):
                self._serve(fact, client, self.orders.now, None, asked=False)
        except Refusal as refusal:
            self.refuse(fact, refusal)

    def answer(
        self,
        fact: MqttConnected,
        client: ClientId,
        since: Instant,
        restored: Restored | None = None,
        asked: bool = True,
    ) -> None:
        """Answer a CONNECT that had to wait until it was known where its session is."""
        try:
            self._serve(fact, client, since, restored, asked=asked)
        except Refusal as refusal:
            self.refuse(fact, refusal)

    def refuse(self, fact: MqttConnected, refusal: Refusal) -> None:
        """Answer a CONNECT with a no."""
        version = fact.packet.version
        properties = Properties(reason_string=refusal.problem) if version == V5 else Properties()
        detail = f"{refusal.reason.name.lower()}: {refusal.problem}"
        self.orders.note(Kind.REFUSED, client=fact.packet.client_id, detail=detail)
        self.orders.transmit(fact.connection, Connack(False, refusal.reason, properties))
        self.orders.close(fact.connection, refusal.problem)

    def on_received(self, fact: MqttReceived) -> None:
        handlers = self._on_packet
        session = self.by_connection.get(fact.connection)
        if session is None:
            self.mobility.visits.received(fact)
        elif not fact.packets:
            self.deliveries.pump(session)  # the driver says that more can be sent
        for packet in fact.packets:
            session = self.by_connection.get(fact.connection)
            if session is None:
                return  # closed by what came before
            handler = handlers.get(type(packet))
            try:
                if handler is None:
                    raise PacketError(Reason.PROTOCOL_ERROR, unexpected(packet))
                handler(session, packet)
            except PacketError as error:
                self.fail(session, error.reason, str(error))
                return
        session = self.by_connection.get(fact.connection)
        if session is not None and session.past is not None:
            self.recalls.go_on(session)

    def on_failed(self, fact: MqttFailed) -> None:
        session = self.by_connection.get(fact.connection)
        if session is not None:
            self.fail(session, fact.reason, fact.problem, fact.reference)
        else:
            self.mobility.failed(fact.connection, fact.reason, fact.problem)

    def on_lost(self, fact: MqttLost) -> None:
        session = self.by_connection.get(fact.connection)
        if session is not None:
            self.away(session, "the connection broke", keep_will=True)
            self.mobility.guessing.left(session)
        else:
            self.mobility.lost(fact.connection)

    def on_ended(self, fact: SessionEnded) -> None:
        """The operator ends a session. Its will is published: that is what a session's end means [MQTT-3.1.2-8]."""
        session = self.by_client.get(fact.client)
        if session is not None and not self.mobility.wishes.problem_of_end(fact.client):
            self.end_by(session, f"by the operator: {fact.reason}", Reason.ADMINISTRATIVE_ACTION, fact.reason)

    def end_by(self, session: Session, why: str, reason: Reason = Reason.SESSION_TAKEN_OVER, problem: str = "") -> None:
        """End a session, with its connection if it has one."""
        if session.connection:
            self.fail(session, reason, problem or why)
        if self.by_client.get(session.client) is session:  # it has not ended with its connection
            self._end(session, why)

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
        self.deliveries.woken()
        if self.erasing.woken():
            self.mobility.pumped()
        self.subscribing.woken()
        self.subscribing.subacks.woken()
        self.recalls.woken()

    def _keep_time(self, session: Session) -> None:
        """Do what is due for a session that is away."""
        if session.suspended:
            return
        now = self.orders.now
        if session.will_due is not None and session.will_due <= now:
            self._publish_will(session)
        if session.ends_at is not None and session.ends_at <= now:
            self._end(session, "expired")

    def due(self) -> Instant | None:
        timer = self.timers[0][0] if self.timers else None
        subscribing = self.subscribing
        found = (timer, self.erasing.due, subscribing.due, subscribing.subacks.due(), self.recalls.due())
        dues = [due for due in found if due is not None]
        return min(dues) if dues else None

    def recover(self, disk: Disk) -> None:
        """Find the sessions as they were; nobody is connected, and those who were have just gone."""
        now = self.orders.now
        subscriptions, queues = disk.get("subscriptions", {}), self.erasing.recover(disk)
        self.restoring.erase_arriving(disk, queues)
        for client, row in disk.get("session", {}).get("", {}).items():
            assert isinstance(row, SessionRow)
            session = Session(str(client), row.user, row.version, row.expiry_s, will=row.will, stored=True)
            session.away_since = row.away_since_us or now
            session.connected_at, session.misses, session.came_from = row.connected_us, row.misses, row.came_from
            session.hand_over, session.places = row.hand_over, row.places
            self.cuts.recover(session, disk)
            self._enter(session)
            for subscription in subscriptions.get(session.client, {}).values():
                assert isinstance(subscription, Subscription)
                self.subscribing.recover(session, subscription)
            tables = {table: disk.get(table, {}).get(session.client, {}) for table in RESTORED}
            self.restoring.restore(session, row, {**tables, "queue": queues.get(session.client, {})})
            session.number = max(session.number, self.erasing.upto(session.client))
            if not row.away_since_us:
                self._store(session)  # another crash must not give it, or its will, more time
            if not self.access.open_to_all:
                self.subscribing.recheck(session)  # the rules may be others than before
        self.sharing.hand_on_orphans(queues)
        self.mobility.recover(disk)
        for session in list(self.by_client.values()):  # all subscriptions are there now: wills may be published
            if not session.suspended:
                self._wait(session, session.away_since)

    # -- CONNECT -----------------------------------------------------------------------------------------------------

    def at_home(self, client: ClientId) -> Session | None:
        """The session of a client, unless its time is over: a broker that was stopped or dead may hear of the client
        before its alarms."""
        session = self.by_client.get(client)
        if session is not None and not session.connection:
            self._keep_time(session)
            session = self.by_client.get(client)
        return session

    def _serve(self, fact: MqttConnected, client: ClientId, since: Instant, old: Restored | None, asked: bool) -> None:
        packet = fact.packet
        session = self.at_home(client)
        if session is not None:
            if session.user != fact.user:  # bad input 21
                raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "this client id belongs to somebody else")
            if session.connection:
                self.take_over(session)
        session = self.by_client.get(client)  # one that ended with the connection taken over is gone by now
        if session is not None and packet.clean_start:
            self._end(session, "clean start")  # [MQTT-3.1.2-4]
            session = None
        present = session is not None
        if session is None:
            self.admission.check_room(fact.user)
            session = Session(client, fact.user, number=self.erasing.upto(client))
            self._enter(session)
        session.connected_at = since
        self._attach(session, fact)
        self.mobility.serves(session)
        words = () if present else self.mobility.began(session, packet, asked, old)
        via, through = self.mobility.remote.via(fact.connection)
        detail = f"mqtt {packet.version}{through}"
        self.orders.note(Kind.CONNECTED, client=client, peer=via, count=len(session.queue), detail=detail)
        connack = connack_to(packet, client, present, self.limits, self.durability, words)
        self.orders.transmit(session.connection, connack)
        self.deliveries.resume(session)
        self.recalls.resume(session)
        self.mobility.going_on.recall(session, old)

    def _attach(self, session: Session, fact: MqttConnected) -> None:
        """What belongs to a connection."""
        packet, limits = fact.packet, self.limits
        properties = packet.properties
        wanted_s, session.keep_alive_s = terms_of(packet, limits)
        if session.durable and not wanted_s:  # it ends with this connection, or with this process
            self.deliveries.keep_shared_only(session)
            self.restoring.erase(session)
        session.version = packet.version
        session.expiry_s = wanted_s
        session.hand_over, session.owner_away = hand_over_of(packet), owner_away_of(packet)
        session.connection = fact.connection
        session.follows, session.listener = follows(packet), fact.listener
        session.away_since = 0
        session.ends_at = None
        session.will, session.will_due = packet.will, None
        session.quota = min(properties.receive_maximum or PACKET_IDS, limits.inflight)
        session.packet_max = properties.maximum_packet_size or 0
        session.explains = properties.request_problem_information != 0 and packet.version == V5
        session.inherited = dict(session.incoming)
        session.aliases.clear()
        session.leased = 0
        session.choked = False
        self.by_connection[fact.connection] = session
        if fact.connection > 0:
            self.orders.effects.append(Attach(fact.connection))
        if session.durable or session.will is not None:
            self._store(session)

    def take_over(self, session: Session) -> None:
        """[MQTT-3.1.4-3] The newer connection wins."""
        self.fail(session, Reason.SESSION_TAKEN_OVER, "another connection uses this client id")

    # -- the end of a connection -------------------------------------------------------------------------------------

    def _said_goodbye(self, session: Session, packet: Disconnect) -> None:
        expiry_s = packet.properties.session_expiry_s
        if expiry_s and not session.expiry_s:  # [MQTT-3.14.2-2]
            raise PacketError(Reason.PROTOCOL_ERROR, "a session without expiry cannot get one when it ends")
        if expiry_s:
            session.expiry_s = min(expiry_s, self.limits.session_expiry_max_s)
        self.orders.close(session.connection, "")
        keep_will = packet.reason != Reason.SUCCESS  # [MQTT-3.14.4-3]
        self.away(session, "the client said goodbye", keep_will=keep_will, ends=expiry_s == 0)
        self.mobility.wishes.announced(session, packet.properties.user)

    def _auth(self, session: Session, packet: Auth) -> None:
        raise PacketError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")

    def fail(self, session: Session, reason: Reason, problem: str, reference: str = "") -> None:
        """End a connection that cannot go on, and say why."""
        if session.version == V5:
            properties = Properties(reason_string=problem[:512], server_reference=reference or None)
            self.orders.transmit(session.connection, Disconnect(reason, properties))
        why = f"{reason.name.lower()}: {problem}"
        self.orders.close(session.connection, why)
        self.away(session, why, keep_will=True)

    def away(self, session: Session, why: str, *, keep_will: bool, ends: bool = False) -> None:
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
        self.mobility.away(session)
        if not session.suspended:
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
        unfinished = self.deliveries.unfinished(session)
        self._remove(session)
        if why:
            self.orders.note(Kind.DISCONNECTED, client=session.client, detail=f"{SESSION_ENDED}{why}")
        for event, share in unfinished:
            hand_on(self.publishing.events, event, [(share.group, str(share.filter))])

    def _remove(self, session: Session) -> None:
        """Leave nothing of a session here."""
        self.mobility.ended(session)
        self.recalls.end(session)
        for subscription in list(session.subscriptions.values()):
            self.subscribing.leave(session, subscription)
        queue, session.queue = session.queue, OrderedDict()
        if not session.durable:
            queue = OrderedDict((number, parcel) for number, parcel in queue.items() if session.stores(parcel))
        self.erasing.erase(session.client, queue)
        if session.stored:
            self.restoring.erase(session)
        session.will = None
        del self.by_client[session.client]
        del self.clients.receivers[session.client]
        left = self.per_user[session.user] - 1
        if left:
            self.per_user[session.user] = left
        else:
            del self.per_user[session.user]

    # -- sessions that move ------------------------------------------------------------------------------------------

    def resume(self, session: Session) -> None:
        """No other broker takes the session after all: what was due meanwhile is due now."""
        session.suspended = False
        if self.by_client.get(session.client) is session and not session.connection:
            self._wait(session, session.away_since)

    def depart(self, session: Session, upto: int) -> None:
        """Another broker has the session, and its deliveries up to a number. Later ones of groups are for any of their
        members; all others the new broker has got by itself."""
        late = self.deliveries.shared_after(session, upto)
        self._remove(session)
        for event, share in late:
            hand_on(self.publishing.events, event, [(share.group, str(share.filter))])

    def adopt(
        self,
        session: Session,
        row: SessionRow,
        tables: Mapping[str, Mapping[int | str, object]],
        shared: Sequence[Subscription],
    ) -> None:
        """A session has come from another broker, with its rows; what it is subscribed to it is already, but for
        groups."""
        self._enter(session)
        self.restoring.restore(session, row, tables)
        self._store(session)
        for subscription in shared:
            if self.shares.problem((subscription.group, subscription.filter)) is None:
                self.subscribing.enter(session, subscription)
        if not self.access.open_to_all:
            self.subscribing.recheck(session)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _enter(self, session: Session) -> None:
        self.mobility.shadows.drop(session.client)
        self.by_client[session.client] = session
        self.per_user[session.user] = self.per_user.get(session.user, 0) + 1
        take, held = self.deliveries.take, self.recalls.holding.take
        self.clients.receivers[session.client] = lambda event, hops: (
            take(session, event, hops) if session.past is None else held(session, event, hops)
        )
        if session.cut:
            self.clients.receivers[session.client] = lambda event, hops: self.cuts.take(session, event, hops)

    def _store(self, session: Session) -> None:
        session.stored = True
        self.orders.writes.append(Put("session", "", session.client, session.row()))
