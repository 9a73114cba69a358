"""Connections of clients that wander: one client id at several brokers, at once or one after the other.

What `mqtt_pipes` knows of one broker is kept here for the whole network: which connection is the newest, which of the
others were still open when it came, and what each broker answered. A CONNECT may be answered late, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from latecomer.core.inputs import MqttConnected
from latecomer.messages.hand_over import Ask
from latecomer.messages.mqtt import Connack, Connect, Disconnect, Packet, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.mqtt_pipes import Ends, Pipe, Pipes
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World

STALE_US = 8_000_000
"""How late a broker may hear that a client began anew elsewhere, over a link that had to be made again, without the
tree being lost. What it hears then may be out of date, and it cannot know."""


@dataclass(slots=True)
class WanderPipe(Pipe):
    """One connection of a client that may have others elsewhere."""

    reached_at: Instant | None = None
    """When its CONNECT reached the broker."""
    rival: bool = False
    """A newer CONNECT of the client has reached another broker, which may or may not have told this one."""
    doubtful: bool = False
    """Its DISCONNECT came after that: the broker may have ended the connection before."""
    answered_at: Instant | None = None
    """When the broker sent a CONNACK."""
    taken_over: bool = False
    """The broker has said that another connection uses the client id."""
    home: BrokerId = ""
    """The broker that serves it through a tunnel to this one; empty: this one does."""
    again: int = 0
    """How often its CONNECT was asked about again, since the tunnel ended before the client had its CONNACK."""
    home_died: bool = False
    """That broker has started again before it ended the connection, or the time that the client had to come back."""
    lapsed: bool = False
    """Its tunnel ended with its tree: the client is given time to connect again."""
    said: Disconnect | None = None
    """The DISCONNECT that its broker read, and may have passed on."""
    over: bool = False
    """For that broker it has ended: it may have taken a goodbye in, or not."""

    @property
    def host(self) -> BrokerId:
        """The broker that has the session."""
        return self.home or self.broker

    @property
    def foreign(self) -> bool:
        """It belongs to another user than the session."""
        return bool(self.connect.user)


class Welcomes(Protocol):
    """Who wants to know at which moment a broker welcomed whom."""

    def began(self, pipe: WanderPipe, present: bool) -> None: ...


class WanderPipes(Pipes):
    """All connections of a world of wandering clients."""

    pipe_type = WanderPipe

    def __init__(self, world: World, ends: Ends, transcript: Transcript | None, welcomes: Welcomes) -> None:
        super().__init__(world, ends, transcript)
        self.welcomes = welcomes
        self.of_client: dict[ClientId, list[WanderPipe]] = {}
        """Every connection of the rightful user, oldest first."""

    def open(self, broker: BrokerId, connect: Connect) -> Pipe | None:
        pipe = super().open(broker, connect)
        if pipe is not None and not connect.user:
            assert isinstance(pipe, WanderPipe)
            self.of_client.setdefault(pipe.client, []).append(pipe)
        return pipe

    def _connect_reached(self, pipe: Pipe, packet: Connect) -> None:
        assert isinstance(pipe, WanderPipe)
        if pipe.foreign:
            pipe.reached_at = self.world.now
            self.world.tell(pipe.broker, MqttConnected(pipe.number, packet, user=packet.user or ""))
            return
        others = [other for other in self.of_client[pipe.client] if other.reached_at is not None]
        if packet.clean_start and any(other.number > pipe.number for other in others):
            return  # out of the past, it would end the session of today: no broker can know better
        for other in others:
            if other.broker == pipe.broker:
                other.superseded = True
            else:
                other.rival = True
                self._forget_unread(other)
        pipe.reached_at = self.world.now
        self.world.tell(pipe.broker, MqttConnected(pipe.number, packet, listener=self.listener))

    def _forget_unread(self, pipe: WanderPipe) -> None:
        """A CONNECT that a stopped broker has not read yet would be out of the past when it reads it."""
        if not pipe.connect.clean_start or pipe.answered_at is not None:
            return
        inbox = self.world.nodes[pipe.broker].inbox
        for fact in [fact for fact in inbox if type(fact) is MqttConnected and fact.connection == pipe.number]:
            inbox.remove(fact)
            pipe.reached_at, pipe.cut, pipe.ended = None, True, True
            self.world.at(self.world.now, self.ends.hung_up, pipe)

    def _reached_broker(self, pipe: Pipe, packet: Packet) -> None:
        assert isinstance(pipe, WanderPipe)
        if type(packet) is Disconnect and pipe.rival:
            pipe.doubtful = True
        super()._reached_broker(pipe, packet)

    def _was_read(self, pipe: Pipe, packet: Packet) -> None:
        assert isinstance(pipe, WanderPipe)
        if type(packet) is Disconnect and not pipe.over:
            pipe.said = packet
        super()._was_read(pipe, packet)

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None:
        pipe = self.by_number[connection]
        assert isinstance(pipe, WanderPipe)
        for packet in packets:
            if type(packet) is Connack:
                pipe.answered_at = self.world.now
                served_here = not pipe.home or not packet.session_present
                if packet.reason == Reason.SUCCESS and not pipe.foreign and served_here:
                    self.welcomes.began(pipe, packet.session_present)
        super().transmitted(connection, packets)

    def closed(self, connection: int, problem: str) -> None:
        pipe = self.by_number[connection]
        assert isinstance(pipe, WanderPipe)
        super().closed(connection, "" if pipe.over and pipe.goodbye is not None else problem)

    # -- tunnels -------------------------------------------------------------------------------------------------------

    def asked(self, ask: Ask, connect: Connect, until: Instant) -> WanderPipe | None:
        """The connection, made until then, for which a broker asks another to serve its client. The frame may have
        waited for a link: a connection that came meanwhile, in place of this one, has an attempt of its own. So has one
        whose CONNECT the broker, when it was stopped, has not read yet."""
        broker, node = ask.from_broker, self.world.nodes[ask.from_broker]
        core, unread = node.core, {fact.connection for fact in node.inbox if type(fact) is MqttConnected}
        pipes = (p for p in self.of_client.get(ask.client, ()) if p.broker == broker and p.connect == connect)
        came = [p for p in pipes if p.reached_at is not None and p.reached_at <= until and p.number not in unread]
        arrival = core.mobility.arrivals.by_client.get(ask.client) if core is not None else None
        if arrival is not None:
            waits = arrival.number == ask.attempt.number
            came = [p for p in came if (p.number == arrival.connection) is waits] or came
        return max(came, key=lambda pipe: pipe.reached_at or 0, default=None)

    @staticmethod
    def over(pipe: WanderPipe, *, goodbye: bool) -> None:
        """The broker that served a connection through a tunnel has ended it; whether it took a goodbye in."""
        pipe.over = pipe.superseded = True
        if goodbye:
            pipe.goodbye, pipe.problem = pipe.said, ""
        else:
            pipe.goodbye = None

    # -- what checkers ask ---------------------------------------------------------------------------------------------

    def rivals(self, pipe: WanderPipe) -> list[WanderPipe]:
        """Connections of the same client because of which a broker may have ended this one."""
        reached_at = (pipe.reached_at or 0) - STALE_US
        return [
            other
            for other in self.of_client.get(pipe.client, ())
            if other is not pipe
            and other.reached_at is not None
            and (other.reached_at >= reached_at or not other.ended or other.number > pipe.number)
        ]

    def waited(self, pipe: WanderPipe, ended_at: Instant, until: Instant) -> bool:
        """Whether the client of a connection that ended was waiting, at any broker, for the CONNACK of another one, at
        some moment from then on until an instant."""
        since = pipe.reached_at or 0
        return any(
            other.reached_at is not None
            and other.reached_at <= until
            and (other.reached_at > since if other.answered_at is None else other.answered_at >= ended_at)
            for other in self.of_client.get(pipe.client, ())
            if other is not pipe
        )

    def stale(self, pipe: WanderPipe, now: Instant) -> bool:
        """Whether word of a new session of the client elsewhere may have reached the broker of a connection late."""
        since = (pipe.reached_at or 0) - STALE_US
        return any(
            other.connect.clean_start and other.reached_at is not None and since <= other.reached_at <= now
            for other in self.of_client.get(pipe.client, ())
            if other is not pipe and other.broker != pipe.broker
        )

    def overtaken(self, pipe: WanderPipe) -> bool:
        """Whether a client asked for a new session on a connection, left it open, and was answered on a newer one."""
        others = self.of_client.get(pipe.client, ())
        newer = (other for other in others if other.number > pipe.number and not other.foreign)
        return pipe.connect.clean_start and any(other.answered_at is not None for other in newer)

    def newest_at(self, client: ClientId, broker: BrokerId) -> WanderPipe | None:
        """The connection whose CONNECT reached a broker last."""
        found = [p for p in self.of_client.get(client, ()) if p.broker == broker and p.reached_at is not None]
        return max(found, key=lambda pipe: pipe.reached_at or 0, default=None)

    def waits_for_new(self, client: ClientId, broker: BrokerId, number: int) -> bool:
        """Whether a client has asked a broker for a new session, on a connection behind that one, and not been
        answered."""
        return any(
            pipe.broker == broker
            and pipe.number > number
            and pipe.connect.clean_start
            and pipe.reached_at is not None
            and pipe.answered_at is None
            for pipe in self.of_client.get(client, ())
        )

    def starts_clean(self, client: ClientId, since: Instant, until: Instant) -> bool:
        """Whether a CONNECT that begins a new session has reached any broker in a span of time."""
        pipes = self.of_client.get(client, ())
        starts = (pipe.reached_at for pipe in pipes if pipe.connect.clean_start)
        return any(reached_at is not None and since <= reached_at <= until for reached_at in starts)

    def left_open(self, client: ClientId, current: Pipe | None) -> list[WanderPipe]:
        """Connections that reached a broker, that their client has turned its back on, and that no broker has ended."""
        pipes = self.of_client.get(client, ())
        return [pipe for pipe in pipes if pipe is not current and pipe.reached_at is not None and not pipe.ended]
