"""Filter tables, and what neighbours are told of them: a function of what is there, not of how it came."""

from __future__ import annotations

from itertools import permutations

import pytest

from latecomer.core.effects import Effect
from latecomer.core.inputs import Unsubscribed
from latecomer.core.routing import Forwarding, Hierarchy
from latecomer.core.settings import BrokerSettings
from latecomer.core.table import SELF, FilterTable
from latecomer.messages.link import Adopted, Complete, LinkMessage, Subscribe, Unsubscribe
from latecomer.model.errors import SettingsError
from latecomer.model.filters import Filter
from latecomer.model.record import Kind
from tests.unit.hand import Hand, filters, frames, records

WIDE, NARROW, OTHER = filters("a/#", "a/b", "c")


def table(*, covering: bool = True) -> FilterTable:
    return FilterTable(covering, permits=lambda filter, peer: True)


def told(effects: list[Effect], peer: str) -> list[LinkMessage]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Subscribe | Unsubscribe)]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_news_is_what_was_not_there() -> None:
    held = table()
    assert held.add("b", WIDE)
    assert not held.add("b", WIDE)
    assert held.add("c", WIDE)
    assert held.remove("b", WIDE)
    assert not held.remove("b", WIDE)
    assert not held.remove("b", OTHER)
    assert held.of("c") == [WIDE]


def test_nobody_is_told_what_only_it_holds() -> None:
    held = table()
    held.add("b", OTHER)
    assert not held.wanted(OTHER, "b")
    assert held.wanted(OTHER, "c")
    held.add("c", OTHER)
    assert held.wanted(OTHER, "b")


def test_a_filter_hides_those_it_covers_where_it_is_told_itself() -> None:
    held = table()
    held.add(SELF, NARROW)
    held.add("b", WIDE)
    assert not held.wanted(NARROW, "c"), "the wide one stands for it"
    assert held.wanted(NARROW, "b"), "the wide one is b's own"


def test_without_covering_everything_is_told() -> None:
    held = table(covering=False)
    held.add(SELF, NARROW)
    held.add("b", WIDE)
    assert held.wanted(NARROW, "c")
    assert held.wanted(WIDE, "c")


def test_of_two_ways_to_say_the_same_one_is_told() -> None:
    one, other = filters("t ? v in (1, 2)", "t ? v in (2, 1)")
    same = filters("t ? v >= 1 and v <= 1", "t ? v = 1")
    for pair in ((one, other), same):
        held = table()
        for filter in pair:
            held.add(SELF, filter)
        assert sum(held.wanted(filter, "b") for filter in dict.fromkeys(pair)) == 1


def test_when_the_wide_one_goes_the_narrow_one_is_told_first() -> None:
    held, said = table(), dict[Filter, None]()
    held.add(SELF, NARROW)
    held.add(SELF, WIDE)
    assert held.resync(said, "b") == ((WIDE,), ())
    held.remove(SELF, WIDE)
    assert held.change(said, "b", held.affected([WIDE])) == ((NARROW,), (WIDE,))


def test_what_is_told_does_not_depend_on_the_order() -> None:
    outcomes = []
    for order in permutations([WIDE, NARROW, OTHER, *filters("a/+", "#")]):
        held, said = table(), dict[Filter, None]()
        for filter in order:
            held.add(SELF, filter)
            held.change(said, "b", held.affected([filter]))
        held.remove(SELF, order[0])
        held.change(said, "b", held.affected([order[0]]))
        held.add(SELF, order[0])
        held.change(said, "b", held.affected([order[0]]))
        outcomes.append(sorted(map(str, said)))
    assert all(outcome == ["#"] for outcome in outcomes)


def test_a_new_tree_keeps_only_what_own_clients_want() -> None:
    held = table()
    held.add(SELF, WIDE)
    held.add("b", WIDE)
    held.add("b", NARROW)
    held.keep_only_self()
    assert held.holders == {WIDE: (SELF,)}
    assert held.index.match("a/b") == [WIDE]


# -- what neighbours hear ----------------------------------------------------------------------------------------------


def test_subscriptions_go_to_every_other_neighbour() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c")
    effects = hand.hear("b", Subscribe((WIDE,)))
    assert told(effects, "c") == [Subscribe((WIDE,))]
    assert told(effects, "b") == []
    assert told(hand.subscribe("x", "a/b"), "c") == [], "covered"
    effects = hand.hear("b", Unsubscribe((WIDE,)))
    assert told(effects, "c") == [Subscribe((NARROW,)), Unsubscribe((WIDE,))], "what takes its place goes first"


