"""What MQTT clients are promised, checked from outside.

*Ledger* is the delivery oracle: what a publisher was told is taken reaches every durable session whose subscription the
whole network knew of, in order, with QoS 2 once; one member of each group; nobody who did not ask. `MqttTables`
compares tables, and what stands on disk, with what follows from the clients' wishes. Sessions and wills: `mqtt_stays`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from latecomer.core.broker import Broker
from latecomer.core.session.limits import NEVER_S
from latecomer.core.session.state import Session
from latecomer.messages.mqtt import V5, Publish
from latecomer.model.event import Value
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.checkers import Agreement, Promises, Violation
from latecomer.sim.clients import SimClients
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication, Wish
from latecomer.sim.mqtt_groups import Group
from latecomer.sim.mqtt_pipes import Pipe
from latecomer.sim.mqtt_stays import Stays
from latecomer.sim.sides import Observer
from latecomer.sim.store import known_topic_matches
from latecomer.sim.world import World

RETAINED = "r/"
"""Topics on which everything is retained, and nothing elsewhere."""
SHARED = "s/"
"""Topics that only groups subscribe to."""
SAME_INSTANT_US = 100
"""Retained publications closer together than this may be stamped in another order."""

CRASHES_MAX = 20
"""Of one broker in one life."""

GroupKey = tuple[str, Filter]


@dataclass(slots=True)
class _Receiver:
    """What one client was promised and what it got."""

    settled: dict[str, Wish] = field(default_factory=dict)
    """Subscriptions that the whole network has heard of."""
    since: dict[str, Instant] = field(default_factory=dict)
    """When it confirmed them, if that was a moment ago; what was sent before may have been too early."""
    ever: dict[tuple[Filter, bool], int] = field(default_factory=dict)
    """Whatever was asked for, alone or with a group, and the highest QoS."""
    copies: Counter[Filter] = field(default_factory=Counter)
    """How often retained messages were asked for."""
    owed: dict[str, Publication] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    got_once: Counter[str] = field(default_factory=Counter)
    """With QoS 2."""
    newest: dict[tuple[ClientId, str, int, int], int] = field(default_factory=dict)
    reads_properties: bool = True
    """Without them a deletion does not say whose it is."""


@dataclass(slots=True)
class Ledger(Observer):
    """Witness of the clients and observer of the world. Disks are kept here, and with them every promise."""

    world: World
    violations: list[Violation] = field(default_factory=list)
    publications: dict[str, Publication] = field(default_factory=dict)
    sent_at: dict[str, Instant] = field(default_factory=dict)
    drops: dict[tuple[ClientId, str], Instant] = field(default_factory=dict)
    """When something on a topic was last dropped, for a client or, without one, for all."""
    overtaken: dict[str, int] = field(default_factory=dict)
    """Publications that the broker refused at first, and up to which number others may have been taken before them."""
    again: Counter[str] = field(default_factory=Counter)
    """How often a publication was published anew, by right, as another event: so often it may come again."""
    accepted_count: int = 0
    deliveries: int = 0
    repeats: int = 0
    excused: int = 0
    dropped: int = 0
    stays: Stays = field(init=False)
    retained: dict[str, list[tuple[Instant, str]]] = field(default_factory=dict)
    """By topic, when what was retained, as noted."""
    _receivers: dict[ClientId, _Receiver] = field(default_factory=dict)
    _groups: dict[GroupKey, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stays = self._new_stays()

    def _new_stays(self) -> Stays:
        return Stays(self.violate)

    def _of(self, client: ClientId) -> _Receiver:
        receiver = self._receivers.get(client)
        if receiver is None:
            receiver = self._receivers[client] = _Receiver()
        return receiver

    def violate(self, promise: str, detail: str) -> None:
        self.violations.append(Violation(self.world.now, promise, detail))

    # -- witness: wishes -----------------------------------------------------------------------------------------------

    def asked(self, client: MqttClient, wish: Wish) -> None:
        receiver = self._of(client.id)
        receiver.reads_properties = client.version == V5
        key = (wish.filter, bool(wish.group))
        receiver.ever[key] = max(wish.qos, receiver.ever.get(key, 0))
        receiver.copies[wish.filter] += 1
        self._unsettle(client, wish)
        if wish.group:
            group = self._groups.setdefault((wish.group, wish.filter), Group())
            group.members[client.id] = min(wish.qos, group.members.get(client.id, 2))
            group.most[client.id] = max(wish.qos, group.most.get(client.id, 0))
            group.unsteady |= client.expiry_s != NEVER_S
            if not wish.qos:
                self.excused += len(group.owed)
                group.owed.clear()

    def withdrew(self, client: MqttClient, wish: Wish) -> None:
        self._unsettle(client, wish)
        group = self._groups.get((wish.group, wish.filter)) if wish.group else None
        if group is not None:
            group.unsteady = True  # its broker hands on what was on its way to it
            group.anchors.pop(client.id, None)
            if not group.anchors:
                self.excused += group.excuse(1)

    def _unsettle(self, client: MqttClient, wish: Wish) -> None:
        """From now on nothing is promised by it."""
        receiver = self._of(client.id)
        receiver.settled.pop(wish.text, None)
        receiver.since.pop(wish.text, None)
        for token, publication in list(receiver.owed.items()):
            if not self._quality(receiver, client.id, publication):
                del receiver.owed[token]
                self.excused += 1
        if wish.group and (group := self._groups.get((wish.group, wish.filter))) is not None:
            self._unsettle_group(group)

    def _unsettle_group(self, group: Group) -> None:
        """Whoever leaves takes along what was sent to it with QoS 2 [MQTT-4.8.2-5]."""
        group.settled = False
        self.excused += group.excuse(2)

    def settle(self, clients: MqttClients) -> None:
        """The network is quiet and all clients have what they want: from now on it is promised."""
        for group in self._groups.values():
            group.settled = False
            group.anchors.clear()
        fleeting: dict[GroupKey, None] = {}
        for client in clients.clients.values():
            if client.durable:
                wishes = {text: wish for text, wish in client.wishes.items() if not wish.group}
                self._of(client.id).settled = wishes
                self._of(client.id).since.clear()
            for wish in client.wishes.values():
                if wish.group:
                    group = self._groups[wish.group, wish.filter]
                    group.settled = True
                    if client.expiry_s == NEVER_S:
                        group.anchors[client.id] = None
                    else:
                        fleeting[wish.group, wish.filter] = None
        for key in fleeting:
            self._groups[key].settled = False

    def granted(self, client: MqttClient, wish: Wish) -> None:
        """With `subscribe_wait`: the network has confirmed it, so from now on it is promised."""
        if client.durable and not wish.group and wish.text in client.wishes and not wish.leaving:
            receiver = self._of(client.id)
            receiver.settled[wish.text] = wish
            receiver.since[wish.text] = self.world.now

    def _quality(self, receiver: _Receiver, client: ClientId, publication: Publication) -> int:
        """The QoS that a client was promised a publication with; 0: none."""
        granted, sent_at = 0, self.sent_at[publication.token]
        for text, wish in receiver.settled.items():
            own = wish.no_local and publication.publisher == client
            if not own and receiver.since.get(text, 0) <= sent_at and _matches(wish.filter, publication):
                granted = max(granted, wish.qos)
        return min(granted, publication.qos)

    # -- witness: publications -----------------------------------------------------------------------------------------

    def published(self, client: MqttClient, publication: Publication) -> None:
        self.publications[publication.token] = publication
        self.sent_at[publication.token] = self.world.now

    def accepted(self, client: MqttClient, publication: Publication) -> None:
        self.accepted_count += 1
        self._owe(publication)

    def _owe(self, publication: Publication) -> None:
        if publication.qos == 0:
            return
        token = publication.token
        for name, receiver in self._receivers.items():
            if token in receiver.got or (publication.deletes and not receiver.reads_properties):
                continue
            if self._quality(receiver, name, publication) and not self._was_dropped((name,), publication):
                receiver.owed[token] = publication
        if publication.topic.startswith(SHARED):
            for (_, filter), group in self._groups.items():
                if token in group.got or not _matches(filter, publication):
                    continue
                promised = group.settled if group.quality(publication) == 2 else group.anchors
                if promised and group.quality(publication) and not self._was_dropped(group.members, publication):
                    group.owed[token] = publication

    def _was_dropped(self, clients: Iterable[ClientId], publication: Publication) -> bool:
        """Whether its loss may have been said aloud before the publisher was answered."""
        since = self.sent_at[publication.token]
        return any(self.drops.get((name, publication.topic), -1) >= since for name in ("", *clients))

    def received(self, client: MqttClient, packet: Publish) -> None:
        self.deliveries += 1
        token = token_of(packet)
        if not token:
            return  # a deletion, to a client that cannot be told whose
        publication = self.publications.get(token)
        receiver = self._of(client.id)
        if publication is None or publication.topic != packet.topic:
            self.violate("forged", f"{client.id} got {token} on {packet.topic!r}, which nobody published")
            return
        asked = [qos for (filter, _), qos in receiver.ever.items() if _matches(filter, publication)]
        if not asked:
            self.violate("unasked", f"{client.id} got {token} on {packet.topic!r} and never asked for it")
            return
        least = 0 if publication.retain else self._quality(receiver, client.id, publication)
        if not least <= packet.qos <= min(max(asked), publication.qos):
            self.violate("quality", f"{client.id} got {token} with QoS {packet.qos}")
        self._check_repetition(client, receiver, packet, publication)
        self._check_order(client, receiver, packet, publication)
        receiver.got[token] += 1
        receiver.owed.pop(token, None)
        for (_, filter), group in self._groups.items():
            if client.id in group.members and _matches(filter, publication):
                self._check_group(group, client, packet, publication)

    def _check_repetition(
        self, client: MqttClient, receiver: _Receiver, packet: Publish, publication: Publication
    ) -> None:
        token = publication.token
        self.repeats += token in receiver.got
        allowed = 1 + self.again[token]
        if publication.retain:
            allowed += sum(count for filter, count in receiver.copies.items() if _matches(filter, publication))
        if packet.qos == 2:
            receiver.got_once[token] += 1
            if receiver.got_once[token] > allowed:
                self.violate("twice", f"{client.id} got {token} on {packet.topic!r} twice with QoS 2")
        elif packet.qos == 1 and publication.qos == 2 and token in receiver.got and allowed == 1 and not packet.dup:
            self._check_dup(client, publication)

    def _check_dup(self, client: MqttClient, publication: Publication) -> None:
        if not self._handed_on(client, publication):
            self.violate("dup", f"{client.id} got {publication.token} again, not marked as a duplicate")

    def _handed_on(self, client: MqttClient, publication: Publication) -> bool:
        """Whether a publication may have been meant for a member of a group that left, or whose session ended."""
        groups = (group for (_, filter), group in self._groups.items() if _matches(filter, publication))
        return any(group.unsteady for group in groups if client.id in group.members)

    def _check_order(self, client: MqttClient, receiver: _Receiver, packet: Publish, publication: Publication) -> None:
        """[MQTT-4.6.0-6] Order is promised per publisher, topic and QoS; what is handed out because it is retained may
        come before what it followed. What was published again (QoS 1) may come late where the first copy was dropped,
        came before the subscription, or went to another member of the group. What is handed on in a group is late."""
        token = publication.token
        source = (self._ordered(publication), publication.topic, publication.qos, packet.qos)
        if token in receiver.got or packet.retain or (publication.qos == 1 and publication.topic.startswith(SHARED)):
            return
        excused = publication.qos == 1 and (
            not self._quality(receiver, client.id, publication) or self._was_dropped((client.id,), publication)
        )
        excused |= self._handed_on(client, publication)
        if receiver.newest.get(source, 0) > max(publication.seq, self.overtaken.get(token, 0)) and not excused:
            self.violate("order", f"{client.id} got {token} on {packet.topic!r} after {receiver.newest[source]}")
        receiver.newest[source] = max(publication.seq, receiver.newest.get(source, 0))

    def _ordered(self, publication: Publication) -> str:
        """Publications with the same answer are promised in order."""
        return publication.publisher

    def _check_group(self, group: Group, client: MqttClient, packet: Publish, publication: Publication) -> None:
        token = publication.token
        if packet.qos == 2:
            group.got_once[token] += 1
            # With QoS 1 a member may have got it, not acknowledged it, and be gone.
            if group.got_once[token] > 1 or (token in group.got and not group.unsteady):
                self.violate("shared", f"{client.id} got {token}, which another member of its group has")
        group.got[token] = 1
        group.owed.pop(token, None)

    # -- witness: sessions ---------------------------------------------------------------------------------------------

    def welcomed(self, client: MqttClient, pipe: Pipe, present: bool) -> None:
        self.stays.welcomed(pipe, present)
        if present:
            return
        for group in self._groups.values():
            if client.id in group.members:
                self._unsettle_group(group)
        receiver = self._of(client.id)
        self.excused += len(receiver.owed)
        receiver.owed.clear()
        receiver.settled.clear()

    # -- observer ----------------------------------------------------------------------------------------------------

    def noted(self, record: Record) -> None:
        self.stays.noted(record)
        if record.kind is Kind.DROPPED:
            self.dropped += 1
            self.drops[record.client, record.topic] = self.world.now
            self._excuse(record)
        elif record.kind is Kind.REJECTED:
            self.violate("honesty", f"{record.broker} rejected {record.peer}: {record.detail}")
        elif record.kind is Kind.PUBLISHED and record.topic.startswith(RETAINED):
            self.retained.setdefault(record.topic, []).append((record.at_us, record.event))
        elif record.kind is Kind.PUBLISHED and record.topic.startswith("will/"):
            _, client, number = record.topic.split("/")
            self._owe(self.publications[f"{client}:will{number}"])

    def _excuse(self, record: Record) -> None:
        """The loss was said aloud: of something on this topic, for this client or for all."""
        for name, receiver in self._receivers.items():
            if record.client in ("", name):
                self._excuse_owed(receiver.owed, record.topic)
        for group in self._groups.values():
            if not record.client or record.client in group.members:
                self._excuse_owed(group.owed, record.topic)

    def _excuse_owed(self, owed: dict[str, Publication], topic: str) -> None:
        for token in [token for token, publication in owed.items() if publication.topic == topic]:
            del owed[token]
            self.excused += 1

    # -- verdict -----------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        alone = sum(len(receiver.owed) for receiver in self._receivers.values())
        return alone + sum(len(group.owed) for group in self._groups.values())

    def check_all_delivered(self) -> None:
        for client, receiver in self._receivers.items():
            for token, publication in receiver.owed.items():
                self.violate("lost", f"{client} never got {token} on {publication.topic!r}")
            receiver.owed.clear()
        for (name, filter), group in self._groups.items():
            for token, publication in group.owed.items():
                self.violate("lost", f"nobody of {name} ({filter}) got {token} on {publication.topic!r}")
            group.owed.clear()

    def check_retained(self) -> None:
        """Every broker has the same, and it is the last that was published."""
        cores = [node.core for node in self.world.nodes.values() if node.core is not None]
        for core in cores[1:]:
            if core.retained.digest != cores[0].retained.digest:
                self.violate("retained", f"{core.id} and {cores[0].id} do not retain the same")
        for core in cores:
            kept = {**core.retained.events, **core.retained.deleted}
            if sorted(kept) != sorted(self.retained):
                self.violate("retained", f"{core.id} retains {sorted(kept)}, should {sorted(self.retained)}")
            for topic, published in self.retained.items():
                latest = max(at_us for at_us, _ in published)
                last = [event for at_us, event in published if at_us >= latest - SAME_INSTANT_US]
                if topic in kept and str(kept[topic].id) not in last:
                    self.violate("retained", f"{core.id} retains {kept[topic].id} on {topic}, should be one of {last}")

    def check_audit(self, auditor: MqttClient) -> None:
        """A fresh subscriber to everything retained has got it."""
        core = self.world.nodes[auditor.broker].core
        assert core is not None
        kept = {token_of(Publish(event.topic, event.payload)): 1 for event in core.retained.events.values()}
        got = dict(self._of(auditor.id).got)
        if got != kept:
            self.violate("retained", f"{auditor.broker} gave {got} of {kept} to {auditor.id}")


def _matches(filter: Filter, publication: Publication) -> bool:
    if not known_topic_matches(filter.topic, publication.topic):
        return False
    if filter.where is None:
        return True
    attributes: dict[str, Value] = {"t": publication.token}
    if not publication.deletes:
        attributes["v"] = publication.value
    return filter.where.matches(attributes)


_decoder: msgspec.json.Decoder[dict[str, str | int]] = msgspec.json.Decoder(dict[str, str | int])


def token_of(packet: Publish) -> str:
    """Which publication a packet carries; empty: it does not say."""
    if packet.payload:
        return str(_decoder.decode(packet.payload)["t"])
    return dict(packet.properties.user).get("t", "")


class Judge(Protocol):
    """Who is told what was found."""

    violations: list[Violation]

    def violate(self, promise: str, detail: str) -> None: ...


class MqttTables(Agreement):
    """Trees and tables, and the sessions on disk, compared with what they should be."""

    def __init__(self, world: World, mqtt: MqttClients, ledger: Judge) -> None:
        super().__init__(world, SimClients(world, []))
        self._mqtt = mqtt
        self._ledger = ledger

    def _local(self, broker: BrokerId, what: str) -> list[Filter]:
        if what == "advertisements":
            return []
        wishes = (w for c in self._mqtt.clients.values() if self._home(c) == broker for w in c.wishes.values())
        return list(dict.fromkeys((*(wish.filter for wish in wishes), *self._stored(broker))))

    def _home(self, client: MqttClient) -> BrokerId:
        """Where a client's session is."""
        return client.broker

    def quiet(self) -> bool:
        if not super().quiet() or not self._mqtt.idle() or self._mqtt.pipes.under_way():
            return False
        sessions = (session for core in self._cores().values() for session in core.sessions.by_client.values())
        if any(core.shares_due is not None or core.sessions.erasing.rests for core in self._cores().values()):
            return False
        return not any(session.backlog or session.inflight for session in sessions)

    def check_tables(self) -> None:
        """As `check`, told to the ledger."""
        promises = Promises(self.world)
        self.check(promises)
        self._ledger.violations += promises.violations

    def check_disk(self) -> None:
        """On disk is what is in memory, and nothing else: whatever stays behind would come back from the dead."""
        for id, core in self._cores().items():
            tables = self.world.nodes[id].disk.tables
            sessions = [session for session in core.sessions.by_client.values() if session.durable]
            queues = {s.client: _stored(s) for s in core.sessions.by_client.values()}
            expected: dict[str, Mapping[str, list[int] | list[str]]] = {
                "subscriptions": {s.client: sorted(s.subscriptions) for s in sessions if s.subscriptions},
                "queue": {client: numbers for client, numbers in queues.items() if numbers},
                "erasing": {},
                "incoming": {s.client: sorted(s.incoming) for s in sessions if s.incoming},
                "retained": {"": sorted((*core.retained.events, *core.retained.deleted))},
            }
            for table, rows in expected.items():
                found = {group: sorted(keys, key=str) for group, keys in tables.get(table, {}).items()}
                if found != {group: sorted(keys, key=str) for group, keys in rows.items() if keys}:
                    self._ledger.violate("disk", f"{id} has {found} in {table!r}, should have {rows}")
            lasting = sorted(s.client for s in core.sessions.by_client.values() if s.durable or s.will is not None)
            if sorted(map(str, tables.get("session", {}).get("", {}))) != lasting:
                self._ledger.violate("disk", f"{id} has other sessions on disk than {lasting}")


