"""Brokers know where clients find the others, and tell it to clients that follow references."""

from __future__ import annotations

import pytest

from latecomer.core.inputs import AddressesKnown, MoveWanted, MqttFailed
from latecomer.messages.homes import KINDS_MAX, Addresses
from latecomer.messages.mqtt import V311, Disconnect, Packet, Reason
from latecomer.runtime.addresses import public_address, public_addresses
from latecomer.runtime.settings import Listener
from tests.unit.hand import frames
from tests.unit.mqtt_hand import MqttHand, Net, Wire, pair

SOON_US = 100_000
AT_B = (("tcp", "b.example:1883"), ("ws", "b.example:8083"))
FOLLOWS = (("follows-references", "yes"),)


def stay(net: Net, hand: MqttHand, *, follows: bool = True, listener: str = "tcp") -> Wire:
    """A client with a session that can move is connected."""
    wire = hand.dial("s")
    words = FOLLOWS if follows else ()
    wire.connect(clean_start=False, session_expiry_s=3600, listener=listener, words=words)
    net.quiet(SOON_US)
    wire.take()
    return wire


def known(hand: MqttHand) -> dict[str, tuple[tuple[str, str], ...]]:
    return {broker: word.entries for broker, word in hand.broker.addresses.words.items()}


def reference(packet: Packet) -> str | None:
    assert isinstance(packet, Disconnect)
    assert packet.reason == Reason.USE_ANOTHER_SERVER
    return packet.properties.server_reference


@pytest.mark.parametrize(
    ("listener", "told"), [("tcp", "b.example:1883"), ("ws", "b.example:8083"), ("tls", None), ("", None)]
)
def test_a_client_that_is_moved_is_told_the_listener_of_its_kind(listener: str, told: str | None) -> None:
    net, a, b = pair()
    b.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    wire = stay(net, a, listener=listener)
    a.tell(MoveWanted("s", "b"))
    assert reference(wire.one(Disconnect)) == told


def test_a_client_that_does_not_follow_references_is_told_none() -> None:
    net, a, b = pair()
    b.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    wire = stay(net, a, follows=False)
    a.tell(MoveWanted("s", "b"))
    assert reference(wire.one(Disconnect)) is None


def test_a_word_of_3_1_1_is_none() -> None:
    """The user property is of MQTT 5: in 3.1.1 there is no DISCONNECT that could name a broker."""
    net, a, b = pair()
    b.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    wire = a.dial("s", V311)
    wire.connect(clean_start=False, listener="tcp")
    net.quiet(SOON_US)
    wire.take()
    a.tell(MoveWanted("s", "b"))
    assert wire.take() == []
    assert wire.closed is not None


def test_a_drained_client_without_a_session_to_move_is_told_where_to_go() -> None:
    net, a, b = pair()
    b.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    wire = stay(net, a)
    session = a.session("s")
    a.tell(MqttFailed(wire.id, Reason.USE_ANOTHER_SERVER, "drained", a.broker.addresses.reference(session, "b")))
    assert reference(wire.one(Disconnect)) == "b.example:1883"


def test_words_reach_everybody_and_the_newest_counts() -> None:
    a, b, c = MqttHand("b", id="a"), MqttHand("a", "c", id="b"), MqttHand("b", id="c")
    a.tell(AddressesKnown((("tcp", "old:1"),)))
    net = Net(a, b, c)
    net.link("a", "b")
    net.link("b", "c")
    assert known(c) == {"a": (("tcp", "old:1"),)}
    a.tell(AddressesKnown((("tcp", "new:1"),)))
    net.quiet(SOON_US)
    assert known(c) == known(b) == {"a": (("tcp", "new:1"),)}
    assert not frames(a.tell(AddressesKnown((("tcp", "new:1"),))), "b")  # no news
    c.tell(AddressesKnown((), open=False))
    net.quiet(SOON_US)
    assert not a.broker.addresses.takes_clients("c")
    assert a.broker.addresses.takes_clients("b")


def test_what_was_said_in_an_earlier_life_is_taken_back() -> None:
    net, a, b = pair()
    b.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    net.unlink("a", "b")
    b.restart()
    net.link("a", "b")
    net.quiet(SOON_US)
    assert known(a) == {"b": ()}


def test_a_word_about_us_that_we_have_not_said_is_corrected() -> None:
    net, a, _ = pair()
    a.tell(AddressesKnown(AT_B))
    net.quiet(SOON_US)
    boot = a.broker.orders.boot
    a.broker.addresses.on_addresses("b", Addresses("a", boot, 9, ()))
    said = a.broker.addresses.said
    assert said is not None
    assert (said.number, said.entries) == (10, AT_B)


def test_too_much_is_rejected() -> None:
    _, a, _ = pair()
    effects = a.hear("b", Addresses("b", 1, 1, (("tcp", "x:1"),) * (KINDS_MAX + 1)))
    assert any("kinds of listeners" in getattr(effect, "reason", "") for effect in effects)
    assert known(a) == {}


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        (Listener(), "127.0.0.1:1999"),
        (Listener(host="::1"), "[::1]:1999"),
        (Listener(host="0.0.0.0"), ""),
        (Listener(host="0.0.0.0", public_address="mqtt.example"), "mqtt.example:1999"),
        (Listener(host="0.0.0.0", public_address="mqtt.example:80"), "mqtt.example:80"),
    ],
)
def test_the_address_of_a_listener(listener: Listener, address: str) -> None:
    assert public_address(listener, 1999) == address


def test_the_first_listener_of_a_kind_counts() -> None:
    first, second, web = Listener(host="::"), Listener(host="127.0.0.2"), Listener(kind="ws")
    told = public_addresses([(first, 1), (second, 2), (second, 3), (web, 4)])
    assert told == (("tcp", "127.0.0.2:2"), ("ws", "127.0.0.1:4"))
