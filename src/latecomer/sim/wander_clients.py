"""Simulated MQTT clients that wander: at each CONNECT they may choose another broker.

They are the clients of `mqtt_clients` in everything else. They say where they were before, rightly, wrongly or not at
all; they wait for a CONNACK that comes late, or lose patience; they come to another broker while their connection to
the last one is still open, or to two at once; they try again when they are refused. A stranger who uses the client id
of another user is part of it too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from latecomer.core.broker import Broker
from latecomer.core.inputs import MoveWanted
from latecomer.core.session.limits import NEVER_S
from latecomer.messages.mqtt import V5, Connack, Connect, Disconnect, Packet, Properties, Publish, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, MqttWitness
from latecomer.sim.mqtt_pipes import Pipe
from latecomer.sim.transcript import Transcript
from latecomer.sim.wander_device import Device
from latecomer.sim.wander_late import token_of_event
from latecomer.sim.wander_pipes import WanderPipe, WanderPipes, Welcomes
from latecomer.sim.world import World

STRANGER = "mallory"
"""A user who has no session anywhere."""
STRANGERS_BEGIN_ANEW = 0.0
"""How likely a stranger asks for a new session under the client id of another user."""
REFUSALS = (Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY, Reason.SESSION_TAKEN_OVER)
"""With which a CONNECT of the rightful user may be refused: the broker that has the session is away, this broker has
too many arrivals under way, or a younger connection won."""
PATIENCE_US = (50_000, 300_000, 1_500_000, 4_000_000)
"""How long an impatient client waits for its CONNACK."""
ENDS_LATER_US = 500_000
"""So long after a clean start whose session ends with its connection, older sessions of the client have ended."""
FRESH = 0.06
"""How likely a client wants a new session when it connects."""
WHOLE_US = 12_000_000
"""So long after the last fault nobody is refused any more, unless events from before it are under way (`_held_up`)."""


@dataclass(slots=True)
class Wanderer(MqttClient):
    """One client, and where it was."""

    restless: float = 0.5
    """How likely it chooses another broker at a CONNECT."""
    welcomed_by: BrokerId = ""
    """The broker that welcomed it last."""
    fresh: bool = False
    """It wants a new session, until it has been given one."""
    doubted: bool = False
    """Whether the CONNECT before this one was unanswered too."""
    hurried: bool = False
    """It wants to be elsewhere next time."""
    bound_for: BrokerId = ""
    """Where it said that it would go next, or an operator wants it to be."""
    owner_away: str = ""
    """What it wants if the broker that has its session is away; empty: what the broker says."""
    hand_over: str = ""
    """The algorithm that it asks for; empty: the broker's."""
    watched: int = 0
    """Strangers that are trying its client id at the moment."""


class WanderWitness(MqttWitness, Welcomes, Protocol):
    """Who wants to know what wandering clients asked, said and got."""

    def begins_anew(self, client: MqttClient) -> None: ...


