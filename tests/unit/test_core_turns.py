"""Answers of a store take turns, and who does not read takes nobody's."""

from __future__ import annotations

from latecomer.core.inputs import Found
from latecomer.core.store import LOOKUPS_MAX
from latecomer.model.history import Page, key_of
from tests.unit.store_hand import ends, past, query, request
from tests.unit.test_core_store import lookups, store


def test_too_many_answers_at_once_take_turns() -> None:
    hand = store()
    hand.stock(past("d", 1, 1))
    asked = [request("d", "db", number, credit=2) for number in range(1, LOOKUPS_MAX + 3)]
    under_way = lookups(hand.hear("b", *asked))
    assert len(under_way) == LOOKUPS_MAX
    first = hand.tell(Found(under_way[0].token, Page((past("d", 1, 1),), key_of(past("d", 1, 1)))))
    [next_one] = lookups(first)
    assert next_one.query == query(), "the first page of another one goes before the second page of this one"
    store_ = hand.broker.history.store
    assert list(store_.hungry) == [asked[-1].id, asked[0].id]


def test_who_does_not_read_takes_nobody_s_turn() -> None:
    hand = store(response_events=1)
    hand.stock(past("d", 1, 1), past("d", 2, 2))
    slow = [request("d", "db", number, credit=1) for number in range(1, 2 * LOOKUPS_MAX)]
    hand.perform(hand.hear("b", *slow))
    effects = hand.perform(hand.hear("b", request("d", "db", 999, credit=4)))
    assert [end.id.number for end in ends(effects, "b")] == [999]
