"""What wandering clients are promised, checked from outside.

The ledger is that of MQTT clients who stay: it does not care where a client is. What is new here: order holds across
the moves of a publisher too, if its session moved along and nobody was away; one connection and one session per client
id in the whole network; and nothing of a hand-over remains when all is quiet. Disks: `wander_owners`. Sessions and
wills: `wander_stays`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latecomer.core.broker import Broker
from latecomer.messages.hand_over import Ask, AskRefused, Standing, Taken
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Publish
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.mqtt_checkers import Ledger, MqttTables, token_of
from latecomer.sim.mqtt_clients import MqttClient, Publication, Wish
from latecomer.sim.mqtt_pipes import Pipe
from latecomer.sim.wander_clients import WanderClients, Wanderer
from latecomer.sim.wander_late import LateLedger
from latecomer.sim.wander_owners import Owners
from latecomer.sim.wander_pipes import WanderPipe
from latecomer.sim.wander_stays import WanderStays
from latecomer.sim.world import World


@dataclass(slots=True)
class WanderLedger(Ledger):
    """Witness of wandering clients and observer of their world."""

    stays: WanderStays = field(init=False)
    owners: Owners = field(init=False)
    late: LateLedger = field(init=False)
    whole_at: Callable[[BrokerId], bool] = field(init=False)
    """Whether a broker sees all others."""
    _line: dict[ClientId, int] = field(default_factory=dict)
    """Per publisher, how often order across its moves was not promised."""
    _line_of: dict[str, int] = field(default_factory=dict)
    """The same, per publication."""
    _loose: dict[str, None] = field(default_factory=dict)
    """Publications of clients between two sessions: only one of these may know that they were taken."""

    def _new_stays(self) -> WanderStays:
        stays = WanderStays(self.violate)
        stays.now = lambda: self.world.now
        stays.in_tree = self._in_tree
        stays.patience_us = self.world.settings.hand_over.patience_us
        stays.later = lambda what: self.world.at(self.world.now, what)
        stays.parted = self._parted
        return stays

    def _in_tree(self, broker: BrokerId) -> bool:
        core = self.world.nodes[broker].core
        return core is not None and core.interest.ready

    def watch(self, clients: WanderClients) -> None:
        """Follow these clients."""
        self.stays.pipes = clients.pipes
        self.whole_at = clients.whole
        clients.between_sessions = self.stays.split.__contains__
        self.late = LateLedger(self.violate)
        clients.unaware = self.late.unaware
        self.owners = Owners(self.world, self.violate, clients.pipes, self.stays, self.late)
        self.owners.watch()

    # -- witness -------------------------------------------------------------------------------------------------------

    def began(self, pipe: WanderPipe, present: bool) -> None:
        """A broker sends a CONNACK that welcomes a client."""
        old = (pipe.client, pipe.host) in self.owners.left_over or self.owners.superseded(pipe)
        self.owners.began(pipe, present)
        self.late.began(pipe.client, present, clean=pipe.connect.clean_start, old=old)
        before = self.stays.by_client.get(pipe.client, [])
        last = before[-1].pipe if before else None
        moved = isinstance(last, WanderPipe) and last.host != pipe.host
        if moved and not (present and self.whole_at(pipe.host) and not self._owed_elsewhere(pipe)):
            self._line[pipe.client] = self._line.get(pipe.client, 0) + 1
        self.stays.began(pipe, present)
        if not present and self.stays.pipes.overtaken(pipe):
            self.stays.part(pipe.client)

    def noted(self, record: Record) -> None:
        Ledger.noted(self, record)
        self.late.noted(record)
        if record.kind is Kind.PUBLISHED and record.topic.startswith("will/"):
            _, client, number = record.topic.split("/")
            self.again[f"{client}:will{number}"] = self.stays.published_again(record.topic)
        if record.kind is Kind.CONNECTED and (pipe := self.stays.tunnelled(record)) is not None:
            self.began(pipe, present=True)  # at home, before its own broker knows
        if record.kind is Kind.MOVED:
            self._unsteady(record.client)
        if record.kind is Kind.RESTORED:  # with what others were told last: it may have left one of them since
            self.stays.later(lambda: self.stays.part(record.client))

    def _unsteady(self, client: ClientId) -> None:
        """What was chosen for a member of a group at its last broker may be handed on, and come late."""
        for group in self._groups.values():
            group.unsteady |= client in group.members

    def begins_anew(self, client: MqttClient) -> None:
        """A client asks for a new session: its last one may end from now on, and with it its place in groups."""
        self.late.begins_anew(client.id)
        for group in self._groups.values():
            if client.id in group.members:
                group.unsteady = True
                self._unsettle_group(group)
                if group.anchors.pop(client.id, "") is None and not group.anchors:
                    self.excused += group.excuse(1)

    def _owed_elsewhere(self, pipe: WanderPipe) -> bool:
        """Whether a broker still has a publication of the client for somebody who was away."""
        cores = (node.core for id, node in self.world.nodes.items() if id != pipe.host)
        return any(_parked(core, pipe.client) for core in cores if core is not None)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            if isinstance(frame, (Standing, AskRefused, Taken)):
                self.stays.sent(sender, frame)
            elif isinstance(frame, Ask):
                self.stays.asks(sender, frame)

    def published(self, client: MqttClient, publication: Publication) -> None:
        Ledger.published(self, client, publication)
        if client.id in self.stays.split:
            self._loose[publication.token] = None
        self._line_of[publication.token] = self._line.get(client.id, 0)

    def welcomed(self, client: MqttClient, pipe: Pipe, present: bool) -> None:
        """A new session at another broker may get again what the last one got: its broker may have been owed it."""
        Ledger.welcomed(self, client, pipe, present)
        self.late.welcomed(client.id, present)
        if not present:
            self._begin_anew(client.id)
            return
        for outgoing in client.outgoing.values():  # what it sends again may enter the network here, or have there
            if client.id in self.stays.split:
                self._loose[outgoing.publication.token] = None
            token = outgoing.publication.token
            if self._line_of[token] != self._line.get(client.id, 0):
                self._line_of[token] = -len(self._line_of) - outgoing.publication.seq  # a line of its own

    def _begin_anew(self, client: ClientId) -> None:
        receiver = self._of(client)
        receiver.got.clear()
        receiver.got_once.clear()
        receiver.newest.clear()

    def received(self, client: MqttClient, packet: Publish) -> None:
        """Whoever may be given one of two sessions may get what belongs to either, and publish twice."""
        assert client.pipe is not None
        late = self.late.left_over(client.id, packet)
        split = (late or client.id in self.stays.split) and token_of(packet) not in self._loose
        split &= not self.again[token_of(packet)]
        self.late.received(client, packet, client.pipe.broker, split=split)
        if client.id in self.stays.split:
            self.deliveries += 1
            self._begin_anew(client.id)
        elif (token := token_of(packet)) in self._loose or late:
            self.deliveries += 1
            self._of(client.id).owed.pop(token, None)
            self._of(client.id).got[token] = 1
            for group in self._groups.values():
                if client.id in group.members:
                    group.owed.pop(token, None)
                    group.got[token] = 1
        else:
            Ledger.received(self, client, packet)

    def granted(self, client: MqttClient, wish: Wish) -> None:
        if client.id not in self.stays.split:
            Ledger.granted(self, client, wish)

    def _parted(self, client: ClientId) -> None:
        """Either of its two sessions may be ended: what it was owed with that is excused, or handed on in groups."""
        self._unsteady(client)
        receiver = self._of(client)
        self.excused += len(receiver.owed)
        receiver.owed.clear()
        receiver.settled.clear()
        for group in self._groups.values():
            if client in group.members:
                group.anchors.clear()
                self.excused += group.excuse(1)
                self._unsettle_group(group)

    def whole(self) -> None:
        """The network is whole and quiet: everybody has one session, and all promises hold."""
        for client in self.stays.split:
            self._begin_anew(client)
        self.stays.whole()

    def _ordered(self, publication: Publication) -> str:
        return f"{publication.publisher} {self._line_of[publication.token]}"


def _parked(core: Broker, client: ClientId) -> bool:
    return any(
        entry.needs is not None and entry.event.publisher == client for entry in core.events.outbox.entries.values()
    )


class WanderTables(MqttTables):
    """Trees, tables and disks, compared with what follows from where the clients are."""

    def __init__(self, world: World, wanderers: WanderClients, ledger: WanderLedger) -> None:
        super().__init__(world, wanderers, ledger)
        self._wanderers = wanderers
        self._owners = ledger.owners

    def _home(self, client: MqttClient) -> BrokerId:
        return client.pipe.host if isinstance(client.pipe, WanderPipe) else client.broker

    def quiet(self) -> bool:
        """A broker may die of a fault that was planted before (`_trip`): its disk is judged when it is back."""
        cores = self._cores()
        alive = len(cores) == len(self.world.nodes)
        return alive and super().quiet() and all(mobility_idle(core) for core in cores.values())

    def unquiet(self) -> str:
        """What is still under way, for whoever waited too long."""
        busy = [client.id for client in self._wanderers.clients.values() if client.busy() or client.incoming]
        opened = [f"{pipe.client} at {pipe.broker} ({pipe.number})" for pipe in self._wanderers.open_elsewhere()]
        moving = [id for id, core in self._cores().items() if not mobility_idle(core)]
        waiting = [
            f"{session.client} at {id}"
            for id, core in self._cores().items()
            for session in core.sessions.by_client.values()
            if session.backlog or session.inflight
        ]
        return f"busy: {busy}, left open: {opened}, hand-overs at: {moving}, deliveries for: {waiting}"

    def check_tables(self) -> None:
        super().check_tables()
        self._owners.check_quiet()
        self._check_tunnels()
        self._check_directory()
        for id, core in self._cores().items():
            for client in (*core.mobility.shadows.by_client, *core.mobility.copies.by_client):
                self._ledger.violate("remains", f"{id} has, or has given, a copy of the session of {client}")
            for client in core.sessions.by_client:
                wanderer = self._wanderers.clients.get(client)
                via, _ = core.mobility.remote.via(core.sessions.by_client[client].connection)
                if isinstance(wanderer, Wanderer) and wanderer.broker != (via or id):
                    self._ledger.violate("remains", f"{id} has a session of {client}, which is at {wanderer.broker}")

    def _check_directory(self) -> None:
        """As many brokers as are to remember where a session is do, and all of them rightly."""
        cores = self._cores()
        wanted = min(self.world.settings.hand_over.copies, len(cores) - 1)
        known: dict[tuple[ClientId, BrokerId], int] = {}
        for core in cores.values():
            for entry in core.mobility.directory.owners.items():
                known[entry] = known.get(entry, 0) + 1
        for id, core in cores.items():
            for session in core.sessions.by_client.values():
                count = known.pop((session.client, id), 0)
                if session.durable and count < wanted:
                    self._ledger.violate("directory", f"{count} brokers remember that {session.client} is at {id}")
        for client, owner in known:
            self._ledger.violate("directory", f"{client} is remembered to be at {owner}, and is not")

    def _check_tunnels(self) -> None:
        """Both ends of a tunnel know of it, and it belongs to the client's present connection."""
        cores = self._cores()
        home = {
            (tunnel.attempt, tunnel.client, id, tunnel.peer)
            for id, core in cores.items()
            for tunnel in core.mobility.remote.by_number.values()
        }
        away = {
            (visit.attempt, visit.client, visit.peer, id)
            for id, core in cores.items()
            for visit in core.mobility.visits.by_connection.values()
        }
        for attempt, client, owner, broker in sorted(home ^ away):
            self._ledger.violate("tunnel", f"{attempt} of {client} from {broker} to {owner} has one end")
        for id, core in cores.items():
            for visit in core.mobility.visits.by_connection.values():
                wanderer = self._wanderers.clients.get(visit.client)
                if wanderer is None or wanderer.pipe is None or wanderer.pipe.number != visit.connection:
                    self._ledger.violate("tunnel", f"{id} has a visit of {visit.client}, which is elsewhere")


def mobility_idle(core: Broker) -> bool:
    """Whether a broker has no hand-over under way."""
    mobility = getattr(core, "mobility", None)
    return mobility is None or bool(mobility.idle)
