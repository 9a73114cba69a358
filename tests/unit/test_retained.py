"""Retained messages: at one broker, and the same at every broker."""

from __future__ import annotations

import pytest

from latecomer.core import retained as retained_module
from latecomer.core.session import subscribing
from latecomer.core.session.limits import SessionLimits
from latecomer.messages.link import Retained, RetainedSummary
from latecomer.messages.mqtt import Puback, Reason, Request
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from tests.unit.hand import frames
from tests.unit.mqtt_hand import HOUR_S, SECOND_US, MqttHand, Net, pair


def retained_for(hand: MqttHand, filter: str = "#", **options: bool) -> dict[str, bytes]:
    """What somebody new gets."""
    reader = hand.client("reader")
    reader.subscribe(Request(filter, 1, **options))
    packets = reader.got()
    assert all(packet.retain for packet in packets)  # [MQTT-3.3.1-8]
    reader.disconnect()
    return {packet.topic: packet.payload for packet in packets}


# -- one broker ------------------------------------------------------------------------------------------------------


def test_the_last_one_of_each_topic_is_kept() -> None:
    """[MQTT-3.3.1-5]; not those without the flag [MQTT-3.3.1-8 of 3.1.1, 3.3.1-12]."""
    hand = MqttHand()
    p = hand.client("p")
    for payload in (b"1", b"2"):
        p.publish("a", payload, retain=True)
    p.publish("a", b"3")
    p.publish("b", b"4", 2, retain=True)
    assert retained_for(hand) == {"a": b"2", "b": b"4"}
    hand.restart()
    assert retained_for(hand) == {"a": b"2", "b": b"4"}


def test_an_empty_payload_deletes_and_is_not_kept() -> None:
    """[MQTT-3.3.1-6, -7]; subscribers get it like any other."""
    hand = MqttHand()
    s = hand.client("s")
    s.subscribe(Request("a", 0, retain_as_published=True))
    p = hand.client("p")
    p.publish("a", b"1", retain=True)
    p.publish("a", b"", retain=True)
    assert [(packet.payload, packet.retain) for packet in s.got()] == [(b"1", True), (b"", True)]
    assert retained_for(hand) == {}
    hand.restart()
    assert retained_for(hand) == {}


def test_a_long_list_is_handed_over_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "RETAINED_SLICE", 2)
    hand = MqttHand()
    p = hand.client("p")
    for number in range(5):
        p.publish(f"t/{number}", b"x", 1, retain=True)
    s = hand.client("s")
    s.subscribe(Request("t/#", 1))
    assert len(s.settle()) == 2
    hand.wait(subscribing.RETAINED_PAUSE_US)
    p.publish("t/0", b"live", 1)
    assert len(s.settle()) == 3
    hand.wait(SECOND_US)
    assert len(s.settle()) == 1
    assert not hand.session("s").giving


def test_a_client_that_goes_before_it_has_all_of_it_finds_the_rest_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscribing, "RETAINED_SLICE", 1)
    hand = MqttHand()
    p = hand.client("p")
    for number in range(4):
        p.publish(f"t/{number}", b"x", 1, retain=True)
    s = hand.durable("s")
    s.subscribe(Request("t/#", 1))
    first = {packet.topic for packet in s.settle()}
    s.lose()
    hand.restart()
    rest = {packet.topic for packet in hand.durable("s").settle()}
    assert len(first) == 1
    assert first | rest == {f"t/{number}" for number in range(4)}


def test_retain_handling() -> None:
    """[MQTT-3.3.1-9, -10, -11]"""
    hand = MqttHand()
    hand.client("p").publish("a", b"1", retain=True)
    s = hand.durable("s")
    for handling, expected in ((2, []), (1, []), (0, [b"1"]), (0, [b"1"])):
        s.subscribe(Request("a", 0, retain_handling=handling))
        assert s.payloads() == expected
    s.unsubscribe("a")
    s.take()
    s.subscribe(Request("a", 0, retain_handling=1))
    assert s.payloads() == [b"1"]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_retain_as_published(published: bool, asked: bool) -> None:
    """[MQTT-3.3.1-12, -13]"""
    hand = MqttHand()
    s = hand.client("s")
    s.subscribe(Request("a", 0, retain_as_published=asked))
    hand.client("p").publish("a", b"1", retain=published)
    assert [packet.retain for packet in s.got()] == [published and asked]


