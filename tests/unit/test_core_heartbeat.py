"""Heartbeats, silence, and how long a broken link is held."""

from __future__ import annotations

from latecomer.core.effects import Disconnect, Effect
from latecomer.core.inputs import LinkConnected
from latecomer.core.neighbours import SILENCES
from latecomer.core.routing import Forwarding
from latecomer.messages.link import PROTOCOL, Alive, Hello, Subscribe, Void
from latecomer.model.record import Kind
from tests.unit.hand import Hand, filters, frames, of, records

SECOND_US = 1_000_000


def met(*peers: str) -> Hand:
    """Linked and quiet: every announcement has been made."""
    hand = Hand(*peers, heartbeat_us=SECOND_US, hold_us=2 * SECOND_US)
    for peer in peers:
        hand.meet(peer)
    hand.settle()
    return hand


def alive(effects: list[Effect], peer: str) -> list[Alive]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Alive)]


def test_a_silent_link_says_that_it_is_alive() -> None:
    hand = met("b")
    assert alive(hand.wait(2 * SECOND_US), "b") == [Alive(0)]
    hand.hear("b", Void(), Void())
    assert alive(hand.wait(SECOND_US), "b") == [Alive(2)]


def test_a_link_that_speaks_need_not_say_so() -> None:
    hand = Hand("b", heartbeat_us=SECOND_US)
    hand.join("b")
    hand.wait(2 * SECOND_US - hand.now - 1)
    assert Subscribe(filters("t")) in frames(hand.subscribe("x", "t"), "b")
    assert alive(hand.wait(1), "b") == []
    assert alive(hand.wait(SECOND_US), "b") == [Alive(hand.link("b").received)]


def test_three_silences_end_a_connection_and_not_the_session() -> None:
    hand = met("b")
    assert of(hand.wait((SILENCES - 1) * SECOND_US), Disconnect) == []
    effects = hand.wait(SECOND_US)
    assert of(effects, Disconnect) == [Disconnect("b", 1, "silent for too long")]
    assert hand.link("b").up
    assert not hand.link("b").connected


def test_whoever_is_heard_is_alive() -> None:
    hand = met("b")
    for _ in range(3 * SILENCES):
        hand.hear("b", Alive(0))
        assert of(hand.wait(SECOND_US), Disconnect) == []


def test_a_connection_without_a_hello_ends_too() -> None:
    hand = Hand("b", heartbeat_us=SECOND_US)
    hand.tell(LinkConnected("b"))
    effects = hand.wait(SILENCES * SECOND_US)
    assert [disconnect.reason for disconnect in of(effects, Disconnect)] == ["silent for too long"]
    assert not any(isinstance(frame, Alive) for frame in frames(effects, "b"))


def test_a_link_that_stays_away_goes_down() -> None:
    hand = met("b")
    hand.lose("b")
    assert not records(hand.wait(2 * SECOND_US - 1), Kind.UNLINKED)
    effects = hand.wait(SECOND_US)
    assert [record.peer for record in records(effects, Kind.UNLINKED)] == ["b"]
    [hello] = frames(hand.tell(LinkConnected("b")), "b")
    assert hello == Hello("latecomer", "a", PROTOCOL, boot=1, number=2, routing=str(Forwarding())), (
        "another session, knowing nothing"
    )


def test_a_link_that_comes_back_too_late_begins_anew_before_the_next_heartbeat() -> None:
    hand = met("b")
    hand.lose("b")
    hand.now += 2 * SECOND_US  # nobody woke the broker
    effects = hand.meet("b", knows=(1, 1))
    assert records(effects, Kind.UNLINKED)
    assert records(effects, Kind.LINKED)


def test_one_link_down_is_told_to_the_others() -> None:
    hand = met("b", "c")
    hand.lose("b")
    effects = []
    for _ in range(4):
        hand.hear("c", Alive(0))
        effects += hand.wait(SECOND_US)
    told = [state for frame in frames(effects, "c") for state in getattr(frame, "states", ())]
    assert [neighbour.boot for neighbour in told[-1].neighbours] == [0, 1], "b is missing, c is there"


def test_a_broker_without_links_sleeps() -> None:
    hand = met("b")
    hand.lose("b")
    hand.wait(10 * SECOND_US)
    assert hand.broker.neighbours.tick_due is None
