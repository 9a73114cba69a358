"""Wills: what is published for a client that goes without saying goodbye."""

from __future__ import annotations

import pytest

from tests.conformance.codec import DISCONNECT, PUBLISH, V5, V311, Hello, P, Value, Will, packet
from tests.conformance.conftest import Join, unique
from tests.conformance.raw import expect_refusal, farewell
from tests.conformance.statement import both, v5, v311


@v5("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-14", "MQTT-3.1.2-10")
@v311("MQTT-3.1.2-8", "MQTT-3.1.2-16", "MQTT-3.1.2-10")
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_is_published_once(join: Join, topic: str, version: int, qos: int) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 2))
    join(version, will=Will(topic, b"farewell", qos=qos)).close()
    assert watcher.take(topic=topic, payload=b"farewell", retain=False).qos == qos
    watcher.expect_nothing()
    late = join(version)
    late.subscribe((topic, 2))
    late.expect_nothing()


@v5("MQTT-3.1.2-15")
@v311("MQTT-3.1.2-17")
@both
def test_a_retained_will_is_retained(join: Join, topic: str, version: int) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 1))
    join(version, will=Will(topic, b"farewell", qos=1, retain=True)).close()
    watcher.take(payload=b"farewell", retain=False)
    late = join(version)
    late.subscribe((topic, 1))
    late.take(topic=topic, payload=b"farewell", retain=True)
    late.publish(topic, b"", retain=True)


@v5("MQTT-3.14.4-3", "MQTT-3.1.2-8", "MQTT-3.1.2-10")
@v311("MQTT-3.14.4-3", "MQTT-3.1.2-10", "MQTT-3.1.2-12")
@both
def test_a_goodbye_discards_the_will(join: Join, topic: str, version: int) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 1))
    join(version, will=Will(topic, b"farewell")).disconnect()
    join(version).close()  # nor is there anything to publish for one without a will
    watcher.expect_nothing()


@v5("MQTT-3.14.4-3", "MQTT-3.1.2-10")
def test_a_goodbye_discards_a_delayed_will_of_a_lasting_session(join: Join, topic: str) -> None:
    watcher = join()
    watcher.subscribe((topic, 1))
    lasting = ((P.SESSION_EXPIRY, 600),)
    client = join(properties=lasting, will=Will(topic, b"farewell", properties=((P.WILL_DELAY, 0),)))
    client.disconnect()
    watcher.expect_nothing()


@v5("MQTT-3.1.2-8", "MQTT-3.14.2-1")
@pytest.mark.parametrize("reason", [0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99])
def test_a_goodbye_with_another_reason_keeps_the_will(join: Join, topic: str, reason: int) -> None:
    watcher = join()
    watcher.subscribe((topic, 1))
    join(will=Will(topic, b"farewell")).disconnect(reason)
    watcher.expect(PUBLISH, topic=topic, payload=b"farewell")


@v5("MQTT-3.1.2-8", "MQTT-4.13.1-1")
@v311("MQTT-3.1.2-8", "MQTT-3.14.1-1")
@both
def test_an_error_publishes_the_will(join: Join, topic: str, version: int) -> None:
    """Here the error is a DISCONNECT with a flag that it must not have: not a goodbye, but a malformed packet."""
    watcher = join(version)
    watcher.subscribe((topic, 1))
    client = join(version, will=Will(topic, b"farewell"))
    client.send(packet(DISCONNECT, flags=1))
    client.expect_end(0x81)
    watcher.expect(PUBLISH, payload=b"farewell")


@v5("MQTT-3.1.2-8", "MQTT-3.1.4-3")
@v311("MQTT-3.1.2-8", "MQTT-3.1.4-2")
@both
def test_take_over_publishes_the_will(join: Join, topic: str, version: int) -> None:
    """The old connection is closed without a DISCONNECT from the client; there is no delay in which it could resume."""
    watcher, name = join(version), unique("c")
    watcher.subscribe((topic, 1))
    join(version, client_id=name, will=Will(topic, b"farewell"))
    join(version, client_id=name)
    watcher.expect(PUBLISH, payload=b"farewell")


