"""Chapters 3.8 to 3.11: SUBSCRIBE and UNSUBSCRIBE, and their answers."""

from __future__ import annotations

import pytest

from tests.conformance.codec import (
    DISCONNECT,
    NO_LOCAL,
    PUBACK,
    PUBLISH,
    SUBACK,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
    P,
    packet,
    string,
    u16,
)
from tests.conformance.conftest import Join
from tests.conformance.statement import both, v5, v311


@v5("MQTT-3.8.4-1", "MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
@v311("MQTT-3.8.4-1", "MQTT-3.8.4-4", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-3.8.3-2")
@both
def test_each_filter_is_answered_in_its_place(join: Join, topic: str, version: int) -> None:
    client = join(version)
    wanted = [(f"{topic}/{number}/+", number % 3) for number in range(30)] + [(topic + "/#", 1)]
    assert client.subscribe(*wanted) == [qos for _, qos in wanted]
    client.expect_nothing()


@v5("MQTT-3.8.4-8", "MQTT-3.3.4-2")
@v311("MQTT-3.8.4-6")
@both
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_qos_is_the_lower_of_both(join: Join, topic: str, version: int, published: int, granted: int) -> None:
    client = join(version)
    assert client.subscribe((topic, granted)) == [granted]
    client.publish(topic, b"x", qos=published)
    assert client.take(topic=topic, payload=b"x").qos == min(published, granted)


@v5("MQTT-3.8.4-3", "MQTT-3.8.4-4")
@v311("MQTT-3.8.4-3")
@both
def test_a_subscription_is_replaced(join: Join, topic: str, version: int) -> None:
    client = join(version)
    for qos in (0, 2, 1):
        assert client.subscribe((topic + "/+", qos)) == [qos]
        client.publish(topic + "/x", b"x", qos=2)
        assert client.take(payload=b"x").qos == qos
    client.expect_nothing()  # one copy each, not one for every time it subscribed


@v5("MQTT-3.8.4-5", "MQTT-3.8.4-3")
@v311("MQTT-3.8.4-4", "MQTT-3.8.4-3")
@both
def test_the_same_filter_twice_in_one_packet(join: Join, topic: str, version: int) -> None:
    """As in a sequence of packets, the last one counts."""
    client = join(version)
    assert client.subscribe((topic, 2), (topic, 0)) == [2, 0]
    client.publish(topic, b"x", qos=2)
    client.expect(PUBLISH, payload=b"x", qos=0)
    client.expect_nothing()


@v5("MQTT-3.8.4-4")
@v311("MQTT-3.8.4-3")
@both
def test_replacing_loses_no_message(join: Join, topic: str, version: int) -> None:
    """Messages and changes of the subscription, interleaved in one stream, by a client that listens to itself."""
    client = join(version)
    client.subscribe((topic, 1))
    data = b""
    for number in range(1, 31):
        data += client.publication(topic, b"%d" % number, qos=1, packet_id=number)
        data += client.subscription([(topic, 1)], 1000 + number)
    client.send(data)
    came: list[int] = []
    answers = 0
    while len(came) < 30 or answers < 60:
        found = client.receive()
        if found.kind == PUBLISH:
            client.acknowledge(PUBACK, found.packet_id)
            came.append(int(found.payload))
        else:
            answers += 1
    assert came == list(range(1, 31))


@v5("MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local(join: Join, topic: str, qos: int) -> None:
    client, other = join(), join()
    client.subscribe((topic, NO_LOCAL | qos))
    other.subscribe((topic, qos))
    client.publish(topic, b"own", qos=qos)
    other.publish(topic, b"foreign", qos=qos)
    client.take(payload=b"foreign")
    client.expect_nothing()
    assert {other.take().payload, other.take().payload} == {b"own", b"foreign"}


@v5("MQTT-3.8.3-3")
def test_no_local_is_of_one_subscription_only(join: Join, topic: str) -> None:
    client = join()
    client.subscribe((topic + "/#", NO_LOCAL), (topic + "/a", 0))
    client.publish(topic + "/a", b"by the other subscription", qos=0)
    client.publish(topic + "/b", b"by none", qos=0)
    client.expect(PUBLISH, topic=topic + "/a")
    client.expect_nothing()


@v5("MQTT-3.10.4-1", "MQTT-3.10.4-4", "MQTT-3.10.4-2", "MQTT-3.10.4-5", "MQTT-3.11.3-1", "MQTT-3.11.3-2")
@v311("MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-4", "MQTT-3.10.4-5")
@both
def test_unsubscribing_compares_characters(join: Join, topic: str, version: int) -> None:
    """`t/+` is not what `t/a` matches, and `T/A` is another filter; only the same characters are the same filter."""
    client = join(version)
    client.subscribe((topic + "/+", 0), (topic + "/b/#", 0))
    answer = client.unsubscribe(topic + "/a", topic + "/#", (topic + "/b/#").upper(), topic + "/b/#")
    assert answer == ([0x11, 0x11, 0x11, 0] if version == V5 else [])
    client.publish(topic + "/a", b"still", qos=0)
    client.publish(topic + "/b/c", b"no longer", qos=0)
    client.expect(PUBLISH, payload=b"still")
    client.expect_nothing()


@v5("MQTT-3.10.4-5", "MQTT-3.10.4-6")
@v311("MQTT-3.10.4-5", "MQTT-3.10.4-6")
@both
def test_unsubscribing_from_many(join: Join, topic: str, version: int) -> None:
    client = join(version)
    client.subscribe(*((f"{topic}/{number}", 0) for number in range(10)))
    client.send(
        packet(
            UNSUBSCRIBE,
            u16(4711) + client.props(()) + b"".join(string(f"{topic}/{number}") for number in range(12)),
            2,
        )
    )
    answer = client.expect(UNSUBACK, packet_id=4711)
    assert answer.reasons == ([0] * 10 + [0x11] * 2 if version == V5 else [])
    for number in range(10):
        client.publish(f"{topic}/{number}", b"x", qos=0)
    client.expect_nothing()


@v5("MQTT-3.10.4-3")
@v311("MQTT-3.10.4-3")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_unsubscribing_completes_what_was_begun(join: Join, topic: str, version: int, qos: int) -> None:
    client = join(version)
    client.subscribe((topic, qos))
    client.publish(topic, b"begun", qos=qos)
    client.unsubscribe(topic)
    client.publish(topic, b"not begun", qos=qos)
    client.take(payload=b"begun")
    client.expect_nothing()


@v5("MQTT-3.9.2-1", "MQTT-3.9.2-2", "MQTT-3.11.2-1", "MQTT-3.11.2-2", "MQTT-3.1.2-24")
def test_answers_respect_the_maximum_packet_size(join: Join) -> None:
    """Also where a filter is refused and the broker would like to say why."""
    client = join(properties=((P.MAXIMUM_PACKET_SIZE, 30),))
    client.send(packet(UNSUBSCRIBE, u16(10) + b"\0" + string("never subscribed"), 2))
    assert client.expect(UNSUBACK, packet_id=10).size <= 30
    client.send(client.subscription([("plain", 0), ("$share/g/" + "a/" * 200, 0)], 9))
    answer = client.receive()
    assert answer.kind in (SUBACK, DISCONNECT)
    assert answer.size <= 30


@v5("MQTT-3.8.4-6", "MQTT-3.9.3-1", "MQTT-4.5.0-1")
@v311("MQTT-3.8.4-5", "MQTT-4.5.0-1")
@both
def test_many_clients_get_their_copy(join: Join, topic: str, version: int) -> None:
    clients = [join(version) for _ in range(10)]
    for number, client in enumerate(clients):
        client.subscribe((topic + ("/#" if number % 2 else "/+"), number % 3))
    join(version).publish(topic + "/x", b"x", qos=2)
    for number, client in enumerate(clients):
        assert client.take(topic=topic + "/x", payload=b"x").qos == number % 3
