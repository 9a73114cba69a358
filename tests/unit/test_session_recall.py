"""The seam: history, a marker, then what is live; every event once, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.core.session import past as past_module
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.recall import REMEMBER_US
from latecomer.messages.mqtt import Reason, Request, Subscribe, Unsuback
from latecomer.model.event import Event
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import EventId
from latecomer.model.record import Kind
from tests.unit.hand import records
from tests.unit.mqtt_hand import START_US, V5, V311, Rules, Wire
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


# -- asking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V5, V311])
def test_history_is_asked_for_by_the_topic_filter(version: int) -> None:
    hand, s = recalled("$history/since=-1h,last=5/t/#", 1, version)
    question = hand.stores.last()
    subscription = hand.session("s").subscriptions["$history/since=-1h,last=5/t/#"]
    assert question.query == Query(subscription.filter, START_US - HOUR_US if START_US > HOUR_US else 0, 0, 5)
    assert subscription.filter.topic == "t/#"
    assert (question.user, question.client) == ("", "s")
    s.unsubscribe("$history/since=-1h,last=5/t/#")
    assert s.one(Unsuback).reasons == (0,)
    assert question.cancelled
    assert hand.rows("recall") == 0


def test_history_is_asked_for_by_user_properties_for_all_filters() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe("a", "$history/last=3/b", user=(("since", "500"), ("until", "600.5")))
    asked = [(q.query.filter.topic, q.query.since_us, q.query.until_us, q.query.last) for q in hand.stores.questions]
    assert asked == [("a", 500_000_000, 600_500_000, 0), ("b", 0, 0, 3)]


def test_a_content_filter_of_311_stands_inside() -> None:
    hand, s = recalled("$history/last=9/t ? n > 5", 1, V311)
    assert str(hand.stores.last().query.filter) == "t ? n > 5"
    hand.stores.last().finish()
    p = hand.client("p")
    p.publish("t", b'{"n": 9}', 1)
    p.publish("t", b'{"n": 1}', 1)
    assert names(s.settle()) == ["|", '{"n": 9}']


def test_what_cannot_be_asked_for() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    bad = ["$history", "$history/", "$history/t", "$history/since=-1h", "$history/end", "$history/since=-1h/"]
    bad += ["$history/since=soon/t", "$history/last=0/t", "$history/last=1000001/t", "$history/before=1/t"]
    bad += ["$history/since=now,until=-1h/t", "$history/last=1,last=2/t", "$history//t", "$history/since=-1h/a#"]
    bad += ["$history/last=1/$share/g/t", "$share/g/$history/last=1/t", "$history/last=1/$history/last=1/t"]
    for text in bad:
        suback = s.subscribe(text)
        assert suback.reasons == (Reason.TOPIC_FILTER_INVALID,), text
        assert suback.properties.reason_string
    assert s.subscribe("t", user=(("since", "soon"),)).reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert s.subscribe("t", user=(("since", "1"), ("since", "2"))).reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert s.subscribe("t", user=(("until", " "),)).reasons == (Reason.TOPIC_FILTER_INVALID,)
    shared = s.subscribe("$share/g/t", "t", user=(("last", "1"),))
    assert shared.reasons == (Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, 2)
    assert [question.query.filter.topic for question in hand.stores.questions] == ["t"]
    assert s.subscribe("$historyish/t", "$shareholders").reasons == (2, 2)  # topics like any other


def test_who_may_not_ask() -> None:
    rules = Rules()
    rules.no_past.append("secret")
    rules.no_receive.append("hidden")
    hand = RecallHand(access=rules)
    s = hand.durable("s")
    asked = ["$history/last=1/secret", "$history/last=1/hidden", "secret", "$history/last=1/t"]
    assert s.subscribe(*asked).reasons == (0x87, 0x87, 2, 2)


def test_history_takes_the_place_of_retained_messages() -> None:
    hand = RecallHand()
    hand.client("p").publish("t", b"retained", 1, retain=True)
    s = hand.durable("s")
    s.subscribe(ALL)
    assert s.take() == []
    s.subscribe("t")
    assert [packet.payload for packet in s.settle()] == [b"retained"]


# -- the seam --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [V5, V311])
def test_history_then_the_marker_then_what_is_live(version: int, qos: int, durable: bool) -> None:
    hand, s = recalled(ALL, qos, version, durable=durable)
    question = hand.stores.last()
    hand.live(past(3), past(4))
    question.give(past(1), past(2))
    question.give(past(3))
    hand.live(past(5))
    assert question.idle
    question.finish()
    hand.live(past(6))
    packets = s.settle()
    assert names(packets) == ["o1", "o2", "o3", "|", "o4", "o5", "o6"]
    assert {packet.qos for packet in packets} == {qos}
    assert not any(packet.retain for packet in packets)
    word = {"filter": ALL, "events": 3, "from": "1970-01-01T00:00:00.000007Z", "complete": True}
    assert marker(packets) == {**word, "stores": ["s1"], "hops": 2, "problem": ""}
    assert hand.rows("held") == hand.rows("queue") == 0
    assert hand.rows("recall") == durable


def test_a_live_copy_of_what_history_gave_does_not_come_again() -> None:
    hand, s = recalled()
    hand.stores.last().give(past(1), past(2))
    hand.live(past(1))
    hand.stores.last().finish()
    hand.live(past(2), past(3))
    assert names(s.settle()) == ["o1", "o2", "|", "o3"]


def test_after_a_minute_it_is_forgotten_and_nothing_is_left() -> None:
    hand, s = recalled()
    hand.stores.last().give(past(1))
    hand.stores.last().finish()
    s.settle()
    session = hand.session("s")
    assert hand.broker.sessions.deliveries.plain_qos(session, "t") is None
    assert hand.broker.sessions.deliveries.plain_qos(session, "u") == -1
    hand.wait(REMEMBER_US)
    assert session.past is None
    assert hand.broker.sessions.deliveries.plain_qos(session, "t") == 1
    assert hand.rows("recall") == 0
    hand.live(past(1))
    assert names(s.settle()) == ["o1"]  # the bound of the promise


def test_drivers_are_told_when_live_events_take_another_way() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    cleared: list[int] = []
    hand.broker.routes.cleared = lambda: cleared.append(1)
    s.subscribe("t")
    before = len(cleared)
    s.subscribe("t", user=(("last", "1"),))  # the same subscription, with history
    assert len(cleared) > before
    hand.stores.last().finish()
    before = len(cleared)
    hand.wait(REMEMBER_US)
    assert len(cleared) > before


def test_replayed_messages_say_when_they_were_published_and_which_they_are() -> None:
    hand, s = recalled()
    p = hand.client("p")
    p.publish("t", b"x", 1, user=(("own", "1"),), content_type="text/plain")
    (event,) = [item.event for item in hand.session("s").past.held.values()]  # type: ignore[union-attr]
    hand.stores.last().give(event, past(1))
    hand.stores.last().finish()
    p.publish("t", b"y", 1, user=(("own", "2"),))
    first, second, end, live = s.settle()
    assert first.properties.user == (
        ("own", "1"),
        ("published", "1970-01-01T00:16:40.000000Z"),
        ("event", str(event.id)),
    )
    assert first.properties.content_type == "text/plain"
    assert second.properties.user == (("published", "1970-01-01T00:16:39.000001Z"), ("event", "o.1.1"))
    assert end.properties.user == ()
    assert live.properties.user == (("own", "2"),)


def test_expiry_is_what_is_left_of_it() -> None:
    hand, s = recalled()
    gone, left = past(1, expires_us=START_US), past(2, expires_us=START_US + 5_000_000)
    hand.live(past(3, qos=0, expires_us=START_US + 1), past(4, expires_us=START_US + 1))
    hand.now += 1_000_000
    hand.stores.last().give(gone, left)
    hand.stores.last().finish()
    packets = s.settle()
    assert names(packets) == ["o2", "|"]
    assert packets[0].properties.message_expiry_s == 4
    assert marker(packets)["events"] == 1


def test_the_log_tells_the_story() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    effects = s.send(Subscribe(1, (Request(ALL, 1),)))
    (asked,) = records(effects, Kind.REQUESTED)
    assert (asked.client, asked.filter, asked.detail) == ("s", ALL, "since=0")
    (replayed,) = records(hand.stores.last().give(past(1)), Kind.REPLAYED)
    assert (replayed.client, replayed.topic, replayed.event, replayed.hops) == ("s", "t", "o.1.1", -1)
    hand.live(past(2), hops=3)
    effects = hand.stores.last().finish(Outcome(("s1", "s2"), 4, 0, False, "s2 went away"))
    (end,) = records(effects, Kind.RECALLED)
    assert (end.client, end.filter, end.peer, end.hops, end.count) == ("s", ALL, "s1, s2", 4, 1)
    assert end.detail == "s2 went away"
    (delivered,) = records(effects, Kind.DELIVERED)
    assert (delivered.event, delivered.hops) == ("o.1.2", 3)


def test_an_event_without_an_id_waits_and_is_delivered() -> None:
    hand, s = recalled(qos=0)
    hand.live(*(Event(EventId("o", 0, 0), "t", reliable=False, payload=b"n%d" % n, qos=0) for n in range(2)))
    assert s.take() == []
    hand.stores.last().finish()
    assert names(s.settle()) == ["|", "n0", "n1"]


def test_what_is_live_and_older_than_the_past_that_was_asked_for_comes_in_front_of_it() -> None:
    """Its turn is before the next of its lane. Of an origin that history says nothing about it comes behind the end."""
    hand, s = recalled(f"$history/since={START_US // 1_000_000 - 1}.000005/t")
    question = hand.stores.last()
    hand.live(past(3), past(4), past(1, origin="slow", at_us=9))
    question.give(past(5), past(6))
    hand.live(past(5))
    question.finish()
    hand.live(past(6), past(7))
    assert names(s.settle()) == ["o3", "o4", "o5", "o6", "|", "slow1", "o7"]


def test_a_plain_subscription_gets_it_all_the_same() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe("#")
    s.subscribe("$history/last=1/t")
    hand.live(past(3), past(4))
    hand.stores.last().give(past(5))
    hand.stores.last().finish()
    hand.live(past(5), past(6))
    assert names(s.settle()) == ["o3", "o4", "o5", "|", "o6"], "live ones that the store answered too late for"


def test_older_ids_are_remembered_by_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "GIVEN_MAX", 2)
    hand, s = recalled()
    hand.stores.last().give(*(past(n) for n in range(1, 7)), past(1, origin="x"))
    hand.stores.last().finish()
    assert len(hand.session("s").past.given) == 2  # type: ignore[union-attr]
    hand.live(*(past(n) for n in range(1, 8)), past(1, origin="x"), past(2, origin="x"))
    assert names(s.settle())[7:] == ["|", "o7", "x2"]


# -- several subscriptions -------------------------------------------------------------------------------------------


def test_others_go_on_at_once() -> None:
    hand, s = recalled()
    s.subscribe("u")
    hand.live(past(1), past(2, "u"))
    assert names(s.settle()) == ["o2"]
    hand.stores.last().finish()
    assert names(s.settle()) == ["|", "o1"]


def test_what_overlaps_is_held_once_and_delivered_with_the_highest_qos_and_every_id() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe(Request("#", 2), subscription_ids=(1,))
    s.subscribe(Request(ALL, 0), subscription_ids=(2,))
    hand.live(past(2), past(3), past(4))
    hand.stores.last().give(past(1), past(2))
    hand.stores.last().finish()
    assert [(x.payload, x.qos, sorted(x.properties.subscription_ids)) for x in s.settle() if x.topic == "t"] == [
        (b"o1", 0, [2]),  # of the past alone: what was asked for
        (b"o2", 2, [1, 2]),  # the one copy for both
        (b"o3", 2, [1, 2]),
        (b"o4", 2, [1, 2]),
    ]


def test_two_histories_under_way_share() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe("$history/since=0/t/#", "$history/since=0/t/a")
    wide, narrow = hand.stores.questions
    hand.live(past(3, "t/a"), past(4, "t/b"), past(5, "t/a"))
    wide.give(past(1, "t/a"), past(2, "t/b"))
    narrow.give(past(1, "t/a"), past(3, "t/a"))
    narrow.finish()
    wide.give(past(3, "t/a"))
    assert names(s.settle()) == ["o1", "o2", "o3", "|"]
    wide.finish()
    assert names(s.settle()) == ["|", "o4", "o5"]


def test_who_asks_again_begins_again() -> None:
    hand, s = recalled()
    first = hand.stores.last()
    first.give(past(1))
    hand.live(past(2))
    assert s.subscribe(ALL).reasons == (2,)
    assert first.cancelled
    second = hand.stores.last()
    assert second.query.after is None
    second.give(past(1))
    second.finish()
    hand.live(past(3))
    assert names(s.settle()) == ["o1", "o1", "|", "o2", "o3"]
    s.subscribe(ALL)
    hand.stores.last().give(past(1), past(2), past(3))
    hand.stores.last().finish()
    assert names(s.settle()) == ["o1", "o2", "o3", "|"]


def test_who_subscribes_without_history_goes_on_live() -> None:
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe("t", user=(("since", "0"),))
    hand.stores.last().give(past(1))
    hand.live(past(2))
    s.subscribe("t")
    assert hand.stores.last().cancelled
    hand.live(past(3))
    assert names(s.settle()) == ["o1", "o2", "o3"]


def test_no_local_holds_for_the_past() -> None:
    """[MQTT-3.8.3-3]"""
    hand = RecallHand()
    s = hand.durable("s")
    s.subscribe(Request(ALL, 1, no_local=True))
    s.subscribe(Request("#", 1))
    own = past(1, publisher="s")
    hand.live(own)
    hand.stores.last().give(own, past(2))
    hand.stores.last().finish()
    assert names(s.settle()) == ["o1", "o2", "|"]  # the echo that '#' wants is live, and waits for nothing


@pytest.mark.parametrize(
    ("from_us", "complete", "comes"),
    [(START_US, True, []), (0, False, []), (0, True, ["o3"])],
    ids=["before what is complete", "incomplete", "complete"],
)
@pytest.mark.parametrize("held", [False, True])
def test_what_the_answer_may_lack_does_not_come_behind_something_newer(
    from_us: int, complete: bool, comes: list[str], held: bool
) -> None:
    """A store that began in the middle has the later events of an origin, which sends the earlier ones again."""
    hand, s = recalled()
    question = hand.stores.last()
    question.give(past(5), past(6))
    if held:
        hand.live(past(3))
    question.finish(Outcome(("s1",), 1, from_us, complete, "" if complete else "some are missing"))
    if not held:
        hand.live(past(3))
    hand.live(past(7), past(1, origin="x"))
    assert names(s.settle()) == ["o5", "o6", "|", *comes, "o7", "x1"]


# -- origins that are away -------------------------------------------------------------------------------------------


def test_what_was_here_before_the_subscription_must_be_in_the_answer() -> None:
    """What comes later is held, and needs no store."""
    hand = RecallHand(limits=SessionLimits(queue_messages=3))
    hand.live(past(1), past(2))
    s = hand.durable("s")
    s.subscribe(ALL)
    hand.live(past(3))
    first = hand.stores.last()
    assert [number for number in (1, 2, 3) if first.needs(past(number))] == [1, 2]
    assert not first.needs(past(1, origin="x"))
    hand.live(*(past(number) for number in range(4, 8)))  # too many are held, and let go of
    first.give(past(1), past(2))
    first.finish()
    second = hand.stores.last()
    assert second is not first
    assert [number for number in range(1, 8) if second.needs(past(number))] == [3, 4, 5, 6, 7]