ORDER = tuple((P.USER, pair) for pair in (("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("a", "1")))


@v5("MQTT-3.1.3-10", "MQTT-3.1.2-9")
def test_the_properties_of_a_will_are_those_of_its_message(join: Join, topic: str) -> None:
    watcher = join()
    watcher.subscribe((topic, 1))
    properties: tuple[tuple[int, Value], ...] = (
        (P.PAYLOAD_FORMAT, 1),
        (P.MESSAGE_EXPIRY, 1000),
        (P.CONTENT_TYPE, "text/plain"),
        (P.RESPONSE_TOPIC, "answer/here"),
        (P.CORRELATION_DATA, b"\0\1\2"),
        *ORDER,
    )
    join(will=Will(topic, b"farewell", properties=properties)).close()
    found = watcher.expect(PUBLISH, payload=b"farewell")
    assert found.all(P.USER) == [value for _, value in ORDER]
    assert found.get(P.PAYLOAD_FORMAT) == 1
    assert found.number(P.MESSAGE_EXPIRY, 0) in range(900, 1001)
    assert found.get(P.CONTENT_TYPE) == "text/plain"
    assert found.get(P.RESPONSE_TOPIC) == "answer/here"
    assert found.get(P.CORRELATION_DATA) == b"\0\1\2"
    assert found.get(P.WILL_DELAY) is None


@v5("MQTT-3.1.3-9", "MQTT-3.1.2-8")
def test_a_delayed_will_is_not_sent_when_the_client_returns(join: Join, topic: str) -> None:
    watcher, name = join(), unique("c")
    watcher.subscribe((topic, 1))
    session = ((P.SESSION_EXPIRY, 600),)
    join(client_id=name, properties=session, will=Will(topic, b"late", properties=((P.WILL_DELAY, 300),))).close()
    watcher.expect_nothing()
    again = join(client_id=name, clean=False, properties=session)
    assert again.connack.session_present
    again.disconnect()
    watcher.expect_nothing()


@v5("MQTT-3.1.2-8", "MQTT-3.1.3-9")
def test_a_delayed_will_is_sent_after_its_delay(join: Join, topic: str) -> None:
    watcher = join()
    watcher.subscribe((topic, 1))
    session = ((P.SESSION_EXPIRY, 600),)
    join(properties=session, will=Will(topic, b"late", properties=((P.WILL_DELAY, 1),))).close()
    watcher.expect(PUBLISH, payload=b"late")


@v5("MQTT-3.1.2-8")
@pytest.mark.parametrize("expiry", [0, 1])
def test_a_delayed_will_is_sent_when_the_session_ends(join: Join, topic: str, expiry: int) -> None:
    """§3.1.3.2.2: the delay or the end of the session, whichever comes first."""
    watcher = join()
    watcher.subscribe((topic, 1))
    session = ((P.SESSION_EXPIRY, expiry),)
    join(properties=session, will=Will(topic, b"late", properties=((P.WILL_DELAY, 300),))).close()
    watcher.expect(PUBLISH, payload=b"late")


@v5("MQTT-3.1.2-8", "MQTT-3.1.2-4")
def test_a_delayed_will_is_sent_when_clean_start_ends_the_session(join: Join, topic: str) -> None:
    watcher, name = join(), unique("c")
    watcher.subscribe((topic, 1))
    session = ((P.SESSION_EXPIRY, 600),)
    join(client_id=name, properties=session, will=Will(topic, b"late", properties=((P.WILL_DELAY, 300),))).close()
    join(client_id=name)
    watcher.expect(PUBLISH, payload=b"late")


@v5("MQTT-3.1.2-8", "MQTT-4.1.0-2")
def test_a_goodbye_with_will_that_ends_the_session_sends_it_at_once(join: Join, topic: str) -> None:
    watcher = join()
    watcher.subscribe((topic, 1))
    session = ((P.SESSION_EXPIRY, 600),)
    client = join(properties=session, will=Will(topic, b"late", properties=((P.WILL_DELAY, 300),)))
    client.send(farewell(0x04, [(P.SESSION_EXPIRY, 0)]))
    watcher.expect(PUBLISH, payload=b"late")


@v5("MQTT-3.1.2-9", "MQTT-3.1.4-1")
@v311("MQTT-3.1.2-9")
@both
@pytest.mark.parametrize("bad", ["will/#", "will/+/x", ""])
def test_the_topic_of_a_will_is_a_topic_name(join: Join, version: int, bad: str) -> None:
    """[MQTT-4.7.0-1], [MQTT-4.7.3-1]: checked when it is left behind, not when it is too late to complain."""
    client = join.raw(version)
    client.send(Hello(client_id=unique("c"), version=version, will=Will(bad)).encode())
    expect_refusal(client, *((0x81, 0x82, 0x90) if version == V5 else (5,)))


@v5("MQTT-3.1.2-8")
@v311("MQTT-3.1.2-8", "MQTT-3.1.2-9")
@both
def test_a_will_may_be_empty_and_binary(join: Join, topic: str, version: int) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 0))
    join(version, will=Will(topic, b"")).close()
    watcher.expect(PUBLISH, topic=topic, payload=b"")
    join(version, will=Will(topic, bytes(range(256)))).close()
    watcher.expect(PUBLISH, topic=topic, payload=bytes(range(256)))


@v311("MQTT-3.1.2-7")
def test_retained_messages_outlive_sessions(join: Join, topic: str) -> None:
    first = join(V311)
    first.publish(topic, b"stays", retain=True)
    first.disconnect()
    late = join(V311)
    late.subscribe((topic, 0))
    late.expect(PUBLISH, payload=b"stays", retain=True)
    late.publish(topic, b"", retain=True)
