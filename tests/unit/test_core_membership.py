"""Membership: news floods without drowning anybody, trees wait for it to settle, the absent are remembered."""

from __future__ import annotations

from typing import Any

from latecomer.core.effects import Drop, Effect, Persist
from latecomer.messages.link import LinkState, LinkStates, Neighbour, Summary
from latecomer.model.record import Kind
from tests.unit.hand import Hand, frames, of, publications, records

FAR = 3600 * 1_000_000


def told(effects: list[Effect], peer: str) -> list[list[str]]:
    """Whose link state a neighbour is told of, frame by frame."""
    said = [frame for frame in frames(effects, peer) if isinstance(frame, LinkStates)]
    return [[state.broker for state in frame.states] for frame in said]


def quiet(*peers: str, **settings: Any) -> Hand:
    """Linked to neighbours, and all has been said."""
    hand = Hand(*peers, **settings)
    hand.join(*peers)
    hand.now += hand.broker.settings.flood_us
    return hand


def state(broker: str, seq: int = 1) -> LinkStates:
    return LinkStates((LinkState(broker, 1, seq, (Neighbour("b", 1, 1),)),))


# -- flooding ----------------------------------------------------------------------------------------------------------


def test_news_floods_at_once_and_not_back() -> None:
    effects = quiet("b", "c").hear("b", state("z"))
    assert told(effects, "c") == [["z"]]
    assert told(effects, "b") == []


def test_more_news_waits_a_moment_and_goes_together() -> None:
    hand = quiet("b", "c")
    hand.hear("b", state("z"))
    assert [told(hand.hear("b", state(broker)), "c") for broker in ("y", "x", "w")] == [[], [], []]
    effects = hand.wait(hand.broker.settings.flood_us)
    assert told(effects, "c") == [["y", "x", "w"]]
    assert told(hand.wait(hand.broker.settings.flood_us), "c") == []


def test_of_one_broker_only_the_newest_is_told() -> None:
    hand = quiet("b", "c")
    hand.hear("b", state("z"))
    for seq in (2, 3, 4):
        hand.hear("b", state("z", seq))
    effects = hand.wait(hand.broker.settings.flood_us)
    [frame] = [frame for frame in frames(effects, "c") if isinstance(frame, LinkStates)]
    assert [found.seq for found in frame.states] == [4]


def test_what_is_known_is_not_told_on() -> None:
    hand = quiet("b", "c")
    hand.hear("b", state("z", 5))
    hand.wait(hand.broker.settings.flood_us)
    assert hand.hear("b", state("z", 5)) == hand.hear("c", state("z", 4)) == []


def test_a_summary_is_answered_with_what_the_other_lacks() -> None:
    hand = quiet("b", "c")
    assert told(hand.hear("b", Summary(())), "b") == [["a", "b", "c"]]
    assert hand.hear("c", hand.broker.membership.link_states.summary()) == []


def test_a_broker_that_calls_itself_like_us_is_noticed() -> None:
    effects = quiet("b").hear("b", LinkStates((LinkState("a", 5, 1, ()),)))
    assert "broker ids must be unique" in records(effects, Kind.REJECTED)[0].detail


# -- when there is another tree ----------------------------------------------------------------------------------------


def test_a_tree_waits_until_the_news_has_settled() -> None:
    hand = quiet("b", settle_us=20_000)
    hand.hear("b", hand.states("b"))
    assert not records(hand.wait(19_999), Kind.TREE_ADOPTED)
    hand.hear("b", hand.states("b"))
    assert not records(hand.wait(19_999), Kind.TREE_ADOPTED)
    assert len(records(hand.wait(1), Kind.TREE_ADOPTED)) == 1


def test_but_not_for_ever() -> None:
    hand = quiet("b", settle_us=20_000, settle_max_us=50_000)
    begin = hand.now
    while not records(hand.hear("b", hand.states("b")) + hand.wait(10_000), Kind.TREE_ADOPTED):
        pass
    assert hand.now - begin == 50_000


def test_the_same_tree_is_not_adopted_twice() -> None:
    hand = quiet("b")
    hand.hear("b", LinkStates(()), hand.broker.membership.link_states.summary())
    assert not records(hand.settle(), Kind.TREE_ADOPTED)
    assert hand.broker.interest.ready


def test_a_lonely_broker_is_a_tree() -> None:
    assert records(Hand("b").first, Kind.TREE_READY)[0].count == 1


# -- the absent --------------------------------------------------------------------------------------------------------


def test_members_are_remembered_on_disk() -> None:
    hand = quiet("b")
    assert set(hand.table("member")) == {"a", "b"}
    reborn = Hand("b", boot=2, disk=hand.disk)
    assert list(reborn.broker.membership.link_states.absent_since) == ["b"]
    assert not reborn.broker.membership.uncharted


def test_that_half_of_the_map_is_missing_is_remembered_too() -> None:
    hand = Hand("b", "c")
    hand.join("b")  # c has never been heard of
    assert hand.broker.membership.uncharted
    assert set(hand.table("member")) == {"a", "b"}
    reborn = Hand("b", "c", boot=2, disk=hand.disk)
    assert reborn.broker.membership.uncharted


def test_a_neighbour_nobody_ever_heard_of_is_not_waited_for_for_ever() -> None:
    hand = Hand("b", "c", chart_us=1_000_000)
    hand.join("b")
    hand.publish()
    assert hand.broker.membership.uncharted
    assert list(hand.table("outbox")) == [1]
    hand.wait(1_000_000)
    hand.settle()
    assert not hand.broker.membership.uncharted
    hand.agree()
    assert hand.table("outbox") == {}


def test_who_is_away_for_long_is_forgotten_with_what_was_kept_for_it() -> None:
    hand = quiet("b", forget_us=FAR)
    hand.part("b")
    [since] = hand.broker.membership.link_states.absent_since.values()
    hand.publish("t")
    assert list(hand.table("outbox")) == [1]
    assert not records(hand.wait(since + FAR - hand.now - 1), Kind.FORGOTTEN)
    effects = hand.wait(1)
    [forgotten] = records(effects, Kind.FORGOTTEN)
    assert (forgotten.peer, forgotten.count) == ("b", 1)
    writes = [write for persist in of(effects, Persist) for write in persist.writes]
    assert {Drop("member", "", "b"), Drop("outbox", "", 1)} <= set(writes)
    assert hand.broker.membership.link_states.absent_since == {}
    assert hand.broker.membership.members == {"a": None}
    assert publications(hand.join("b", boot=2, wants={"b": ["#"]}), "b") == [], "it begins anew when it returns"


def test_who_returns_in_time_is_not_forgotten() -> None:
    hand = quiet("b", forget_us=FAR)
    hand.part("b")
    hand.wait(FAR // 2)
    hand.join("b", boot=2)
    hand.hear("b", hand.states("b", boot=2))
    assert not records(hand.wait(1_000_000), Kind.FORGOTTEN)
    assert hand.broker.membership.forget_due is None
