"""Sessions: Clean Start, expiry, take-over with state, and what is kept for those who are away."""

from __future__ import annotations

import time

import pytest

from tests.conformance.codec import PUBLISH, V5, V311, P
from tests.conformance.conftest import Join, unique
from tests.conformance.raw import Client
from tests.conformance.statement import both, v5, v311

LASTING = ((P.SESSION_EXPIRY, 600),)


def lasting(join: Join, version: int, name: str, **hello: bool) -> Client:
    """A client whose session outlives its connection, in the words of its version."""
    return join(version, client_id=name, properties=LASTING if version == V5 else (), **({"clean": False} | hello))


@v5("MQTT-3.1.2-5", "MQTT-3.1.2-6", "MQTT-3.1.2-23", "MQTT-3.2.2-3", "MQTT-4.5.0-1", "MQTT-3.1.3-2")
@v311("MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-3.2.2-2", "MQTT-3.2.2-3", "MQTT-4.1.0-1", "MQTT-4.5.0-1")
@both
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("polite", [True, False], ids=["said goodbye", "just gone"])
def test_a_session_is_resumed(join: Join, topic: str, version: int, qos: int, polite: bool) -> None:
    name, publisher = unique("c"), join(version)
    first = lasting(join, version, name)
    assert not first.connack.session_present
    first.subscribe((topic, qos))
    first.disconnect() if polite else first.close()
    for number in range(3):
        publisher.publish(topic, b"%d" % number, qos=qos)
    second = lasting(join, version, name)
    assert second.connack.session_present
    for number in range(3):
        assert second.take(topic=topic, payload=b"%d" % number).qos == qos
    publisher.publish(topic, b"live", qos=qos)
    second.take(payload=b"live")