def _stored(session: Session) -> list[int]:
    """The deliveries of a session that must stand on disk."""
    return sorted(number for number, parcel in session.queue.items() if session.stores(parcel))


def check_session_bounds(world: World, ledger: Ledger) -> None:
    """No session holds more than its limits allow."""
    for node in world.nodes.values():
        core = node.core
        if core is None:
            continue
        for session in core.sessions.by_client.values():
            _check_session(core, session.client, ledger)


def _check_session(core: Broker, client: ClientId, ledger: Ledger) -> None:
    session, limits = core.sessions.by_client[client], core.sessions.limits
    held = {
        # What was under way is not dropped; every crash may add one to that.
        "queue": (len(session.queue), limits.queue_messages + limits.inflight + CRASHES_MAX),
        "incoming": (len(session.incoming) - len(session.inherited), limits.receive_maximum),
        "outbox": (len(core.events.outbox.entries), core.settings.outbox_max),
    }
    for name, (count, limit) in held.items():
        if count > limit:
            ledger.violate("memory", f"{core.id} holds {count} in the {name} of {client}, {limit} are allowed")
    size = sum(parcel.size for parcel in session.queue.values() if parcel is not None)
    if size != session.queue_bytes:
        ledger.violate("memory", f"{core.id} counts {session.queue_bytes} bytes for {client}, it holds {size}")
