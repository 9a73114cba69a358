"""A neighbour that sends frames of hand-overs at the wrong time, twice, or made up: the broker stands, and its own
clients keep what is theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from latecomer.core.effects import Effect, Send
from latecomer.core.inputs import Input, LinkReceived, MqttConnected, MqttLost
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.settings import BrokerSettings
from latecomer.core.store import STORE
from latecomer.messages.hand_over import Seek
from latecomer.messages.link import Fence, Fenced, LinkMessage, Settled
from latecomer.messages.mqtt import Connect, Properties
from latecomer.wire.link import HEADER, decode_body, encode
from tests.strategies_hand_over import HERE, NEARLY_RIGHT
from tests.unit.mqtt_hand import MqttHand

PEERS: Final = ("b", "c")


class Victim(MqttHand):
    """A broker with two neighbours in a ready tree."""

    def __init__(self) -> None:
        super().__init__(*PEERS, settings=BrokerSettings(hand_over=HandOverSettings(algorithm="logging")))
        self.join(*PEERS)
        for peer in PEERS:
            self.says(peer, Settled(self.broker.membership.version))
        self.number = 100
        self.lives: list[int] = []

    def tell(self, fact: Input) -> list[Effect]:
        effects = super().tell(fact)
        for effect in effects:
            if isinstance(effect, Send):
                for frame in effect.frames:
                    decode_body(encode(frame)[HEADER:])  # an honest neighbour can read what is sent
        if hasattr(self, "broker"):
            self.check()
        return effects

    def check(self) -> None:
        core = self.broker
        sessions, arrivals = core.sessions.by_client, core.mobility.arrivals
        waiting = {client for client, arrival in arrivals.by_client.items() if arrival.session is not None}
        assert set(core.clients.receivers) - {STORE} == set(sessions) | waiting
        assert not set(sessions) & waiting, "a session is here, or on its way"
        assert set(core.mobility.departures.promises) <= set(sessions)
        assert set(arrivals.by_connection) == {a.connection for a in arrivals.by_client.values()} - {0}
        remote, visits = core.mobility.remote, core.mobility.visits
        assert {n for n in core.sessions.by_connection if n < 0} == set(remote.by_number)
        assert {t.attempt for t in remote.by_number.values()} == set(remote.by_attempt)
        assert not set(visits.by_connection) & set(core.sessions.by_connection)
        assert not set(visits.by_connection) & set(arrivals.by_connection)
        assert {v.attempt for v in visits.by_connection.values()} == set(visits.by_attempt)
        assert len(core.mobility.others.pointers) <= core.mobility.settings.pointers_max

    def says(self, peer: str, *frames: LinkMessage) -> None:
        version = self.broker.membership.version
        told = [replace(f, version=version) if isinstance(f, Seek) and f.version == HERE else f for f in frames]
        self.tell(LinkReceived(peer, told))

    def connects(self, client: str, expiry_s: int, clean: bool, user: str, home: bool) -> None:
        self.number += 1
        words: tuple[tuple[str, str], ...] = (("subscription", "1 t/#"),) if self.number % 2 else ()
        words += (("hand-over", "home-broker"),) if home else ()
        packet = Connect(client, clean_start=clean, properties=Properties(session_expiry_s=expiry_s, user=words))
        self.lives.append(self.number)
        self.tell(MqttConnected(self.number, packet, user))

    def loses(self) -> None:
        if self.lives:
            self.tell(MqttLost(self.lives.pop(0)))

    def fences(self) -> None:
        """The neighbours answer the fences that they got."""
        sent, self.sent = self.sent, []
        for send in sent:
            for frame in send.frames:
                if isinstance(frame, Fence):
                    self.says(send.peer, Fenced(frame.number))


Deed = Callable[[Victim], Any]
said: Final = st.lists(st.one_of(*NEARLY_RIGHT.values()), min_size=1, max_size=4)
deeds: Final[st.SearchStrategy[Deed]] = st.one_of(
    st.builds(lambda peer, frames: lambda victim: victim.says(peer, *frames), st.sampled_from(PEERS), said),
    st.builds(lambda peer, frames: lambda victim: victim.says(peer, *frames), st.sampled_from(PEERS), said),
    st.builds(
        lambda *terms: lambda victim: victim.connects(*terms),
        st.sampled_from("pq"),
        st.sampled_from((0, 60)),
        st.booleans(),
        st.sampled_from(("", "", "u")),
        st.booleans(),
    ),
    st.just(lambda victim: victim.loses()),
    st.just(lambda victim: victim.fences()),
    st.builds(lambda us: lambda victim: victim.wait(us), st.sampled_from((1_000, 25_000, 600_000, 6_000_000))),
)


@given(st.lists(deeds, max_size=25))
@settings(max_examples=300)
def test_whatever_comes_the_broker_stands(story: list[Deed]) -> None:
    victim = Victim()
    for deed in story:
        deed(victim)
    victim.wait(10_000_000)


@given(st.lists(deeds, max_size=20))
@settings(max_examples=150)
def test_the_disk_it_leaves_can_be_started_from(story: list[Deed]) -> None:
    victim = Victim()
    for deed in story:
        deed(victim)
    owned = {client for client, session in victim.broker.sessions.by_client.items() if session.durable}
    victim.restart()
    assert owned <= set(victim.broker.sessions.by_client), "what was owned is owned"
    assert not victim.disk.tables.get("arriving", {}).get("")
    for table in ("subscriptions", "queue", "incoming", "recall", "held"):
        held = {group for group, rows in victim.disk.tables.get(table, {}).items() if rows}
        assert held <= set(victim.broker.sessions.by_client), f"rows of nobody in {table}"


@given(st.lists(st.builds(lambda peer, frames: (peer, frames), st.sampled_from(PEERS), said), max_size=10))
@settings(max_examples=150)
def test_a_connected_client_is_not_robbed(story: list[tuple[str, list[LinkMessage]]]) -> None:
    """A session moves or ends by an attempt or a stamp that its broker gave out, never by one that was made up."""
    victim = Victim()
    victim.now += 1_000_000  # no stamp that is made up here
    wire = victim.dial("safe")
    wire.connect(clean_start=False, session_expiry_s=60)
    victim.fences()
    for peer, frames in story:
        renamed = [replace(frame, client="safe") if hasattr(frame, "client") else frame for frame in frames]
        victim.says(peer, *(f for f in renamed if not _asks(f)))
    assert "safe" in victim.broker.sessions.by_client
    assert not wire.closed


def _asks(frame: LinkMessage) -> bool:
    """Asking is how a session is had, and a broker of the network may."""
    return type(frame).__name__ == "Ask"
