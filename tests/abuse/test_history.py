"""Bad inputs 8, 13, 16, 17 and 19 for the past: asking for what one may not have, in words that are none, and not
reading the answer. The client's broker is one, the store is at another whose rules are stricter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latecomer.runtime.users import hash_password, write_users
from tests.abuse.house import LONG, House, MiB, nothing_came, running, settled
from tests.conformance.codec import PUBACK, PUBLISH, PUBREC, SUBACK, V5, V311, P, Packet, Will
from tests.conformance.conftest import free_port, unique
from tests.conformance.raw import Client

SECRET = "a secret of some length"
PORT = free_port()
PASSWORDS = {"alice": b"alice's password", "bob": b"bob's password", "probe": b"probe's password"}
PROBE: dict[str, Any] = {"user": "probe", "password": PASSWORDS["probe"]}
ALICE: dict[str, Any] = {"user": "alice", "password": PASSWORDS["alice"]}
BOB: dict[str, Any] = {"user": "bob", "password": PASSWORDS["bob"]}
FORBIDDEN, INVALID, TOO_MANY, NO_SHARE = 0x87, 0x8F, 0x97, 0x9E
END = "$history/end"
ALWAYS = "allow bob all #\nallow probe all #\nallow * all mark/#\nallow * all fence/#\n"
HERE = (
    ALWAYS
    + """
allow alice subscribe public/#
allow alice subscribe diary/#
deny  alice subscribe public/secret/#
deny  alice history   diary/old/#
allow alice subscribe lax/#
"""
)
THERE = ALWAYS + "allow alice history public/#\nallow alice history diary/#\nallow alice history lax/open/#\n"
TAKEN = "deny alice subscribe public/revoked/#\n"
PAST_TAKEN = "deny alice history public/revoked/#\n"


def prepare(folder: Path, name: str = "a", rules: str = HERE) -> dict[str, Any]:
    write_users(folder / "users", {name: hash_password(password) for name, password in PASSWORDS.items()})
    (folder / "rules").write_text(rules, "utf-8")
    (folder / "rules").chmod(0o600)
    access = {"anonymous": "deny", "users_file": folder / "users", "rules_file": folder / "rules"}
    settings: dict[str, Any] = {
        "broker": {"id": name, "network": "ours"},
        "access": access,
        "link": {"port": PORT, "secret": SECRET},
        "link.neighbours": [{"id": "s"}],
        "limits": {"stall_ms": 1500},
    }
    if name == "s":
        settings["link"]["port"] = 0
        settings["link.neighbours"] = [{"id": "a", "host": "127.0.0.1", "port": PORT}]
        settings["store"] = {"topics": ["public/#", "diary/#", "lax/#"], "reserve": "1MB"}
        settings["core"] = {"response_events": 20}
    return settings


@pytest.fixture(scope="module", autouse=True)
def store(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The broker that keeps the past, once everybody knows of it."""
    folder = tmp_path_factory.mktemp("store")
    with running(folder, **prepare(folder, "s", THERE)) as found:
        settled(lambda: "the store answers for lax/#" in found.log, "the store answers")
        settled(lambda: recalled(house.join(**BOB), "$history/last=1/lax/#")[1]["stores"] == ["s"], "a knows of it")
        yield found


def marker(found: Packet) -> dict[str, Any]:
    assert found.topic == END, f"{found} instead of the end of history"
    told: dict[str, Any] = json.loads(found.payload)
    return told


def history(client: Client) -> tuple[list[Packet], dict[str, Any]]:
    """What comes up to the end of one history."""
    events = []
    while (found := client.take()).topic != END:
        events.append(found)
    return events, marker(found)


def recalled(client: Client, text: str, *wish: tuple[str, str]) -> tuple[list[bytes], dict[str, Any]]:
    """The payloads of a history, and its end."""
    assert client.subscribe((text, 1), properties=[(P.USER, pair) for pair in wish]) == [1]
    events, end = history(client)
    return [found.payload for found in events], end


def write(house: House, topic: str, *payloads: bytes) -> None:
    """Bob publishes for the store."""
    bob = house.join(**BOB)
    for start in range(0, len(payloads), 500):
        part = payloads[start : start + 500]
        bob.send(b"".join(bob.publication(topic, text, qos=1, packet_id=n + 1) for n, text in enumerate(part)))
        for _ in part:
            assert bob.expect(PUBACK).reason == 0
    bob.close()


def rule(house: House, text: str) -> None:
    told = "users and rules were read again"
    before = house.log.count(told)
    (house.folder / "rules").write_text(text, "utf-8")
    settled(lambda: house.log.count(told) > before, "the rules are read")