def test_shared_subscriptions_get_nothing_retained() -> None:
    """§4.8.2"""
    hand = MqttHand()
    hand.client("p").publish("a", b"1", retain=True)
    s = hand.client("s")
    s.subscribe("$share/g/a")
    assert s.take() == []


def test_which_topics_a_filter_finds() -> None:
    hand = MqttHand()
    p = hand.client("p")
    topics = ["a", "a/b", "a/b/c", "b", "/", "/a", "a/"]
    for topic in topics:
        p.publish(topic, b"1", retain=True)
    found = {
        "#": topics,
        "a/#": ["a", "a/b", "a/b/c", "a/"],
        "+": ["a", "b"],
        "+/+": ["a/b", "/", "/a", "a/"],
        "/#": ["/", "/a"],
        "a/+/c": ["a/b/c"],
        "a/b": ["a/b"],
        "c/#": [],
    }
    for filter, expected in found.items():
        assert sorted(retained_for(hand, filter)) == sorted(expected), filter
    for topic in topics:
        p.publish(topic, b"", retain=True)
    assert hand.broker.retained.size == 0
    assert hand.broker.retained._root.children == {}


def test_a_content_filter_looks_at_what_is_retained() -> None:
    hand = MqttHand()
    p = hand.client("p")
    p.publish("a", b'{"n": 1}', retain=True)
    p.publish("b", b'{"n": 9}', retain=True)
    s = hand.client("s")
    s.subscribe("#", user=(("filter", "n > 5"),))
    assert s.payloads() == [b'{"n": 9}']


def test_no_local_holds_for_what_is_retained() -> None:
    hand = MqttHand()
    s = hand.client("s")
    s.publish("a", b"own", retain=True)
    hand.client("p").publish("b", b"other", retain=True)
    s.subscribe(Request("#", 0, no_local=True))
    assert s.payloads() == [b"other"]


# -- limits and expiry -----------------------------------------------------------------------------------------------


def test_a_user_may_retain_only_so_much() -> None:
    """Bad input 10: 0x97. What is replaced or deleted does not count, and others are not concerned."""
    hand = MqttHand(limits=SessionLimits(retained_per_user=2, retained_bytes_per_user=100))
    p, q = hand.client("p", user="u"), hand.client("q", user="v")

    def publish(topic: str, payload: bytes, wire: object = None) -> int:
        client = q if wire is q else p
        client.publish(topic, payload, 1, retain=True)
        reason: int = client.one(Puback).reason
        return reason & 0x80 and reason

    assert [publish(topic, b"x") for topic in ("1", "2", "3", "2")] == [0, 0, Reason.QUOTA_EXCEEDED, 0]
    assert publish("3", b"x", q) == 0
    assert publish("1", b"") == 0
    assert publish("4", b"x" * 99) == Reason.QUOTA_EXCEEDED
    assert publish("4", b"x" * 97) == 0
    assert publish("2", b"taken", q) == 0  # whose it is now counts for q
    assert publish("5", b"") == 0  # nothing is deleted
    assert publish("5", b"x") == 0


def test_the_broker_retains_only_so_much() -> None:
    hand = MqttHand(limits=SessionLimits(retained_messages=2, retained_bytes=20))
    p = hand.client("p")
    for topic, payload, reason in (
        ("a", b"x" * 9, 0x10),
        ("b", b"x" * 10, 0x97),
        ("b", b"x" * 9, 0x10),
        ("c", b"", 0x10),
        ("c", b"x", 0x97),
        ("b", b"y", 0x10),
        ("c", b"x", 0x97),
    ):
        p.publish(topic, payload, 1, retain=True)
        assert p.one(Puback).reason == reason, (topic, payload)