@v5("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
@v311("MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1", "MQTT-3.2.2-3")
@both
def test_clean_start_forgets_the_session(join: Join, topic: str, version: int) -> None:
    name, publisher = unique("c"), join(version)
    first = lasting(join, version, name)
    first.subscribe((topic, 1))
    first.disconnect()
    publisher.publish(topic, b"for the old session")
    second = lasting(join, version, name, clean=True)
    assert not second.connack.session_present
    publisher.publish(topic, b"no longer subscribed")
    second.expect_nothing()


@v311("MQTT-3.1.2-6", "MQTT-3.2.2-3")
def test_a_clean_session_ends_with_its_connection(join: Join, topic: str) -> None:
    name, publisher = unique("c"), join(V311)
    first = join(V311, client_id=name)
    first.subscribe((topic, 1))
    first.disconnect()
    publisher.publish(topic, b"nobody is there")
    second = join(V311, client_id=name, clean=False)
    assert not second.connack.session_present
    second.expect_nothing()


@v5("MQTT-4.1.0-2", "MQTT-3.2.2-3")
@pytest.mark.parametrize("expiry", [(), ((P.SESSION_EXPIRY, 0),)], ids=["absent", "0"])
def test_without_expiry_the_session_ends_with_its_connection(
    join: Join, topic: str, expiry: tuple[tuple[int, int], ...]
) -> None:
    name, publisher = unique("c"), join()
    first = join(client_id=name, properties=expiry)
    first.subscribe((topic, 1))
    first.disconnect()
    publisher.publish(topic, b"nobody is there")
    second = join(client_id=name, clean=False)
    assert not second.connack.session_present
    second.expect_nothing()


@v5("MQTT-4.1.0-2")
def test_a_session_expires(join: Join, topic: str) -> None:
    name = unique("c")
    first = join(client_id=name, properties=((P.SESSION_EXPIRY, 1),))
    first.subscribe((topic, 1))
    first.disconnect()
    time.sleep(2.5)  # the one thing here that only time can show
    second = join(client_id=name, clean=False)
    assert not second.connack.session_present
    join().publish(topic, b"no longer subscribed")
    second.expect_nothing()


@v5("MQTT-4.1.0-1", "MQTT-3.1.2-23")
@v311("MQTT-4.1.0-2")
@both
def test_a_session_lasts_as_long_as_its_connection(join: Join, topic: str, version: int) -> None:
    """An expiry of one second counts from the end of the connection, not from its beginning."""
    client = join(version, properties=((P.SESSION_EXPIRY, 1),) if version == V5 else ())
    client.subscribe((topic, 1))
    time.sleep(2)
    join(version).publish(topic, b"still there")
    client.take(topic=topic, payload=b"still there")


@v5("MQTT-4.1.0-2")
def test_disconnect_can_change_the_expiry(join: Join, topic: str) -> None:
    name = unique("c")
    first = join(client_id=name, properties=LASTING)
    first.subscribe((topic, 1))
    first.disconnect(0, [(P.SESSION_EXPIRY, 0)])
    assert not join(client_id=name, clean=False).connack.session_present


@v5("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_disconnect_can_shorten_a_long_expiry_and_keep_the_session(join: Join) -> None:
    name = unique("c")
    join(client_id=name, properties=LASTING).disconnect(0, [(P.SESSION_EXPIRY, 500)])
    assert join(client_id=name, clean=False).connack.session_present


@v5("MQTT-4.13.1-1")
def test_disconnect_cannot_make_a_session_of_none(join: Join) -> None:
    """§3.14.2.2.2: zero in the CONNECT and something else in the DISCONNECT is a protocol error."""
    name = unique("c")
    client = join(client_id=name)
    client.send(b"\xe0\x07\x00\x05\x11\x00\x00\x00\x3c")
    client.expect_end(0x82)
    assert not join(client_id=name, clean=False).connack.session_present


@v5("MQTT-3.1.4-3", "MQTT-3.2.2-3", "MQTT-3.1.2-5")
@v311("MQTT-3.1.4-2", "MQTT-3.2.2-2")
@both
def test_a_session_survives_take_over(join: Join, topic: str, version: int) -> None:
    name = unique("c")
    old = lasting(join, version, name)
    old.subscribe((topic, 1))
    new = lasting(join, version, name)
    old.expect_end(0x8E)
    assert new.connack.session_present
    join(version).publish(topic, b"to the new one")
    new.take(topic=topic, payload=b"to the new one")


@v5("MQTT-3.1.2-4", "MQTT-3.1.4-3")
@v311("MQTT-3.1.2-6", "MQTT-3.1.4-2")
@both
def test_take_over_with_clean_start(join: Join, topic: str, version: int) -> None:
    name = unique("c")
    old = lasting(join, version, name)
    old.subscribe((topic, 1))
    new = lasting(join, version, name, clean=True)
    old.expect_end(0x8E)
    assert not new.connack.session_present
    join(version).publish(topic, b"nobody subscribed")
    new.expect_nothing()


@v5("MQTT-4.1.0-1")
@v311("MQTT-4.1.0-1", "MQTT-3.1.2-4")
@both
def test_subscriptions_are_replaced_and_removed_in_the_session(join: Join, topic: str, version: int) -> None:
    """What the session remembers is its last state."""
    name = unique("c")
    first = lasting(join, version, name)
    first.subscribe((topic, 1), (topic + "/gone", 1))
    first.subscribe((topic, 0))
    first.unsubscribe(topic + "/gone")
    first.disconnect()
    second = lasting(join, version, name)
    publisher = join(version)
    publisher.publish(topic + "/gone", b"no")
    publisher.publish(topic, b"yes", qos=1)
    second.expect(PUBLISH, topic=topic, payload=b"yes", qos=0)
    second.expect_nothing()


@v5("MQTT-3.1.2-5")
@v311("MQTT-3.1.2-4")
def test_a_session_is_the_same_in_both_versions(join: Join, topic: str) -> None:
    """The client identifier names the session, not the version that it was made with."""
    name = unique("c")
    first = lasting(join, V311, name)
    first.subscribe((topic, 1))
    first.disconnect()
    join().publish(topic, b"later")
    second = lasting(join, V5, name)
    assert second.connack.session_present
    second.take(topic=topic, payload=b"later")
