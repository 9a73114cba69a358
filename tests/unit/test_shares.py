"""Shared subscriptions: one decision at the origin, one member of each group gets it."""

from __future__ import annotations

import functools
import operator
from collections import Counter

from latecomer.messages.link import Publication, Sharing
from latecomer.messages.mqtt import Puback, Reason, Request
from latecomer.model.filters import Filter
from tests.unit.hand import frames
from tests.unit.mqtt_hand import SECOND_US, V311, MqttHand, Net, Wire, pair


def publish(wire: Wire, count: int, topic: str = "t", qos: int = 1) -> None:
    for number in range(count):
        wire.publish(topic, b"%d" % number, qos)
    wire.take()


# -- one broker ------------------------------------------------------------------------------------------------------


def test_each_message_goes_to_one_member_in_turn() -> None:
    """§4.8.2"""
    hand = MqttHand()
    members = [hand.client(name, version) for name, version in (("1", 5), ("2", V311), ("3", 5))]
    for member in members:
        member.subscribe("$share/g/t")
    publish(hand.client("p"), 9)
    got = [member.payloads() for member in members]
    assert [len(payloads) for payloads in got] == [3, 3, 3]
    assert sorted(functools.reduce(operator.iadd, got, [])) == [b"%d" % number for number in range(9)]


def test_groups_and_plain_subscriptions_are_apart() -> None:
    """Each group gets its copy, each plain subscriber its own, and a client may be several of these."""
    hand = MqttHand()
    s = hand.client("s")
    s.subscribe(Request("$share/g/t", 1), subscription_ids=(1,))
    s.subscribe(Request("$share/h/#", 0), subscription_ids=(2,))
    s.subscribe(Request("t", 2), subscription_ids=(3,))
    hand.client("p").publish("t", b"1", 2)
    assert sorted((x.qos, x.properties.subscription_ids) for x in s.got()) == [(0, (2,)), (1, (1,)), (2, (3,))]


def test_a_group_is_its_name_and_its_filter() -> None:
    hand = MqttHand()
    one, two = hand.client("1"), hand.client("2")
    one.subscribe("$share/g/t")
    two.subscribe("$share/g/#")
    publish(hand.client("p"), 2)
    assert len(one.got()) == len(two.got()) == 2


def test_members_who_are_there_go_before_those_who_are_not() -> None:
    hand = MqttHand()
    away, here = hand.durable("away"), hand.client("here")
    for member in (away, here):
        member.subscribe("$share/g/t")
    away.lose()
    p = hand.client("p")
    publish(p, 4)
    assert len(here.settle()) == 4
    here.disconnect()
    publish(p, 2)  # nobody else: it waits for who comes back
    assert hand.durable("away").payloads() == [b"0", b"1"]


def test_members_who_can_take_more_go_before_those_who_cannot() -> None:
    hand = MqttHand()
    full, free = hand.client("full", receive_maximum=1), hand.client("free")
    for member in (full, free):
        member.subscribe("$share/g/t")
    publish(hand.client("p"), 10)
    assert len(full.got()) == 1
    assert len(free.got()) == 9


def test_who_leaves_gets_nothing_more() -> None:
    hand = MqttHand()
    one, two = hand.client("1"), hand.client("2")
    one.subscribe("$share/g/t")
    two.subscribe("$share/g/t")
    one.unsubscribe("$share/g/t")
    one.take()
    p = hand.client("p")
    publish(p, 4)
    assert one.take() == []
    assert len(two.got()) == 4
    two.disconnect()
    p.publish("t", b"", 1)
    assert p.one(Puback).reason == Reason.NO_MATCHING_SUBSCRIBERS
    shares = hand.broker.shares
    for table in (shares.groups, shares._places, shares._by_filter, shares._names, shares._turns):
        assert not table
    assert hand.broker.clients.shared == {}
    assert not shares.any_for("t")


def test_content_filters_in_groups() -> None:
    hand = MqttHand()
    s = hand.client("s", V311)
    s.subscribe("$share/g/t ? n > 5")
    p = hand.client("p")
    p.publish("t", b'{"n": 9}')
    p.publish("t", b'{"n": 1}')
    assert s.payloads() == [b'{"n": 9}']


def test_members_survive_a_restart() -> None:
    hand = MqttHand()
    hand.durable("s").subscribe("$share/g/t")
    hand.restart()
    publish(hand.client("p"), 2)
    assert hand.durable("s").payloads() == [b"0", b"1"]