# -- 16: rights


WIDER = (
    *("#", "+/#", "public/#", "public/+/x", "+/secret/x", "public/secret/#", "public/secret/x", "diary/#"),
    *("diary/+/x", "diary/old/x", "other", "$SYS/#"),
)


@pytest.mark.parametrize("text", WIDER)
def test_16_the_past_of_forbidden_topics(house: House, text: str) -> None:
    """By user property, by name, with a content filter: a filter that reaches beyond one's rights is refused."""
    write(house, "public/secret/x", b"hidden")
    write(house, "diary/old/x", b"hidden")
    alice, older = house.join(**ALICE), house.join(V311, **ALICE)
    since = ((P.USER, ("since", "-1h")),)
    with house.noticed("not_authorized", times=3):
        assert alice.subscribe((text, 1), properties=since) == [FORBIDDEN]
        assert alice.subscribe((text, 1), properties=(*since, (P.USER, ("filter", "x > 1")))) == [FORBIDDEN]
        assert alice.subscribe((f"$history/last=5/{text}", 1)) == [FORBIDDEN]
    with house.noticed("not_authorized", times=2):
        assert older.subscribe((f"$history/since=-1h/{text}", 1)) == [0x80]
        assert older.subscribe((f"$history/since=-1h/{text}?x > 1", 1)) == [0x80]
    nothing_came(alice)
    nothing_came(older)


def test_16_live_is_not_the_past(house: House) -> None:
    """Who may listen to a topic and not ask for its past hears what comes, and nothing that was."""
    write(house, "diary/old/x", b"past")
    alice = house.join(**ALICE)
    assert alice.subscribe(("diary/old/x", 1)) == [1]
    assert alice.subscribe(("$history/last=5/diary/old/x", 1)) == [FORBIDDEN]
    assert recalled(alice, "$history/last=5/diary/new/x")[1]["events"] == 0
    write(house, "diary/old/x", b"live")
    assert alice.take().payload == b"live"
    nothing_came(alice)


@pytest.mark.parametrize("text", ["lax/secret/x", "lax/#", "lax/+/x", "lax/secret/#"])
def test_16_a_broker_with_laxer_rules(house: House, text: str) -> None:
    """The client's broker lets it ask, the store does not: the answer is that of a topic that nobody ever used."""
    write(house, "lax/secret/x", *(b"hidden %d" % number for number in range(50)))
    write(house, "lax/open/x", b"seen")
    alice = house.join(**ALICE)
    assert recalled(alice, "$history/last=1/lax/open/x")[0] == [b"seen"]
    payloads, end = recalled(alice, f"$history/since=2020-01-01/{text}")
    nothing, empty = recalled(alice, "$history/since=2020-01-01/lax/never/x")
    assert payloads == nothing == []
    assert {**end, "filter": ""} == {**empty, "filter": ""}
    assert recalled(house.join(**BOB), f"$history/since=2020-01-01/{text}")[0]
    nothing_came(alice)


# -- 17: names of the broker's own


@pytest.mark.parametrize("topic", [END, "$history/x", "$history/since=-1h/public/x", "$history"])
def test_17_publishing_to_history(house: House, topic: str) -> None:
    """Nobody forges the end of history, also not by a will, or as the place for answers."""
    bob, alice = house.join(**BOB), house.join(**ALICE)
    recalled(bob, "$history/last=1/public/#")
    for qos, answer in ((1, PUBACK), (2, PUBREC)):
        with house.noticed("not_authorized"):
            bob.send(bob.publication(topic, b"forged", qos=qos, packet_id=77))
            bob.expect(answer, reason=FORBIDDEN, packet_id=77)
    with house.noticed("not_authorized", times=2):
        bob.send(bob.publication(topic, b"forged", retain=True))
        bob.ping()
        house.join(V311, **BOB).publish(topic, b"forged")
    with house.noticed("not_authorized"):
        answer_ = bob.publish("public/x", b"forged", properties=((P.RESPONSE_TOPIC, topic),))
        assert answer_ is not None
        assert answer_.reason == FORBIDDEN
    for version, reason in ((V5, FORBIDDEN), (V311, 5)):
        with house.noticed("not_authorized"):
            assert house.knock(version, **BOB, will=Will(topic, b"forged"))[1].reason == reason
    nothing_came(bob)
    nothing_came(alice)


