"""Chapter 3.3: PUBLISH and its properties, aliases and subscription identifiers."""

from __future__ import annotations

import time

import pytest

from tests.conformance.codec import PUBACK, PUBLISH, V5, P, Value
from tests.conformance.conftest import Join, unique
from tests.conformance.statement import both, v5, v311

PAYLOADS = [b"", b"\0", bytes(range(256)), b"x" * 100_000]


@v5("MQTT-3.3.4-1", "MQTT-4.5.0-1", "MQTT-3.3.2-3")
@v311("MQTT-3.3.4-1", "MQTT-4.5.0-1", "MQTT-3.3.2-3")
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("payload", PAYLOADS, ids=["empty", "null", "every byte", "large"])
def test_a_payload_arrives_as_it_was(join: Join, topic: str, version: int, qos: int, payload: bytes) -> None:
    publisher, subscribers = join(version), [join(4), join(5)]
    for subscriber in subscribers:
        subscriber.subscribe((topic, 2))
    publisher.publish(topic, payload, qos=qos)
    for subscriber in subscribers:
        assert subscriber.take(topic=topic, payload=payload, dup=False, retain=False).qos == qos
        subscriber.expect_nothing()


@v5("MQTT-3.3.2-2", "MQTT-4.7.0-1")
@v311("MQTT-3.3.2-2", "MQTT-4.7.1-1")
@both
@pytest.mark.parametrize("name", ["a/#", "#", "+", "a/+/b", "a+b", "a#"])
def test_a_topic_name_has_no_wildcards(join: Join, version: int, name: str) -> None:
    client = join(version)
    client.send(client.publication(name, b"x", qos=1))
    client.expect_end(0x81, 0x82, 0x90)


@v5("MQTT-4.7.3-1")
@v311("MQTT-4.7.3-1")
@both
def test_a_topic_name_is_not_empty(join: Join, version: int) -> None:
    """Without an alias to stand for it, an empty name is a protocol error (§3.3.2.1)."""
    client = join(version)
    client.send(client.publication("", b"x", qos=1))
    client.expect_end(0x82, 0x90, 0x81)