# -- between brokers -------------------------------------------------------------------------------------------------


def test_members_count_alike_wherever_they_are() -> None:
    net, a, b = pair()
    here = [a.client("a1")]
    there = [b.client("b1"), b.client("b2"), b.client("b3")]
    for member in here + there:
        member.subscribe("$share/g/t")
    net.quiet()
    for hand in (a, b):
        p = hand.client("p")
        for _ in range(8):
            publish(p, 1)
            net.quiet(50_000)
        counts = [len(member.settle()) for member in here + there]
        assert sum(counts) == 8
        assert counts[0] == 2
        assert sum(counts[1:]) == 6


def test_one_decision_stands_behind_every_delivery() -> None:
    """The origin writes its choice into the event; a plain subscriber elsewhere makes no difference."""
    net, a, b = pair()
    a.client("a1").subscribe("$share/g/t")
    member, plain = b.client("b1"), b.client("plain")
    member.subscribe("$share/g/t")
    plain.subscribe("t")
    net.quiet()
    sent: list[Publication] = []
    p = a.client("p")
    for number in range(4):
        effects = p.publish("t", b"%d" % number, 1)
        sent += [frame for frame in frames(effects, "b") if isinstance(frame, Publication)]
        net.quiet(50_000)
    chosen = [choice for publication in sent for choice in publication.event.shares]
    assert Counter(chosen) == {("g", "t", "a"): 2, ("g", "t", "b"): 2}
    assert len(plain.settle()) == 4
    assert len(member.settle()) == 2


def test_an_absent_broker_is_chosen_only_if_nobody_else_is_there() -> None:
    net, a, b = pair()
    here, there = a.client("here"), b.durable("there")
    for member in (here, there):
        member.subscribe("$share/g/t")
    net.quiet()
    net.unlink("a", "b")
    a.wait(10 * SECOND_US)
    b.wait(10 * SECOND_US)
    p = a.client("p")
    publish(p, 4)
    assert len(here.settle()) == 4
    here.unsubscribe("$share/g/t")
    here.take()
    publish(p, 2)
    net.link("a", "b")
    net.quiet(3 * SECOND_US)
    assert [packet.payload for packet in there.settle()] == [b"0", b"1"]


def test_a_broker_that_lost_its_members_in_a_crash_says_so() -> None:
    """Its word of an earlier life must not stand, or it would be chosen for ever."""
    net, a, b = pair()
    here = a.client("here")
    here.subscribe("$share/g/t")
    b.client("gone").subscribe("$share/g/t")
    net.quiet()
    b.restart()
    net.link("a", "b")
    net.quiet()
    p = a.client("p")
    publish(p, 4)
    assert len(here.settle()) == 4


def test_words_are_flooded_once_and_the_last_one_stands() -> None:
    hand = MqttHand("b", "c")
    hand.join("b", "c")

    def word(boot: int, number: int, count: int) -> Sharing:
        return Sharing("z", boot, number, (("g", Filter("t"), count),) if count else ())

    for said, news in (
        (word(1, 1, 1), True),
        (word(1, 1, 1), False),
        (word(1, 3, 0), True),
        (word(1, 2, 1), False),
        (word(2, 1, 2), True),
        (word(1, 9, 1), False),
    ):
        effects = hand.hear("b", said)
        assert [frame for frame in frames(effects, "c") if isinstance(frame, Sharing)] == [said] * news
        assert [frame for frame in frames(effects, "b") if isinstance(frame, Sharing)] == []
    assert hand.broker.shares._places == {("g", Filter("t")): {"z": 2}}
    assert hand.broker.shares.any_for("t")


def test_three_in_a_row() -> None:
    """The broker in the middle has no members, and carries what is not for it."""
    a, b, c = MqttHand("b", id="a"), MqttHand("a", "c", id="b"), MqttHand("b", id="c")
    net = Net(a, b, c)
    net.link("a", "b")
    net.link("b", "c")
    members = [a.client("1"), c.client("2")]
    for member in members:
        member.subscribe("$share/g/t")
    net.quiet()
    p = b.client("p")
    for _ in range(6):
        publish(p, 1)
        net.quiet(50_000)
    assert [len(member.settle()) for member in members] == [3, 3]
