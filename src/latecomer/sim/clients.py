"""Simulated clients: they publish, subscribe, confirm what they get, and come back when their broker does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from latecomer.core.inputs import (
    Advertised,
    ClientConnected,
    ClientDisconnected,
    Confirmed,
    Published,
    Requested,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from latecomer.model.event import Event, Value
from latecomer.model.filters import Filter
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.world import World

CONFIRM_US = 20_000
"""Clients confirm what they received this often."""
RETRY_US = 50_000
"""A refused publisher tries again after this long."""


class Witness(Protocol):
    """Who wants to know what clients asked and got."""

    def subscribed(self, client: ClientId, filter: Filter) -> None: ...
    def unsubscribed(self, client: ClientId, filter: Filter) -> None: ...
    def accepted(self, client: ClientId, event: Event) -> None: ...
    def received(self, client: ClientId, event: Event) -> None: ...
    def repeated(self, client: ClientId, event: Event) -> None: ...
    def forgotten(self, client: ClientId) -> None: ...


@dataclass(slots=True)
class SimRequest:
    """A question about the past and what came of it."""

    client: ClientId
    query: Query
    events: list[Event] = field(default_factory=list)
    outcome: Outcome | None = None
    """None: it has not ended."""
    void: bool = False
    """The client's broker died before it ended."""
    ended_at: Instant = 0


@dataclass(slots=True)
class SimClient:
    """One client and what it remembers."""

    id: ClientId
    broker: BrokerId
    online: bool = True
    connection: int = 0
    subscriptions: dict[Filter, None] = field(default_factory=dict)
    advertisements: dict[Filter, None] = field(default_factory=dict)
    withdrawn: dict[Filter, None] = field(default_factory=dict)
    """Subscriptions and advertisements taken back; repeated after a crash, which may have undone it."""
    last_number: int = 0
    confirming: bool = False
    unanswered: dict[int, Published] = field(default_factory=dict)


