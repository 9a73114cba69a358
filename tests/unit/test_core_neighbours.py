"""Neighbours that come and go while a broker runs, and brokers that are forgotten at once because somebody says so."""

from __future__ import annotations

from typing import Any

from latecomer.core.effects import Disconnect, Effect
from latecomer.core.inputs import ForgetWanted, LinkConnected, NeighbourAdded, NeighbourRemoved
from latecomer.core.linkstate import LIFE
from latecomer.messages.link import Alive, LinkState, LinkStates, Lost
from latecomer.model.record import Kind
from tests.unit.hand import COST_US, Hand, frames, of, publications, records

FAR = 3600 * 1_000_000


def own(effects: list[Effect], peer: str) -> list[list[str]]:
    """Which links of ours a neighbour is told of, word by word."""
    said = [state for frame in frames(effects, peer) if isinstance(frame, LinkStates) for state in frame.states]
    return [[link.broker for link in state.neighbours] for state in said if state.broker == "a"]


def quiet(*peers: str, **settings: Any) -> Hand:
    hand = Hand(*peers, **settings)
    hand.join(*peers)
    hand.now += hand.broker.settings.flood_us
    return hand


# -- added -------------------------------------------------------------------------------------------------------------


def test_a_neighbour_is_added_and_comes() -> None:
    hand = Hand()
    assert hand.tell(NeighbourAdded("b", COST_US)) == [], "nobody is disturbed before it is there"
    effects = hand.join("b", wants={"b": ["#"]})
    assert records(effects, Kind.LINKED)
    assert len(publications(hand.publish("t"), "b")) == 1


def test_a_link_that_costs_something_else_is_told_of() -> None:
    hand = quiet("b", "c")
    effects = hand.tell(NeighbourAdded("b", 7))
    [state] = [frame.states[0] for frame in frames(effects, "c") if isinstance(frame, LinkStates)]
    assert {link.broker: link.cost_us for link in state.neighbours} == {"b": 7, "c": COST_US}
    assert hand.tell(NeighbourAdded("b", 7)) == []


# -- removed -----------------------------------------------------------------------------------------------------------


