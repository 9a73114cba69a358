"""SUBSCRIBE and UNSUBSCRIBE: options, overlaps, content filters, rights, and what is refused."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Drop, Put
from latecomer.core.inputs import RulesChanged
from latecomer.core.session.limits import SessionLimits
from latecomer.messages.mqtt import Disconnect, Publish, Reason, Request, Subscribe, Unsuback
from tests.unit.mqtt_hand import V5, V311, MqttHand, Rules, Wire


def network(version: int = V5, **options: object) -> tuple[MqttHand, Wire, Wire]:
    hand = MqttHand(**options)  # type: ignore[arg-type]
    return hand, hand.durable("s", version), hand.client("p")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_every_filter_has_its_answer_in_order() -> None:
    """[MQTT-3.8.4-1, -2, -5, -6]"""
    _, s, _ = network(limits=SessionLimits(topic_levels=3, topic_bytes=12, wildcards_per_filter=2))
    asked = {
        "a": 0,
        "b/#": 1,
        "+/c": 2,
        "": 0x8F,
        "a/#/b": 0x8F,
        "a+": 0x8F,
        "a/b/c/d": 0x8F,
        "x" * 13: 0x8F,
        "$share": 0x8F,
        "$share/g": 0x8F,
        "$share//t": 0x8F,
        "$share/g+/t": 0x8F,
        "$share/g/": 0x8F,
        "$history/since=-1h/t": 1,
        "$history": 0x8F,
        "$history/t": 0x8F,
        "+/+/+": 0x97,
        "$share/g/t": 1,
    }
    qos = {"a": 0, "+/c": 2}
    suback = s.subscribe(*(Request(text, qos.get(text, 1)) for text in asked))
    assert suback.packet_id == 1
    assert dict(zip(asked, suback.reasons, strict=True)) == asked
    assert suback.properties.reason_string is not None
    assert s.subscribe("a").properties.reason_string is None


def test_subscriptions_are_limited() -> None:
    """Bad input 8: 0x97; one that is there already may be made anew."""
    hand, s, _ = network(limits=SessionLimits(subscriptions_per_client=2))
    assert s.subscribe("a", "b", "c", "a").reasons == (2, 2, 0x97, 0x97)  # no look beyond what anybody may have
    assert s.subscribe("a", "c").reasons == (2, Reason.QUOTA_EXCEEDED)
    s.unsubscribe("a")
    s.take()
    assert s.subscribe("c").reasons == (2,)
    assert hand.session("s").subscriptions.keys() == {"b", "c"}


def test_unsubscribe_answers_for_every_filter() -> None:
    """[MQTT-3.10.4-1, -4, -5, 3.11.3-1]: compared character by character."""
    hand, s, p = network()
    s.subscribe("a/+", "b")
    s.unsubscribe("a/+", "a/x", "b")
    assert s.one(Unsuback).reasons == (0, Reason.NO_SUBSCRIPTION_EXISTED, 0)
    p.publish("a/x", b"1", 1)
    assert s.take() == []
    assert hand.broker.clients.subscribers == {}
    assert hand.rows("subscriptions") == 0


def test_what_is_on_its_way_is_delivered_after_unsubscribing() -> None:
    """[MQTT-3.10.4-3] begun deliveries are completed; [MQTT-3.10.4-2] nothing new is added."""
    hand = MqttHand()
    s = hand.durable("s", receive_maximum=1)
    s.subscribe("t")
    p = hand.client("p")
    p.publish("t", b"1", 1)
    p.publish("t", b"2", 1)
    s.send(Subscribe(9, (Request("other"),)))
    s.unsubscribe("t")
    p.publish("t", b"3", 1)
    first = s.take()[0]
    assert isinstance(first, Publish)
    s.ack(first)
    assert [packet.payload for packet in s.settle()] == [b"2"]


# -- options ---------------------------------------------------------------------------------------------------------


def test_overlapping_subscriptions_are_one_copy_with_the_highest_qos_and_every_id() -> None:
    """[MQTT-3.3.4-2 to -5]"""
    _, s, p = network()
    s.subscribe(Request("t/#", 0), subscription_ids=(1,))
    s.subscribe(Request("t/+", 2))
    s.subscribe(Request("t/a", 1), subscription_ids=(3,))
    p.publish("t/a", b"1", 2)
    (packet,) = s.got()
    assert packet.qos == 2
    assert sorted(packet.properties.subscription_ids) == [1, 3]
    p.publish("t/b", b"2", 2)
    (packet,) = s.got()
    assert packet.properties.subscription_ids == (1,)


def test_a_subscription_of_the_same_filter_takes_the_place_of_the_first() -> None:
    """[MQTT-3.8.4-3, -4]"""
    hand, s, p = network()
    s.subscribe(Request("t", 0), subscription_ids=(1,))
    p.publish("t", b"1", 2)
    s.subscribe(Request("t", 1), subscription_ids=(2,))
    p.publish("t", b"2", 2)
    s.subscribe(Request("t", 2))
    p.publish("t", b"3", 2)
    assert [(x.qos, x.properties.subscription_ids) for x in s.got()] == [(0, (1,)), (1, (2,)), (2, ())]
    assert hand.rows("subscriptions") == 1
    hand.restart()
    assert hand.session("s").subscriptions["t"].qos == 2


def test_no_local() -> None:
    """[MQTT-3.8.3-3]"""
    _, s, p = network()
    s.subscribe(Request("t", 1, no_local=True))
    s.publish("t", b"own")
    p.publish("t", b"other")
    assert s.payloads() == [b"other"]


def test_a_subscription_without_no_local_wants_the_echo_by_its_own_rules() -> None:
    """The one with it has no say in it: neither its QoS nor its identifier."""
    _, s, p = network()
    s.subscribe(Request("t", 2, no_local=True), subscription_ids=(1,))
    s.subscribe(Request("#", 1), subscription_ids=(2,))
    s.send(Publish("t", b"own", 2, packet_id=1))
    packets = [packet for packet in s.take() if isinstance(packet, Publish)]
    assert [(x.qos, x.properties.subscription_ids) for x in packets] == [(1, (2,))]
    p.publish("t", b"other", 2)
    assert [(x.qos, sorted(x.properties.subscription_ids)) for x in s.got()] == [(2, [1, 2])]


def test_no_local_on_a_shared_subscription_is_the_end() -> None:
    """[MQTT-3.8.3-4]"""
    _, s, _ = network()
    s.send(Subscribe(1, (Request("$share/g/t", 1, no_local=True),)))
    assert s.one(Disconnect).reason == Reason.PROTOCOL_ERROR


# -- content filters -------------------------------------------------------------------------------------------------


def test_a_content_filter_is_a_user_property() -> None:
    """Architecture §4; attributes are user properties, and fields of a JSON payload."""
    _, s, p = network()
    assert s.subscribe("shop/#", user=(("filter", "price <= 1600"),)).reasons == (2,)
    p.publish("shop/a", b"1", user=(("price", "1600"),))
    p.publish("shop/a", b"2", user=(("price", "1601"),))
    p.publish("shop/a", b'{"price": 12.5}')
    p.publish("shop/a", b'{"price": "cheap"}')
    p.publish("shop/a", b"no price")
    assert s.payloads() == [b"1", b'{"price": 12.5}']


def test_a_content_filter_of_311_stands_behind_a_question_mark() -> None:
    _, s, p = network(V311)
    assert s.subscribe('shop/# ? brand = "IBM" and price <= 1600').reasons == (2,)
    p.publish("shop/a", b'{"brand": "IBM", "price": 9}')
    p.publish("shop/a", b'{"brand": "HP", "price": 9}')
    assert len(s.got()) == 1
    s.unsubscribe('shop/# ? brand = "IBM" and price <= 1600')
    s.take()
    p.publish("shop/a", b'{"brand": "IBM", "price": 9}')
    assert s.take() == []


def test_a_question_mark_is_a_character_like_any_other_in_mqtt_5() -> None:
    _, s, p = network()
    s.subscribe("why?")
    p.publish("why?", b"1")
    assert s.payloads() == [b"1"]


@pytest.mark.parametrize("version", [V5, V311])
def test_a_content_filter_that_cannot_be_read_is_refused(version: int) -> None:
    _, s, _ = network(version)
    if version == V5:
        suback = s.subscribe("t", user=(("filter", "price <"),))
        assert suback.properties.reason_string is not None
    else:
        suback = s.subscribe("t?price <")
    assert suback.reasons == (Reason.TOPIC_FILTER_INVALID,)


def test_a_new_content_filter_takes_the_place_of_the_old_one() -> None:
    hand, s, p = network()
    s.subscribe("t", user=(("filter", "n > 5"),))
    s.subscribe("t", user=(("filter", "n < 5"),))
    p.publish("t", b'{"n": 9}')
    p.publish("t", b'{"n": 1}')
    assert s.payloads() == [b'{"n": 1}']
    hand.restart()
    s, p = hand.durable("s"), hand.client("p")
    p.publish("t", b'{"n": 9}')
    p.publish("t", b'{"n": 1}')
    assert s.payloads() == [b'{"n": 1}']


def test_content_and_plain_subscriptions_overlap() -> None:
    _, s, p = network()
    s.subscribe(Request("t", 2), subscription_ids=(1,), user=(("filter", "n > 5"),))
    s.subscribe(Request("#", 0), subscription_ids=(2,))
    p.publish("t", b'{"n": 9}', 2)
    p.publish("t", b'{"n": 1}', 2)
    assert [(x.qos, sorted(x.properties.subscription_ids)) for x in s.got()] == [(2, [1, 2]), (0, [2])]


def test_the_same_filter_in_other_words_is_one_until_both_are_gone() -> None:
    hand, s, p = network(V311)
    s.subscribe("t?n>5", "t ? n > 5")
    p.publish("t", b'{"n": 9}', 1)
    assert len(s.settle()) == 1
    s.unsubscribe("t?n>5")
    s.take()
    p.publish("t", b'{"n": 9}', 1)
    assert len(s.settle()) == 1
    s.unsubscribe("t ? n > 5")
    s.take()
    p.publish("t", b'{"n": 9}', 1)
    assert s.take() == []
    assert hand.broker.clients.subscribers == {}


# -- rights ----------------------------------------------------------------------------------------------------------


def test_who_may_not_subscribe() -> None:
    """Bad inputs 14, 15: 0x87, whatever stands before the filter."""
    rules = Rules()
    rules.no_receive.append("secret")
    _, s, p = network(access=rules)
    assert s.subscribe("secret", "$share/g/secret", "#").reasons == (0x87, 0x87, 2)
    p.publish("secret", b"1", 1)
    p.publish("open", b"2", 1)
    assert s.payloads() == [b"2"]  # every delivery is asked about again


@pytest.mark.parametrize("crash", [False, True])
def test_what_is_no_longer_allowed_is_taken_back(crash: bool) -> None:
    """Bad input 19: the subscription, and what waits because of it."""
    rules = Rules()
    hand, s, p = network(access=rules)
    s.subscribe("secret", "#")
    s.lose()
    p.publish("secret", b"1", 1)
    p.publish("open", b"2", 1)
    rules.no_receive.append("secret")
    if crash:
        hand.restart()
        p = hand.client("p")
    else:
        hand.tell(RulesChanged())
    p.publish("secret", b"3", 1)
    s = hand.durable("s")
    assert [packet.payload for packet in s.settle()] == [b"2"]
    assert hand.session("s").subscriptions.keys() == {"#"}
    assert hand.table("subscriptions", "s").keys() == {"#"}
    rules.no_receive.clear()
    hand.tell(RulesChanged())
    p.publish("secret", b"4", 1)
    assert s.payloads() == [b"4"]


# -- the disk --------------------------------------------------------------------------------------------------------


def test_a_suback_comes_after_the_write() -> None:
    hand, s, _ = network()
    effects = s.send(Subscribe(1, (Request("t"), Request("u"))))
    assert type(effects[0]).__name__ == "Persist"
    assert [(type(write), write.table) for write in hand.writes] == [(Put, "subscriptions")] * 2
    s.unsubscribe("t")
    assert [(type(write), write.table) for write in hand.writes] == [(Drop, "subscriptions")]
    s.unsubscribe("t")
    assert hand.writes == []


def test_subscriptions_with_all_their_options_survive_a_restart() -> None:
    hand, s, _ = network()
    s.subscribe(
        Request("t/+", 1, no_local=True, retain_as_published=True),
        subscription_ids=(268_435_455,),
        user=(("filter", 'a = "b" and c > 1.5'),),
    )
    s.subscribe(Request("$share/g/u", 2))
    before = dict(hand.session("s").subscriptions)
    hand.restart()
    session = hand.session("s")
    assert dict(session.subscriptions) == before
    assert session.no_local
    assert session.picky