def test_17_wildcards_and_the_end_of_history(house: House) -> None:
    """The end of history is for who asked, once; `#` does not match it, and it cannot be subscribed to."""
    bob, witness = house.join(**BOB), house.join(**BOB)
    assert witness.subscribe(("#", 0), ("+/end", 0)) == [0, 0]
    assert bob.subscribe(("#", 0), ("+/end", 0)) == [0, 0]
    recalled(bob, "$history/last=3/public/end")
    for client in (witness, bob):
        assert not [found for found in client.leftovers() if found.topic.startswith("$")]
    with house.noticed("topic_filter_invalid"):
        assert bob.subscribe((END, 1), ("$history/#", 1), ("$history/+", 1)) == [INVALID] * 3


# -- words that are none


WRONG: dict[str, str] = {
    "$history": "$history/options/filter",
    "$history/": "$history/options/filter",
    "$history//": "$history/options/filter",
    "$history//public/x": "is no option of history",
    "$history/since=-1h": "$history/options/filter",
    "$history/since=-1h/": "$history/options/filter",
    "$history/since=tomorrow/public/x": "since: 'tomorrow' is not a time",
    "$history/since=1h/public/x": "is not a time",
    "$history/since=-1y/public/x": "is not a time",
    "$history/since=2026-02-30/public/x": "there is no time",
    "$history/since=/public/x": "is no option of history",
    "$history/since/public/x": "is no option of history",
    "$history/since=-1h,since=-2h/public/x": "since is said twice",
    "$history/since=-1h,/public/x": "is no option of history",
    "$history/since=-1h,until=-2h/public/x": "since must not lie after until",
    "$history/until=1970-01-01/public/x": "until must lie after 1970",
    "$history/since=nan/public/x": "is not a time",
    "$history/since=1e9/public/x": "is not a time",
    "$history/last=-1/public/x": "last must be a number from 1 to 1,000,000",
    "$history/last=0/public/x": "last must be a number from 1 to 1,000,000",
    "$history/last=99999999/public/x": "last must be a number from 1 to 1,000,000",
    "$history/last=\u0663/public/x": "last must be a number from 1 to 1,000,000",
    "$history/first=5/public/x": "is no option of history",
    f"$history/since={'9' * 60_000}/public/x": "is not a time",
    f"$history/{'last=5,' * 9_000}/public/x": "last is said twice",
    "$history/last=5/public/#/x": "",
    "$history/last=5/$history/last=5/public/x": "stand alone and in front",
    "$history/last=5/$share/g/public/x": "stand alone and in front",
    "$share/g/$history/last=5/public/x": "stand alone and in front",
}
PROPERTIES: dict[str, tuple[list[tuple[str, str]], str]] = {
    "a word": ([("since", "tomorrow")], "since: 'tomorrow' is not a time"),
    "nothing": ([("since", "")], "the user property since is empty"),
    "twice": ([("last", "5"), ("last", "6")], "the user property last is there twice"),
    "exchanged": ([("since", "-1h"), ("until", "-2h")], "since must not lie after until"),
    "negative": ([("last", "-1")], "last must be a number"),
    "many": ([("last", "99999999")], "last must be a number"),
    "long": ([("since", "-" + "1" * 60_000 + "h")], "is not a time"),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_16_words_that_are_none(house: House, text: str) -> None:
    """Each is refused in a sentence, which is short, and the rest of the packet is not concerned."""
    bob, older = house.join(**BOB), house.join(V311, **BOB)
    with house.noticed("topic_filter_invalid", times=1):
        bob.send(bob.subscription([(text, 1), ("public/fine", 1)], 9))
        found = bob.expect(SUBACK, packet_id=9)
        assert found.reasons == [INVALID, 1]
    sentence = found.get(P.REASON_STRING)
    assert isinstance(sentence, str)
    assert WRONG[text] in sentence
    assert len(sentence) < 400
    with house.noticed("topic_filter_invalid"):
        assert older.subscribe((text, 1), ("public/fine", 1)) == [0x80, 1]
    assert bob.unsubscribe(text, "public/fine") == [0x11, 0]
    nothing_came(bob)
    nothing_came(older)


@pytest.mark.parametrize(("wish", "why"), PROPERTIES.values(), ids=PROPERTIES)
def test_16_properties_that_are_none(house: House, wish: list[tuple[str, str]], why: str) -> None:
    """User properties are for all filters of a packet, and so is the refusal."""
    bob = house.join(**BOB)
    with house.noticed("topic_filter_invalid"):
        bob.send(bob.subscription([("public/x", 1), ("lax/x", 1)], 9, [(P.USER, pair) for pair in wish]))
        found = bob.expect(SUBACK, packet_id=9)
    assert found.reasons == [INVALID] * 2
    sentence = found.get(P.REASON_STRING)
    assert isinstance(sentence, str)
    assert why in sentence
    nothing_came(bob)


def test_16_a_shared_past(house: House) -> None:
    """A group has no past: which of its members should have it?"""
    bob = house.join(**BOB)
    since = ((P.USER, ("since", "-1h")),)
    assert bob.subscribe(("$share/g/public/x", 1), properties=since) == [NO_SHARE]
    nothing_came(bob)


# -- 19: rights that are taken away meanwhile


@pytest.mark.parametrize("where", ["subscribe here", "history here", "history there"])
def test_19_in_the_middle_of_a_replay(house: House, store: House, where: str) -> None:
    """What was sent was sent. Nothing more comes; who may still listen is told that history has ended."""
    topic = f"public/revoked/{unique('x')}"
    write(house, topic, *(b"%d" % number for number in range(600)))
    place, before = (store, THERE) if where == "history there" else (house, HERE)
    alice = house.join(**ALICE, properties=((P.RECEIVE_MAXIMUM, 1),))
    assert alice.subscribe((f"$history/since=2020-01-01/{topic}", 1)) == [1]
    first = alice.expect(PUBLISH, payload=b"0")
    rule(place, before + (TAKEN if where == "subscribe here" else PAST_TAKEN))
    alice.acknowledge(PUBACK, first.packet_id)
    if where == "subscribe here":
        nothing_came(alice)
        assert alice.unsubscribe(f"$history/since=2020-01-01/{topic}") == [0x11]
    else:
        events, end = history(alice)
        assert [found.payload for found in events] == [b"%d" % number for number in range(1, len(events) + 1)]
        assert len(events) < 400  # what was on its way already
        told = end["problem"] == "you may no longer ask for the past of these topics"
        assert told == (place is house)  # the store gives no hint
    rule(place, before)
    assert len(recalled(house.join(**ALICE), f"$history/since=2020-01-01/{topic}")[0]) == 600


# -- 8 and 13: who asks for everything, and reads nothing


@pytest.fixture(scope="module")
def plenty(house: House, store: House) -> str:
    """A topic with more than anybody wants to wait for."""
    topic = "public/plenty"
    for _ in range(40 if LONG else 8):
        write(house, topic, *([b"x" * 4000] * 500))
    return topic


def others_are_answered(house: House) -> None:
    write(house, "lax/others", b"news")
    assert recalled(house.join(**BOB), "$history/last=1/lax/others")[0] == [b"news"]


@pytest.mark.parametrize(("kind", "qos"), [("deaf", 0), ("deaf", 1), ("mute", 1)])
def test_13_many_who_ask_for_everything_and_do_not_read(
    house: House, store: House, plenty: str, kind: str, qos: int
) -> None:
    """Each is given as much as it takes: neither its broker nor the store holds the rest for it."""
    memory = house.rss(), store.rss()
    crowd = [house.join(**BOB, properties=((P.RECEIVE_MAXIMUM, 1),)) for _ in range(1500 if LONG else 40)]
    for client in crowd:
        client.send(client.subscription([(f"$history/since=2020-01-01/{plenty}", qos)], 9))
    if kind == "mute":
        for client in crowd:
            client.expect(SUBACK, reasons=[qos])
            client.expect(PUBLISH, topic=plenty)
    others_are_answered(house)
    if kind == "deaf" and qos == 0:
        settled(lambda: "it read nothing for 1.5 s" in house.log, "they are sent away")
    assert house.rss() - memory[0] < (1000 if LONG else 150) * MiB
    assert store.rss() - memory[1] < 100 * MiB
    others_are_answered(house)


def test_08_one_client_that_asks_a_thousand_times(house: House, store: House, plenty: str) -> None:
    """So many histories at once are refused; those that are not cost others nothing."""
    memory = house.rss(), store.rss()
    greedy = house.join(**BOB, properties=((P.RECEIVE_MAXIMUM, 1),))
    texts = [f"$history/since={number}/{plenty}" for number in range(1, 901)]
    reasons = []
    for start in range(0, 900, 100):
        reasons += greedy.subscribe(*((text, 1) for text in texts[start : start + 100]))
    assert reasons.count(TOO_MANY) > 800
    assert reasons[0] == 1
    others_are_answered(house)
    assert house.rss() - memory[0] < 100 * MiB
    assert store.rss() - memory[1] < 100 * MiB
    for _ in range(20):
        greedy.take(topic=plenty)
