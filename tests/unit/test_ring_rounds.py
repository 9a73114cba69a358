"""Rounds: how the tables of a family become complete, played by hand, and what comes before they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from latecomer.core.effects import Deliver, Effect
from latecomer.core.inputs import Unsubscribed
from latecomer.core.neighbours import Neighbours
from latecomer.core.ring.early import AT_ONCE, EarlyFrames
from latecomer.core.ring.settling import RingSettling
from latecomer.messages.link import (
    Adopted,
    Complete,
    Done,
    LinkMessage,
    Publication,
    Run,
    SessionFrame,
    Settled,
    Subscribe,
    Unsubscribe,
    Void,
)
from latecomer.messages.ring import Round, Wants, WantsChange
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind
from tests.unit.hand import event, filters, frames, of, publications, records
from tests.unit.ring_hand import RingHand, family_on, standing

ALL = ("b", "c", "d")


def said(effects: Iterable[Effect], peer: BrokerId, *kinds: type) -> list[LinkMessage]:
    """What a neighbour is told of interest."""
    wanted = kinds or (Subscribe, Unsubscribe, Round)
    return [frame for frame in frames(effects, peer) if isinstance(frame, wanted)]


def test_the_ring_in_the_hand() -> None:
    """What the other tests take for granted."""
    hand = RingHand()
    assert hand.family.ring
    assert hand.family.order == ["a", "b", "c", "d"]
    assert hand.family.longest == 2
    assert [hand.family.tree(root).parent["a"] for root in "abcd"] == [None, "d", "c", "d"]
    assert (hand.interest.peers, sorted(hand.interest.beside)) == (["b"], ["b", "c", "d"])


# --- rounds ---------------------------------------------------------------------------------------------------------


def test_the_first_round_begins_when_all_have_adopted_the_family() -> None:
    hand = RingHand()
    for peer in "bc":
        effects = hand.hear(peer, Adopted(hand.version))
        assert not any(said(effects, to) for to in ALL)
    effects = hand.hear("d", Adopted(hand.version))
    assert all(said(effects, to) == [Round(hand.version, 1)] for to in ALL)


@pytest.mark.parametrize("last", ALL)
def test_a_broker_is_ready_when_all_rounds_have_come_from_all(last: BrokerId) -> None:
    hand = RingHand()
    hand.waves()
    order = [*(peer for peer in ALL if peer != last), last]
    for number in (1, 2):
        for peer in order:
            assert not hand.interest.ready
            effects = hand.hear(peer, Round(hand.version, number))
            told = [frame for to in ALL for frame in said(effects, to)]
            assert told == ([Round(hand.version, 2)] * 3 if (number, peer) == (1, last) else [])
    assert hand.interest.ready


def test_nor_is_it_before_the_wave_of_the_agreed_tree_is_over() -> None:
    hand = RingHand()
    for peer in ALL:
        hand.hear(peer, Adopted(hand.version))
    hand.rounds()
    assert not hand.interest.ready
    hand.hear("b", Complete(hand.version))
    assert hand.interest.ready


def test_rounds_of_other_families_do_not_count() -> None:
    hand = RingHand()
    hand.hear("c", Round(hand.version, 2))  # it has not adopted the family: then it cannot have said this of it
    hand.waves()
    for peer in ALL:
        hand.hear(peer, Round("another", 1), Round("another", 2))
    assert hand.interest.told_rounds == 1
    hand.hear("b", Round(hand.version, 1))
    hand.hear("d", Round(hand.version, 1))
    assert hand.interest.told_rounds == 1, "c has said nothing yet"


def test_who_adopts_late_begins_with_what_others_have_told() -> None:
    """A neighbour tells its first round in a family that this broker is only about to adopt."""
    hand = RingHand().gets_ready()
    hand.hear("c", Adopted("the next one"), Round("the next one", 1))
    assert hand.interest.links["c"].rounds == 1
    hand.hear("c", Adopted("the one after that"))
    assert hand.interest.links["c"].rounds == 0


def test_additions_come_before_each_round_and_what_is_taken_back_with_the_last() -> None:
    hand = RingHand().gets_ready()
    assert said(hand.subscribe("x", "kc/1"), "c") == [Subscribe(filters("kc/1"))]
    hand.stand("abdc", 2)
    assert hand.family.tree(hand.family.root_of(512)).parent["a"] == "d"
    effects = hand.waves()
    assert said(effects, "d") == [Subscribe(filters("kc/1")), Round(hand.version, 1)]
    assert said(effects, "c") == [Round(hand.version, 1)]
    effects = hand.rounds()
    assert said(effects, "d") == [Round(hand.version, 2)]
    assert said(effects, "c") == [Unsubscribe(filters("kc/1")), Round(hand.version, 2)]
    assert hand.interest.ready


def test_what_is_learned_by_a_round_goes_with_the_next() -> None:
    """b is our child in the trees of a and of c; what it tells climbs on to c, and to nobody from a."""
    hand = RingHand()
    hand.waves()
    assert not any(said(hand.hear("b", Subscribe(filters("ka/1", "kc/1"))), to) for to in ALL)
    effects = hand.rounds()
    assert said(effects, "c") == [Subscribe(filters("kc/1")), Round(hand.version, 2)]
    assert said(effects, "d") == [Round(hand.version, 2)]


def test_only_children_are_heard_of_what_is_wanted() -> None:
    """From a neighbour count the filters in whose trees it is below; the rest is a leftover that it takes back."""
    hand = RingHand().gets_ready()
    hand.hear("c", Subscribe(filters("ka/1", "kc/1", "kd/1", "#")))
    assert hand.interest.subscriptions.of("c") == list(filters("ka/1"))
    hand.hear("b", Subscribe(filters("kc/1")))
    assert hand.interest.subscriptions.of("b") == list(filters("kc/1"))
    effects = hand.hear("b", Unsubscribe(filters("kc/1")))
    assert said(effects, "c") == [Unsubscribe(filters("kc/1"))]


def test_changes_are_told_to_the_parent_in_the_tree_of_the_filter() -> None:
    hand = RingHand().gets_ready()
    effects = hand.subscribe("x", "ka/1", "kb/1", "kc/1", "kd/1", "+/1")
    assert [(peer, said(effects, peer)) for peer in ALL] == [
        ("b", []),
        ("c", [Subscribe(filters("kc/1"))]),
        ("d", [Subscribe(filters("kb/1")), Subscribe(filters("kd/1"))]),
    ]
    effects = hand.tell(Unsubscribed("x", Filter("kb/1")))
    assert said(effects, "d") == [Unsubscribe(filters("kb/1"))]


def test_of_covered_filters_nobody_is_told() -> None:
    hand = RingHand().gets_ready()
    hand.subscribe("x", "kd/#")
    assert not said(hand.subscribe("y", "kd/1"), "d")
    effects = hand.tell(Unsubscribed("x", Filter("kd/#")))
    assert said(effects, "d") == [Subscribe(filters("kd/1")), Unsubscribe(filters("kd/#"))]


def test_filters_that_cross_slots_are_told_to_everybody() -> None:
    hand = RingHand().gets_ready()
    effects = hand.subscribe("x", "#")
    assert all(said(effects, to, WantsChange) == [WantsChange("a", 1, 2, filters("#"), ())] for to in ALL)
    effects = hand.tell(Unsubscribed("x", Filter("#")))
    assert all(said(effects, to, WantsChange) == [WantsChange("a", 1, 3, (), filters("#"))] for to in ALL)


@pytest.mark.parametrize("peer", ALL)
def test_a_neighbour_that_leaves_the_family_spoils_it(peer: BrokerId) -> None:
    """Whether it is one in the agreed tree, or in the trees of the ring alone."""
    hand = RingHand().gets_ready()
    hand.hear(peer, Adopted("another"))
    assert not hand.interest.ready
    hand.hear(peer, Adopted(hand.version))
    hand.rounds()
    assert not hand.interest.ready, "what was lost does not come back"


@pytest.mark.parametrize("peer", ALL)
def test_a_link_session_that_is_lost_spoils_it_too(peer: BrokerId) -> None:
    hand = RingHand().gets_ready()
    hand.lose(peer)
    settings = hand.broker.settings
    hand.wait(settings.hold_us + settings.heartbeat_us)
    assert not hand.link(peer).up
    assert not hand.interest.ready


def test_without_links_to_successors_it_is_the_agreed_tree_that_is_completed() -> None:
    family = family_on("abcd", "b", without=[("c", "d")])
    assert not family.ring
    assert {broker: sorted(others) for broker, others in family.beside.items()} == {
        "a": ["b"],
        "b": ["a", "c", "d"],
        "c": ["b"],
        "d": ["b"],
    }
    assert family.longest == 2


# --- frames that come early -----------------------------------------------------------------------------------------


def early(hand: RingHand) -> list[tuple[BrokerId, SessionFrame]]:
    kept = hand.broker.early
    assert kept is not None
    return list(kept.waiting)


def delivered(effects: Iterable[Effect]) -> list[str]:
    return [str(effect.event.id) for effect in of(effects, Deliver)]


def waiting_for_one_round() -> RingHand:
    """All but the last round of c has come: b and d may be ready."""
    hand = RingHand()
    hand.subscribe("x", "#", "ka/1")
    hand.waves()
    for peer in "bcd":
        hand.hear(peer, Round(hand.version, 1))
    for peer in "bd":
        hand.hear(peer, Round(hand.version, 2))
    return hand


def test_what_comes_early_waits_and_is_taken_in_order() -> None:
    """An event of topic ka/1 comes from c to its root a."""
    hand = waiting_for_one_round()
    said: Sequence[tuple[BrokerId, SessionFrame]] = [
        ("c", Publication(event("c", 1, "ka/1"))),
        ("b", Publication(event("b", 1, "ka/1"))),
        ("c", Publication(event("c", 2, "ka/1"))),
    ]
    for peer, frame in said:
        assert not delivered(hand.hear(peer, frame))
    assert len(early(hand)) == 3
    effects = hand.hear("c", Round(hand.version, 2), Publication(event("c", 3, "ka/1")))
    assert hand.interest.ready
    assert early(hand) == []
    assert delivered(effects) == ["c.1.1", "b.1.1", "c.1.2", "c.1.3"]


def test_what_completes_tables_never_waits() -> None:
    """Or nobody would become ready; nor does what belongs to links and is flooded."""
    assert {Adopted, Complete, Round, Wants, WantsChange, Subscribe, Unsubscribe, Void} <= AT_ONCE
    assert not {Publication, Done, Settled} & AT_ONCE
    hand = waiting_for_one_round()
    hand.hear("b", Publication(event("b", 1, "ka/1")), Subscribe(filters("ka/2")), Wants("d", 1, 1, filters("+/2")))
    assert len(early(hand)) == 1
    assert hand.interest.subscriptions.of("b") == list(filters("ka/2"))
    assert list(hand.interest.words.told) == ["d"]


def test_what_comes_behind_early_frames_waits_as_well() -> None:
    """When this broker becomes ready while it takes them: order is kept."""
    hand = RingHand().gets_ready()
    kept = EarlyFrames(hand.interest, hand.broker.neighbours)
    assert not kept.keep("c", Done("a", 1, (1,)))
    kept.waiting.append(("c", Done("a", 1, (1,))))
    assert kept.keep("c", Done("a", 1, (2,)))
    taken: list[tuple[BrokerId, SessionFrame]] = []
    kept.release(lambda peer, frame: taken.append((peer, frame)))
    assert taken == [("c", Done("a", 1, (1,))), ("c", Done("a", 1, (2,)))]


def test_only_so_many_frames_wait_of_each_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """More that is unreliable is dropped; more of anything else would never end."""
    hand = waiting_for_one_round()
    monkeypatch.setattr(Neighbours, "waiting_max", 2)
    for seq in (1, 2, 3):
        assert not hand.hear("c", Publication(event("c", seq, "ka/1", reliable=False)))
    assert not hand.hear("c", Run("c", "p", b"")), "nor runs, which are unreliable"
    hand.hear("b", Publication(event("b", 1, "ka/1")))
    assert [peer for peer, _ in early(hand)] == ["c", "c", "b"]
    effects = hand.hear("c", Publication(event("c", 4, "ka/1")), Publication(event("c", 5, "ka/1")))
    [rejected] = records(effects, Kind.REJECTED)
    assert rejected.detail == "it sent more than 2 frames before this broker was ready"
    assert hand.interest.spoiled
    assert not hand.interest.ready


def test_nothing_waits_of_neighbours_in_other_families() -> None:
    hand = RingHand()
    hand.hear("c", Publication(event("c", 1, "ka/1")))
    assert early(hand) == [], "c has not adopted our family: this is of another one"


def test_a_spoiled_family_keeps_nothing() -> None:
    hand = waiting_for_one_round()
    hand.hear("d", Adopted("another"))
    hand.hear("c", Publication(event("c", 1, "ka/1")))
    assert early(hand) == []


def test_another_family_begins_without_what_came_early() -> None:
    hand = waiting_for_one_round()
    hand.hear("c", Publication(event("c", 1, "ka/1")))
    assert len(early(hand)) == 1
    hand.stand("abdc", 2)
    assert early(hand) == []
    effects = hand.waves() + hand.rounds()
    assert hand.interest.ready
    assert not delivered(effects)


# --- ways of events -------------------------------------------------------------------------------------------------


def test_events_climb_to_the_root_of_their_topic() -> None:
    hand = RingHand().gets_ready()
    for topic, way in (("ka/1", None), ("kb/1", "d"), ("kc/1", "c"), ("kd/1", "d")):
        effects = hand.publish(topic)
        assert [peer for peer in ALL if publications(effects, peer)] == ([] if way is None else [way])


def test_events_descend_on_match_and_towards_words() -> None:
    hand = RingHand().gets_ready()
    hand.hear("b", Subscribe(filters("ka/1")))
    hand.hear("c", Wants("d", 1, 1, filters("+/1")))  # d is behind c in the tree of a
    effects = hand.publish("ka/1")
    assert [peer for peer in ALL if publications(effects, peer)] == ["b", "c"]
    assert [peer for peer in ALL if publications(hand.publish("ka/2"), peer)] == []


def test_an_event_comes_from_the_side_of_its_origin_in_its_own_tree() -> None:
    hand = RingHand().gets_ready()
    hand.subscribe("x", "#")
    assert not delivered(hand.hear("d", Publication(event("d", 1, "ka/1")))), "d is behind c in the tree of a"
    assert delivered(hand.hear("c", Publication(event("d", 1, "ka/1"))))


# --- settling -------------------------------------------------------------------------------------------------------


def test_settling_takes_as_many_rounds_as_the_longest_way_has_links() -> None:
    told: list[tuple[BrokerId, SessionFrame]] = []
    over: list[None] = []
    settling = RingSettling(
        lambda peer, frame: told.append((peer, frame)),
        lambda: over.append(None),
        rounds=lambda: 2,
        beside=lambda: ["b", "c"],
    )
    settling.tree_ready("v", ["b"], False)
    settling.on_settled("b", Settled("v", False, 1))
    assert told == [], "what this broker owes has not been sent"
    settling.all_sent()
    assert told == [("b", Settled("v", False, 1)), ("c", Settled("v", False, 1))]
    told.clear()
    settling.on_settled("b", Settled("v", True, 2))
    settling.on_settled("d", Settled("v", True, 2))
    settling.on_settled("c", Settled("another", True, 2))
    assert told == []
    settling.on_settled("c", Settled("v", False, 1))
    assert told == [("b", Settled("v", True, 2)), ("c", Settled("v", True, 2))], "what one knows of a past, all hear"
    assert not settling.settled
    settling.on_settled("c", Settled("v", False, 2))
    assert settling.settled
    assert not settling.first
    settling.on_settled("c", Settled("v", False, 3))
    assert len(over) == 1
    settling.tree_lost()
    assert not settling.settled


def test_a_broker_that_is_alone_has_settled_at_once() -> None:
    over: list[None] = []
    settling = RingSettling(lambda peer, frame: None, lambda: over.append(None), rounds=lambda: 0, beside=list)
    settling.tree_ready("v", [], False)
    settling.all_sent()
    assert (settling.settled, settling.first, len(over)) == (True, True, 1)


def test_a_broker_settles_in_twice_the_longest_way() -> None:
    hand = RingHand().gets_ready()
    for number in range(1, 4):
        for peer in ALL:
            hand.hear(peer, Settled(hand.version, False, number))
            assert not hand.broker.events.settling.settled
    for peer in ALL:
        hand.hear(peer, Settled(hand.version, False, 4))
    assert hand.broker.events.settling.settled


def test_positions_in_the_hand_are_a_quarter_apart() -> None:
    assert standing("ab") == (("a", 0), ("b", 1 << 30))
