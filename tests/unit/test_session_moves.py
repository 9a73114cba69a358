"""An operator moves sessions between brokers, and takes back one that was promised to a broker that is gone."""

from __future__ import annotations

import pytest

from latecomer.core.inputs import LinkReceived, MoveWanted, ReleaseWanted, SessionEnded
from latecomer.messages.hand_over import Rows
from latecomer.messages.mqtt import Disconnect, Reason
from latecomer.runtime.session_views import session_page
from tests.unit.mqtt_hand import MqttHand, Net, pair

SOON_US = 100_000


def shown(hand: MqttHand) -> dict[str, tuple[str, str]]:
    return {view.client: (view.where, view.partner) for view in session_page(hand.broker, "", 100).items}


def away(net: Net, hand: MqttHand, client: str = "s") -> None:
    """A client subscribes, goes, and misses a message."""
    wire = hand.dial(client)
    wire.connect(clean_start=False, session_expiry_s=3600)
    net.quiet(SOON_US)
    wire.take()
    wire.subscribe("t/#")
    wire.lose()
    hand.client("p").publish("t/1", b"missed", 1)
    net.quiet(SOON_US)


def test_a_session_moves_while_its_client_is_away() -> None:
    net, a, b = pair()
    away(net, a)
    assert a.broker.mobility.wishes.problem_of_move("s", "b") == ""
    a.tell(MoveWanted("s", "b"))
    net.quiet(SOON_US)
    assert "s" not in shown(a)
    assert (shown(b)["s"], b.broker.mobility.moves) == (("here", ""), 1)
    wire = b.durable("s")
    assert (wire.connack.session_present, wire.payloads()) == (True, [b"missed"])


def test_a_connected_client_is_told_to_use_another_server() -> None:
    net, a, b = pair()
    wire = a.dial("s")
    wire.connect(clean_start=False, session_expiry_s=3600)
    net.quiet(SOON_US)
    wire.take()
    a.tell(MoveWanted("s", "b"))
    assert wire.one(Disconnect).reason == Reason.USE_ANOTHER_SERVER
    net.quiet(SOON_US)
    assert shown(b)["s"] == ("here", "")


@pytest.mark.parametrize(
    ("client", "to", "problem"),
    [
        ("nobody", "b", "a has no session of nobody"),
        ("p", "b", "the session of p ends with its connection: it has nothing to take along"),
        ("s", "a", "there is no way from a to a now"),
        ("s", "c", "there is no way from a to c now"),
    ],
)
def test_a_wish_that_cannot_be_is_explained_and_changes_nothing(client: str, to: str, problem: str) -> None:
    net, a, b = pair()
    away(net, a)
    assert a.broker.mobility.wishes.problem_of_move(client, to) == problem
    a.tell(MoveWanted(client, to))
    assert not a.writes
    net.quiet(SOON_US)
    assert (shown(a)["s"], shown(b)) == (("here", ""), {})


def test_a_promised_session_is_taken_back() -> None:
    net, a, _ = pair()
    away(net, a)
    assert a.broker.mobility.wishes.problem_of_release("s") == "a has promised no session of s to anybody"
    a.tell(ReleaseWanted("s"))
    a.tell(MoveWanted("s", "b"))
    while not any(isinstance(frame, Rows) and frame.grant for send in a.sent for frame in send.frames):
        assert one_step(net), "the session was never promised"
        if shown(a)["s"][0] == "leaving":
            assert a.broker.mobility.wishes.problem_of_move("s", "b") == ""
    assert shown(a)["s"] == ("promised", "b")
    assert "is promised to b already" in a.broker.mobility.wishes.problem_of_move("s", "b")
    net.unlink("a", "b")  # b never gets it
    a.tell(ReleaseWanted("s"))
    assert shown(a)["s"] == ("here", "")
    assert not a.table("promised")
    wire = a.dial("s")
    wire.connect(clean_start=False, session_expiry_s=3600)
    assert b"missed" in [getattr(packet, "payload", b"") for packet in wire.take()]


def test_a_promised_session_ends_where_it_goes() -> None:
    """Ended at the old broker, which does not know whether the other one has it, it would live on there."""
    net, a, _ = pair()
    away(net, a)
    a.tell(MoveWanted("s", "b"))
    assert a.broker.mobility.wishes.problem_of_end("s") == ""
    while shown(a)["s"] != ("promised", "b"):
        assert one_step(net), "the session was never promised"
    problem = a.broker.mobility.wishes.problem_of_end("s")
    assert problem == "the session of s is promised to b: end it there, or take it back first"
    a.tell(SessionEnded("s", "not here"))
    assert shown(a)["s"] == ("promised", "b")
    a.tell(ReleaseWanted("s"))
    a.tell(SessionEnded("s", "now it is here"))
    assert "s" not in shown(a)


def one_step(net: Net) -> bool:
    """Carry what one broker has sent."""
    for hand in net.hands.values():
        if hand.sent:
            send = hand.sent.pop(0)
            net.hands[send.peer].tell(LinkReceived(hand.id, send.frames))
            return True
    return False


def test_a_session_on_its_way_is_seen_at_both_ends() -> None:
    net, a, b = pair()
    away(net, a)
    a.tell(MoveWanted("s", "b"))
    seen: list[tuple[str, ...]] = []
    while one_step(net):
        seen.append((*shown(a).get("s", ("gone", "")), *shown(b).get("s", ("nothing", ""))))
    assert ("here", "", "arriving", "a") in seen
    assert ("leaving", "b", "arriving", "a") in seen
    assert ("promised", "b", "arriving", "a") in seen
    assert ("promised", "b", "here", "") in seen
    assert seen[-1] == ("gone", "", "here", "")
