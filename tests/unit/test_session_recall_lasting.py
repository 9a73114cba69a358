"""The seam when there is too much, when clients go and come back, and when this broker or a right is lost."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.core.inputs import RulesChanged
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.recall import REMEMBER_US, SLICE
from latecomer.messages.mqtt import Publish, Unsuback
from latecomer.model.history import NOT_SO_FAR, Outcome, Query, key_of
from latecomer.model.record import Kind
from latecomer.model.when import format_when
from tests.unit.hand import records
from tests.unit.mqtt_hand import V5, Rules, Wire
from tests.unit.recall_hand import RecallHand, marker, names, past

HOUR_US = 3600 * 1_000_000
ALL = "$history/since=0/t"


def recalled(
    text: str = ALL, qos: int = 2, version: int = V5, *, durable: bool = True, **options: Any
) -> tuple[RecallHand, Wire]:
    """A client that has asked for history."""
    hand = RecallHand(**options)
    wire = hand.durable("s", version) if durable else hand.client("s", version)
    assert wire.subscribe(text, qos=qos).reasons == (qos,)
    return hand, wire


# -- too much --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_held_events_are_let_go_of_and_fetched_again(durable: bool) -> None:
    hand, s = recalled(durable=durable, limits=SessionLimits(queue_messages=3))
    first = hand.stores.last()
    hand.live(*(past(n) for n in range(3, 9)), past(1, origin="x", at_us=5), past(9, qos=0))
    assert hand.rows("held") == 0
    first.give(past(1), past(2), past(3))
    first.finish()
    second = hand.stores.last()
    assert second.query == Query(first.query.filter, 5)
    hand.live(past(10), past(11))
    assert hand.rows("held") == 2 * durable
    second.give(past(1, origin="x", at_us=5), *(past(n) for n in range(1, 11)), past(99, origin="y"))
    second.finish()
    packets = s.settle()
    assert names(packets) == ["o1", "o2", "x1", *(f"o{n}" for n in range(3, 11)), "|", "o11"]
    assert marker(packets)["events"] == 11


@pytest.mark.parametrize(("from_us", "complete"), [(5_000_000, True), (5_000_001, False)])
def test_what_a_later_round_lacks_of_a_time_that_was_not_promised_is_no_news(from_us: int, complete: bool) -> None:
    hand, s = recalled(limits=SessionLimits(queue_messages=3))
    first = hand.stores.last()
    hand.live(*(past(n) for n in range(3, 9)))
    first.give(past(1), past(2), past(3))
    first.finish(Outcome(("e",), 2, 5_000_000, True, ""))
    second = hand.stores.last()
    assert second is not first
    second.give(*(past(n) for n in range(3, 9)))
    second.finish(Outcome(("e",), 2, from_us, False, NOT_SO_FAR))
    assert marker(s.settle())["complete"] is complete


def test_bytes_count_as_well() -> None:
    hand, s = recalled(limits=SessionLimits(queue_bytes=500))
    hand.live(*(past(n) for n in range(1, 9)))
    hand.stores.last().finish()
    hand.stores.last().give(*(past(n) for n in range(1, 9)))
    hand.stores.last().finish(Outcome(("s2",), 5, 9, False, "slow"))
    packets = s.settle()
    assert names(packets) == [*(f"o{n}" for n in range(1, 9)), "|"]
    word = marker(packets)
    assert (word["stores"], word["hops"], word["complete"], word["problem"]) == (["s1", "s2"], 5, False, "slow")


def test_what_no_store_keeps_stays_held_and_the_oldest_is_lost() -> None:
    hand, s = recalled("$history/since=0/#", limits=SessionLimits(queue_messages=3))
    hand.stores.unkept.append("u")
    effects = hand.live(past(1), *(past(n, "u") for n in range(2, 7)), past(7))
    dropped = records(effects, Kind.DROPPED)
    assert [(note.event, note.detail) for note in dropped] == [
        ("o.1.2", "held while its history ran"),
        ("o.1.3", "held while its history ran"),
    ]
    hand.stores.last().finish()
    hand.stores.last().give(past(1), past(7))
    hand.stores.last().finish()
    assert names(s.settle()) == ["o1", "o4", "o5", "o6", "o7", "|"]  # in front of what is newer


def test_what_was_let_go_of_and_no_store_has_any_more_is_noted() -> None:
    hand, s = recalled(limits=SessionLimits(queue_messages=3))
    hand.live(*(past(n) for n in range(1, 7)))
    hand.stores.last().finish()
    effects = hand.stores.last().finish(Outcome((), 0, 0, False, "no store keeps these topics"))
    (note,) = records(effects, Kind.DROPPED)
    assert (note.count, note.detail, note.filter) == (6, "held while its history ran", ALL)
    packets = s.settle()
    assert names(packets) == ["|"]
    assert marker(packets)["complete"] is False


def test_history_waits_for_the_client_and_pushes_nothing_out() -> None:
    hand = RecallHand(limits=SessionLimits(queue_messages=8))
    s = hand.durable("s", receive_maximum=2)
    s.subscribe(ALL, qos=1)
    question = hand.stores.last()
    effects = question.give(*(past(n) for n in range(1, 41)))
    assert not question.idle
    assert len(hand.session("s").queue) <= 4
    got: list[Publish] = []
    while packets := s.got():
        s.ack(*packets)
        got += packets
        assert len(hand.session("s").queue) <= 4
    assert question.idle
    effects += question.finish()
    assert not records(effects, Kind.DROPPED)
    assert names(got + s.settle()) == [*(f"o{n}" for n in range(1, 41)), "|"]


def test_what_is_held_waits_for_the_client_too() -> None:
    hand = RecallHand(limits=SessionLimits(queue_messages=8))
    s = hand.durable("s", receive_maximum=1)
    s.subscribe(ALL, qos=1)
    hand.live(*(past(n) for n in range(2, 9)))
    hand.stores.last().give(past(1))
    effects = hand.stores.last().finish()
    hand.live(past(9, qos=0))
    assert not records(effects, Kind.DROPPED)
    assert names(s.settle()) == ["o1", "|", *(f"o{n}" for n in range(2, 10))]
    hand.live(past(10))
    assert names(s.settle()) == ["o10"]


def test_qos_0_does_not_overtake_the_marker() -> None:
    hand = RecallHand()
    s = hand.durable("s", receive_maximum=1)
    s.subscribe(ALL, qos=1)
    hand.live(past(3, qos=0))
    hand.stores.last().give(past(1), past(2))
    hand.stores.last().finish()
    hand.live(past(4, qos=0), past(5))
    assert names(s.settle()) == ["o1", "o2", "|", "o3", "o4", "o5"]


def test_a_client_that_does_not_read_is_given_nothing_and_loses_nothing() -> None:
    hand, s = recalled(qos=0)
    hand.session("s").choked = True
    hand.stores.last().give(past(1), past(2))
    hand.live(past(3))
    assert s.take() == []
    hand.session("s").choked = False
    hand.wait(100_000)
    hand.stores.last().finish()
    assert names(s.take()) == ["o1", "o2", "|", "o3"]  # type: ignore[arg-type]


def test_a_long_answer_is_given_in_slices() -> None:
    hand = RecallHand()
    s = hand.client("s")
    s.subscribe("$history/since=0/t", "$history/since=0/u", qos=0)
    first, second = hand.stores.questions
    first.give(*(past(n) for n in range(1, 3 * SLICE)))
    assert len(s.inbox) <= SLICE
    second.give(past(1, "u", origin="x"))
    assert len(s.inbox) <= 2 * SLICE
    assert "x1" in names(s.inbox)  # type: ignore[arg-type]
    hand.wait(100_000)
    assert first.idle
    assert len(s.take()) == 3 * SLICE


# -- connections and restarts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("text", [ALL, "$history/last=5/t"])
def test_history_goes_on_behind_its_place(text: str, crash: bool) -> None:
    hand, s = recalled(text)
    first = hand.stores.last()
    hand.live(past(4))
    first.give(past(1), past(2))
    assert names(s.settle()) == ["o1", "o2"]
    if crash:
        hand.restart()
    else:
        s.lose()
        assert first.cancelled
    hand.live(past(5), past(6, qos=0))
    s = hand.durable("s")
    question = hand.stores.last()
    query = first.query
    assert question.query == Query(query.filter, query.since_us, query.until_us, 0, key_of(past(2)))
    question.give(past(3), past(4))
    question.finish()
    hand.live(past(2), past(7))
    packets = s.settle()
    assert names(packets) == ["o3", "o4", "|", "o5", "o7"]
    assert marker(packets)["events"] == 4
    assert hand.rows("held") == hand.rows("queue") == 0


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("crash", [False, True])
def test_what_was_given_is_worth_what_its_store_said(crash: bool, given: bool) -> None:
    """Who goes on with a history can say nothing of what another store gave of it."""
    hand, s = recalled()
    first = hand.stores.last()
    first.worth = (5_000_000, "young")
    if given:
        first.give(past(1))
    s.settle()
    if crash:
        hand.restart()
    else:
        s.lose()
    s = hand.durable("s")
    hand.stores.last().give(past(2))
    hand.stores.last().finish()
    word = marker(s.settle())
    assert (word["complete"], word["problem"]) == ((False, "young") if given else (True, ""))
    assert (word["from"] == format_when(5_000_000)) is given


@pytest.mark.parametrize("crash", [False, True])
def test_what_a_store_said_at_the_end_holds_though_the_marker_had_to_wait(crash: bool) -> None:
    hand, s = recalled()
    hand.stores.last().give(past(1))
    s.settle()
    hand.session("s").choked = True
    hand.stores.last().finish(Outcome(("s1",), 1, 5_000_000, False, "young"))
    assert names(s.settle()) == []
    if crash:
        hand.restart()
    else:
        s.lose()
    s = hand.durable("s")
    hand.session("s").choked = False
    hand.stores.last().finish()
    word = marker(s.settle())
    assert (word["complete"], word["problem"], word["from"]) == (False, "young", format_when(5_000_000))


def test_what_came_and_was_not_handed_over_is_asked_for_again() -> None:
    hand = RecallHand()
    s = hand.durable("s", receive_maximum=1)
    hand.broker.sessions.recalls.holding.limits = SessionLimits(queue_messages=4)
    s.subscribe(ALL, qos=1)
    hand.stores.last().give(*(past(n) for n in range(1, 9)))
    s.lose()
    s = hand.durable("s")
    place = hand.stores.last().query.after
    assert place is not None
    hand.stores.last().give(*(past(n) for n in range(place.seq + 1, 9)))
    hand.stores.last().finish()
    assert names(s.settle()) == [*(f"o{n}" for n in range(1, 9)), "|"]


@pytest.mark.parametrize("crash", [False, True])
def test_while_the_client_is_away_what_is_held_may_be_let_go_of(crash: bool) -> None:
    hand, s = recalled(limits=SessionLimits(queue_messages=3))
    hand.stores.last().give(past(1))
    s.settle()
    s.lose()
    hand.live(*(past(n) for n in range(2, 9)))
    if crash:
        hand.restart()
    hand.live(past(9))
    assert hand.rows("held") == 0
    s = hand.durable("s")
    first = hand.stores.last()
    first.give(past(2), past(3))
    first.finish()
    second = hand.stores.last()
    second.give(*(past(n) for n in range(2, 10)))
    second.finish()
    assert names(s.settle()) == [*(f"o{n}" for n in range(2, 10)), "|"]


@pytest.mark.parametrize("crash", [False, True])
def test_the_marker_and_what_follows_survive(crash: bool) -> None:
    hand = RecallHand(limits=SessionLimits(queue_messages=4))
    s = hand.durable("s", receive_maximum=1)
    s.subscribe(ALL, qos=1)
    hand.live(*(past(n) for n in range(2, 5)))
    hand.stores.last().give(past(1))
    hand.stores.last().finish()
    if crash:
        hand.restart()
    else:
        s.lose()
    hand.live(past(5))
    s = hand.durable("s")
    packets = s.settle()
    assert names(packets) == ["o1", "|", "o2", "o3", "o4", "o5"]
    assert packets[0].properties.user[-1] == ("event", "o.1.1")
    assert hand.rows("held") == hand.rows("queue") == 0
    hand.wait(2 * REMEMBER_US)
    assert hand.rows("recall") == 0


def test_what_a_finished_history_gave_is_known_after_a_restart() -> None:
    hand, s = recalled()
    hand.stores.last().give(past(1), past(2))
    hand.stores.last().finish()
    s.settle()
    hand.restart()
    hand.live(past(1), past(2), past(3))
    assert names(hand.durable("s").settle()) == ["o3"]
    hand.wait(REMEMBER_US)
    assert hand.rows("recall") == 0
    assert hand.session("s").past is None


def test_a_session_that_does_not_last_writes_nothing() -> None:
    hand, s = recalled(durable=False)
    hand.live(past(2))
    hand.stores.last().give(past(1))
    assert hand.rows("recall") == hand.rows("held") == hand.rows("queue") == 0
    s.lose()
    assert hand.stores.last().cancelled
    assert hand.broker.sessions.by_client == {}


@pytest.mark.parametrize("how", ["clean start", "expiry", "goodbye"])
def test_nothing_is_left_of_a_session_that_is_over(how: str) -> None:
    hand, s = recalled()
    hand.live(past(2))
    hand.stores.last().give(past(1))
    s.settle()
    assert hand.rows("held") == hand.rows("recall") == 1
    if how == "goodbye":
        s.disconnect(session_expiry_s=0)
    else:
        s.lose()
        if how == "expiry":
            hand.wait(HOUR_US)
        else:
            hand.client("s")
    assert hand.rows("held") == hand.rows("recall") == hand.rows("subscriptions") == 0
    assert hand.stores.questions[-1].cancelled


def test_a_session_that_lasts_no_longer_goes_on_without_a_disk() -> None:
    hand, s = recalled()
    hand.live(past(2))
    s.lose()
    s = hand.client("s", clean_start=False)
    assert hand.rows("held") == hand.rows("recall") == 0
    hand.stores.last().give(past(1))
    hand.stores.last().finish()
    assert names(s.settle()) == ["o1", "|", "o2"]
    assert hand.rows("held") == hand.rows("recall") == hand.rows("queue") == 0


# -- the end of a subscription, and of a right -------------------------------------------------------------------------


def test_after_unsubscribing_others_get_what_was_held() -> None:
    hand, s = recalled(ALL, 2)
    s.subscribe("t")
    hand.live(past(1), past(2))
    s.unsubscribe(ALL)
    hand.live(past(3))
    assert hand.stores.last().cancelled
    packets = [packet for packet in s.take() if isinstance(packet, Publish)]
    s.ack(*packets)
    assert names(packets) == ["o1", "o2", "o3"]
    assert hand.session("s").past is None
    assert hand.rows("held") == hand.rows("recall") == 0


def test_after_unsubscribing_what_was_held_is_not_overtaken() -> None:
    hand = RecallHand(limits=SessionLimits(queue_messages=6))
    s = hand.durable("s", receive_maximum=1)
    s.subscribe("#", ALL, qos=1)
    hand.live(*(past(n) for n in range(1, 7)))
    s.send()
    s.unsubscribe(ALL)
    hand.live(past(7, qos=0), past(8, "u", qos=0))
    packets = [packet for packet in s.take() if isinstance(packet, Publish)]
    s.ack(*packets)
    assert names(packets + s.settle()) == [f"o{n}" for n in range(1, 9)]
    assert hand.session("s").past is None
    assert hand.rows("held") == 0


def test_unsubscribing_from_what_nobody_else_wants_drops_it() -> None:
    hand, s = recalled()
    hand.live(past(1))
    s.unsubscribe(ALL)
    s.one(Unsuback)
    assert hand.session("s").past is None
    assert hand.rows("held") == 0


@pytest.mark.parametrize("away", [False, True])
def test_a_right_that_is_lost_ends_the_history_and_the_rest_goes_on(away: bool) -> None:
    rules = Rules()
    hand, s = recalled(access=rules)
    hand.stores.last().give(past(1))
    hand.live(past(2))
    s.settle()
    if away:
        s.lose()
    rules.no_past.append("t")
    hand.tell(RulesChanged())
    if away:
        s = hand.durable("s")
    assert len(hand.stores.questions) == 1
    assert hand.stores.last().cancelled
    hand.live(past(3))
    packets = s.settle()
    assert names(packets) == ["|", "o2", "o3"]
    word = marker(packets)
    assert (word["complete"], word["events"]) == (False, 1)
    assert word["problem"]


def test_no_event_of_the_past_comes_to_who_may_not_have_it() -> None:
    rules = Rules()
    hand, s = recalled("$history/since=0/#", access=rules)
    rules.no_past.append("t")
    hand.stores.last().give(past(1), past(2, "u"))
    hand.stores.last().finish()
    packets = s.settle()
    assert names(packets) == ["o2", "|"]
    assert marker(packets)["events"] == 1


def test_what_waits_is_looked_at_again_when_the_rules_change() -> None:
    rules = Rules()
    hand = RecallHand(access=rules)
    s = hand.durable("s", receive_maximum=1)
    s.subscribe("$history/since=0/#", qos=1)
    hand.live(past(5, "v"), past(6, "w"))
    hand.stores.last().give(past(1), past(2, "t"), past(3, "u"))
    rules.no_past.append("t")
    rules.no_receive += ["v", "$history/end"]
    hand.tell(RulesChanged())
    hand.stores.last().finish()
    hand.tell(RulesChanged())
    assert names(s.settle()) == ["o1", "o3", "|", "o6"]


def test_a_subscription_that_is_no_longer_allowed_takes_its_history_with_it() -> None:
    rules = Rules()
    hand, s = recalled(access=rules)
    hand.live(past(2))
    hand.stores.last().give(past(1))
    s.settle()
    rules.no_receive.append("t")
    hand.tell(RulesChanged())
    assert hand.stores.last().cancelled
    assert s.take() == []
    assert hand.session("s").past is None
    assert hand.rows("held") == hand.rows("recall") == 0


def test_a_flood_beside_does_not_push_the_marker_out() -> None:
    hand = RecallHand(limits=SessionLimits(queue_messages=8))
    s = hand.durable("s", receive_maximum=1)
    s.subscribe("$history/last=1/t")
    s.subscribe("u")
    hand.stores.last().give(past(1))
    hand.stores.last().finish()
    hand.live(*[past(number, topic="u") for number in range(2, 40)])
    got = names(s.settle())
    assert "|" in got
    assert "o39" in got
