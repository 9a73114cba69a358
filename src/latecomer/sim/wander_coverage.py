"""What lives of wandering clients have shown of the hand-over: which inputs came in which states, and what followed.

Every handler of a broker is watched from outside: the state of the client's session before and after it. A row that
few seeds reach says that the faults of the lives are too tame, not that the hand-over is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from latecomer.core.broker import Broker
from latecomer.core.inputs import (
    MoveWanted,
    MqttConnected,
    MqttFailed,
    MqttLost,
    MqttReceived,
    ReleaseWanted,
    SessionEnded,
    Woken,
)
from latecomer.core.mobility.mobility import Mobility
from latecomer.core.mobility.states import New, Old, new_state, old_state
from latecomer.messages.hand_over import Ask, Rows, Seek, Standing, Taken, Want
from latecomer.messages.link import Done, Fence, Fenced, Settled
from latecomer.messages.mqtt import Disconnect
from latecomer.model.ids import ClientId
from latecomer.model.record import Kind, Record
from latecomer.sim.sides import Observer
from latecomer.sim.world import World

TREE_LOST, TREE_READY, TIME, CONNECT, ANEW, LOST, GOODBYE, FAILED = (
    "tree lost",
    "tree ready",
    "time",
    "connect",
    "clean start",
    "connection lost",
    "goodbye",
    "keep-alive over",
)
OCCASIONS: dict[type, str] = {
    Woken: TIME,
    Fence: "all have answered",
    Fenced: "all have answered",
    Settled: "settled",
    Done: "publications are done",
}
"""Inputs that name no client, and after which a hand-over goes on."""
OPERATOR = {MoveWanted: "operator moves", ReleaseWanted: "operator releases", SessionEnded: "operator ends"}


class Step(NamedTuple):
    """What happened to one client's session at one broker."""

    side: str
    """`old` or `new`."""
    state: str
    input: str
    next: str


class Coverage(Observer):
    """Counts steps; an observer of a world."""

    def __init__(self, world: World, steps: Counter[Step]) -> None:
        self.world = world
        self.steps = steps

    def noted(self, record: Record) -> None:
        """A broker that starts is watched from then on."""
        if record.kind is Kind.STARTED:
            core = self.world.nodes[record.broker].core
            assert core is not None
            tables: tuple[dict[type, Callable[..., None]], ...] = (core._on_input, core._on_frame)
            for table in tables:
                for kind, handle in list(table.items()):
                    table[kind] = self._watched(core, handle)

    def _watched(self, core: Broker, handle: Callable[..., None]) -> Callable[..., None]:
        def handled(*facts: Any) -> None:
            named = dict(_clients_of(core, facts[-1]))
            ready = core.interest.ready
            before = _states(core.mobility, named)
            handle(*facts)
            after = _states(core.mobility, before)
            for client, states in before.items():
                word = named.get(client)
                if word is None:
                    if core.interest.ready is ready and states == after[client]:
                        continue
                    word = _occasion(facts[-1], ready, core.interest.ready)
                for side, state, following in zip(("old", "new"), states, after[client], strict=True):
                    self.steps[Step(side, state, word, following)] += 1

        return handled


def _occasion(fact: object, was_ready: bool, is_ready: bool) -> str:
    """What is said of those whom an input does not name."""
    if was_ready is not is_ready:
        return TREE_READY if is_ready else TREE_LOST
    return OCCASIONS.get(type(fact), f"{type(fact).__name__.lower()} of others")


def _states(mobility: Mobility, named: Iterable[ClientId]) -> dict[ClientId, tuple[Old, New]]:
    """Of the clients named, and of all whose sessions are on their way."""
    departures = mobility.departures
    moving = (*mobility.arrivals.by_client, *departures.leaving, *departures.lapsing, *departures.promises)
    moving += tuple(visit.client for visit in mobility.visits.by_connection.values())
    return {c: (old_state(mobility, c), new_state(mobility, c)) for c in dict.fromkeys((*named, *moving))}


def _clients_of(core: Broker, fact: Any) -> list[tuple[ClientId, str]]:
    """The clients that an input is about, and what it is called."""
    match fact:
        case MqttConnected():
            return [(fact.packet.client_id, ANEW if fact.packet.clean_start else CONNECT)]
        case MqttLost():
            return [(client, LOST) for client in _client_at(core, fact.connection)]
        case MqttFailed():
            return [(client, FAILED) for client in _client_at(core, fact.connection)]
        case MqttReceived() if any(isinstance(packet, Disconnect) for packet in fact.packets):
            return [(client, GOODBYE) for client in _client_at(core, fact.connection)]
        case MoveWanted() | ReleaseWanted() | SessionEnded():
            return [(fact.client, OPERATOR[type(fact)])]
        case Seek():
            return [(seeker.client, "seek, which ends" if seeker.ends else "seek") for seeker in fact.seekers]
        case _ if getattr(fact, "to", "") == core.id and hasattr(fact, "client"):
            return [(fact.client, _name(fact))]
    return []


def _name(frame: Any) -> str:
    match frame:
        case Ask() if frame.digest:
            return "ask for the rest with a digest"
        case Ask():
            return "ask for the rest" if frame.state else "ask"
        case Standing() if frame.known:
            return "standing, which is known"
        case Taken():
            return "taken" if frame.yes else "not taken"
        case Rows() if frame.outline:
            return "rows in outline"
        case Rows():
            return "rows" if frame.grant is None else "grant"
        case Want() if frame.lacking:
            return "want what is lacking"
    return str(frame.__struct_config__.tag)


def _client_at(core: Broker, connection: int) -> list[ClientId]:
    session = core.sessions.by_connection.get(connection)
    arrival = core.mobility.arrivals.by_connection.get(connection)
    visit = core.mobility.visits.by_connection.get(connection)
    return [found.client for found in (session, arrival, visit) if found is not None]
