"""Confirmations: an advertisement is settled when everybody behind every neighbour knows it."""

from __future__ import annotations

from latecomer.core.confirmations import Confirmations
from latecomer.core.inputs import Advertised
from latecomer.core.routing import Forwarding
from latecomer.messages.link import Advertise, Confirm, Subscribe
from tests.unit.hand import Hand, filters, frames, publications


def test_what_is_told_is_open_until_it_is_confirmed() -> None:
    confirmations = Confirmations()
    assert confirmations.settled
    assert [confirmations.tell("b"), confirmations.tell("b"), confirmations.tell("c")] == [1, 2, 1]
    confirmations.confirmed("b", 1)
    confirmations.confirmed("c", 1)
    assert not confirmations.settled
    confirmations.confirmed("b", 2)
    assert confirmations.settled


def test_a_confirmation_waits_for_those_behind_us() -> None:
    confirmations = Confirmations()
    confirmations.tell("c")
    confirmations.hear("b", 7)
    assert confirmations.due() == []
    confirmations.confirmed("c", 1)
    assert confirmations.due() == [("b", 7)]
    assert confirmations.due() == [], "given once"


def test_it_does_not_wait_for_the_one_who_asks_nor_for_what_came_later() -> None:
    confirmations = Confirmations()
    confirmations.tell("b")
    confirmations.hear("b", 7)
    confirmations.tell("c")
    assert confirmations.due() == [("b", 7)]


def test_an_old_confirmation_takes_nothing_back() -> None:
    confirmations = Confirmations()
    confirmations.tell("b")
    confirmations.tell("b")
    confirmations.confirmed("b", 2)
    confirmations.confirmed("b", 1)
    assert confirmations.settled


def test_another_tree_settles_everything_and_numbers_go_on() -> None:
    confirmations = Confirmations()
    confirmations.tell("b")
    confirmations.hear("c", 3)
    confirmations.clear()
    assert confirmations.settled
    assert confirmations.due() == []
    assert confirmations.tell("b") == 2
    confirmations.confirmed("b", 1)  # of the tree before
    assert not confirmations.settled


def between() -> Hand:
    hand = Hand("b", "c", routing=Forwarding(advertisements=True))
    hand.join("b", "c")
    return hand


def test_subscriptions_go_ahead_of_the_confirmation() -> None:
    hand = between()
    hand.subscribe("x", "t/1")
    effects = hand.hear("b", Advertise(filters("t/#"), 1))
    assert frames(effects, "b") == [Subscribe(filters("t/1"))]
    assert frames(effects, "c") == [Advertise(filters("t/#"), 1)]
    effects = hand.hear("c", Subscribe(filters("t/2")), Confirm(1))
    assert frames(effects, "b") == [Subscribe(filters("t/2")), Confirm(1)]


def test_events_flood_until_their_advertisement_is_settled() -> None:
    hand = between()
    hand.hear("c", Subscribe(filters("t")))
    hand.tell(Advertised("p", *filters("t")))
    assert [p.flooded for peer in "bc" for p in publications(hand.publish("t"), peer)] == [True, True]
    hand.hear("b", Confirm(1))
    hand.hear("c", Confirm(1))
    effects = hand.publish("t")
    assert publications(effects, "b") == []
    assert [p.flooded for p in publications(effects, "c")] == [False]
    assert [p.flooded for p in publications(hand.publish("unannounced"), "b")] == [True]
