"""The store of a broker: what it keeps, what it answers, and what it says of its own completeness."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.core.class_row import ClassRow
from latecomer.core.effects import Append, Effect, Lookup, Persist
from latecomer.core.inputs import Found, StoreAssigned, StoreBlocked, StoreTrimmed
from latecomer.core.store import ALIVE_US, CREDIT_MAX, REPLICA
from latecomer.messages.link import Adopted, Credit, Publication, RequestId, StoreAdvertise, Subscribe
from latecomer.model.event import Event
from latecomer.model.history import Page, Query, key_of
from latecomer.model.record import Kind
from tests.unit.hand import event, frames, of, records
from tests.unit.store_hand import (
    CLASS,
    HOUR,
    SECOND,
    Rules,
    StoreHand,
    carried,
    ends,
    ids,
    past,
    query,
    request,
    responses,
)

D1 = RequestId("d", 1, 1)


def store(*topics: str, since: int = 1, **rest: Any) -> StoreHand:
    """A store in the middle, complete, advertised, in a tree that has settled."""
    hand = StoreHand("b", "c", **rest)
    hand.line()
    hand.keep(*topics, since=since)
    hand.settled()
    return hand


def appended(effects: list[Effect]) -> list[Event]:
    return [w.event for persist in of(effects, Persist) for w in persist.writes if isinstance(w, Append)]


def lookups(effects: list[Effect]) -> list[Lookup]:
    return of(effects, Lookup)


def row(hand: StoreHand, name: str = CLASS) -> ClassRow:
    kept = hand.table("store")[name]
    assert isinstance(kept, ClassRow)
    assert kept == hand.broker.history.store.rows[name], "the disk says what the store says"
    return kept


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_events_of_its_classes_are_kept_and_no_others() -> None:
    hand = store()
    effects = hand.publish("t/own") + hand.publish("u/own")
    effects += hand.hear("b", *[Publication(event("b", n, topic)) for n, topic in enumerate(("t/x", "u", "t"), 1)])
    assert [kept.topic for kept in appended(effects)] == ["t/own", "t/x", "t"]


def test_unreliable_events_are_kept_like_any_other_but_a_run_has_no_identities() -> None:
    hand = store()
    effects = hand.hear("b", Publication(event("b", 1, "t/x", reliable=False)))
    assert len(appended(effects)) == 1
    effects = hand.hear("b", Publication(event("b", 2, "t/x", epoch=0, reliable=False)))
    assert appended(effects) == []


def test_an_event_is_kept_before_it_is_reported_done() -> None:
    hand = store()
    effects = hand.hear("b", Publication(event("b", 1, "t/x")))
    assert isinstance(effects[0], Persist)
    assert len(appended(effects[:1])) == 1
    assert appended(hand.hear("b", Publication(event("b", 1, "t/x")))) == [], "once"


def test_an_assignment_is_a_subscription_and_its_end_is_the_end_of_it() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    effects = hand.tell(StoreAssigned((CLASS,)))
    assert any(isinstance(frame, Subscribe) for frame in frames(effects, "b"))
    assert hand.table("store") != {}
    hand.settled()
    effects = hand.tell(StoreAssigned(("u/#",)))
    assert [record.filter for record in records(effects, Kind.NOT_KEEPING)] == [CLASS]
    assert appended(hand.publish("t/x")) == []
    assert [kept.topic for kept in appended(hand.publish("u/x"))] == ["u/x"]
    assert list(hand.table("store")) == ["u/#"]


def test_a_client_with_the_same_filter_keeps_its_subscription() -> None:
    hand = StoreHand("b")
    hand.join("b")
    hand.subscribe("x", CLASS)
    hand.tell(StoreAssigned((CLASS,)))
    hand.tell(StoreAssigned(()))
    assert [record.client for record in records(hand.publish("t/x"), Kind.DELIVERED)] == ["x"]


def test_a_new_store_does_not_claim_what_was_published_before_it() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.tell(StoreAssigned((CLASS,)))
    kept = row(hand)
    assert kept.since_us >= hand.now + hand.broker.settings.hold_us
    assert kept.gaps == ()


# -- restarts ----------------------------------------------------------------------------------------------------------


def reborn(hand: StoreHand, after: int) -> StoreHand:
    again = StoreHand("b", "c", boot=2, disk=hand.disk)
    again.now = hand.now + after
    again.tell(StoreAssigned((CLASS,)))
    return again


def test_a_short_absence_is_none_because_others_keep_things_meanwhile() -> None:
    hand = store()
    before = row(hand)
    assert row(reborn(hand, 60 * SECOND)) == before


def test_a_long_absence_is_a_gap() -> None:
    hand = store(forget_us=HOUR)
    last = hand.now
    again = reborn(hand, 2 * HOUR)
    assert row(again).gaps == ((last, again.now),)


def test_a_store_writes_down_that_it_is_there() -> None:
    hand = store()
    hand.wait(3 * ALIVE_US)
    alive = hand.table("meta")["store_alive"]
    assert isinstance(alive, int)
    assert hand.now - alive <= ALIVE_US
    hand.tell(StoreAssigned(()))
    hand.wait(3 * ALIVE_US)
    assert hand.table("meta")["store_alive"] == alive, "what keeps nothing is not there"


def test_a_class_that_is_not_assigned_again_is_forgotten() -> None:
    hand = store()
    again = StoreHand("b", "c", boot=2, disk=hand.disk)
    again.tell(StoreAssigned(("u/#",)))
    assert list(again.table("store")) == ["u/#"]


def test_a_restart_closes_the_gap_of_a_store_that_was_full() -> None:
    hand = store()
    start = hand.now
    hand.tell(StoreBlocked(True))
    assert row(hand).gaps == ((start, 0),)
    again = reborn(hand, 60 * SECOND)
    assert row(again).gaps == ((start, again.now),), "whether there is room will be seen anew"


# -- a full store ------------------------------------------------------------------------------------------------------


def test_a_full_store_refuses_what_is_new_and_knows_what_it_lacks() -> None:
    hand = store()
    hand.tell(StoreBlocked(True, hand.now - 5))
    hand.tell(StoreBlocked(True, hand.now - 4))
    effects = hand.publish("t/x")
    assert appended(effects) == []
    assert [record.detail for record in records(effects, Kind.DROPPED)] == ["the store is full"]
    start = hand.now - 5
    hand.wait(SECOND)
    hand.tell(StoreBlocked(False))
    assert row(hand).gaps == ((start, hand.now),)
    assert len(appended(hand.publish("t/x"))) == 1


def test_a_full_store_serves_what_is_old_and_says_so() -> None:
    hand = store()
    hand.stock(past("d", 1, 5))
    hand.tell(StoreBlocked(True))
    effects = hand.perform(hand.hear("b", request("d", "db")))
    assert [len(answer.events) for answer in responses(effects, "b")] == [1]
    [end] = ends(effects, "b")
    assert (bool(end.problem), end.final) == (True, True)
    assert end.problem == "the store may have missed something: it was full, or away"


def test_what_is_refused_late_belongs_to_the_gap_too() -> None:
    hand = store()
    hand.tell(StoreBlocked(True))
    hand.hear("b", Publication(past("b", 1, hand.now - HOUR)))
    assert row(hand).gaps == ((hand.now - HOUR, 0),)


def test_a_class_that_is_assigned_to_a_full_store_has_a_gap_from_the_start() -> None:
    hand = store()
    hand.tell(StoreBlocked(True))
    start = hand.now
    hand.tell(StoreAssigned((CLASS, "u/#")))
    assert row(hand, "u/#").gaps == ((start, 0),)


def test_old_gaps_go_with_what_is_trimmed() -> None:
    hand = store()
    hand.tell(StoreBlocked(True))
    hand.wait(SECOND)
    hand.tell(StoreBlocked(False))
    hand.tell(StoreTrimmed(hand.now + 1))
    assert row(hand).gaps == ()


# -- completeness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "trimmed", "asked", "from_us", "problem"),
    [
        (1, 0, {}, 1, ""),
        (1, 0, {"since_us": 50}, 50, ""),
        (60, 0, {"since_us": 50}, 60, "the store does not reach back so far"),
        (1, 60, {"since_us": 50}, 60, "the store does not reach back so far"),
        (60, 0, {}, 60, ""),
        (60, 0, {"since_us": 50, "last": 5}, 60, ""),
        (60, 0, {"since_us": 70}, 70, ""),
        (1, 0, {"since_us": 5, "until_us": 99}, 5, ""),
        (1, 0, {"since_us": 5, "until_us": 100}, 5, "the store may have missed something: it was full, or away"),
        (1, 0, {"since_us": 200}, 200, "the store may have missed something: it was full, or away"),
        (1, 0, {"since_us": 201}, 201, ""),
    ],
)
def test_an_answer_says_from_when_on_it_has_everything(
    since: int, trimmed: int, asked: dict[str, int], from_us: int, problem: str
) -> None:
    hand = store()
    kept = hand.broker.history.store
    gap = ((100, 200),) if "since_us" in asked and asked["since_us"] in (5, 200, 201) else ()
    kept.rows[CLASS], kept.kept_from_us = ClassRow(since, gap), trimmed
    [end] = ends(hand.perform(hand.hear("b", request("d", "db", asked=query(CLASS, **asked)))), "b")
    assert (end.from_us, end.problem) == (from_us, problem)


def test_what_was_let_go_of_and_may_be_kept_again_is_a_gap() -> None:
    hand = store()
    again = StoreHand("b", "c", boot=2, disk=hand.disk)
    again.now = hand.now + SECOND
    again.tell(StoreAssigned((CLASS,), 100, 5000))
    assert row(again).gaps == ((100, 5000),)
    assert again.broker.history.replicas.store.kept_from_us == 100, "others are asked for it"
    again.broker.history.store.filled(CLASS, 100)
    again.tell(StoreTrimmed(0))
    assert row(again).gaps == ()


def test_what_was_filled_closes_the_gaps_behind_it() -> None:
    hand = store()
    kept = hand.broker.history.store
    kept.rows[CLASS] = ClassRow(1000, ((1100, 1200), (500, 600), (1300, 0)))
    kept.filled(CLASS, 550)
    assert kept.rows[CLASS] == ClassRow(550, ((500, 600), (1300, 0)))
    kept.filled(CLASS, 0)
    assert kept.rows[CLASS] == ClassRow(1, ((1300, 0),))
    kept.filled("unknown", 0)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_pages_follow_one_another_as_far_as_the_credit_goes() -> None:
    hand = store(response_events=2)
    hand.stock(*[past("d", number, number) for number in range(1, 10)])
    effects = hand.perform(hand.hear("b", request("d", "db", credit=2)))
    got = responses(effects, "b")
    assert [ids(answer.events) for answer in got] == [["d.1.1", "d.1.2"], ["d.1.3", "d.1.4"]]
    assert ends(effects, "b") == []
    effects = hand.perform(hand.hear("b", Credit(D1, "a", 2)))
    assert carried(effects, "b") == [], "no more than before"
    effects = hand.perform(hand.hear("b", Credit(D1, "a", 4)))
    assert [len(answer.events) for answer in responses(effects, "b")] == [2, 2]
    effects = hand.perform(hand.hear("b", Credit(D1, "a", 9)))
    assert [len(answer.events) for answer in responses(effects, "b")] == [1]
    assert len(ends(effects, "b")) == 1
    assert hand.broker.history.store.streams == {}
    [served] = records(effects, Kind.SERVED)
    assert (served.peer, served.hops, served.count) == ("d", 2, 9)


def test_one_page_is_looked_up_at_a_time() -> None:
    hand = store(response_events=1)
    hand.stock(past("d", 1, 1), past("d", 2, 2))
    effects = hand.hear("b", request("d", "db", credit=1), Credit(D1, "a", 2), Credit(D1, "a", 3))
    assert len(lookups(effects)) == 1


def test_credit_beyond_reason_is_not_believed() -> None:
    hand = store(response_events=1)
    hand.stock(*[past("d", number, number) for number in range(1, 3 * CREDIT_MAX)])
    effects = hand.perform(hand.hear("b", request("d", "db", credit=2**60)))
    assert len(responses(effects, "b")) == CREDIT_MAX
    effects = hand.perform(hand.hear("b", Credit(D1, "a", 2**60)))
    assert len(responses(effects, "b")) == CREDIT_MAX


def test_the_last_so_many_in_pages() -> None:
    hand = store(response_events=2)
    hand.stock(*[past("d", number, number) for number in range(1, 10)])
    effects = hand.hear("b", request("d", "db", asked=query(last=5), credit=9))
    effects = hand.perform(effects)
    assert [ids(answer.events) for answer in responses(effects, "b")] == [
        ["d.1.5", "d.1.6"],
        ["d.1.7", "d.1.8"],
        ["d.1.9"],
    ]
    assert len(ends(effects, "b")) == 1


def test_what_is_appended_while_the_last_are_given_comes_as_well() -> None:
    hand = store(response_events=2)
    hand.stock(*[past("d", number, number) for number in range(1, 5)])
    effects = hand.perform(hand.hear("b", request("d", "db", asked=query(last=4), credit=1)))
    hand.stock(past("d", 5, 5), past("d", 6, 6))
    effects += hand.perform(hand.hear("b", Credit(D1, "a", 9)))
    given = [id for answer in responses(effects, "b") for id in ids(answer.events)]
    assert given == [f"d.1.{number}" for number in range(1, 7)]


def test_what_is_left_of_each_life_is_told() -> None:
    hand = store()
    hand.stock(past("d", 1, 1, expires=hand.now + 77), past("d", 2, 2), past("d", 3, 3, expires=hand.now))
    [answer] = responses(hand.perform(hand.hear("b", request("d", "db"))), "b")
    assert (ids(answer.events), answer.left_us) == (["d.1.1", "d.1.2"], (77, 0))


def test_an_event_that_came_before_the_request_is_in_the_answer() -> None:
    hand = store()
    effects = hand.hear("b", Publication(past("b", 1, hand.now)), request("d", "db"))
    assert isinstance(effects[0], Persist)
    assert len(lookups(effects)) == 1, "behind the write"
    [answer] = responses(hand.perform(effects), "b")
    assert ids(answer.events) == ["b.1.1"]


def test_a_page_without_events_says_how_far_it_looked() -> None:
    hand = store()
    [lookup] = lookups(hand.hear("b", request("d", "db", credit=2)))
    place = key_of(past("d", 5, 5))
    effects = hand.tell(Found(lookup.token, Page((), place)))
    [answer] = responses(effects, "b")
    assert (answer.events, answer.next) == ((), place)
    [again] = lookups(effects)
    assert again.query.after == place


def test_a_store_that_cannot_be_read_says_so_and_another_may_be_asked() -> None:
    hand = store()
    [lookup] = lookups(hand.hear("b", request("d", "db")))
    [end] = ends(hand.tell(Found(lookup.token, Page((), None), "segment 7 is damaged")), "b")
    assert (end.problem, end.final) == ("segment 7 is damaged", False)


def test_who_no_longer_wants_to_know_is_not_answered() -> None:
    hand = store(response_events=1)
    hand.stock(past("d", 1, 1), past("d", 2, 2))
    effects = hand.hear("b", request("d", "db", credit=9), Credit(D1, "a", 0))
    assert carried(hand.perform(effects), "b") == []
    assert hand.broker.history.store.streams == {}


def test_the_same_request_again_takes_the_place_of_the_first() -> None:
    hand = store()
    hand.stock(past("d", 1, 1))
    effects = hand.perform(hand.hear("b", request("d", "db"), request("d", "db")))
    assert (len(responses(effects, "b")), len(ends(effects, "b"))) == (1, 1)


def test_classes_that_are_not_answered_for_are_not_kept_as_far_as_clients_know() -> None:
    hand = store()
    [end] = ends(hand.hear("b", request("d", "db", topics="t/x", store="a")), "b")
    assert (end.final, end.problem) == (False, "a does not keep t/x")


# -- permission --------------------------------------------------------------------------------------------------------


def guarded() -> StoreHand:
    hand = store()
    hand.broker.history.store.access = Rules()
    hand.stock(past("d", 1, 1, "t/open"), past("d", 2, 2, "t/secret"), past("d", 3, 3, "t/open"))
    return hand


def test_who_may_not_ask_gets_nothing_and_no_hint() -> None:
    hand, empty = guarded(), store()
    effects = hand.perform(hand.hear("b", request("d", "db", user="mallory")))
    assert responses(effects, "b") == []
    assert ends(effects, "b") == ends(empty.perform(empty.hear("b", request("d", "db", user="mallory"))), "b")
    assert lookups(effects) == []


def test_what_may_not_be_received_is_left_out() -> None:
    hand = guarded()
    effects = hand.perform(hand.hear("b", request("d", "db", user="alice")))
    assert [ids(answer.events) for answer in responses(effects, "b")] == [["d.1.1", "d.1.3"]]
    [end] = ends(effects, "b")
    assert end.problem == ""


def test_another_store_may_have_everything() -> None:
    hand = guarded()
    asked = request("d", "db", user="mallory", client=REPLICA, store="a")
    effects = hand.perform(hand.hear("b", asked))
    assert [len(answer.events) for answer in responses(effects, "b")] == [3]
    assert records(effects, Kind.SERVED) == [], "which is nothing that a client asked for"


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_nothing_is_answered_before_the_tree_has_settled() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.stock(past("d", 1, 1))
    assert hand.perform(hand.hear("b", request("d", "db"))) == []
    hand.hear("c", Publication(past("c", 1, 2)))
    effects = hand.perform(hand.settled())
    assert [ids(answer.events) for answer in responses(effects, "b")] == [["d.1.1", "c.1.1"]]


def test_other_stores_need_not_wait_for_that() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.stock(past("d", 1, 1))
    effects = hand.perform(hand.hear("b", request("d", "db", client=REPLICA, store="a")))
    assert len(responses(effects, "b")) == 1


def test_who_waits_may_change_its_mind() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.hear("b", request("d", "db"), Credit(D1, "a", 0))
    assert carried(hand.perform(hand.settled()), "b") == []


# -- endings -----------------------------------------------------------------------------------------------------------


def test_a_tree_that_is_lost_takes_all_answers_with_it() -> None:
    hand = store()
    hand.stock(past("d", 1, 1))
    [lookup] = lookups(hand.hear("b", request("d", "db")))
    hand.hear("c", Adopted("another tree"))
    assert hand.tell(Found(lookup.token, Page((past("d", 1, 1),), None))) == []
    kept = hand.broker.history.store
    assert (kept.streams, kept.waiting, kept.lookups) == ({}, {}, {})


def test_a_store_is_advertised_one_hop_away() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.tell(StoreAssigned((CLASS,)))
    effects = hand.settled() + hand.wait(10 * SECOND)
    assert [f for f in frames(effects, "b") if isinstance(f, StoreAdvertise)] == [StoreAdvertise(((CLASS, 1),))]
    assert [record.filter for record in records(effects, Kind.KEEPING)] == [CLASS]


def test_a_lookup_asks_for_what_was_asked_for() -> None:
    hand = store()
    asked: Query = query("t/+ ? value > 3", since_us=4, until_us=9)
    [lookup] = lookups(hand.hear("b", request("d", "db", asked=asked)))
    assert lookup.query == asked
    assert lookup.events_max == hand.broker.settings.response_events
