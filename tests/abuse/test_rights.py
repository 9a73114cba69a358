"""Bad inputs 14, 15, 17, 18, 20, 21 and 22: asking for what one may not have, as whoever one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latecomer.runtime.users import hash_password, write_users
from tests.abuse.house import House, nothing_came
from tests.conformance.codec import NO_LOCAL, PUBACK, PUBREC, V5, V311, Hello, P, Will
from tests.conformance.conftest import unique

RULES = """
allow alice subscribe public/#
allow alice publish   public/#
allow alice all       answers/alice
deny  alice subscribe public/secret/#
allow bob   all       #
allow *     all       home/%u/#
allow *     all       device/%c/#
allow probe all       probe/#
allow *     all       mark/#
"""
PASSWORDS = {"alice": b"alice's password", "bob": b"bob's password", "probe": b"probe's password"}
PROBE: dict[str, Any] = {"user": "probe", "password": PASSWORDS["probe"]}
ALICE: dict[str, Any] = {"user": "alice", "password": PASSWORDS["alice"]}
BOB: dict[str, Any] = {"user": "bob", "password": PASSWORDS["bob"]}
BAD_ID, BAD_PASSWORD, FORBIDDEN, TAKEN, INVALID, TOO_OFTEN = 0x85, 0x86, 0x87, 0x8E, 0x8F, 0x9F
GUESSED = ("alice", "nobody", "../users", "alice\n", "a:b", "x" * 60_000)
FORBIDDEN_FILTERS = (
    *("#", "+/#", "+/secret/#", "public/+/#", "public/secret", "public/secret/x", "public/+", "other", "/public/x"),
    *("$SYS/#", "+/+/x", "home/bob/#", "home/+/x", "device/other/#"),
)


def prepare(folder: Path) -> dict[str, Any]:
    write_users(folder / "users", {name: hash_password(password) for name, password in PASSWORDS.items()})
    (folder / "rules").write_text(RULES, "utf-8")
    (folder / "rules").chmod(0o600)
    return {
        "access": {
            "anonymous": "deny",
            "users_file": folder / "users",
            "rules_file": folder / "rules",
            "failures": 5,
            "failure_forgiven_s": 600,
        },
    }


@pytest.mark.parametrize("prefix", ["", "$share/g/"], ids=["plain", "shared"])
def test_14_15_filters_that_reach_too_far(house: House, prefix: str) -> None:
    """A wildcard asks for no more than its topics could one by one, with a group in front of it or not."""
    alice, older, bob = house.join(**ALICE), house.join(V311, **ALICE), house.join(**BOB)
    with house.noticed("not_authorized"):
        reasons = alice.subscribe(*((prefix + text, 1) for text in FORBIDDEN_FILTERS))
    assert reasons == [FORBIDDEN] * len(FORBIDDEN_FILTERS)
    with house.noticed("not_authorized"):
        assert older.subscribe((prefix + "#", 0), (prefix + "public/+/#", 0)) == [0x80] * 2
    for topic in ("public/secret", "public/x", "other", "home/bob/x"):
        bob.publish(topic, b"not for alice")
    nothing_came(alice)
    nothing_came(older)
    assert alice.subscribe((prefix + "public/x/+", 1), (prefix + "home/alice/#", 1)) == [1, 1]


def test_15_shared_subscriptions_that_are_none(house: House) -> None:
    alice = house.join(**ALICE)
    names = ("$share", "$share/", "$share/g", "$share/g/")
    wrong = (*names, "$share//public/x", "$share/+/public/x", "$share/a#/public/x")
    with house.noticed("topic_filter_invalid"):
        assert alice.subscribe(*((text, 0) for text in wrong)) == [INVALID] * len(wrong)
    with house.noticed("protocol_error", "No Local"):
        alice.send(alice.subscription([("$share/g/public/x", NO_LOCAL)], 9))
        alice.expect_end(0x82)


def test_14_a_content_filter_changes_no_right(house: House) -> None:
    alice, older, bob = house.join(**ALICE), house.join(V311, **ALICE), house.join(**BOB)
    content = ((P.USER, ("filter", "x > 1")),)
    with house.noticed("not_authorized"):
        assert alice.subscribe(("public/secret/x", 0), ("#", 0), properties=content) == [FORBIDDEN] * 2
    with house.noticed("not_authorized"):
        assert older.subscribe(("public/secret/x?x > 1", 0), ("#?x > 1", 0)) == [0x80] * 2
    bob.publish("public/secret/x", b'{"x": 5}')
    nothing_came(alice)
    nothing_came(older)


def test_14_retained_messages(house: House) -> None:
    """What was retained where one may not read is not read, whatever the filter is."""
    alice, bob = house.join(**ALICE), house.join(**BOB)
    for topic in ("public/secret/kept", "kept", "home/bob/kept"):
        bob.publish(topic, b"kept", retain=True)
    for text in ("#", "public/#", "public/secret/kept", "+", "home/#", "$share/g/kept"):
        assert alice.subscribe((text, 1)) == [FORBIDDEN]
    nothing_came(alice)
    for topic in ("public/secret/kept", "kept", "home/bob/kept"):
        bob.publish(topic, b"", retain=True)


@pytest.mark.parametrize("topic", ["other", "home/bob/x", "$SYS/broker/uptime", "$control/x", "$share/g/public/x"])
def test_14_17_publishing_where_one_may_not(house: House, topic: str) -> None:
    bob, alice, older = house.join(**BOB), house.join(**ALICE), house.join(V311, **ALICE)
    bob.subscribe(("#", 0), ("$SYS/#", 0))
    bob.leftovers()
    for qos, answer in ((1, PUBACK), (2, PUBREC)):
        with house.noticed("not_authorized", "you may not publish to this topic"):
            alice.send(alice.publication(topic, b"forged", qos=qos, packet_id=5))
            alice.expect(answer, reason=FORBIDDEN, packet_id=5)
    with house.noticed("not_authorized", times=2):
        alice.send(alice.publication(topic, b"forged", retain=True))
        alice.ping()
        older.publish(topic, b"forged")  # 3.1.1 cannot be told: acknowledged, and not taken [MQTT-3.3.5-2]
    assert not [found for found in bob.leftovers() if found.payload == b"forged"]


def test_17_wildcards_leave_out_what_is_the_brokers_own(house: House) -> None:
    bob = house.join(**BOB)
    with house.noticed("not_authorized"):
        assert bob.subscribe(("#", 0), ("$control/#", 0), ("+/broker/#", 0)) == [0, FORBIDDEN, 0]
    assert not [found for found in bob.leftovers() if found.topic.startswith("$")]


def test_17_a_response_topic(house: House) -> None:
    """Nobody makes others answer where it may neither listen nor speak."""
    alice, bob = house.join(**ALICE), house.join(**BOB)
    bob.subscribe(("public/#", 0))
    for topic in ("$SYS/x", "other", "home/bob/x"):
        with house.noticed("not_authorized", "you may not have answers sent to this topic"):
            answer = alice.publish("public/x", b"forged", properties=((P.RESPONSE_TOPIC, topic),))
            assert answer is not None
            assert answer.reason == FORBIDDEN
    nothing_came(bob)
    alice.publish("public/x", b"x", properties=((P.RESPONSE_TOPIC, "answers/alice"),))
    bob.take(payload=b"x")


def test_17_a_topic_alias(house: House) -> None:
    """An alias is another word for the topic, and no other right."""
    alice, bob = house.join(**ALICE), house.join(**BOB)
    bob.subscribe(("#", 0))
    for topic in ("other", ""):
        answer = alice.publish(topic, b"forged", properties=((P.TOPIC_ALIAS, 1),))
        assert answer is not None
        assert answer.reason == FORBIDDEN
    nothing_came(bob)


@pytest.mark.parametrize("name", ["a/b", "+", "#", "a+", "$SYS", "x/#"])
def test_18_names_in_patterns(house: House, name: str) -> None:
    """A client id that would not stay plain text in a rule is no client id here."""
    with house.noticed("client_identifier_not_valid", "and access rules use it"):
        client, answer = house.knock(client_id=name, **ALICE)
        assert answer.reason == BAD_ID
        client.expect_closed()
    with house.noticed("client_identifier_not_valid"):
        assert house.knock(V311, client_id=name, **ALICE)[1].reason == 2


@pytest.mark.parametrize("will", ["other", "public/secret/../x", "$SYS/x", "home/bob/x"])
def test_20_a_will(house: House, will: str) -> None:
    bob = house.join(**BOB)
    bob.subscribe(("#", 0))
    if will.startswith("public"):
        house.join(**ALICE, will=Will(will, b"allowed")).close()
        bob.take(payload=b"allowed")
        return
    with house.noticed("not_authorized", "will: you may not publish to this topic"):
        client, answer = house.knock(**ALICE, will=Will(will, b"forged"))
        assert answer.reason == FORBIDDEN
        client.expect_closed()
    with house.noticed("not_authorized"):
        assert house.knock(V311, **ALICE, will=Will(will, b"forged"))[1].reason == 5
    nothing_came(bob)


def test_21_take_over_by_another_user(house: House) -> None:
    name = unique("c")
    alice = house.join(client_id=name, **ALICE)
    with house.noticed("client_identifier_not_valid", "this client id belongs to somebody else"):
        client, answer = house.knock(client_id=name, **BOB)
        assert answer.reason == BAD_ID
        client.expect_closed()
    assert house.knock(V311, client_id=name, **BOB)[1].reason == 2
    nothing_came(alice)


def test_21_take_over_of_a_session_that_waits(house: House) -> None:
    """Nor does anybody else get what waits for a client that is away."""
    name, lasting = unique("c"), ((P.SESSION_EXPIRY, 600),)
    away, bob = house.join(client_id=name, properties=lasting, **ALICE), house.join(**BOB)
    away.subscribe(("public/x", 1))
    away.disconnect()
    bob.publish("public/x", b"for alice")
    assert house.knock(client_id=name, clean=False, **BOB)[1].reason == BAD_ID
    assert house.knock(client_id=name, clean=True, **BOB)[1].reason == BAD_ID
    house.join(client_id=name, clean=False, **ALICE).take(payload=b"for alice")


@pytest.mark.parametrize("version", [V5, V311])
def test_21_take_over_by_the_same_user(house: House, version: int) -> None:
    name = unique("c")
    old = house.join(version, client_id=name, **ALICE)
    with house.noticed("session_taken_over"):
        house.join(version, client_id=name, **ALICE).ping()
        old.expect_end(TAKEN)


def test_22_no_name_and_half_a_name(house: House) -> None:
    with house.noticed("not_authorized", "this broker wants a user name and a password"):
        assert house.knock()[1].reason == FORBIDDEN
    with house.noticed("bad_user_name_or_password"):
        assert house.knock(password=b"alice's password", source="127.0.0.20")[1].reason == BAD_PASSWORD
    with house.noticed("bad_user_name_or_password"):
        assert house.knock(user="alice", source="127.0.0.20")[1].reason == BAD_PASSWORD


@pytest.mark.parametrize("number", range(len(GUESSED)))
def test_22_guessing(house: House, number: int) -> None:
    """A user who exists and one who does not get the same answers; from elsewhere alice is let in all the while."""
    name = GUESSED[number]
    source = f"127.0.1.{number + 1}"
    with house.noticed("bad_user_name_or_password", times=5):
        wrong = [house.knock(user=name, password=b"guess", source=source)[1] for _ in range(5)]
    assert {(answer.reason, answer.get(P.REASON_STRING)) for answer in wrong} == {
        (BAD_PASSWORD, wrong[0].get(P.REASON_STRING))
    }
    with house.noticed("connection_rate_exceeded", times=2):
        assert house.knock(user=name, password=b"guess", source=source)[1].reason == TOO_OFTEN
        assert house.knock(source=source, **ALICE)[1].reason == TOO_OFTEN
    assert house.knock(V311, user=name, password=b"guess", source=source)[1].reason == 3
    assert house.knock(source="127.0.2.1", **ALICE)[1].reason == 0


def test_22_a_hundred_guesses_at_once(house: House) -> None:
    """Passwords cost time on purpose; others do not wait for it (the probe is asked afterwards), and none is let in."""
    guessing = [house.raw(source=f"127.0.3.{number + 1}") for number in range(100)]
    for client in guessing:
        client.send(Hello(client_id=unique("c"), user="alice", password=b"guess").encode())
    house.join(**BOB, source="127.0.4.1").ping()
    answers = {client.receive().reason for client in guessing}
    assert answers <= {BAD_PASSWORD, 0x89}
