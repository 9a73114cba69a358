"""An answer that takes long: what its pages lacked is said at its end, whatever the store has got by then."""

from __future__ import annotations

from latecomer.core.class_row import ClassRow
from latecomer.messages.link import Credit
from tests.unit.store_hand import CLASS, past, query, request
from tests.unit.store_hand import ends as ends_of
from tests.unit.test_core_store import D1, store


def test_a_gap_that_was_read_through_is_not_closed_by_what_came_later() -> None:
    hand = store(response_events=1)
    kept = hand.broker.history.store
    hand.stock(*[past("d", number, number) for number in range(1, 4)])
    kept.rows[CLASS] = ClassRow(1, ((2, 3),))
    hand.perform(hand.hear("b", request("d", "db", credit=2)))
    kept.filled(CLASS, 1)
    [end] = ends_of(hand.perform(hand.hear("b", Credit(D1, "a", 9))), "b")
    assert end.problem == "the store may have missed something: it was full, or away"
    [end] = ends_of(hand.perform(hand.hear("b", request("d", "db", 2, credit=9))), "b")
    assert end.problem == ""


def test_who_began_to_read_before_the_store_was_filled_has_less() -> None:
    hand = store(response_events=1)
    kept = hand.broker.history.store
    hand.stock(*[past("d", number, number) for number in range(60, 63)])
    kept.rows[CLASS] = ClassRow(60)
    hand.perform(hand.hear("b", request("d", "db", credit=2, asked=query(CLASS, since_us=50))))
    kept.filled(CLASS, 1)
    [end] = ends_of(hand.perform(hand.hear("b", Credit(D1, "a", 9))), "b")
    assert (end.from_us, end.problem) == (60, "the store does not reach back so far")