def test_what_expires_is_gone_and_does_not_count() -> None:
    """[MQTT-3.3.2-5]; whether or not anybody ever asked for it."""
    hand = MqttHand(limits=SessionLimits(retained_per_user=1, retained_messages=1))
    p = hand.client("p")
    p.publish("a", b"1", 1, retain=True, message_expiry_s=10)
    p.publish("b", b"1", 1, retain=True)
    hand.wait(4 * SECOND_US)
    reader = hand.client("reader")
    reader.subscribe("a")
    (packet,) = reader.got()
    assert packet.properties.message_expiry_s == 6  # [MQTT-3.3.2-6]
    hand.wait(6 * SECOND_US)
    p.publish("b", b"2", 1, retain=True)
    assert [packet.reason & 0x80 for packet in p.take() if isinstance(packet, Puback)] == [0, 0x80, 0]
    assert retained_for(hand) == {"b": b"2"}
    hand.restart()
    assert retained_for(hand) == {"b": b"2"}


def test_what_replaced_it_may_live_longer_or_shorter() -> None:
    hand = MqttHand()
    p = hand.client("p")
    p.publish("a", b"short", retain=True, message_expiry_s=1)
    p.publish("a", b"long", retain=True, message_expiry_s=100)
    p.publish("b", b"long", retain=True)
    p.publish("b", b"short", retain=True, message_expiry_s=1)
    hand.wait(SECOND_US)
    assert retained_for(hand) == {"a": b"long"}


def test_expiries_of_what_was_replaced_do_not_gather() -> None:
    hand = MqttHand()
    p = hand.client("p")
    for number in range(1000):
        p.publish("a", b"%d" % number, retain=True, message_expiry_s=HOUR_S)
    assert len(hand.broker.retained.expiring) < 100


# -- stamps ----------------------------------------------------------------------------------------------------------


def message(topic: str, payload: bytes, published_us: int, origin: str = "z", seq: int = 1) -> Event:
    return Event(EventId(origin, 1, seq), topic, "p", published_us, payload=payload, retain=True)


def test_the_later_stamp_wins_in_whatever_order_they_come() -> None:
    events = [
        message("a", b"1", 5, "x", 1),
        message("a", b"2", 5, "y", 1),
        message("a", b"3", 5, "y", 2),
        message("a", b"", 6),
        message("a", b"4", 7),
    ]
    for last in range(1, len(events) + 1):
        for shift in range(last):
            kept = MqttHand().broker.retained
            for event in events[shift:last] + events[:shift]:
                kept.keep(event)
            assert kept.keep(events[last - 1]) is False
            latest = events[last - 1]
            assert kept.events.get("a") == (latest if latest.payload else None)


def test_a_broker_whose_clock_is_behind_still_replaces() -> None:
    hand = MqttHand()
    hand.broker.retained.keep(message("a", b"future", hand.now + HOUR_S * SECOND_US))
    hand.client("p").publish("a", b"mine", retain=True)
    assert retained_for(hand) == {"a": b"mine"}
    hand.client("p").publish("a", b"", retain=True)
    hand.client("p").publish("a", b"again", retain=True)
    assert retained_for(hand) == {"a": b"again"}


def test_deletions_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_module, "DELETIONS_MAX", 3)
    hand = MqttHand()
    p = hand.client("p")
    for number in range(5):
        p.publish(f"t{number}", b"x", retain=True, message_expiry_s=1 if number % 2 else None)
        if number % 2 == 0:
            p.publish(f"t{number}", b"", retain=True)
    hand.wait(2 * SECOND_US)
    assert retained_for(hand) == {}
    assert len(hand.broker.retained.deleted) == hand.rows("retained") == 3


# -- between brokers -------------------------------------------------------------------------------------------------


def contents(hand: MqttHand) -> dict[str, bytes]:
    return {topic: event.payload for topic, event in hand.broker.retained.events.items()}


def test_a_retained_message_goes_everywhere_at_once() -> None:
    """Whether or not anybody wants it there, and with QoS 0 as well."""
    net, a, b = pair()
    a.client("p").publish("t", b"1", 0, retain=True)
    net.quiet()
    assert contents(b) == {"t": b"1"}
    assert a.broker.retained.digest == b.broker.retained.digest
    assert retained_for(b) == {"t": b"1"}


