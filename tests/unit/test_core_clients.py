"""Clients: numbered mailboxes, delivery again after a reconnection, and what a full mailbox does."""

from __future__ import annotations

from latecomer.core.effects import Deliver, Drop, Effect, Persist, Put, Trim
from latecomer.core.inputs import ClientConnected, ClientDisconnected, Confirmed, Subscribed, Unsubscribed
from latecomer.model.record import Kind
from tests.unit.hand import Hand, filters, of, records


def delivered(effects: list[Effect]) -> list[tuple[str, int, int]]:
    """Client, connection and number."""
    return [(deliver.client, deliver.connection, deliver.number) for deliver in of(effects, Deliver)]


def test_deliveries_are_numbered_per_client() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    hand.subscribe("y", "u")
    assert delivered(hand.publish("t")) == [("x", 1, 1)]
    assert sorted(delivered(hand.publish("u"))) == [("x", 1, 2), ("y", 1, 1)]


def test_two_subscriptions_are_one_delivery() -> None:
    hand = Hand()
    hand.subscribe("x", "#", "t", "+", "t ? v > 3")
    assert delivered(hand.publish("t", attributes={"v": 4})) == [("x", 1, 1)]


def test_content_decides() -> None:
    hand = Hand()
    hand.subscribe("x", "t ? v > 3")
    assert delivered(hand.publish("t", attributes={"v": 3})) == []
    assert delivered(hand.publish("t", attributes={"v": 4})) == [("x", 1, 1)]


def test_what_is_not_confirmed_comes_again_with_its_number() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    for _ in range(3):
        hand.publish()
    hand.tell(Confirmed("x", 1))
    hand.tell(ClientDisconnected("x"))
    assert delivered(hand.publish()) == [], "nobody is there"
    effects = hand.tell(ClientConnected("x", connection=7))
    assert delivered(effects) == [("x", 7, 2), ("x", 7, 3), ("x", 7, 4)]
    assert records(effects, Kind.CONNECTED)[0].count == 3


def test_confirming_lets_go() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    hand.publish()
    hand.publish()
    [persist] = of(hand.tell(Confirmed("x", 1)), Persist)
    assert persist.writes == [Trim("mailbox", "x", 2), Put("client", "", "x", 1)]
    assert list(hand.table("mailbox", "x")) == [2]
    assert hand.tell(Confirmed("x", 1)) == [], "nothing waited for that"


def test_a_confirmation_of_what_never_came_confirms_what_did() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    hand.publish()
    hand.tell(Confirmed("x", 99))
    assert delivered(hand.publish()) == [("x", 1, 2)]
    assert list(hand.table("mailbox", "x")) == [2]


def test_everything_is_found_again_after_a_restart() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    for _ in range(3):
        hand.publish()
    hand.tell(Confirmed("x", 2))
    reborn = Hand(boot=2, disk=hand.disk)
    assert delivered(reborn.publish()) == [], "nobody is connected yet"
    assert delivered(reborn.tell(ClientConnected("x", 1))) == [("x", 1, 3), ("x", 1, 4)]


def test_numbers_go_on_after_a_restart_when_all_was_confirmed() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    hand.publish()
    hand.tell(Confirmed("x", 1))
    reborn = Hand(boot=2, disk=hand.disk)
    reborn.tell(ClientConnected("x"))
    assert delivered(reborn.publish()) == [("x", 1, 2)]


def test_a_full_mailbox_drops_the_oldest_and_says_so() -> None:
    hand = Hand(mailbox_max=2)
    hand.subscribe("x", "#", online=False)
    hand.publish("t/1")
    hand.publish("t/2")
    effects = hand.publish("t/3")
    [dropped] = records(effects, Kind.DROPPED)
    assert (dropped.client, dropped.event, dropped.topic) == ("x", "a.1.1", "t/1")
    assert dropped.detail == "mailbox full"
    assert Drop("mailbox", "x", 1) in of(effects, Persist)[0].writes
    assert delivered(hand.tell(ClientConnected("x"))) == [("x", 1, 2), ("x", 1, 3)]


def test_an_unreliable_event_is_for_those_who_are_there() -> None:
    hand = Hand()
    hand.subscribe("x", "#")
    hand.subscribe("y", "#", online=False)
    effects = hand.publish(reliable=False)
    assert delivered(effects) == [("x", 1, 0)]
    assert [record.client for record in records(effects, Kind.DELIVERED)] == ["x"]
    assert delivered(hand.tell(ClientConnected("y"))) == []


def test_the_same_wish_twice_is_one_wish() -> None:
    hand = Hand()
    hand.subscribe("x", "t")
    assert hand.tell(Subscribed("x", *filters("t"))) == []
    assert records(hand.tell(Unsubscribed("x", *filters("t"))), Kind.UNSUBSCRIBED)
    assert hand.tell(Unsubscribed("x", *filters("t"))) == []
    assert delivered(hand.publish("t")) == []
    assert hand.table("subscription", "x") == {}


def test_unsubscribing_leaves_what_waits() -> None:
    hand = Hand()
    hand.subscribe("x", "t")
    hand.publish("t")
    hand.tell(Unsubscribed("x", *filters("t")))
    assert delivered(hand.tell(ClientConnected("x", 2))) == [("x", 2, 1)]


def test_what_a_stranger_takes_back_leaves_no_trace() -> None:
    hand = Hand()
    for fact in (Unsubscribed("z", *filters("t")), ClientDisconnected("z"), Confirmed("z", 3)):
        assert hand.tell(fact) == []
    assert hand.broker.clients.mailboxes == {}
