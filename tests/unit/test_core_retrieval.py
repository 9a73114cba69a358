"""Asking for history: one store or several, answers in order and once, in this tree and the next."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Answer, Effect
from latecomer.core.inputs import Requested
from latecomer.core.inquiry import WINDOW
from latecomer.core.retrieval import PARTIAL, PAUSE_US
from latecomer.messages.link import Adopted, Complete, Credit, StoreAdvertise, StoreWithdraw
from latecomer.model.history import Outcome, key_of
from latecomer.model.record import Kind
from tests.unit.hand import of, records
from tests.unit.retrieval_hand import Reader, U, answer, network, over, renew, the, two_classes
from tests.unit.store_hand import CLASS, StoreHand, carried, credits, past, query, requests

# -- one store ---------------------------------------------------------------------------------------------------------


def test_the_nearest_store_is_asked_and_its_answer_handed_on() -> None:
    hand = network(c=2, b=3)
    reader = Reader(hand, since_us=3, until_us=9)
    asked = the(reader.first)
    assert (asked.query, asked.user, asked.client, asked.credit) == (query(since_us=3, until_us=9), "u", "x", WINDOW)
    hand.hear("c", answer(asked.id, past("e", 1, 4), past("e", 2, 5)))
    hand.hear("c", answer(asked.id, past("e", 3, 6)), over(asked.id, from_us=3))
    assert reader.batches == [["e.1.1", "e.1.2"], ["e.1.3"]]
    assert reader.outcomes == [Outcome(("e",), 2, 3)]
    assert (reader.retrieval.inquiries, reader.retrieval.parts) == ({}, {})


def test_what_is_left_of_a_life_counts_from_now() -> None:
    hand = network()
    reader = Reader(hand)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 4, expires=1), left=50))
    assert [event.expires_us for event in reader.events] == [hand.now + 50]


def test_what_was_not_asked_for_or_is_out_of_order_is_left_out() -> None:
    hand = network()
    reader = Reader(hand)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 2, 5), past("e", 1, 4), past("e", 3, 6, "other"), past("e", 4, 7)))
    hand.hear("c", answer(id, past("e", 2, 5)), over(id))
    assert reader.ids == ["e.1.2", "e.1.4"]


def test_a_client_inside_the_process_is_told_all_of_it() -> None:
    hand = network()
    effects = hand.tell(Requested("x", 7, query(last=2)))
    id = the(effects).id
    assert [record.client for record in records(effects, Kind.REQUESTED)] == ["x"]
    effects = hand.hear("c", answer(id, past("e", 1, 4), past("e", 2, 5)), over(id, from_us=2))
    assert [(len(told.events), told.outcome) for told in of(effects, Answer)] == [
        (2, None),
        (0, Outcome(("e",), 2, 2)),
    ]
    [recalled] = records(effects, Kind.RECALLED)
    assert (recalled.peer, recalled.hops, recalled.count, recalled.detail) == ("e", 2, 2, "complete")


def test_what_the_store_says_of_itself_reaches_who_asked() -> None:
    hand = network()
    reader = Reader(hand)
    hand.hear("c", over(the(reader.first).id, problem="the store does not reach back so far", from_us=77))
    assert reader.outcomes == [Outcome(("e",), 2, 77, False, "the store does not reach back so far")]


def test_where_nobody_keeps_it_that_is_said_at_once() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    reader = Reader(hand)
    assert reader.outcomes == [Outcome((), 0, 0, False, "no store keeps these topics")]
    assert carried(reader.first, "b", "c") == []


def test_before_a_tree_is_ready_it_waits() -> None:
    hand = network()
    hand.hear("b", Adopted("another tree"))
    reader = Reader(hand)
    assert carried(reader.first, "b", "c") == []
    asked = the(renew(hand, c=2))
    hand.hear("c", over(asked.id))
    assert len(reader.outcomes) == 1


# -- flow --------------------------------------------------------------------------------------------------------------


def test_a_slow_reader_slows_the_store_down() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    effects: list[Effect] = []
    for number in range(1, WINDOW + 1):
        effects += hand.hear("c", answer(id, past("e", number, number)))
    assert reader.batches == [["e.1.1"]]
    assert credits(effects, "c") == [], "one was handed on: too little to speak of"
    granted = credits(reader.more(), "c")
    assert reader.batches[1:] == [["e.1.2", "e.1.3", "e.1.4"]]
    assert granted == [Credit(id, "e", 2 * WINDOW)]


def test_a_quick_reader_never_lets_the_store_wait() -> None:
    hand = network()
    reader = Reader(hand)
    id, credit = the(reader.first).id, WINDOW
    for number in range(1, 30):
        assert number <= credit < number + WINDOW, "and never has more than a window under way"
        for told in credits(hand.hear("c", answer(id, past("e", number, number))), "c"):
            assert told.credit > credit
            credit = told.credit
    assert len(reader.ids) == 29


def test_a_store_that_sends_more_than_it_may_is_not_listened_to() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    for number in range(1, WINDOW + 2):
        effects = hand.hear("c", answer(id, past("e", number, number)))
    assert credits(effects, "c") == [Credit(id, "e", 0)]
    assert reader.retrieval.parts == {}
    assert the(hand.wait(PAUSE_US)).query.after == key_of(past("e", 1, 1)), "what was not handed on is asked for again"


def test_the_end_waits_for_the_reader() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 1)), over(id))
    assert reader.outcomes == []
    reader.more()
    assert len(reader.outcomes) == 1


def test_who_does_not_want_to_know_any_more_says_so() -> None:
    hand = network()
    reader = Reader(hand)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 1)))
    assert credits(reader.cancel(), "c") == [Credit(id, "e", 0)]
    effects = hand.hear("c", answer(id, past("e", 2, 2)), over(id))
    assert credits(effects, "c") == [Credit(id, "e", 0)], "in case it crossed the first"
    reader.cancel()
    assert (reader.ids, reader.outcomes) == (["e.1.1"], [])


def test_who_cancels_while_taking_gets_no_more() -> None:
    hand = network()
    reader = Reader(hand)
    inquiry = reader.inquiry
    assert inquiry is not None
    inquiry.take = lambda events: reader.retrieval.cancel(inquiry)
    id = the(reader.first).id
    effects = hand.hear("c", answer(id, past("e", 1, 1)), answer(id, past("e", 2, 2)), over(id))
    assert credits(effects, "c")[0] == Credit(id, "e", 0)
    assert reader.outcomes == []
    assert reader.retrieval.inquiries == {}


# -- the last so many --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eager", [True, False])
def test_who_asked_for_the_last_learns_who_answered(eager: bool) -> None:
    hand = network()
    reader = Reader(hand, eager=eager, last=2)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 1), past("e", 2, 2)), over(id, from_us=5, problem="gap"))
    if not eager:
        reader.more()
    assert reader.outcomes == [Outcome(("e",), 2, 5, False, "gap")]


def test_the_last_go_on_where_they_stopped_in_another_tree() -> None:
    hand = network()
    reader = Reader(hand, last=3)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1), past("e", 2, 2)))
    asked = the(renew(hand, b=2), "b")
    assert asked.query == query(after=key_of(past("e", 2, 2)))
    hand.hear("b", answer(asked.id, past("e", 3, 3), past("e", 4, 4), store="d"), over(asked.id, store="d"))
    assert reader.ids == ["e.1.1", "e.1.2", "e.1.3", "e.1.4"], "what came meanwhile is in it: it comes in no other way"
    [outcome] = reader.outcomes
    assert outcome.stores == ("d",)


# -- several classes ---------------------------------------------------------------------------------------------------


def test_answers_of_several_stores_are_merged_in_order_and_once() -> None:
    hand = network()
    hand.hear("b", StoreAdvertise((("+/x", 2),)))
    reader = Reader(hand, "#")
    t, x = the(reader.first).id, the(reader.first, "b").id
    hand.hear("c", answer(t, past("e", 1, 1), past("e", 3, 3)))
    assert reader.ids == [], "what comes first is not known yet"
    hand.hear("b", answer(x, past("d", 1, 2, "u/x"), past("e", 3, 3), past("d", 2, 4, "u/x"), store="d"))
    assert reader.ids == ["e.1.1", "d.1.1", "e.1.3"]
    hand.hear("c", over(t, from_us=5))
    assert reader.ids == ["e.1.1", "d.1.1", "e.1.3", "d.1.2"]
    hand.hear("b", over(x, store="d", from_us=9))
    [outcome] = reader.outcomes
    assert (set(outcome.stores), outcome.hops, outcome.from_us) == ({"e", "d"}, 2, 9)
    assert not outcome.complete
    assert outcome.problem == "no store keeps all of these topics"


def test_stores_with_nothing_to_tell_do_not_run_out_of_credit() -> None:
    """Pages whose events all failed the content filter are empty, and there may be any number of them."""
    hand = two_classes()
    reader = Reader(hand, "#")
    t, u = the(reader.first).id, the(reader.first, "b").id
    credit = WINDOW
    for number in range(1, 4 * WINDOW):
        assert credit >= number, "the store must wait, and nobody will ever tell it to go on"
        for told in credits(hand.hear("c", answer(t, next=key_of(past("e", number, number)))), "c"):
            credit = told.credit
    hand.hear("c", over(t))
    hand.hear("b", answer(u, past("d", 1, 1, "u/x"), store="d"), over(u, store="d"))
    assert reader.ids == ["d.1.1"]
    assert len(reader.outcomes) == 1


def test_the_last_of_several_classes_are_the_last_of_all() -> None:
    hand = two_classes()
    reader = Reader(hand, "#", last=3)
    t, u = the(reader.first).id, the(reader.first, "b").id
    effects: list[Effect] = []
    for number in (1, 2, 9):
        effects += hand.hear("c", answer(t, past("e", number, number)))
    assert credits(effects, "c") == [Credit(t, "e", 2 + WINDOW)], "everything must come before it is known"
    hand.hear("c", over(t))
    assert reader.ids == []
    hand.hear("b", answer(u, *[past("d", number, 2 * number, "u/x") for number in (2, 3, 4)], store="d"))
    hand.hear("b", over(u, store="d"))
    assert reader.ids == ["d.1.3", "d.1.4", "e.1.9"]
    assert len(reader.outcomes) == 1


def test_the_last_go_on_in_order_even_where_several_must_be_asked_now() -> None:
    hand = network()
    reader = Reader(hand, "t/+", last=3)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1)))
    hand.hear("b", Adopted("another tree"))
    hand.hear("b", hand.states("b", "d"))
    hand.settle()
    version = hand.broker.membership.version
    effects = hand.hear(
        "c", Adopted(version), StoreWithdraw((CLASS,)), StoreAdvertise((("t/x", 2),)), Complete(version)
    )
    effects += hand.hear("b", Adopted(version), StoreAdvertise((("t/y", 2),)), Complete(version))
    x, y = the(effects).id, the(effects, "b").id
    hand.hear("c", answer(x, *[past("e", number, number) for number in range(2, 9)]), over(x))
    hand.hear("b", over(y, store="d"))
    assert reader.ids == [f"e.1.{number}" for number in range(1, 9)], "nothing behind the place is left out"


def test_the_last_of_a_part_begin_anew_where_other_classes_are_asked_now() -> None:
    """What one class was asked for says nothing of where the last of the others begin."""
    hand = network()
    reader = Reader(hand, "#", last=3)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1)))
    effects = _other_classes(hand)
    x, y = the(effects), the(effects, "b")
    assert (x.query, y.query) == (query("#", last=2), query("#", last=2))
    hand.hear("c", answer(x.id, past("e", 1, 1, "u/x"), past("e", 7, 7, "u/x")), over(x.id))
    hand.hear("b", answer(y.id, past("d", 5, 5, "v/x"), past("d", 6, 6, "v/x"), store="d"))
    assert reader.ids == ["e.1.1"], "which are the last is not known yet"
    hand.hear("b", over(y.id, store="d"))
    assert reader.ids == ["e.1.1", "d.1.6", "e.1.7"]
    assert [outcome.complete for outcome in reader.outcomes] == [False]


def test_nothing_is_owed_by_other_classes_when_as_many_have_come() -> None:
    hand = network()
    reader = Reader(hand, "#", last=1)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1)))
    assert requests(_other_classes(hand), "c") == []
    assert reader.ids == ["e.1.1"]
    assert [outcome.problem for outcome in reader.outcomes] == [PARTIAL]


def _other_classes(hand: StoreHand) -> list[Effect]:
    """Another tree, in which what was stored before is not."""
    hand.hear("b", Adopted("another tree"))
    hand.hear("b", hand.states("b", "d"))
    hand.settle()
    version = hand.broker.membership.version
    effects = hand.hear("c", Adopted(version), StoreWithdraw((CLASS,)), StoreAdvertise(((U, 2),)), Complete(version))
    return effects + hand.hear("b", Adopted(version), StoreAdvertise((("v/#", 2),)), Complete(version))


def test_one_of_several_that_fails_is_asked_again_with_the_others() -> None:
    hand = two_classes()
    reader = Reader(hand, "#")
    t, u = the(reader.first).id, the(reader.first, "b").id
    hand.hear("c", answer(t, past("e", 1, 1)))
    effects = hand.hear("b", over(u, store="d", final=False, problem="the way ends here"))
    assert credits(effects, "c") == [Credit(t, "e", 0)]
    effects = hand.wait(PAUSE_US)
    assert (len(requests(effects, "b")), len(requests(effects, "c"))) == (1, 1)
    assert reader.ids == []


# -- another tree ------------------------------------------------------------------------------------------------------


def test_in_another_tree_the_nearest_goes_on_behind_the_last_event() -> None:
    hand = network(c=2, b=3)
    reader = Reader(hand, since_us=1, until_us=99)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 4), past("e", 2, 5)))
    effects = renew(hand, b=2)
    assert requests(effects, "c") == []
    asked = the(effects, "b")
    assert asked.query == query(since_us=1, until_us=99, after=key_of(past("e", 2, 5)))
    hand.hear("b", answer(asked.id, past("e", 2, 5), past("e", 3, 6), store="d"), over(asked.id, store="d"))
    assert reader.ids == ["e.1.1", "e.1.2", "e.1.3"]
    assert len(reader.outcomes) == 1


def test_what_came_and_was_not_handed_on_comes_again() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 4)), answer(id, past("e", 2, 5)), over(id))
    asked = the(renew(hand, c=2))
    assert asked.query.after == key_of(past("e", 1, 4))
    assert reader.more() == []
    hand.hear("c", answer(asked.id, past("e", 2, 5)), over(asked.id))
    reader.more()
    assert reader.ids == ["e.1.1", "e.1.2"]
    assert len(reader.outcomes) == 1


def test_answers_of_the_tree_before_are_not_heeded() -> None:
    hand = network()
    reader = Reader(hand)
    old = the(reader.first).id
    new = the(renew(hand, c=2)).id
    effects = hand.hear("c", answer(old, past("e", 1, 4)), over(old))
    assert credits(effects, "c") == [Credit(old, "e", 0)]
    assert reader.ids == []
    assert new != old


def test_a_store_that_is_gone_for_good_is_missed() -> None:
    hand = network()
    reader = Reader(hand)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 4)))
    renew(hand)
    assert [(outcome.complete, outcome.problem) for outcome in reader.outcomes] == [(False, "the store is gone")]


def test_an_inquiry_that_another_ones_end_cancels_is_not_begun() -> None:
    hand = network()
    hand.hear("b", Adopted("another tree"))
    first, second = Reader(hand, "nobody/keeps/this"), Reader(hand)
    assert first.inquiry is not None
    first.inquiry.end = lambda outcome: second.retrieval.cancel(second.inquiry)  # type: ignore[arg-type]
    assert requests(renew(hand, c=2), "c") == []
    assert second.retrieval.parts == {}
