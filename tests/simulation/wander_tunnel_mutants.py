"""Tunnels of sessions that stay at home, deliberately broken: one function per planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latecomer.core.inputs import MqttLost
from latecomer.core.mobility import mobility, remote, tunnel, visits
from latecomer.messages.mqtt import Disconnect

Patch = pytest.MonkeyPatch
TUNNEL_MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    TUNNEL_MUTANTS[plant.__name__] = plant
    return plant


# -- where the client is -----------------------------------------------------------------------------------------------


@mutant
def client_is_not_told_that_its_tree_is_lost(patch: Patch) -> None:
    """The client stays connected to nobody."""
    patch.setattr(visits.Visits, "tree_lost", lambda self: None)


@mutant
def client_stays_when_home_has_closed(patch: Patch) -> None:
    """The end of the tunnel is not the end of the connection."""
    patch.setattr(visits.Visits, "on_detach", lambda self, frame: None)


@mutant
def goodbyes_are_not_passed_on(patch: Patch) -> None:
    """Home takes every end of a connection for a broken one."""
    right = visits.Visits.received

    def received(self: visits.Visits, fact: Any) -> None:
        if any(isinstance(packet, Disconnect) for packet in fact.packets):
            self.lost(fact.connection)
        else:
            right(self, fact)

    patch.setattr(visits.Visits, "received", received)


@mutant
def what_waits_for_credit_is_lost(patch: Patch) -> None:
    """What the client sent while the tunnel was full is forgotten."""
    right = visits.Visits._pump

    def pump(self: visits.Visits, visit: visits.Visit) -> None:
        right(self, visit)
        visit.backlog.clear()
        right(self, visit)

    patch.setattr(visits.Visits, "_pump", pump)


@mutant
def the_first_connect_is_served(patch: Patch) -> None:
    """Home has been told of an older connection, and the client that waits now is given what home says to that one."""
    right = mobility.Mobility._replace

    def replace(self: mobility.Mobility, arrival: Any, fact: Any) -> None:
        attaches, arrival.attaches = arrival.attaches, False
        right(self, arrival, fact)
        arrival.attaches = attaches

    patch.setattr(mobility.Mobility, "_replace", replace)


# -- home --------------------------------------------------------------------------------------------------------------


@mutant
def credit_is_never_given(patch: Patch) -> None:
    """Both ends wait for one another when a tunnel was full once."""
    patch.setattr(tunnel.Relaying, "give_credit", lambda self, end: None)
    right = tunnel.Relaying._send

    def send(self: tunnel.Relaying, end: tunnel.Tunnel, packets: Any) -> None:
        end.owed = 0
        right(self, end, packets)

    patch.setattr(tunnel.Relaying, "_send", send)


@mutant
def a_lost_tree_is_a_lost_client(patch: Patch) -> None:
    """Wills are published because the network was rearranged."""

    def tree_lost(self: remote.RemoteClients) -> None:
        for end in list(self.by_number.values()):
            self._lost(end)

    patch.setattr(remote.RemoteClients, "tree_lost", tree_lost)


@mutant
def home_serves_two_connections(patch: Patch) -> None:
    """The older connection is forgotten, and not ended."""
    right = remote.RemoteClients.attach

    def attach(self: remote.RemoteClients, session: Any, ask: Any) -> None:
        if session.connection < 0:
            end = self.by_number.pop(session.connection)
            del self.by_attempt[end.attempt]
            self.sessions.on_lost(MqttLost(end.connection))
        right(self, session, ask)

    patch.setattr(remote.RemoteClients, "attach", attach)
