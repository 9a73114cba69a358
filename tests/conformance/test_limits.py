"""The edges: sizes and limits, many packets at once, and what happens to messages at a change of connection."""

from __future__ import annotations

import time

import pytest

from tests.conformance.codec import (
    CONNACK,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    V5,
    Hello,
    P,
    Will,
    packet,
)
from tests.conformance.conftest import Join, Place, unique
from tests.conformance.raw import farewell
from tests.conformance.statement import both, v5, v311

LASTING = ((P.SESSION_EXPIRY, 600),)


@v5("MQTT-1.5.5-1", "MQTT-3.3.4-1")
@v311("MQTT-3.3.4-1", "MQTT-7.1.1-1")
@both
@pytest.mark.parametrize("length", [127, 128, 16_383, 16_384])
def test_where_the_remaining_length_grows(join: Join, topic: str, version: int, length: int) -> None:
    """A QoS 1 PUBLISH of exactly this remaining length, there and back."""
    client = join(version)
    client.subscribe((topic, 1))
    fixed = 2 + len(topic) + 2 + (1 if version == V5 else 0)
    payload = bytes(number % 251 for number in range(length - fixed))
    client.publish(topic, payload)
    assert client.take(payload=payload).size == length + (2 if length < 128 else 3 if length < 16_384 else 4)


@v5("MQTT-3.2.2-15", "MQTT-3.1.2-24")
def test_a_packet_of_exactly_the_maximum_is_taken(join: Join, topic: str) -> None:
    client = join()
    limit = client.connack.number(P.MAXIMUM_PACKET_SIZE, 0)
    if not limit:
        pytest.skip("this broker has no Maximum Packet Size")
    empty = client.publication(topic, b"x" * 100_000, qos=1)
    payload = b"x" * (100_000 + limit - len(empty))
    data = client.publication(topic, payload, qos=1)
    assert len(data) == limit
    client.subscribe((topic, 0))
    client.send(data)
    came = {found.kind: found for found in (client.receive(), client.receive())}
    assert came[PUBACK].reason == 0
    assert came[PUBLISH].payload == payload


@v5("MQTT-3.1.4-5", "MQTT-3.2.0-1")
@v311("MQTT-3.1.4-4", "MQTT-3.2.0-1")
@both
def test_a_client_need_not_wait_for_the_connack(join: Join, topic: str, version: int) -> None:
    """§3.1.4: everything may be sent at once; the answers come in order, and the CONNACK first."""
    client = join.raw(version)
    client.send(
        Hello(client_id=unique("c"), version=version).encode()
        + client.subscription([(topic, 0)], 5)
        + client.publication(topic, b"early", qos=1, packet_id=6)
        + packet(PINGREQ)
    )
    client.expect(CONNACK, reason=0)
    came = [client.receive() for _ in range(4)]
    assert {found.kind for found in came} == {SUBACK, PUBLISH, PUBACK, PINGRESP}
    assert came[0].kind == SUBACK


@v5("MQTT-3.14.4-3", "MQTT-4.5.0-1")
@v311("MQTT-3.14.4-3", "MQTT-4.5.0-1")
@both
def test_a_whole_visit_in_one_segment(join: Join, topic: str, version: int) -> None:
    """Hello, a message, goodbye: the message is delivered, the will is not."""
    watcher, visitor = join(version), join.raw(version)
    watcher.subscribe((topic, 0))
    hello = Hello(client_id=unique("c"), version=version, will=Will(topic, b"will"))
    visitor.send(hello.encode() + visitor.publication(topic, b"message") + farewell())
    visitor.expect(CONNACK, reason=0)
    visitor.expect_closed()
    watcher.expect(PUBLISH, payload=b"message")
    watcher.expect_nothing()