class WanderClients(MqttClients):
    """All wandering clients of a world."""

    pipes: WanderPipes
    witness: WanderWitness

    def __init__(self, world: World, witness: WanderWitness, transcript: Transcript | None = None) -> None:
        self._welcomes = witness
        super().__init__(world, witness, transcript)
        self.brokers = list(world.nodes)
        self.moving = True
        """Off: everybody stays at the broker where it began."""
        self.hasty = False
        """Clients lose patience, and want new sessions: only while there are faults."""
        self.whole_since: Instant | None = None
        """Since when there has been no fault; None: there are some."""
        self.unpublished: set[str] = set()
        """What clients had in hand then, and their brokers get only now."""
        self.between_sessions: Callable[[ClientId], bool] = lambda client: False
        """Whether a client may be given either of two sessions."""
        self.unaware: Callable[[ClientId], bool] = lambda client: False
        """Whether a client has a new session, and has not read so."""
        self.device: Device | None = None
        """What clients say about their subscriptions when they connect; None: nothing."""
        self.moves = 0
        self.unavailable = 0
        self.strangers_refused = 0
        self.strangers_served = 0
        self._strangers: dict[int, Wanderer] = {}

    def _new_pipes(self, transcript: Transcript | None) -> WanderPipes:
        return WanderPipes(self.world, self, transcript, self._welcomes)

    # -- CONNECT -------------------------------------------------------------------------------------------------------

    def _connect(self, client: MqttClient) -> None:
        if client.pipe is not None or not client.online:
            return
        assert isinstance(client, Wanderer)
        random = self.world.random
        if self.moving and client.bound_for and random.random() < 0.7:
            client.broker = client.bound_for
        elif self.moving and random.random() < (1.0 if client.hurried else client.restless):
            client.broker = random.choice(self.brokers)
        client.hurried, client.bound_for = False, ""
        client.doubted = client.unanswered
        if self.hasty and client.durable and client.version == V5 and not client.watched and random.random() < FRESH:
            client.fresh = True  # an older client would get a session that ends with its connection
        super()._connect(client)
        if self.hasty and client.pipe is not None and random.random() < 0.2:
            self.world.at(self.world.now + random.choice(PATIENCE_US), self._lose_patience, client, client.pipe)

    def _starts_clean(self, client: MqttClient) -> bool:
        assert isinstance(client, Wanderer)
        clean = client.fresh or super()._starts_clean(client)
        if clean:
            self.witness.begins_anew(client)
        return clean

    def _connect_words(self, client: MqttClient) -> tuple[tuple[str, str], ...]:
        assert isinstance(client, Wanderer)
        away = (("owner-away", client.owner_away),) if client.owner_away else ()
        return (*self._previous_broker(client), *away)

    def _previous_broker(self, client: Wanderer) -> tuple[tuple[str, str], ...]:
        random = self.world.random
        dice = random.random()
        words = () if self.device is None else self.device.words(client)
        if client.hand_over and not any(name == "hand-over" for name, _ in words):
            words = (*words, ("hand-over", client.hand_over))
        if dice < 0.4 or not client.welcomed_by:
            return words
        if dice < 0.8:
            return (("previous-broker", client.welcomed_by), *words)
        return (("previous-broker", random.choice((*self.brokers, "nowhere", ""))), *words)

    def noted(self, record: Record) -> None:
        """A refusal may have to go through a tunnel that is gone: the client sends again what was refused, behind what
        its broker took later."""
        client = self.clients.get(record.client)
        if record.kind is not Kind.REFUSED or not record.topic or client is None or client.connected:
            return
        for outgoing in client.outgoing.values():
            outgoing.refused |= outgoing.publication.topic == record.topic

    def _lose_patience(self, client: Wanderer, pipe: Pipe) -> None:
        if client.pipe is pipe and not client.connected and self.hasty:
            self._disconnected(client)
            self.pipes.hang_up(pipe)
            self._connect(client)

    def _connack(self, client: MqttClient, packet: Connack) -> None:
        assert isinstance(client, Wanderer)
        if packet.reason == Reason.SUCCESS:
            self.moves += client.welcomed_by not in ("", client.broker) and packet.session_present
            # A session began for a connection that it had given up, and no other one: it knows nothing of this one.
            client.stranger |= self.unaware(client.id) and not self.between_sessions(client.id)
        super()._connack(client, packet)
        if packet.reason != Reason.SUCCESS:
            return
        client.welcomed_by = client.broker
        if client.fresh and client.version != V5:  # this one ends with its connection, others a moment later
            self.world.at(self.world.now + ENDS_LATER_US, self._renewed, client, client.pipe)
        else:
            client.fresh = False

    def _renewed(self, client: Wanderer, pipe: Pipe) -> None:
        if client.pipe is pipe:
            self.leave(client, Disconnect())
            client.fresh = False
            self.come_back(client)

    def _refused(self, client: MqttClient, packet: Connack) -> None:
        """The end of the connection follows, and then another try."""
        assert isinstance(client, Wanderer)
        why = f"{Reason(packet.reason).name}: {packet.properties.reason_string}"
        if packet.reason not in REFUSALS:
            self.witness.violate("refused", f"{client.id} was refused by {client.broker}: {why}")
        elif packet.reason != Reason.SESSION_TAKEN_OVER and self._is_whole() and not self._held_up(client):
            self.witness.violate("refused", f"{client.id} was refused by {client.broker} in a whole network: {why}")
        self.unavailable += packet.reason != Reason.SESSION_TAKEN_OVER
        client.unanswered = client.doubted  # nothing has changed

    def healed(self) -> None:
        """Every fault is taken back."""
        self.hasty, self.whole_since = False, self.world.now
        publications = [publication for client in self.clients.values() for publication in client.waiting]
        publications += [one.publication for client in self.clients.values() for one in client.outgoing.values()]
        self.unpublished = {publication.token for publication in publications}

    def _is_whole(self) -> bool:
        """Whether there has been no fault for so long that nobody needs to be told to try again later."""
        return self.whole_since is not None and self.world.now > self.whole_since + WHOLE_US

    def _held_up(self, client: MqttClient) -> bool:
        """Whether the client's session waits for events that were published before the last fault was taken back.

        A hand-over comes behind events: those of the new broker have left, the tree has settled, and what the client
        published at the old one is done (steps 3, 4 and 6 of the walk). An origin may have a window of one event, and a
        round trip through the tree for each of a hundred takes longer than any client waits. Only brokers that have not
        worked off what they had then are an excuse: whatever came later finds no such queue."""
        assert self.whole_since is not None
        cores = {id: node.core for id, node in self.world.nodes.items() if node.core is not None}
        behind = {id: core for id, core in cores.items() if _is_behind(core, self.whole_since, self.unpublished)}
        settled = all(core.events.settling.settled for core in cores.values())
        return client.broker in behind or any(not settled or _keeps(core, client.id) for core in behind.values())

    def _publish(self, client: MqttClient, packet: Publish) -> None:
        """A client that may be given either of two sessions cannot know of which one it has a packet id."""
        if self.between_sessions(client.id) and not packet.dup:
            client.incoming.pop(packet.packet_id, None)
        super()._publish(client, packet)

    def _disconnect(self, client: MqttClient, packet: Disconnect) -> None:
        assert isinstance(client, Wanderer)
        if self.between_sessions(client.id) and packet.reason == Reason.RECEIVE_MAXIMUM_EXCEEDED:
            client.fresh = True  # it was given the one of which it knows nothing
            return
        if packet.reason == Reason.USE_ANOTHER_SERVER and client.bound_for:
            return  # an operator wants it
        if packet.reason == Reason.ADMINISTRATIVE_ACTION and self.between_sessions(client.id):
            return  # an operator has ended its session (`wander_moments`)
        pipe = client.pipe
        assert isinstance(pipe, WanderPipe)
        if packet.reason == Reason.SERVER_BUSY and pipe.home:
            if self._is_whole():
                self.witness.violate("tunnel", f"{client.id} at {pipe.broker} lost its tunnel in a whole network")
            return
        super()._disconnect(client, packet)
        pipe.taken_over |= packet.reason == Reason.SESSION_TAKEN_OVER
        if pipe.taken_over and not self.pipes.rivals(pipe):
            self.witness.violate("taken over", f"{client.id} at {pipe.broker}: it has no other connection")

    # -- moves ---------------------------------------------------------------------------------------------------------

    def hop(self, client: Wanderer) -> None:
        """Come anew, perhaps elsewhere, without a word on the connection there is: it stays open."""
        client.online = True
        if client.pipe is not None:
            self._disconnected(client)
        self._connect(client)

    def hop_twice(self, client: Wanderer) -> None:
        """Come to two brokers at once; the client then listens to one of them only."""
        self.hop(client)
        certain = client.expiry_s == NEVER_S and client.welcomed_by and not client.fresh
        if client.pipe is not None and certain:
            broker = self.world.random.choice(self.brokers) if self.moving else client.broker
            receive_max = client.receive_max
            self.pipes.open(broker, self._connect_packet(client))
            client.receive_max = receive_max  # of the connection that it listens to

    def renew(self, client: Wanderer) -> None:
        """Leave, and come back for a new session."""
        client.fresh = True
        self.leave(client, Disconnect())
        self.come_back(client)

    def direct(self, client: Wanderer, to: BrokerId) -> None:
        """An operator wants a session to be at another broker."""
        client.bound_for = to
        for id, node in self.world.nodes.items():
            if node.core is not None and client.id in node.core.sessions.by_client:
                self.world.tell(id, MoveWanted(client.id, to))

    def intrude(self, client: Wanderer) -> None:
        """Somebody else uses the client id of a client that has a session, at any broker."""
        if not client.connected or client.expiry_s != NEVER_S or client.fresh:
            return
        random = self.world.random
        broker = random.choice(self.brokers) if self.moving else client.broker
        clean_start = random.random() < STRANGERS_BEGIN_ANEW
        connect = Connect(client.id, V5, clean_start, 60, user=STRANGER, properties=Properties())
        pipe = self.pipes.open(broker, connect)
        if pipe is not None:
            client.watched += 1
            self._strangers[pipe.number] = client

    def arrived(self, pipe: Pipe, packets: Sequence[Packet]) -> None:
        if pipe.number not in self._strangers and not (isinstance(pipe, WanderPipe) and pipe.foreign):
            super().arrived(pipe, packets)
            return
        for packet in packets:
            self._stranger_got(pipe, packet)

    def _stranger_got(self, pipe: Pipe, packet: Packet) -> None:
        if type(packet) is not Connack or packet.reason == Reason.SUCCESS:
            if not self.whole(pipe.broker):  # the session may be at a broker that is away, and nobody knows
                self.strangers_served += 1
            else:
                self.witness.violate(
                    "stranger", f"{pipe.broker} gave a {type(packet).__name__} of {pipe.client} to another"
                )
            self.pipes.hang_up(pipe)
            self.hung_up(pipe)
        elif packet.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID:
            self.strangers_refused += 1
        elif packet.reason not in REFUSALS:
            self.witness.violate("stranger", f"{pipe.broker} refused another {pipe.client} with {packet.reason}")

    def whole(self, broker: BrokerId) -> bool:
        """Whether a broker sees all others, and has for a while."""
        core = self.world.nodes[broker].core
        tree = core.interest.tree if core is not None else None
        alive = all(node.core is not None for node in self.world.nodes.values())
        return tree is not None and alive and len(tree.parent) == len(self.world.nodes)

    def hung_up(self, pipe: Pipe) -> None:
        target = self._strangers.pop(pipe.number, None)
        if target is None:
            super().hung_up(pipe)
        else:
            target.watched -= 1

    def idle(self) -> bool:
        renewing = any(isinstance(client, Wanderer) and client.fresh for client in self.clients.values())
        return super().idle() and not renewing and not self._strangers and not self.open_elsewhere()

    def _awaits_release(self, client: MqttClient) -> bool:
        """Packet ids of the other session, perhaps, are never released. They are kept all the same: if they are of this
        one, they tell what comes again after a broker died."""
        return not self.between_sessions(client.id) and super()._awaits_release(client)

    def open_elsewhere(self) -> list[WanderPipe]:
        """Connections that clients have turned their backs on and that no broker has ended."""
        return [pipe for c in self.clients.values() for pipe in self.pipes.left_open(c.id, c.pipe)]


def _is_behind(core: Broker, since: Instant, unpublished: Container[str]) -> bool:
    """Whether an event from before that time waits for its turn, or is on its way, to brokers that are there."""
    outbox = core.events.outbox
    events = (outbox.entries[seq].event for seq in (*outbox.under_way, *outbox.queue))
    return any(event.published_us < since or token_of_event(event) in unpublished for event in events)


def _keeps(core: Broker, client: ClientId) -> bool:
    """Whether a broker may not grant a client's session yet, or has done so just now, and the grant is on its way."""
    outbox = core.events.outbox
    unfinished = (seq for seq, entry in outbox.entries.items() if entry.event.publisher == client)
    return client in core.mobility.departures.promises or any(seq not in outbox.parked for seq in unfinished)
