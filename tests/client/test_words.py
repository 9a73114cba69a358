"""The words of clients: what they say in SUBSCRIBE and CONNECT, and how they read what brokers add."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from latecomer.client.addresses import Address, parse_address, parse_references, recognised
from latecomer.client.wanted import Wanted
from latecomer.client.words import (
    END_TOPIC,
    End,
    Message,
    Subscription,
    Welcome,
    device_word,
    heard,
    read_notes,
    reason_words,
    subscribe_words,
    when,
)
from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.when import Options

NOW_US = 1_794_808_800_000_000
PUBLISHED = "2026-11-16T06:00:00.000001Z"
PUBLISHED_US = 1_794_808_800_000_001


def message(*user: tuple[str, str], topic: str = "a/b", payload: bytes = b"x") -> Message:
    return Message(topic=topic, payload=payload, user=user)


def test_what_is_subscribed_to_as_user_properties() -> None:
    wanted = Subscription(topic="a/#", where="v > 3", since="-1h", until="-1m", last=9)
    assert subscribe_words(wanted) == [("since", "-1h"), ("until", "-1m"), ("last", "9"), ("filter", "v > 3")]
    assert subscribe_words(wanted, past=False) == [("filter", "v > 3")]
    assert subscribe_words(Subscription(topic="a/#")) == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("-15m", "-15m"),
        (timedelta(minutes=15), "-900s"),
        (timedelta(milliseconds=1), "-1s"),
        (datetime(2026, 11, 16, 7, tzinfo=timezone(timedelta(hours=1))), "2026-11-16T06:00:00.000000Z"),
        (datetime(1960, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000000Z"),
        (1_794_808_800.25, "2026-11-16T06:00:00.250000Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        ("", ""),
    ],
)
def test_an_instant_in_many_ways(said: str | timedelta | datetime | float, text: str) -> None:
    assert when(said) == text
    Subscription(topic="a", since=text).check(NOW_US)


@pytest.mark.parametrize("said", [datetime(2026, 11, 16), timedelta(seconds=-5)])
def test_an_instant_that_is_none(said: datetime | timedelta) -> None:
    with pytest.raises(SettingsError, match=r"time zone|future"):
        when(said)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Subscription(topic="a/#/b"), "#"),
        (Subscription(topic="a", where="v >"), "v >"),
        (Subscription(topic="a", since="yesterday"), "since"),
        (Subscription(topic="a", since="-1m", until="-1h"), "since"),
        (Subscription(topic="a", last=-1), "last"),
        (Subscription(topic="a", qos=3), "qos"),
        (Subscription(topic="a", identifier=-1), "identifier"),
        (Subscription(topic="$share/g/a", since="-1h"), "shared"),
    ],
)
def test_what_no_broker_understands_is_not_sent(wrong: Subscription, why: str) -> None:
    with pytest.raises((SettingsError, FilterError), match=why):
        wrong.check(NOW_US)


def test_subscriptions_on_the_device() -> None:
    assert device_word(Subscription(topic="news/#", since="-1h")) == "1 news/#"
    options = Subscription(topic="a/+", qos=2, no_local=True, retain_as_published=True, identifier=7)
    assert device_word(options) == "2,no-local,retain-as-published,id=7 a/+"
    assert device_word(Subscription(topic="cars/#", qos=0, where="v > 3")) == "0,content cars/# ? v > 3"
    assert device_word(Subscription(topic="a ? b")) == "1 a ? b"
    assert device_word(Subscription(topic="a ? b", where="v > 3")) == ""


def test_the_past_and_the_present_and_what_is_late() -> None:
    live = heard(message(("own", "1")))
    assert isinstance(live, Message)
    assert (live.past, live.late, live.published, live.user) == (False, False, None, (("own", "1"),))
    past = heard(message(("own", "1"), ("published", PUBLISHED), ("event", "b1.1#7")))
    assert isinstance(past, Message)
    assert (past.past, past.late, past.event, past.published_us) == (True, False, "b1.1#7", PUBLISHED_US)
    assert past.published == datetime(2026, 11, 16, 6, 0, 0, 1, tzinfo=UTC)
    assert past.user == (("own", "1"),)
    late = heard(message(("late", PUBLISHED)))
    assert isinstance(late, Message)
    assert (late.past, late.late, late.published_us, late.user) == (False, True, PUBLISHED_US, ())
    both = heard(message(("published", PUBLISHED), ("event", "b1.1#7"), ("late", PUBLISHED)))
    assert isinstance(both, Message)
    assert (both.past, both.late, both.event, both.user) == (True, True, "b1.1#7", ())


@pytest.mark.parametrize(
    "user",
    [
        (("published", "soon"), ("event", "e")),
        (("event", "e"), ("published", PUBLISHED)),
        (("published", PUBLISHED), ("event", "e"), ("own", "1")),
        (("late", "yes"),),
        (("late", "2026-02-30T00:00:00Z"),),
    ],
)
def test_what_only_looks_like_the_brokers_words(user: tuple[tuple[str, str], ...]) -> None:
    assert heard(message(*user)) == message(*user)


def test_the_end_of_a_history() -> None:
    told = {"filter": "a/#", "events": 2, "from": PUBLISHED, "complete": False, "stores": ["b2"], "hops": 1}
    end = heard(message(topic=END_TOPIC, payload=json.dumps({**told, "problem": "no store keeps all"}).encode()))
    assert end == End("a/#", 2, PUBLISHED, False, ("b2",), 1, "no store keeps all")
    assert end.incomplete(Options(since="-1h"), NOW_US) == "the history is incomplete: no store keeps all"
    assert end.summary() == "2 events from b2, 1 hop away"
    broken = heard(message(topic=END_TOPIC, payload=b"\xff"))
    assert isinstance(broken, End)
    assert (broken.complete, "no such word" in broken.problem) == (False, True)


def test_reasons_in_words() -> None:
    assert reason_words(0x88) == "server unavailable (0x88)"
    assert reason_words(0x9C, "b2 is nearer") == "use another server (0x9C: b2 is nearer)"
    assert "does not know" in reason_words(0xFE)


def test_notes_without_anything() -> None:
    assert read_notes(()).own == ()


# --- addresses ---


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", Address("localhost", 1883)),
        ("b1=localhost:1884", Address("localhost", 1884, "b1")),
        ("[::1]:1885", Address("::1", 1885)),
        ("b2=[::1]", Address("::1", 1883, "b2")),
        ("::1", Address("::1", 1883)),
        ("broker_1.example.", Address("broker_1.example.", 1883)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)).is_at(address)


def test_references() -> None:
    text = "b2.example:1884 [::1 10.0.0.7  b2.example:1884 host:0 mqtt://x"
    assert parse_references(text, 8883) == [Address("b2.example", 1884), Address("10.0.0.7", 8883)]
    assert len(parse_references(" ".join(f"h{number}" for number in range(99)), 1883)) == 16


def test_references_under_the_names_that_are_known() -> None:
    given = (Address("localhost", 1883, "b1"), Address("localhost", 1884, "b2"))
    places = [Address("LOCALHOST", 1884), Address("b1", 8883), Address("elsewhere", 1883)]
    assert recognised(places, given) == [given[1], given[0], places[2]]


# --- what is remembered ---


def fresh(**words: str) -> Welcome:
    return Welcome(address="x", user=tuple(words.items()))


def test_a_session_that_is_there_has_everything() -> None:
    wanted, one, two = Wanted(), Subscription(topic="a"), Subscription(topic="b", since="-1h")
    for each in (one, two):
        wanted.want(each)
        wanted.granted(each)
    assert wanted.welcomed(Welcome(address="x", session_present=True)).subscribe == ()
    assert wanted.device_words() == ["1 a", "1 b"]
    # A new session has nothing; one that is restored lacks the history that was not over.
    assert wanted.welcomed(fresh(session="restored")).subscribe == (two,)
    assert wanted.device_words() == ["1 a"]
    assert wanted.welcomed(fresh()).subscribe == (one, two)
    assert wanted.asks_for_past(two)
    wanted.past_over("b")
    assert not wanted.asks_for_past(two)


def test_there_is_an_end_to_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.client.wanted.REMEMBERED_MAX", 2)
    wanted = Wanted()
    for topic in ("a", "b", "a"):
        wanted.want(Subscription(topic=topic))
    with pytest.raises(SettingsError, match="already"):
        wanted.want(Subscription(topic="c"))


def test_what_is_not_wanted_any_more() -> None:
    wanted, one = Wanted(), Subscription(topic="a")
    wanted.want(one)
    wanted.granted(one)
    wanted.unwant("a")
    assert wanted.device_words() == []
    assert wanted.welcomed(Welcome(address="x", session_present=True)).unsubscribe == ("a",)
    wanted.left("a")
    assert wanted.welcomed(Welcome(address="x", session_present=True)).unsubscribe == ()
    wanted.unwant("a")
    wanted.want(one)  # after all
    due = wanted.welcomed(fresh())
    assert (due.subscribe, due.unsubscribe) == ((one,), ())
    wanted.refused(one)
    assert wanted.kept == {}