@v5("MQTT-3.1.2-22")
@v311("MQTT-3.1.2-24")
@both
def test_a_client_that_says_something_is_not_silent(join: Join, topic: str, version: int) -> None:
    """Twice the keep alive passes, in steps that are far smaller; any packet will do."""
    client = join(version, keep_alive=2)
    for number in range(10):
        time.sleep(0.4)
        if number % 2:
            client.publish(topic, b"", qos=1)
        else:
            client.ping()
    client.expect_nothing()


@v5("MQTT-3.1.2-21", "MQTT-3.2.2-22")
def test_a_keep_alive_of_zero_is_allowed(join: Join) -> None:
    client = join(keep_alive=0)
    assert client.connack.number(P.SERVER_KEEP_ALIVE, 1) > 0
    client.expect_nothing()


@v5("MQTT-3.1.2-23", "MQTT-4.1.0-2")
@pytest.mark.parametrize("expiry", [600, 0xFFFF_FFFF])
def test_a_shorter_expiry_is_announced(join: Join, broker: Place, expiry: int) -> None:
    """§3.2.2.3.2: without the property in the CONNACK the client's own value holds."""
    announced = join(properties=((P.SESSION_EXPIRY, expiry),)).connack.get(P.SESSION_EXPIRY)
    if expiry == 600:
        assert announced in (None, 600)
    elif broker.ours:
        assert announced == 7 * 24 * 3600
    else:
        assert announced is None or isinstance(announced, int)


@v5("MQTT-3.1.3-7", "MQTT-3.1.2-5")
def test_an_assigned_identifier_names_a_session(join: Join, topic: str) -> None:
    first = join(client_id="", properties=LASTING)
    name = first.connack.get(P.ASSIGNED_CLIENT_ID)
    first.subscribe((topic, 1))
    first.disconnect()
    join().publish(topic, b"for whoever has this name")
    second = join(client_id=name, clean=False, properties=LASTING)
    assert second.connack.session_present
    second.take(payload=b"for whoever has this name")


@v5("MQTT-3.1.2-25", "MQTT-3.1.2-24")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_waiting_message_can_be_too_large_for_the_next_connection(join: Join, topic: str, qos: int) -> None:
    """It is dropped, and does not stand in the way of those behind it."""
    name, publisher = unique("c"), join()
    first = join(client_id=name, properties=LASTING)
    first.subscribe((topic, qos))
    first.disconnect()
    for payload in (b"small", b"x" * 500, b"also small"):
        publisher.publish(topic, payload, qos=qos)
    back = join(client_id=name, clean=False, properties=(*LASTING, (P.MAXIMUM_PACKET_SIZE, 200)))
    back.take(payload=b"small")
    back.take(payload=b"also small")
    back.expect_nothing()


@v5("MQTT-3.1.2-25", "MQTT-3.1.2-24", "MQTT-3.3.1-9")
def test_a_retained_message_can_be_too_large(join: Join, topic: str) -> None:
    publisher, small = join(), join(properties=((P.MAXIMUM_PACKET_SIZE, 200),))
    publisher.publish(topic + "/large", b"x" * 500, retain=True)
    publisher.publish(topic + "/small", b"fits", retain=True)
    small.subscribe((topic + "/+", 1))
    small.take(payload=b"fits", retain=True)
    small.expect_nothing()
    for name in ("large", "small"):
        publisher.publish(f"{topic}/{name}", b"", retain=True)


@v5("MQTT-3.3.2-7", "MQTT-4.4.0-1", "MQTT-3.1.2-27")
@pytest.mark.parametrize("again", [0, 5])
def test_what_is_sent_again_has_its_topic(join: Join, topic: str, again: int) -> None:
    """An alias of the server ends with the connection as well; the next one may allow none."""
    name, publisher = unique("c"), join()
    first = join(client_id=name, properties=(*LASTING, (P.TOPIC_ALIAS_MAXIMUM, 5)))
    first.subscribe((topic, 1))
    for _ in range(3):
        publisher.publish(topic, b"x")
    sent = [first.expect(PUBLISH, payload=b"x").packet_id for _ in range(3)]
    first.close()
    back = join(client_id=name, clean=False, properties=(*LASTING, (P.TOPIC_ALIAS_MAXIMUM, again)))
    known: dict[int, str] = {}
    for number in sent:
        found = back.expect(PUBLISH, payload=b"x", dup=True, packet_id=number)
        alias = found.number(P.TOPIC_ALIAS, 0)
        assert alias <= again
        if found.topic:
            known[alias] = found.topic
        assert (found.topic or known[alias]) == topic