def test_everybody_hears_of_it_before_the_link_is_hung_up() -> None:
    hand = quiet("b", "c")
    effects = hand.tell(NeighbourRemoved("b"))
    assert own(effects, "b") == own(effects, "c") == [["c"]]
    assert of(effects, Disconnect) == []
    effects = hand.settle()
    assert [(order.peer, order.reason) for order in of(effects, Disconnect)] == [("b", "it is no neighbour any more")]
    assert [record.peer for record in records(effects, Kind.UNLINKED)] == ["b"]
    assert hand.broker.interest.tree is not None
    assert list(hand.broker.interest.tree.parent) == ["a", "c"]
    hand.agree()
    assert hand.broker.interest.ready
    assert own(hand.wait(FAR // 100), "c") == [], "there is nothing new to tell"


def test_what_was_under_way_to_it_is_kept_for_it() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c", wants={"b": ["#"], "c": ["#"]})
    hand.publish("t")
    hand.tell(NeighbourRemoved("b"))
    hand.settle()
    assert [event.topic for event in hand.table("outbox").values()] == ["t"]  # type: ignore[attr-defined]
    assert "b" in hand.broker.membership.link_states.absent_since


def test_what_comes_late_from_it_finds_nobody() -> None:
    hand = quiet("b", "c")
    hand.tell(NeighbourRemoved("b"))
    hand.settle()
    assert hand.hear("b", Alive(0)) == []
    assert hand.lose("b") == []
    [order] = of(hand.tell(LinkConnected("b", 2)), Disconnect)
    assert (order.peer, order.connection) == ("b", 2)
    assert hand.tell(NeighbourRemoved("b")) == hand.tell(NeighbourRemoved("z")) == []


def test_one_that_is_not_there_goes_without_a_word() -> None:
    hand = quiet("b", "c")
    hand.part("c")
    assert hand.tell(NeighbourRemoved("c")) == []


def test_one_that_nobody_has_heard_of_is_not_waited_for_any_more() -> None:
    hand = Hand("b", "z")
    hand.meet("b")
    hand.hear("b", hand.states("b"))
    hand.settle()
    assert hand.broker.membership.uncharted, "z may come"
    hand.tell(NeighbourRemoved("z"))
    hand.settle()
    assert not hand.broker.membership.uncharted


def test_a_change_of_mind_leaves_the_session_as_it_is() -> None:
    hand = quiet("b", "c")
    number = hand.link("b").number
    hand.tell(NeighbourRemoved("b"))
    hand.now += hand.broker.settings.flood_us
    effects = hand.tell(NeighbourAdded("b", COST_US))
    assert own(effects, "c") == [["b", "c"]]
    assert of(hand.settle(), Disconnect) == []
    assert (hand.link("b").up, hand.link("b").number) == (True, number)


def test_no_number_of_a_session_is_used_twice() -> None:
    hand = quiet("b", "c")
    number = hand.link("b").number
    hand.tell(NeighbourRemoved("b"))
    hand.settle()
    hand.tell(NeighbourAdded("b", COST_US))
    assert hand.link("b").number == number + 1


# -- forgotten ---------------------------------------------------------------------------------------------------------


def away(hand: Hand, peer: str) -> None:
    """A broker is cut off, and nobody else notices anything."""
    hand.tell(NeighbourRemoved(peer))
    hand.settle()
    hand.agree()
    hand.now += hand.broker.settings.flood_us


def test_who_is_away_is_forgotten_everywhere_when_somebody_says_so() -> None:
    hand = quiet("b", "c", forget_us=FAR)
    away(hand, "b")
    hand.publish("t")
    assert list(hand.table("outbox")) == [1]
    effects = hand.tell(ForgetWanted("b"))
    said = [frame.states for frame in frames(effects, "c") if isinstance(frame, LinkStates)]
    assert said == [(LinkState("b", 1, LIFE, ()),)]
    assert [record.peer for record in records(hand.settle(), Kind.FORGOTTEN)] == ["b"]
    assert hand.table("outbox") == {}
    assert list(hand.table("forgotten")) == ["b"]
    assert hand.tell(ForgetWanted("b")) == [], "it is so already"


def test_whoever_hears_of_it_forgets_it_too() -> None:
    hand = quiet("b", "c", forget_us=FAR)
    away(hand, "b")
    hand.hear("c", LinkStates((LinkState("b", 1, LIFE, ()),)))
    assert [record.peer for record in records(hand.settle(), Kind.FORGOTTEN)] == ["b"]


def test_a_newcomer_does_not_wait_for_those_who_have_left() -> None:
    hand = quiet("c", forget_us=FAR)
    hand.hear("c", LinkStates((LinkState("b", 5, LIFE, ()),)))
    hand.settle()
    assert hand.broker.membership.link_states.absent_since == {}
    assert "b" not in hand.table("member")


def test_who_is_there_is_not_forgotten() -> None:
    hand = quiet("b", "c")
    membership = hand.broker.membership
    assert membership.problem_of_forget("b") == "b is there: only a broker that is away can be forgotten"
    assert membership.problem_of_forget("z") == "nobody here has heard of a broker 'z'"
    assert hand.tell(ForgetWanted("b")) == hand.tell(ForgetWanted("z")) == []


def test_who_is_taken_for_dead_speaks_up() -> None:
    hand = quiet("b", "c")
    effects = hand.hear("b", LinkStates((LinkState("a", 1, LIFE, ()),)))
    [state] = [frame.states[0] for frame in frames(effects, "c") if isinstance(frame, LinkStates)]
    assert (state.broker, state.boot, state.seq) == ("a", 1, LIFE + 1)
    hand.now += hand.broker.settings.flood_us
    assert hand.hear("b", LinkStates((LinkState("a", 1, 1 << 60, ()),))) == [], "but not because of any number"


def test_who_returns_learns_what_it_missed_though_it_was_not_away_for_long() -> None:
    hand = quiet("b", "c", forget_us=FAR)
    away(hand, "b")
    [since] = hand.broker.membership.link_states.absent_since.values()
    hand.tell(ForgetWanted("b"))
    hand.settle()
    hand.publish("t")
    hand.tell(NeighbourAdded("b", COST_US))
    effects = hand.join("b", boot=2)
    [lost] = [frame for frame in frames(effects, "b") if isinstance(frame, Lost)]
    assert (lost.broker, lost.since_us, lost.until_us) == ("b", since, hand.now)