@v5("MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
@pytest.mark.parametrize("retained", [False, True], ids=["live", "retained"])
def test_properties_are_forwarded_unaltered(join: Join, topic: str, retained: bool) -> None:
    publisher, subscriber = join(), join()
    pairs = [("z", "1"), ("a", "2"), ("z", "1"), ("", ""), ("ключ", "значение"), ("a", "2")]
    sent: list[tuple[int, Value]] = [
        (P.PAYLOAD_FORMAT, 1),
        (P.RESPONSE_TOPIC, "answers/to me/ü"),
        (P.CORRELATION_DATA, bytes(range(256))),
        *((P.USER, pair) for pair in pairs),
        (P.CONTENT_TYPE, "text/plain; charset=utf-8"),
    ]
    if not retained:
        subscriber.subscribe((topic, 1))
    publisher.publish(topic, "naïve".encode(), retain=retained, properties=sent)
    if retained:
        subscriber.subscribe((topic, 1))
    found = subscriber.take(topic=topic, payload="naïve".encode(), retain=retained)
    assert found.all(P.USER) == pairs
    assert sorted(found.properties, key=repr) == sorted(((int(key), value) for key, value in sent), key=repr)
    publisher.publish(topic, b"", retain=True)


@v5("MQTT-3.3.2-4")
@pytest.mark.parametrize("indicator", [None, 0, 1])
def test_the_payload_format_is_forwarded(join: Join, topic: str, indicator: int | None) -> None:
    client = join()
    client.subscribe((topic, 0))
    client.publish(topic, b"x", properties=[(P.PAYLOAD_FORMAT, indicator)] if indicator is not None else [])
    found = client.expect(PUBLISH, topic=topic)
    assert found.number(P.PAYLOAD_FORMAT, 0) == (indicator or 0)


@v5("MQTT-3.3.2-14", "MQTT-3.3.2-13", "MQTT-3.3.2-19", "MQTT-1.5.4-1")
@pytest.mark.parametrize(
    ("identifier", "value"),
    [
        (P.RESPONSE_TOPIC, "answer/#"),
        (P.RESPONSE_TOPIC, "+/answer"),
        (P.RESPONSE_TOPIC, b"answer/\xed\xa0\x80"),
        (P.RESPONSE_TOPIC, b"answer/\0"),
        (P.CONTENT_TYPE, b"\xff\xfe"),
        (P.CONTENT_TYPE, b"text\0"),
    ],
    ids=["wildcard", "other wildcard", "surrogate", "null", "content type", "null in content type"],
)
def test_text_properties_are_checked(join: Join, topic: str, identifier: int, value: str | bytes) -> None:
    client = join()
    client.send(client.publication(topic, b"x", qos=1, properties=[(identifier, value)]))
    client.expect_end(0x81, 0x82)


# --- expiry ---


@v5("MQTT-3.3.2-6")
def test_the_expiry_of_a_live_message_is_forwarded(join: Join, topic: str) -> None:
    client = join()
    client.subscribe((topic, 0))
    client.publish(topic, b"x", properties=[(P.MESSAGE_EXPIRY, 1000)])
    assert client.expect(PUBLISH, topic=topic).number(P.MESSAGE_EXPIRY, 0) in range(900, 1001)


@v5("MQTT-3.3.2-5", "MQTT-3.3.2-6")
@pytest.mark.parametrize("retained", [False, True], ids=["queued", "retained"])
def test_messages_expire_and_count_down(join: Join, topic: str, retained: bool) -> None:
    """One that expires within a second, and one that has that much less to live when it is delivered."""
    name, publisher = unique("c"), join()
    lasting = ((P.SESSION_EXPIRY, 600),)
    if not retained:
        away = join(client_id=name, properties=lasting)
        away.subscribe((topic + "/+", 1))
        away.disconnect()
    publisher.publish(topic + "/short", b"short", retain=retained, properties=[(P.MESSAGE_EXPIRY, 1)])
    publisher.publish(topic + "/long", b"long", retain=retained, properties=[(P.MESSAGE_EXPIRY, 1000)])
    time.sleep(2.2)
    back = join(client_id=name, clean=False, properties=lasting)
    if retained:
        back.subscribe((topic + "/+", 1))
    found = back.take(payload=b"long")
    assert found.number(P.MESSAGE_EXPIRY, 0) in range(900, 999)
    back.expect_nothing()
    publisher.publish(topic + "/long", b"", retain=True)


# --- topic aliases ---


@v5("MQTT-3.3.2-12", "MQTT-3.3.2-8")
def test_every_alias_up_to_the_maximum_is_accepted(join: Join, topic: str) -> None:
    client = join()
    maximum = client.connack.number(P.TOPIC_ALIAS_MAXIMUM, 0)
    if not maximum:
        pytest.skip("this broker takes no topic aliases")
    client.subscribe((topic + "/+", 0))
    for alias in {1, maximum // 2, maximum}:
        client.publish(f"{topic}/{alias}", b"named", properties=[(P.TOPIC_ALIAS, alias)])
        client.expect(PUBLISH, topic=f"{topic}/{alias}", payload=b"named")
    for alias in {1, maximum // 2, maximum}:
        client.publish("", b"by alias", properties=[(P.TOPIC_ALIAS, alias)])
        client.expect(PUBLISH, topic=f"{topic}/{alias}", payload=b"by alias")


@v5("MQTT-3.3.2-12")
def test_an_alias_can_be_given_a_new_topic(join: Join, topic: str) -> None:
    client = join()
    client.subscribe((topic + "/+", 0))
    for name in ("first", "second"):
        client.publish(f"{topic}/{name}", b"named", qos=0, properties=[(P.TOPIC_ALIAS, 1)])
        client.publish("", b"by alias", qos=0, properties=[(P.TOPIC_ALIAS, 1)])
        client.expect(PUBLISH, topic=f"{topic}/{name}", payload=b"named")
        found = client.expect(PUBLISH, topic=f"{topic}/{name}", payload=b"by alias")
        assert found.get(P.TOPIC_ALIAS) is None  # that of the publisher is not for others


@v5("MQTT-3.3.2-8", "MQTT-3.3.2-9", "MQTT-3.2.2-17", "MQTT-3.2.2-18")
@pytest.mark.parametrize("which", ["zero", "too large"])
def test_an_alias_outside_the_range_is_refused(join: Join, topic: str, which: str) -> None:
    client = join()
    alias = 0 if which == "zero" else client.connack.number(P.TOPIC_ALIAS_MAXIMUM, 0) + 1
    client.send(client.publication(topic, b"x", qos=1, properties=[(P.TOPIC_ALIAS, alias)]))
    client.expect_end(0x94) if alias else client.expect_end(0x94, 0x82, 0x81)


@v5("MQTT-3.3.2-7")
def test_an_alias_ends_with_its_connection(join: Join, topic: str) -> None:
    name = unique("c")
    lasting = ((P.SESSION_EXPIRY, 600),)
    first = join(client_id=name, properties=lasting)
    first.publish(topic, b"x", properties=[(P.TOPIC_ALIAS, 1)])
    first.disconnect()
    second = join(client_id=name, clean=False, properties=lasting)
    second.send(second.publication("", b"x", qos=1, properties=[(P.TOPIC_ALIAS, 1)]))
    second.expect_end(0x82, 0x94)


@v5("MQTT-3.1.2-27", "MQTT-3.3.2-11")
@pytest.mark.parametrize("properties", [(), ((P.TOPIC_ALIAS_MAXIMUM, 0),)], ids=["absent", "0"])
def test_no_alias_is_sent_to_those_who_take_none(
    join: Join, topic: str, properties: tuple[tuple[int, int], ...]
) -> None:
    client = join(properties=properties)
    client.subscribe((topic, 0))
    for _ in range(5):
        client.publish(topic, b"x")
        assert client.expect(PUBLISH, topic=topic).get(P.TOPIC_ALIAS) is None


@v5("MQTT-3.1.2-26", "MQTT-3.3.2-11", "MQTT-3.3.2-7")
def test_aliases_of_the_server_stay_below_the_clients_maximum(join: Join, topic: str) -> None:
    """Whether the server uses aliases is its own affair; where it does, they must be right."""
    client = join(properties=((P.TOPIC_ALIAS_MAXIMUM, 2),))
    client.subscribe((topic + "/+", 0))
    known: dict[int, str] = {}
    for number in (0, 1, 2, 3, 0, 1, 2, 3, 0, 0):
        client.publish(f"{topic}/{number}", b"%d" % number)
        found = client.expect(PUBLISH, payload=b"%d" % number)
        alias = found.number(P.TOPIC_ALIAS, 0)
        if alias:
            assert alias in (1, 2)
            known[alias] = found.topic or known[alias]
        assert (found.topic or known[alias]) == f"{topic}/{number}"


# --- subscription identifiers and overlap ---


@v5("MQTT-3.3.4-2")
@v311("MQTT-3.3.5-1")
@both
def test_overlapping_subscriptions_deliver_with_the_highest_qos(join: Join, topic: str, version: int) -> None:
    """One copy, or one for each subscription: in either case the highest QoS is among them."""
    client = join(version)
    client.subscribe((topic + "/a", 0), (topic + "/+", 2), (topic + "/#", 1))
    join(version).publish(topic + "/a", b"x", qos=2)
    copies = [found for found in client.leftovers() if found.kind == PUBLISH]
    assert len(copies) in (1, 3)
    assert max(found.qos for found in copies) == 2


@v5("MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
def test_subscription_identifiers_are_sent_along(join: Join, topic: str) -> None:
    client = join()
    for name, identifier in (("a", 1), ("+", 268_435_455), ("#", 1), ("b", 7)):
        client.subscribe((f"{topic}/{name}", 0), properties=[(P.SUBSCRIPTION_ID, identifier)])
    client.subscribe((topic + "/a/#", 0))  # matches as well, but has no identifier
    join().publish(topic + "/a", b"x", qos=1)
    copies = client.leftovers()
    found = sorted(value for copy in copies for value in copy.all(P.SUBSCRIPTION_ID) if isinstance(value, int))
    assert found == [1, 1, 268_435_455]
    assert len(copies) in (1, 4)


@v5("MQTT-3.3.4-3", "MQTT-3.8.4-3")
def test_a_new_identifier_replaces_the_old(join: Join, topic: str) -> None:
    client = join()
    client.subscribe((topic, 0), properties=[(P.SUBSCRIPTION_ID, 5)])
    client.subscribe((topic, 0), properties=[(P.SUBSCRIPTION_ID, 6)])
    client.publish(topic, b"x", qos=0)
    assert client.expect(PUBLISH, topic=topic).all(P.SUBSCRIPTION_ID) == [6]
    client.subscribe((topic, 0))
    client.publish(topic, b"x", qos=0)
    assert client.expect(PUBLISH, topic=topic).all(P.SUBSCRIPTION_ID) == []


@v5("MQTT-3.3.4-3")
def test_an_identifier_comes_with_retained_and_queued_messages(join: Join, topic: str) -> None:
    name, publisher = unique("c"), join()
    lasting = ((P.SESSION_EXPIRY, 600),)
    publisher.publish(topic, b"retained", retain=True)
    client = join(client_id=name, properties=lasting)
    client.subscribe((topic, 1), properties=[(P.SUBSCRIPTION_ID, 9)])
    assert client.take(payload=b"retained", retain=True).all(P.SUBSCRIPTION_ID) == [9]
    client.disconnect()
    publisher.publish(topic, b"queued")
    back = join(client_id=name, clean=False, properties=lasting)
    assert back.take(payload=b"queued").all(P.SUBSCRIPTION_ID) == [9]
    publisher.publish(topic, b"", retain=True)


@v5("MQTT-3.3.4-6")
def test_a_client_sends_no_subscription_identifier(join: Join, topic: str) -> None:
    client = join()
    client.send(client.publication(topic, b"x", qos=1, properties=[(P.SUBSCRIPTION_ID, 1)]))
    client.expect_end(0x81, 0x82)


# --- size and permission ---


@v5("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_too_large_for_a_client_are_dropped_for_it(join: Join, topic: str, qos: int) -> None:
    small, large = join(properties=((P.MAXIMUM_PACKET_SIZE, 200),)), join()
    for client in (small, large):
        client.subscribe((topic, qos))
    publisher = join()
    publisher.publish(topic, b"x" * 300, qos=qos)
    publisher.publish(topic, b"fits", qos=qos)
    large.take(payload=b"x" * 300)
    large.take(payload=b"fits")
    assert small.take(payload=b"fits").size <= 200
    small.expect_nothing()


@v5("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.4.2-2", "MQTT-3.4.2-3", "MQTT-3.5.2-2", "MQTT-3.5.2-3", "MQTT-3.1.2-24")
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("name", ["plain", "$SYS/not/for/clients"])
def test_acknowledgements_respect_the_maximum_packet_size(join: Join, topic: str, qos: int, name: str) -> None:
    """Also that of a PUBLISH that may be refused, where a reason string would be tempting."""
    client = join(properties=((P.MAXIMUM_PACKET_SIZE, 30),))
    answer = client.publish(topic if name == "plain" else name, b"x", qos=qos)
    assert answer
    assert answer.size <= 30


@v5("MQTT-3.1.2-29")
@pytest.mark.parametrize("qos", [1, 2])
def test_no_reason_strings_for_those_who_want_none(join: Join, qos: int) -> None:
    client = join(properties=((P.REQUEST_PROBLEM, 0),))
    answer = client.publish("$SYS/not/for/clients", b"x", qos=qos)
    assert answer
    assert answer.properties == []
    client.send(client.subscription([("$share/group/#/bad", 0)], 9))
    found = client.receive()
    assert found.kind == 14 or found.properties == []  # a DISCONNECT may say why, a SUBACK may not


@v311("MQTT-3.3.5-2")
def test_a_publish_that_is_not_allowed_is_acknowledged_or_closed(join: Join) -> None:
    client = join(4)
    client.send(client.publication("$SYS/not/for/clients", b"x", qos=1, packet_id=5))
    try:
        client.expect(PUBACK, packet_id=5)
    except AssertionError:
        client.expect_closed()


@v5("MQTT-3.3.1-3", "MQTT-3.3.1-2")
@v311("MQTT-3.3.1-3", "MQTT-3.3.1-2")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_dup_is_not_passed_on(join: Join, topic: str, version: int, qos: int) -> None:
    subscriber, observer, publisher = join(version), join(version), join(version)
    subscriber.subscribe((topic, 2))
    observer.subscribe((topic, 0))
    publisher.publish(topic, b"x", qos=qos, dup=True)
    subscriber.take(payload=b"x", dup=False)
    observer.expect(PUBLISH, payload=b"x", dup=False, qos=0)


@v5("MQTT-2.2.2-1", "MQTT-3.3.2-17")
@v311("MQTT-4.5.0-1")
def test_versions_meet(join: Join, topic: str) -> None:
    """A 3.1.1 client gets what an MQTT 5 client published, without properties, and the other way round."""
    old, new = join(4), join(V5)
    for client in (old, new):
        client.subscribe((topic, 1))
    new.publish(topic, b"new", properties=[(P.USER, ("a", "b")), (P.CONTENT_TYPE, "x")])
    old.take(topic=topic, payload=b"new")
    assert new.take(payload=b"new").get(P.CONTENT_TYPE) == "x"
    old.publish(topic, b"old")
    assert new.take(payload=b"old").properties == []
    old.take(payload=b"old")
