"""One broker and new positions: every row of both tables, played by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from latecomer.core.effects import Effect, Persist, Put
from latecomer.core.inputs import RepositionAborted, RepositionWanted
from latecomer.core.reposition.states import MANAGER, MOVER, Fact, Managing, Moving
from latecomer.core.ring.places import fingers_of, position_in
from latecomer.messages.reposition import (
    NO_STAMP,
    Place,
    Positions,
    PositionsKnown,
    Prepared,
    Proposal,
    Stamp,
    Withdrawn,
)
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.record import Kind
from latecomer.model.ring import point_of
from tests.unit.hand import Hand, frames, of, records

SECOND = 1_000_000
ABC: tuple[Place, ...] = (("a", 10), ("b", 20), ("c", 30))
ACB: tuple[Place, ...] = (("a", 10), ("c", 20), ("b", 30))
FIRST = Stamp(1, "a", 1)
OTHERS = Stamp(1, "b", 1)


def said(effects: Sequence[Effect], peer: str) -> list[object]:
    """What a neighbour is told about positions."""
    kinds = (Positions, PositionsKnown, Proposal, Prepared, Withdrawn)
    return [frame for frame in frames(effects, peer) if isinstance(frame, kinds)]


def three(**settings: Any) -> Hand:
    """A broker with two neighbours in one tree."""
    hand = Hand("b", "c", **settings)
    hand.join("b", "c")
    return hand


def states(hand: Hand) -> tuple[Managing, Moving]:
    return hand.broker.reposition.managing, hand.broker.reposition.moving


def propose(hand: Hand, places: tuple[Place, ...] = ABC) -> list[Effect]:
    return hand.tell(RepositionWanted(places))


# -- who proposes ------------------------------------------------------------------------------------------------------


def test_a_proposal_is_put_in_force_when_all_are_prepared() -> None:
    hand = three()
    effects = propose(hand)
    assert said(effects, "b") == said(effects, "c") == [Proposal(FIRST, NO_STAMP, ABC)]
    assert states(hand) == (Managing.PROPOSING, Moving.PREPARED)
    assert not hand.hear("b", Prepared("b", "a", FIRST))
    effects = hand.hear("c", Prepared("c", "a", FIRST))
    assert said(effects, "b") == said(effects, "c") == [Positions(FIRST, ABC)]
    assert states(hand) == (Managing.RESTING, Moving.IDLE)
    assert hand.broker.reposition.outcome == "in force: 1 by a.1"
    assert [record.detail for record in records(effects, Kind.POSITIONED)] == ["1 by a.1"]


def test_positions_are_written_before_they_are_told() -> None:
    hand = three()
    propose(hand)
    hand.hear("b", Prepared("b", "a", FIRST))
    effects = hand.hear("c", Prepared("c", "a", FIRST))
    assert isinstance(effects[0], Persist)
    assert Put("positions", "", "", Positions(FIRST, ABC)) in effects[0].writes


def test_a_proposal_is_withdrawn_when_time_is_over() -> None:
    hand = three(reposition_us=SECOND)
    propose(hand)
    hand.hear("b", Prepared("b", "a", FIRST))
    hand.hear("b", hand.states("b"))  # news, so that nobody is silent for too long
    effects = hand.wait(SECOND)
    assert said(effects, "b") == said(effects, "c") == [Withdrawn(FIRST)]
    assert hand.broker.reposition.outcome == "withdrawn: c did not get ready in time"
    assert states(hand) == (Managing.RESTING, Moving.IDLE)


def test_a_proposal_is_withdrawn_when_the_operator_says_so() -> None:
    hand = three()
    propose(hand)
    assert said(hand.tell(RepositionAborted()), "b") == [Withdrawn(FIRST)]
    assert hand.tell(RepositionAborted()) == []  # there is nothing to withdraw any more


def test_a_proposal_is_withdrawn_when_a_broker_cannot_prepare() -> None:
    hand = three()
    propose(hand)
    assert said(hand.hear("b", Prepared("b", "a", FIRST, "no link")), "c") == [Withdrawn(FIRST)]
    assert hand.broker.reposition.outcome == "withdrawn: no link"


def test_a_proposal_is_withdrawn_when_a_broker_goes() -> None:
    hand = three()
    propose(hand)
    hand.part("c")
    assert hand.broker.reposition.outcome == "withdrawn: c came or went"


def test_a_proposal_is_withdrawn_when_a_broker_starts_again() -> None:
    hand = three()
    propose(hand)
    hand.join("c", boot=2)
    assert hand.broker.reposition.outcome == "withdrawn: c came or went"


def test_of_two_proposals_the_larger_stamp_goes_on() -> None:
    hand = three()
    propose(hand)
    effects = hand.hear("b", Proposal(OTHERS, NO_STAMP, ACB))
    assert said(effects, "c") == [Proposal(OTHERS, NO_STAMP, ACB)]
    assert said(effects, "b") == [Prepared("a", "b", OTHERS)]
    assert hand.broker.reposition.outcome == "withdrawn: b proposes other positions"
    late = Stamp(1, "a", 0)
    assert said(hand.hear("c", Proposal(late, NO_STAMP, ABC)), "b") == []  # and the smaller does not


def test_a_proposal_is_withdrawn_when_others_have_newer_positions() -> None:
    hand = three()
    propose(hand)
    effects = hand.hear("b", Positions(OTHERS, ACB))
    assert said(effects, "b") == [Withdrawn(FIRST)]
    assert hand.broker.reposition.outcome == "withdrawn: b has put other positions in force"


def test_answers_to_earlier_proposals_do_not_count() -> None:
    hand = three()
    propose(hand)
    hand.tell(RepositionAborted())
    propose(hand)
    for peer in "bc":
        hand.hear(peer, Prepared(peer, "a", FIRST))
    assert states(hand)[0] is Managing.PROPOSING
    for peer in "bc":
        hand.hear(peer, Prepared(peer, "a", Stamp(2, "a", 1)))
    assert hand.broker.reposition.word.stamp == Stamp(2, "a", 1)


def test_a_broker_that_is_alone_needs_nobody() -> None:
    hand = Hand()
    hand.tell(RepositionWanted((("a", 5),)))
    assert hand.broker.reposition.word.stamp == FIRST


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        ({}, "positions of 0 brokers"),
        ({"a": -1}, "-1 of a is no position"),
        ({"a": 2**32}, "name one from 0 to 4294967295"),
        ({"": 1}, "a name of 1 to 255 characters"),
        ({"a": 1, "b": 1}, "a and b would both stand at 1"),
        ({"a": point_of("b")}, "would both stand at"),
    ],
)
def test_what_cannot_be_proposed(places: dict[str, int], sentence: str) -> None:
    hand = three()
    assert sentence in hand.broker.reposition.problem_of(places)
    assert hand.tell(RepositionWanted(tuple(places.items()))) == []


def test_no_proposal_beside_another_or_without_a_tree() -> None:
    hand = three()
    propose(hand)
    assert "wait until they are in force" in hand.broker.reposition.problem_of(dict(ACB))
    alone = Hand("b")
    alone.meet("b")
    alone.hear("b", alone.states("b"))
    alone.settle()
    assert "no tree that is ready" in alone.broker.reposition.problem_of(dict(ABC))


def test_no_proposal_when_somebody_has_used_up_the_numbers() -> None:
    hand = three()
    hand.hear("b", Positions(Stamp(NUMBER_MAX, "b", 1), ABC))
    assert "no more numbers" in hand.broker.reposition.problem_of(dict(ABC))


# -- who gets ready ----------------------------------------------------------------------------------------------------


def test_a_broker_waits_for_the_links_of_the_new_ring() -> None:
    hand = Hand("b", "c", hold_us=10 * SECOND)
    hand.join("b")
    hand.broker.neighbours.links["c"].close()
    effects = hand.hear("b", hand.states("b", "c"))
    hand.settle()
    hand.agree()
    effects = hand.hear("b", Proposal(OTHERS, NO_STAMP, ABC))
    assert states(hand)[1] is Moving.PREPARING
    assert said(effects, "b") == []
    effects = hand.meet("c")
    assert states(hand)[1] is Moving.PREPARED


def test_a_broker_says_that_it_has_no_link_to_its_successor() -> None:
    hand = Hand("b")
    hand.meet("b")
    hand.hear("b", hand.states("b", "c"))
    hand.settle()
    hand.agree()
    effects = hand.hear("b", Proposal(OTHERS, NO_STAMP, ACB))
    assert said(effects, "b") == [Prepared("a", "b", OTHERS, "a has no link to c, which would follow it on the ring")]
    assert states(hand)[1] is Moving.IDLE


def test_a_broker_says_again_in_another_tree_that_it_is_ready() -> None:
    hand = three()
    hand.hear("b", Proposal(OTHERS, NO_STAMP, ABC))
    hand.hear("c", hand.states("c", "d"))
    effects = hand.settle() + hand.agree()
    assert Prepared("a", "b", OTHERS) in said(effects, "b")


def test_a_proposal_for_older_positions_is_not_prepared() -> None:
    hand = three()
    hand.hear("c", Positions(Stamp(3, "c", 1), ACB))
    effects = hand.hear("b", Proposal(Stamp(4, "b", 1), NO_STAMP, ABC))
    problem = "a has newer positions than those from which it was computed"
    assert said(effects, "b") == [Prepared("a", "b", Stamp(4, "b", 1), problem)]
    assert states(hand)[1] is Moving.IDLE


@pytest.mark.parametrize(
    "over",
    [Withdrawn(OTHERS), Withdrawn(Stamp(2, "b", 1)), Positions(OTHERS, ABC), Positions(Stamp(2, "c", 1), ACB)],
    ids=str,
)
def test_a_broker_forgets_what_is_over(over: Withdrawn | Positions) -> None:
    hand = three()
    hand.hear("b", Proposal(OTHERS, NO_STAMP, ABC))
    assert states(hand)[1] is Moving.PREPARED
    assert said(hand.hear("b", over), "c") == [over]
    assert states(hand)[1] is Moving.IDLE
    assert said(hand.hear("c", over), "b") == []


def test_a_broker_forgets_a_proposal_whose_proposer_is_gone() -> None:
    hand = three()
    hand.hear("b", Proposal(OTHERS, NO_STAMP, ABC))
    hand.part("b")
    assert states(hand)[1] is Moving.IDLE


def test_a_broker_forgets_a_proposal_of_an_earlier_life() -> None:
    hand = three()
    hand.hear("b", Proposal(OTHERS, NO_STAMP, ABC))
    hand.join("b", boot=2)
    assert states(hand)[1] is Moving.IDLE


def test_a_broker_forgets_a_proposal_that_nothing_is_heard_of() -> None:
    hand = Hand("b", reposition_us=SECOND)
    hand.meet("b")
    hand.hear("b", Proposal(OTHERS, NO_STAMP, (("a", 1), ("b", 2))))
    assert states(hand)[1] is not Moving.IDLE
    for _ in range(20):
        hand.hear("b", PositionsKnown(NO_STAMP))
        hand.wait(SECOND // 10)
    assert states(hand)[1] is Moving.IDLE


def test_what_is_not_in_a_table_changes_nothing() -> None:
    hand = three()
    reposition = hand.broker.reposition
    for state in Moving:
        for fact in Fact:
            if (state, fact) not in MOVER:
                reposition.moving = state
                reposition._move(fact)
                assert reposition.moving is state
    for managing in Managing:
        for fact in Fact:
            if (managing, fact) not in MANAGER:
                reposition.managing = managing
                reposition._manage(fact)
                assert reposition.managing is managing


# -- the word ----------------------------------------------------------------------------------------------------------


def test_the_newest_positions_win_and_older_ones_are_not_told_on() -> None:
    hand = three()
    assert said(hand.hear("b", Positions(Stamp(2, "b", 1), ABC)), "c") == [Positions(Stamp(2, "b", 1), ABC)]
    ours = Positions(Stamp(2, "b", 1), ABC)
    assert hand.hear("c", ours) == []
    for stamp in (Stamp(2, "b", 0), Stamp(2, "a", 9), Stamp(1, "z", 9)):
        assert hand.hear("c", Positions(stamp, ACB)) == []  # it was told ours
    effects = hand.hear("b", Positions(Stamp(1, "z", 9), ACB))
    assert (said(effects, "b"), said(effects, "c")) == ([ours], [])  # b had told us ours, and now tells older ones
    assert hand.hear("b", Positions(Stamp(1, "z", 9), ACB)) == []
    assert hand.broker.reposition.word.places == dict(ABC)
    assert said(hand.hear("c", Positions(Stamp(2, "c", 1), ACB)), "b") == [Positions(Stamp(2, "c", 1), ACB)]
    assert hand.broker.reposition.word.position("c") == 20


def test_positions_are_found_on_the_disk() -> None:
    hand = three()
    hand.hear("b", Positions(OTHERS, ABC))
    again = Hand("b", "c", boot=2, disk=hand.disk)
    assert again.broker.reposition.word.known == Positions(OTHERS, ABC)
    assert said(again.meet("b"), "b") == [PositionsKnown(OTHERS)]


def test_neighbours_compare_stamps_and_tell_what_is_lacking() -> None:
    hand = Hand("b", "c")
    assert said(hand.meet("b"), "b") == []  # nobody has positions yet
    assert said(hand.hear("b", PositionsKnown(OTHERS)), "b") == [PositionsKnown(NO_STAMP)]
    hand.hear("b", Positions(OTHERS, ABC))
    assert said(hand.meet("c"), "c") == [PositionsKnown(OTHERS)]
    assert said(hand.hear("c", PositionsKnown(NO_STAMP)), "c") == [Positions(OTHERS, ABC)]
    assert hand.hear("c", PositionsKnown(OTHERS)) == []
    assert hand.hear("c", PositionsKnown(Stamp(9, "c", 1))) == []  # it knows what we have, and tells


def test_positions_of_more_brokers_than_there_may_be_are_refused() -> None:
    for frame in (Positions(OTHERS, ABC), Proposal(OTHERS, NO_STAMP, ABC)):
        hand = Hand("b", brokers_max=2)
        hand.meet("b")
        assert [record.detail for record in records(hand.hear("b", frame), Kind.REJECTED)] == [
            "it tells of 3 positions, and core.brokers_max allows 2 brokers"
        ]
        assert not of(hand.tell(RepositionAborted()), Persist)


def test_a_broker_without_a_word_stands_at_the_hash_of_its_name() -> None:
    assert position_in({"b": 7}, "b") == 7
    assert position_in({"b": 7}, "a") == point_of("a")


def test_fingers_begin_with_the_successor() -> None:
    places = {f"b{number}": number * (1 << 29) for number in range(8)}
    assert fingers_of(places, places, "b0") == ["b1", "b2", "b4"]
    assert fingers_of(places, places, "b7") == ["b0", "b1", "b3"]
    assert fingers_of({}, ["a"], "a") == []
    assert fingers_of({"a": 5, "b": 5}, ["a", "b"], "a") == ["b"]
