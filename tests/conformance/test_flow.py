"""Chapter 4.9: flow control by Receive Maximum, in both directions."""

from __future__ import annotations

import pytest

from tests.conformance.codec import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, P, packet, u16
from tests.conformance.conftest import Join, unique
from tests.conformance.statement import v5

TWO_AT_A_TIME = ((P.RECEIVE_MAXIMUM, 2),)


@v5("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
def test_no_more_than_the_receive_maximum_is_under_way(join: Join, topic: str) -> None:
    client, publisher = join(properties=TWO_AT_A_TIME), join()
    client.subscribe((topic, 1))
    for number in range(6):
        publisher.publish(topic, b"%d" % number)
    waiting = [client.expect(PUBLISH, payload=b"%d" % number) for number in range(2)]
    for number in range(2, 6):
        client.expect_nothing()
        client.acknowledge(PUBACK, waiting.pop(0).packet_id)
        waiting.append(client.expect(PUBLISH, payload=b"%d" % number))
    client.expect_nothing()


@v5("MQTT-3.3.4-9", "MQTT-4.9.0-2")
def test_pubrec_alone_gives_no_quota_back(join: Join, topic: str) -> None:
    client, publisher = join(properties=((P.RECEIVE_MAXIMUM, 1),)), join()
    client.subscribe((topic, 2))
    for number in range(3):
        publisher.publish(topic, b"%d" % number, qos=2)
    for number in range(3):
        found = client.expect(PUBLISH, payload=b"%d" % number)
        client.acknowledge(PUBREC, found.packet_id)
        client.expect(PUBREL, packet_id=found.packet_id)
        client.expect_nothing()
        client.acknowledge(PUBCOMP, found.packet_id)


@v5("MQTT-4.9.0-2")
def test_a_refusing_pubrec_gives_quota_back(join: Join, topic: str) -> None:
    client, publisher = join(properties=((P.RECEIVE_MAXIMUM, 1),)), join()
    client.subscribe((topic, 2))
    for number in range(2):
        publisher.publish(topic, b"%d" % number, qos=2)
    found = client.expect(PUBLISH, payload=b"0")
    client.send(packet(PUBREC, u16(found.packet_id) + b"\x83"))
    client.expect(PUBLISH, payload=b"1")


@v5("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_other_packets_are_not_held_up(join: Join, topic: str) -> None:
    """At a quota of zero the client still pings, subscribes, publishes, and gets messages of QoS 0."""
    client, publisher = join(properties=((P.RECEIVE_MAXIMUM, 1),)), join()
    client.subscribe((topic, 1), (topic + "/0", 0))
    for _ in range(3):
        publisher.publish(topic, b"x")
    client.expect(PUBLISH, payload=b"x")
    assert client.ping() == []
    assert client.subscribe((topic + "/more", 1)) == [1]
    assert client.unsubscribe(topic + "/more") == [0]
    client.publish(topic + "/elsewhere", b"y", qos=2)
    publisher.publish(topic + "/0", b"not counted")
    assert [found.payload for found in client.leftovers()] == [b"not counted"]


@v5("MQTT-4.9.0-1", "MQTT-3.3.4-9", "MQTT-4.4.0-1")
def test_the_quota_begins_anew_with_each_connection(join: Join, topic: str) -> None:
    """Also what is sent again counts: a client that comes back with a smaller maximum gets no more than that."""
    name, publisher = unique("c"), join()
    lasting = (P.SESSION_EXPIRY, 600)
    client = join(client_id=name, properties=(lasting, (P.RECEIVE_MAXIMUM, 4)))
    client.subscribe((topic, 1))
    for number in range(6):
        publisher.publish(topic, b"%d" % number)
    sent = [client.expect(PUBLISH, payload=b"%d" % number).packet_id for number in range(4)]
    client.close()
    back = join(client_id=name, clean=False, properties=(lasting, (P.RECEIVE_MAXIMUM, 2)))
    for number in range(2):
        back.expect(PUBLISH, payload=b"%d" % number, dup=True, packet_id=sent[number])
    back.expect_nothing()
    for number in range(4):
        back.acknowledge(PUBACK, sent[number])
        later = number + 2
        found = back.expect(PUBLISH, payload=b"%d" % later, dup=later < 4)
        assert later >= 4 or found.packet_id == sent[later]


@v5("MQTT-3.3.4-7")
@pytest.mark.parametrize("qos", [2])
def test_a_client_that_exceeds_the_servers_maximum_is_told(join: Join, topic: str, qos: int) -> None:
    """QoS 2 without PUBREL: only then is it the client's doing that nothing is finished."""
    client = join()
    maximum = client.connack.number(P.RECEIVE_MAXIMUM, 65_535)
    if maximum > 5000:
        pytest.skip("the Receive Maximum of this broker is too large to be exceeded in a short test")
    for number in range(1, maximum + 1):
        client.send(client.publication(topic, b"", qos=qos, packet_id=number))
    for number in range(1, maximum + 1):
        client.expect(PUBREC, packet_id=number)
    assert client.ping() == []
    client.send(client.publication(topic, b"", qos=qos, packet_id=maximum + 1))
    client.expect_end(0x93)


@v5("MQTT-3.3.4-7")
def test_a_client_at_the_servers_maximum_is_not_punished(join: Join, topic: str) -> None:
    """A message sent again does not count twice, and a finished one not at all."""
    client = join()
    maximum = client.connack.number(P.RECEIVE_MAXIMUM, 65_535)
    for _ in range(3):
        client.send(client.publication(topic, b"", qos=2, packet_id=1, dup=True))
        client.expect(PUBREC, packet_id=1)
    if maximum < 5000:
        for number in range(2, maximum + 1):
            client.send(client.publication(topic, b"", qos=2, packet_id=number))
        for number in range(2, maximum + 1):
            client.expect(PUBREC, packet_id=number)
    client.acknowledge(PUBREL, 1)
    client.expect(PUBCOMP, packet_id=1)
    client.publish(topic, b"", qos=1, packet_id=1)