class SimClients:
    """All clients of a world."""

    def __init__(self, world: World, witnesses: list[Witness]) -> None:
        self.world = world
        self.witnesses = witnesses
        self.clients: dict[ClientId, SimClient] = {}
        self.requests: dict[int, SimRequest] = {}
        self.refusals = 0
        self._token = 0
        world.clients = self

    # -- what clients do ---------------------------------------------------------------------------------------------

    def join(self, client: ClientId, broker: BrokerId) -> SimClient:
        new = self.clients[client] = SimClient(client, broker)
        self._connect(new)
        return new

    def leave(self, client: ClientId) -> None:
        """Go offline; subscriptions stay at the broker."""
        self.clients[client].online = False
        self.world.tell(self.clients[client].broker, ClientDisconnected(client))

    def come_back(self, client: ClientId) -> None:
        self.clients[client].online = True
        self._connect(self.clients[client])

    def _connect(self, client: SimClient) -> None:
        client.connection += 1
        self.world.tell(client.broker, ClientConnected(client.id, client.connection))

    def subscribe(self, client: ClientId, filter: Filter) -> bool:
        """Ask for events; False if the broker is dead just now, or stopped: then nothing was asked."""
        return self._ask(client, Subscribed, filter, self.clients[client].subscriptions, "subscribed", add=True)

    def unsubscribe(self, client: ClientId, filter: Filter) -> bool:
        return self._ask(client, Unsubscribed, filter, self.clients[client].subscriptions, "unsubscribed", add=False)

    def advertise(self, client: ClientId, filter: Filter) -> bool:
        return self._ask(client, Advertised, filter, self.clients[client].advertisements, "", add=True)

    def unadvertise(self, client: ClientId, filter: Filter) -> bool:
        return self._ask(client, Unadvertised, filter, self.clients[client].advertisements, "", add=False)

    def _ask(
        self,
        client: ClientId,
        fact: Callable[[ClientId, Filter], Subscribed | Unsubscribed | Advertised | Unadvertised],
        filter: Filter,
        known: dict[Filter, None],
        story: str,
        *,
        add: bool,
    ) -> bool:
        if not self._reachable(client):
            return False
        if add:
            known[filter] = None
        else:
            known.pop(filter, None)
            self.clients[client].withdrawn[filter] = None
        if story:
            for witness in self.witnesses:
                getattr(witness, story)(client, filter)
        return self.world.tell(self.clients[client].broker, fact(client, filter))

    def publish(
        self,
        client: ClientId,
        topic: str,
        *,
        reliable: bool = True,
        attributes: dict[str, Value] | None = None,
        payload: bytes = b"",
        lifetime_us: int = 0,
    ) -> None:
        self._token += 1
        self._publish(Published(client, self._token, topic, reliable, attributes or {}, payload, lifetime_us))

    def _publish(self, fact: Published) -> None:
        publisher = self.clients[fact.client]
        if fact.reliable:
            publisher.unanswered[fact.token] = fact
        if not self.world.tell(publisher.broker, fact):
            publisher.unanswered.pop(fact.token, None)  # never left the client: no promise

    def request(self, client: ClientId, query: Query) -> SimRequest | None:
        """Ask for the past; None if the broker is dead just now, or stopped."""
        if not self._reachable(client):
            return None
        self._token += 1
        request = self.requests[self._token] = SimRequest(client, query)
        self.world.tell(self.clients[client].broker, Requested(client, self._token, query))
        return request

    def _reachable(self, client: ClientId) -> bool:
        node = self.world.nodes[self.clients[client].broker]
        return node.core is not None and node.paused_until <= self.world.now

    # -- what brokers answer -------------------------------------------------------------------------------------------

    def accepted(self, client: ClientId, token: int, event: Event) -> None:
        self.clients[client].unanswered.pop(token, None)
        for witness in self.witnesses:
            witness.accepted(client, event)

    def refused(self, client: ClientId, token: int, reason: str) -> None:
        self.refusals += 1
        fact = self.clients[client].unanswered.pop(token, None)
        if fact is not None and reason == "busy":
            self.world.at(self.world.now + RETRY_US, self._publish, fact)

    def delivered(self, client: ClientId, connection: int, number: int, event: Event) -> None:
        receiver = self.clients[client]
        if not receiver.online or connection != receiver.connection:
            return
        if number:
            if not receiver.confirming:
                receiver.confirming = True
                self.world.at(self.world.now + CONFIRM_US, self._confirm, receiver)
            if number <= receiver.last_number:
                for witness in self.witnesses:
                    witness.repeated(client, event)
                return
            receiver.last_number = number
        for witness in self.witnesses:
            witness.received(client, event)

    def answered(self, client: ClientId, token: int, events: tuple[Event, ...], outcome: Outcome | None) -> None:
        request = self.requests[token]
        assert request.outcome is None, "nothing comes after the end"
        request.events += events
        request.outcome, request.ended_at = outcome, self.world.now

    def _confirm(self, receiver: SimClient) -> None:
        receiver.confirming = False
        if receiver.online:
            self.world.tell(receiver.broker, Confirmed(receiver.id, receiver.last_number))

    def broker_started(self, broker: BrokerId, kept_disk: bool) -> None:
        """Clients connect again and repeat what they want: what they said last may have died with the broker. Where the
        broker lost its disk they are strangers and begin anew."""
        for request in self.requests.values():
            if request.outcome is None and self.clients[request.client].broker == broker:
                request.void = True
        for client in self.clients.values():
            if client.broker != broker:
                continue
            client.unanswered.clear()
            if not kept_disk:
                client.last_number = 0
                for witness in self.witnesses:
                    witness.forgotten(client.id)
            self._repeat_wishes(client)
            if client.online:
                self._connect(client)

    def _repeat_wishes(self, client: SimClient) -> None:
        tell = self.world.tell
        for filter in client.withdrawn:
            if filter not in client.subscriptions:
                tell(client.broker, Unsubscribed(client.id, filter))
            if filter not in client.advertisements:
                tell(client.broker, Unadvertised(client.id, filter))
        for filter in client.subscriptions:
            tell(client.broker, Subscribed(client.id, filter))
        for filter in client.advertisements:
            tell(client.broker, Advertised(client.id, filter))