def test_unsubscribing_brings_everything_back() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c")
    hand.subscribe("x", "a/#", "a/b", "c")
    hand.hear("b", Subscribe((WIDE, OTHER)))
    hand.hear("b", Unsubscribe((WIDE, OTHER)))
    for filter in (WIDE, NARROW, OTHER):
        hand.tell(Unsubscribed("x", filter))
    interest = hand.broker.interest
    assert interest.subscriptions == FilterTable(True, interest.subscriptions.permits)
    assert all(not link.told_subscriptions and not link.subscriptions for link in interest.links.values())


def test_the_last_client_counts() -> None:
    hand = Hand("b")
    hand.join("b")
    assert told(hand.subscribe("x", "c"), "b") == [Subscribe((OTHER,))]
    assert told(hand.subscribe("y", "c"), "b") == []
    assert told(hand.tell(Unsubscribed("x", OTHER)), "b") == []
    assert told(hand.tell(Unsubscribed("y", OTHER)), "b") == [Unsubscribe((OTHER,))]


def test_another_tree_tells_only_the_difference() -> None:
    hand = Hand("b", "c")
    hand.subscribe("x", "c")
    assert told(hand.join("b"), "b") == [Subscribe((OTHER,))]
    assert told(hand.join("c", wants={"c": ["a/b"]}), "b") == [Subscribe((NARROW,))]


def test_in_a_hierarchy_subscriptions_only_climb() -> None:
    hand = Hand("b", "c", routing=Hierarchy(root="b"))
    hand.join("b", "c")
    effects = hand.subscribe("x", "c") + hand.hear("c", Subscribe((NARROW,)))
    assert told(effects, "b") == [Subscribe((OTHER,)), Subscribe((NARROW,))]
    assert told(effects, "c") == told(hand.hear("b", Subscribe((WIDE,))), "c") == []


# -- completing a tree -------------------------------------------------------------------------------------------------


def test_a_broker_completes_towards_a_neighbour_when_the_others_have() -> None:
    hand = Hand("b", "c")
    for peer in ("b", "c"):
        hand.meet(peer)
        hand.hear(peer, hand.states(peer))
    hand.settle()
    version = hand.broker.membership.version
    complete = Complete(version)
    hand.hear("b", Adopted(version))
    hand.hear("c", Adopted(version))
    effects = hand.hear("b", Subscribe((WIDE,)), complete)
    assert frames(effects, "c") == [Subscribe((WIDE,)), complete]
    assert frames(effects, "b") == []
    effects = hand.hear("c", complete)
    assert frames(effects, "b")[0] == complete
    assert records(effects, Kind.TREE_READY)


@pytest.mark.parametrize("routing", [Forwarding(), Hierarchy(), Forwarding(advertisements=True)], ids=str)
def test_a_neighbour_that_leaves_the_tree_spoils_it(routing: Forwarding | Hierarchy) -> None:
    hand = Hand("b", routing=routing)
    hand.join("b")
    version = hand.broker.membership.version
    hand.hear("b", Adopted("another tree"))
    assert not hand.broker.interest.ready
    hand.hear("b", Adopted(version))
    hand.agree()
    assert not hand.broker.interest.ready, "a tree in which something was lost does not come back"


def test_tables_for_another_tree_wait() -> None:
    hand = Hand("b")
    hand.join("b")
    hand.hear("b", Adopted("another tree"), Subscribe((WIDE,)), Complete("another tree"))
    assert hand.broker.interest.subscriptions.of("b") == []


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (BrokerSettings(mailbox_max=0), "settings.mailbox_max"),
        (BrokerSettings(heartbeat_us=-1), "settings.heartbeat_us"),
        (BrokerSettings(network=""), "settings.network"),
        (BrokerSettings(hold_us=10, heartbeat_us=11), "settings.hold_us"),
        (BrokerSettings(settle_us=11, settle_max_us=10), "settings.settle_max_us"),
    ],
)
def test_settings_that_cannot_work_name_their_key(settings: BrokerSettings, key: str) -> None:
    with pytest.raises(SettingsError) as found:
        settings.check()
    assert found.value.key == key
    BrokerSettings().check()
