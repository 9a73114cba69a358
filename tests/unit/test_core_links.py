"""Link sessions: hello, resuming, sending again, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from latecomer.core.effects import Disconnect, Effect, Send
from latecomer.core.inputs import LinkConnected, LinkDisconnected
from latecomer.core.links import ACK_EVERY
from latecomer.core.routing import Forwarding, Hierarchy
from latecomer.messages.link import (
    PROTOCOL,
    Adopted,
    Alive,
    Hello,
    LinkMessage,
    LinkStates,
    Publication,
    Summary,
    Void,
)
from latecomer.model.record import Kind
from tests.unit.hand import Hand, event, frames, of, publications, records

ROUTING = str(Forwarding())
HELLO = Hello("latecomer", "b", PROTOCOL, 1, 1, routing=ROUTING)
PUBLISHED = ["t/1", "t/2", "t/3"]


def connected() -> Hand:
    """A broker whose neighbour has connected and said nothing."""
    hand = Hand("b")
    hand.tell(LinkConnected("b"))
    return hand


def topics(effects: list[Effect], peer: str = "b") -> list[str]:
    return [publication.event.topic for publication in publications(effects, peer)]


def sending() -> Hand:
    """A broker whose neighbour wants everything, and has just lost the connection."""
    hand = Hand("b")
    hand.join("b", wants={"b": ["#"]})
    hand.lose("b")
    return hand


# -- hello -------------------------------------------------------------------------------------------------------------


def test_a_connection_begins_with_a_hello() -> None:
    effects = Hand("b", boot=7).tell(LinkConnected("b"))
    assert frames(effects, "b") == [Hello("latecomer", "a", PROTOCOL, boot=7, number=1, routing=ROUTING)]


def test_two_strangers_tell_one_another_everything() -> None:
    hand = Hand("b")
    effects = hand.meet("b")
    assert [record.peer for record in records(effects, Kind.LINKED)] == ["b"]
    assert [type(frame) for frame in frames(effects, "b")[1:]] == [Summary, Adopted]
    hand.now += hand.broker.settings.flood_us  # news is not told more often than this
    assert any(isinstance(frame, LinkStates) for frame in frames(hand.wait(0), "b"))


def test_a_newer_protocol_is_welcome() -> None:
    effects = connected().hear("b", msgspec.structs.replace(HELLO, protocol=PROTOCOL + 1))
    assert records(effects, Kind.LINKED)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (msgspec.structs.replace(HELLO, network="other"), "this is network 'latecomer', the peer belongs to 'other'"),
        (msgspec.structs.replace(HELLO, broker="a"), "calls itself 'a' as this broker does"),
        (msgspec.structs.replace(HELLO, broker="z"), "expected broker 'b', got 'z'"),
        (msgspec.structs.replace(HELLO, protocol=PROTOCOL - 1), f"protocol {PROTOCOL - 1}, this broker needs"),
        (msgspec.structs.replace(HELLO, routing=str(Hierarchy())), "the peer by hierarchy, covering"),
        (msgspec.structs.replace(HELLO, routing=""), "the peer by something unsaid: all must agree"),
        (msgspec.structs.replace(HELLO, boot=0), "impossible number"),
        (msgspec.structs.replace(HELLO, number=0), "impossible number"),
        (Alive(0), "expected hello, got alive"),
        (Summary(()), "expected hello, got summary"),
    ],
)
def test_a_bad_beginning_is_refused(first: LinkMessage, reason: str) -> None:
    hand = connected()
    effects = hand.hear("b", first, HELLO)  # what follows is not looked at
    assert reason in of(effects, Disconnect)[0].reason
    assert reason in records(effects, Kind.REJECTED)[0].detail
    assert not records(effects, Kind.LINKED)
    assert not hand.link("b").up
    assert records(hand.meet("b"), Kind.LINKED), "the next attempt is judged on its own"


def test_a_second_hello_ends_connection_and_session() -> None:
    hand = Hand("b")
    hand.meet("b")
    effects = hand.hear("b", HELLO)
    assert of(effects, Disconnect) == [Disconnect("b", 1, "a second hello on one connection")]
    assert records(effects, Kind.UNLINKED)
    [hello] = frames(hand.tell(LinkConnected("b")), "b")
    assert hello == Hello("latecomer", "a", PROTOCOL, boot=1, number=2, routing=ROUTING)


def test_frames_without_a_connection_are_not_heard() -> None:
    hand = Hand("b")
    assert hand.hear("b", HELLO) == []
    hand.meet("b")
    hand.lose("b")
    assert hand.hear("b", Alive(99)) == []
    assert hand.link("b").up


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_a_broken_connection_resumes_where_it_was() -> None:
    hand = sending()
    link = hand.link("b")
    had, heard = link.sent, link.received
    waiting = [effects for topic in PUBLISHED for effects in hand.publish(topic)]
    assert topics(waiting) == [], "frames wait while the connection is away"
    hello, *again = frames(hand.meet("b", knows=(1, 1), received=had + 1), "b")
    assert hello == Hello(
        "latecomer", "a", PROTOCOL, 1, 1, known_boot=1, known_number=1, received=heard, routing=ROUTING
    )
    assert [frame.event.topic for frame in again if hasattr(frame, "event")] == PUBLISHED[1:]
    assert len(again) == 2


def test_a_resumed_session_is_no_news() -> None:
    hand = sending()
    effects = hand.meet("b", knows=(1, 1), received=hand.link("b").sent)
    assert len(frames(effects, "b")) == 1
    assert not records(effects, Kind.LINKED)
    assert hand.broker.interest.ready


@pytest.mark.parametrize("change", [-1, 1])
def test_what_cannot_have_been_received_is_refused(change: int) -> None:
    hand = sending()
    link = hand.link("b")
    assert link.acknowledge(link.sent)
    effects = hand.meet("b", knows=(1, 1), received=link.sent + change)
    assert "frames received" in of(effects, Disconnect)[0].reason
    assert not link.up


@pytest.mark.parametrize(
    ("boot", "number", "knows"),
    [(2, 1, (0, 0)), (1, 2, (0, 0)), (1, 1, (0, 0)), (1, 1, (1, 2)), (1, 1, (9, 1))],
    ids=["it restarted", "it gave up", "it forgot us", "it knows another session", "it knows another life"],
)
def test_unless_both_remember_the_same_they_begin_anew(boot: int, number: int, knows: tuple[int, int]) -> None:
    hand = sending()
    hand.publish("lost/with/the/session")
    effects = hand.meet("b", boot=boot, number=number, knows=knows)
    assert records(effects, Kind.LINKED)
    assert topics(effects) == [], "the origin sends it again in the next tree, the link does not"
    assert hand.link("b").received == 0
    assert hand.link("b").sent == len(frames(effects, "b")) - 1


def test_a_connection_that_replaces_another_resumes_too() -> None:
    hand = Hand("b")
    hand.join("b", wants={"b": ["#"]})
    had = hand.link("b").sent
    hand.publish("t")
    assert topics(hand.meet("b", knows=(1, 1), received=had)) == ["t"]


def test_the_end_of_an_older_connection_is_no_news() -> None:
    hand = Hand("b")
    hand.tell(LinkConnected("b", 1))
    assert {send.connection for send in of(hand.tell(LinkConnected("b", 2)), Send)} == {2}
    hand.tell(LinkDisconnected("b", 1))
    assert hand.link("b").connected
    hand.tell(LinkDisconnected("b", 2))
    assert not hand.link("b").connected


def test_frames_of_a_past_tree_keep_their_number_and_nothing_else() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c", wants={"b": ["#"]})
    hand.lose("b")
    had = hand.link("b").sent
    hand.publish("t")
    hand.hear("c", LinkStates(()), hand.states("c", "d"))
    hand.settle()
    again = frames(hand.meet("b", knows=(1, 1), received=had), "b")[1:]
    assert again[0] == Void()
    assert topics(hand.agree({"b": ["#"]})) == ["t"]


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_what_is_acknowledged_is_let_go() -> None:
    hand = Hand("b")
    hand.join("b", wants={"b": ["#"]})
    link = hand.link("b")
    hand.hear("b", Alive(link.sent - 1))
    assert len(link.unacked) == 1
    hand.hear("b", Alive(link.sent))
    assert not link.unacked


@pytest.mark.parametrize("wrong", [-1, 1])
def test_an_impossible_acknowledgement_ends_the_session(wrong: int) -> None:
    hand = Hand("b")
    hand.join("b")
    sent = hand.link("b").sent
    hand.hear("b", Alive(sent))
    effects = hand.hear("b", Alive(sent + wrong))
    assert of(effects, Disconnect)[0].reason == f"acknowledges {sent + wrong} frames of {sent} sent"
    assert records(effects, Kind.UNLINKED)


def test_a_busy_sender_is_told_between_heartbeats() -> None:
    hand = Hand("b")
    hand.meet("b")
    assert hand.hear("b", *[Void()] * (ACK_EVERY - 1)) == []
    assert frames(hand.hear("b", Void()), "b") == [Alive(ACK_EVERY)]


def test_every_session_frame_is_counted_also_those_that_are_not_heeded() -> None:
    hand = Hand("b")
    hand.join("b")
    before = hand.link("b").received
    hand.hear("b", Void(), Adopted("elsewhere"), hand.states("b"))
    hand.hear("b", *[Publication(event("b", seq)) for seq in (1, 2, 3)])
    assert hand.link("b").received == before + 6