def separate() -> tuple[Net, MqttHand, MqttHand]:
    """Two brokers that have not met."""
    a, b = MqttHand("b", id="a"), MqttHand("a", id="b")
    return Net(a, b), a, b


def test_a_broker_with_nothing_learns_everything() -> None:
    net, a, b = separate()
    p = a.client("p")
    for number in range(20):
        p.publish(f"t/{number}", b"x" * 30_000, retain=True)
    net.link("a", "b")
    assert contents(b) == contents(a)
    assert len(contents(b)) == 20
    b.restart()
    assert contents(b) == contents(a)


def test_brokers_that_agree_tell_each_other_one_number() -> None:
    net, a, b = pair()
    a.client("p").publish("t", b"1", retain=True)
    net.quiet()
    a.broker.retained.greet("b")
    assert frames(a.broker.orders.finish(), "b") == [RetainedSummary(a.broker.retained.digest)]
    a.broker.retained.on_summary("b", RetainedSummary(b.broker.retained.digest))
    assert a.broker.orders.finish() == []


def test_two_that_differ_agree_on_the_later_ones() -> None:
    net, a, b = separate()
    a.client("p").publish("both", b"earlier", retain=True)
    b.now += SECOND_US
    b.client("p").publish("both", b"later", retain=True)
    a.client("p").publish("mine", b"a", retain=True)
    b.client("p").publish("yours", b"b", retain=True)
    net.link("a", "b")
    assert contents(a) == contents(b) == {"both": b"later", "mine": b"a", "yours": b"b"}
    assert a.broker.retained.digest == b.broker.retained.digest


def test_what_was_deleted_is_not_brought_back_by_who_was_away() -> None:
    net, a, b = pair()
    a.client("p").publish("t", b"1", retain=True)
    net.quiet()
    net.unlink("a", "b")
    a.client("p").publish("t", b"", retain=True)
    a.restart()
    net.link("a", "b")
    net.quiet()
    assert contents(a) == contents(b) == {}


def test_what_was_replaced_by_something_that_expired_is_not_brought_back_either() -> None:
    net, a, b = separate()
    b.broker.retained.keep(message("t", b"old", a.now - 1))
    a.client("p").publish("t", b"new", retain=True, message_expiry_s=1)
    a.wait(2 * SECOND_US)
    assert retained_for(a) == {}
    b.wait(2 * SECOND_US)
    net.link("a", "b")
    assert contents(a) == contents(b) == {}


def test_news_is_told_on_but_not_back() -> None:
    hand = MqttHand("b", "c")
    hand.join("b", "c")
    event = message("t", b"1", 5)
    effects = hand.hear("b", Retained((event,), (0,)))
    assert [frame for frame in frames(effects, "c") if isinstance(frame, Retained)] == [Retained((event,), (0,))]
    assert [frame for frame in frames(effects, "b") if isinstance(frame, Retained)] == []
    assert frames(hand.hear("b", Retained((event,), (0,))), "c") == []


def test_what_is_left_of_a_life_is_told_not_its_end() -> None:
    """Clocks need not agree."""
    hand = MqttHand("b", "c")
    hand.join("b", "c")
    event = message("t", b"1", 5)
    hand.hear("b", Retained((event,), (10 * SECOND_US,)))
    assert hand.broker.retained.events["t"].expires_us == hand.now + 10 * SECOND_US
    hand.wait(SECOND_US // 10)
    effects = hand.hear("c", RetainedSummary(12345))
    told = [frame for frame in frames(effects, "c") if isinstance(frame, Retained)]
    assert told[0].left_us == (10 * SECOND_US - SECOND_US // 10,)


def test_what_a_neighbour_calls_retained_and_is_not_is_not_kept() -> None:
    hand = MqttHand("b")
    hand.join("b")
    hand.hear("b", Retained((Event(EventId("z", 1, 1), "t", payload=b"x"),), (0,)))
    hand.hear("b", Retained((message("t", b"1", 5), message("u", b"1", 5)), (0,)))  # one life short
    assert contents(hand) == {"t": b"1"}