@v5("MQTT-4.4.0-1", "MQTT-3.1.4-3", "MQTT-3.3.1-1")
@v311("MQTT-4.4.0-1", "MQTT-3.1.4-2", "MQTT-3.3.1-1")
@both
def test_the_one_who_takes_over_gets_what_was_under_way(join: Join, topic: str, version: int) -> None:
    name = unique("c")
    lasting = LASTING if version == V5 else ()
    old = join(version, client_id=name, clean=False, properties=lasting)
    old.subscribe((topic, 1))
    join(version).publish(topic, b"x")
    number = old.expect(PUBLISH, payload=b"x").packet_id
    new = join(version, client_id=name, clean=False, properties=lasting)
    old.expect_end(0x8E)
    new.take(payload=b"x", dup=True, packet_id=number)
    new.expect_nothing()


@v5("MQTT-3.1.2-8", "MQTT-4.5.0-1")
@v311("MQTT-3.1.2-8", "MQTT-3.1.2-5")
@both
def test_a_will_waits_for_those_who_are_away(join: Join, topic: str, version: int) -> None:
    name = unique("c")
    lasting = LASTING if version == V5 else ()
    away = join(version, client_id=name, clean=False, properties=lasting)
    away.subscribe((topic, 1))
    away.disconnect()
    watcher = join(version)
    watcher.subscribe((topic, 0))
    join(version, will=Will(topic, b"will", qos=1)).close()
    watcher.expect(PUBLISH, payload=b"will")
    back = join(version, client_id=name, clean=False, properties=lasting)
    back.take(payload=b"will", qos=1)


@v5("MQTT-2.2.1-4", "MQTT-2.2.1-5")
@v311("MQTT-2.3.1-4", "MQTT-2.3.1-6")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_both_ends_number_on_their_own(join: Join, topic: str, version: int, qos: int) -> None:
    """§2.2.1: the same identifier may be under way in both directions; the two have nothing in common."""
    client = join(version)
    client.subscribe((topic, qos))
    join(version).publish(topic, b"from the server", qos=qos)
    number = client.expect(PUBLISH, payload=b"from the server").packet_id
    answer = client.publish(topic + "/elsewhere", b"from the client", qos=qos, packet_id=number)
    assert answer
    assert answer.reason in (0, 0x10)
    client.acknowledge(PUBACK if qos == 1 else PUBREC, number)
    assert [found.kind for found in client.ping()] == ([] if qos == 1 else [PUBREL])


@v5("MQTT-3.3.4-9", "MQTT-4.3.3-5")
def test_a_pubrel_sent_again_counts_as_under_way(join: Join, topic: str) -> None:
    """Receive Maximum 1, and a QoS 2 exchange in its second half: nothing else may begin before it is over."""
    name, publisher = unique("c"), join()
    properties = (*LASTING, (P.RECEIVE_MAXIMUM, 1))
    client = join(client_id=name, properties=properties)
    client.subscribe((topic, 2))
    for number in range(2):
        publisher.publish(topic, b"%d" % number, qos=2)
    first = client.expect(PUBLISH, payload=b"0").packet_id
    client.acknowledge(PUBREC, first)
    client.expect(PUBREL, packet_id=first)
    client.close()
    back = join(client_id=name, clean=False, properties=properties)
    back.expect(PUBREL, packet_id=first)
    back.expect_nothing()
    back.acknowledge(PUBCOMP, first)
    back.take(payload=b"1")
