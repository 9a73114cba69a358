"""Chapters 4.3, 4.4 and 4.6: delivery of QoS 0, 1 and 2, sending again, and order."""

from __future__ import annotations

import time

import pytest

from tests.conformance.codec import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5, P, packet, u16
from tests.conformance.conftest import Join, unique
from tests.conformance.raw import Client
from tests.conformance.statement import both, v5, v311


class Resuming:
    """A subscriber that can be cut off and come back to its session."""

    def __init__(self, join: Join, version: int) -> None:
        self.join, self.version, self.name = join, version, unique("c")

    def __call__(self) -> Client:
        lasting = ((P.SESSION_EXPIRY, 600),) if self.version == V5 else ()
        return self.join(self.version, client_id=self.name, clean=False, properties=lasting)


@v5("MQTT-4.3.1-1", "MQTT-3.3.1-2")
@v311("MQTT-4.3.1-1", "MQTT-3.3.1-2")
@both
def test_qos_0_is_sent_once(join: Join, topic: str, version: int) -> None:
    resuming = Resuming(join, version)
    client = resuming()
    client.subscribe((topic, 0))
    join(version).publish(topic, b"x", qos=2)
    client.expect(PUBLISH, payload=b"x", flags=0, packet_id=0)
    client.close()
    resuming().expect_nothing()


@v5("MQTT-4.3.2-2", "MQTT-4.3.2-3", "MQTT-3.3.1-1", "MQTT-4.4.0-1")
@v311("MQTT-4.3.2-1", "MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-2.3.1-4")
@both
def test_qos_1_is_sent_again_until_it_is_acknowledged(join: Join, topic: str, version: int) -> None:
    resuming = Resuming(join, version)
    client = resuming()
    client.subscribe((topic, 1))
    join(version).publish(topic, b"x")
    first = client.expect(PUBLISH, payload=b"x", qos=1, dup=False)
    assert client.ping() == []  # not sent again while the connection lasts
    client.close()
    for _ in range(2):
        client = resuming()
        again = client.expect(PUBLISH, topic=topic, payload=b"x", qos=1, dup=True)
        assert again.packet_id == first.packet_id
        client.close()
    client = resuming()
    client.take(payload=b"x", dup=True, packet_id=first.packet_id)
    client.disconnect()
    resuming().expect_nothing()


@v5("MQTT-4.3.3-2", "MQTT-4.3.3-3", "MQTT-4.3.3-4", "MQTT-4.3.3-5", "MQTT-4.3.3-6", "MQTT-4.4.0-1", "MQTT-3.6.2-1")
@v311("MQTT-4.3.3-1", "MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-2.3.1-6")
@both
def test_qos_2_goes_through_its_four_steps_and_never_back(join: Join, topic: str, version: int) -> None:
    resuming = Resuming(join, version)
    client = resuming()
    client.subscribe((topic, 2))
    join(version).publish(topic, b"x", qos=2)
    number = client.expect(PUBLISH, payload=b"x", qos=2, dup=False).packet_id
    client.close()
    client = resuming()
    client.expect(PUBLISH, payload=b"x", qos=2, dup=True, packet_id=number)
    client.acknowledge(PUBREC, number)
    client.expect(PUBREL, packet_id=number, flags=2)
    assert client.ping() == []
    client.close()
    for _ in range(2):
        client = resuming()
        client.expect(PUBREL, packet_id=number)  # the PUBLISH is not sent again
        client.close()
    client = resuming()
    client.expect(PUBREL, packet_id=number)
    client.acknowledge(PUBCOMP, number)
    client.expect_nothing()
    client.disconnect()
    resuming().expect_nothing()


@v5("MQTT-4.3.2-4", "MQTT-4.3.2-5", "MQTT-3.3.4-1")
@v311("MQTT-4.3.2-2", "MQTT-3.3.4-1")
@both
@pytest.mark.parametrize("dup", [False, True])
def test_after_puback_the_identifier_is_free(join: Join, topic: str, version: int, dup: bool) -> None:
    subscriber, publisher = join(version), join(version)
    subscriber.subscribe((topic, 1))
    publisher.publish(topic, b"first", packet_id=7)
    publisher.publish(topic, b"second", packet_id=7, dup=dup)
    subscriber.take(payload=b"first")
    subscriber.take(payload=b"second")


@v5("MQTT-4.3.3-8", "MQTT-4.3.3-10", "MQTT-4.3.3-11", "MQTT-4.3.3-12", "MQTT-3.5.2-1", "MQTT-3.7.2-1")
@v311("MQTT-4.3.3-2", "MQTT-3.3.4-1")
@both
def test_a_repeated_qos_2_message_is_delivered_once(join: Join, topic: str, version: int) -> None:
    subscriber, publisher = join(version), join(version)
    subscriber.subscribe((topic, 2))
    for dup in (False, True, True):
        publisher.send(publisher.publication(topic, b"x", qos=2, packet_id=7, dup=dup))
        publisher.expect(PUBREC, packet_id=7)
    publisher.acknowledge(PUBREL, 7)
    publisher.expect(PUBCOMP, packet_id=7, reason=0)
    subscriber.take(payload=b"x")
    subscriber.expect_nothing()
    publisher.publish(topic, b"new", qos=2, packet_id=7)
    subscriber.take(payload=b"new")


@v5("MQTT-4.3.3-10", "MQTT-4.4.0-1", "MQTT-3.1.2-23")
@v311("MQTT-4.3.3-2", "MQTT-4.1.0-1")
@both
def test_a_qos_2_publisher_can_resume(join: Join, topic: str, version: int) -> None:
    """The broker remembers which identifiers it has received, also while the publisher is away."""
    resuming, subscriber = Resuming(join, version), join(version)
    subscriber.subscribe((topic, 2))
    publisher = resuming()
    publisher.send(publisher.publication(topic, b"x", qos=2, packet_id=7))
    publisher.expect(PUBREC, packet_id=7)
    publisher.close()
    publisher = resuming()
    publisher.send(publisher.publication(topic, b"x", qos=2, packet_id=7, dup=True))
    publisher.expect(PUBREC, packet_id=7)
    publisher.close()
    publisher = resuming()
    publisher.acknowledge(PUBREL, 7)
    publisher.expect(PUBCOMP, packet_id=7, reason=0)
    subscriber.take(payload=b"x")
    subscriber.expect_nothing()


@v5("MQTT-4.3.3-11", "MQTT-3.7.2-1")
@both
def test_an_unknown_pubrel_is_answered(join: Join, version: int) -> None:
    """MQTT 5 has a reason for it: 0x92, Packet Identifier not found."""
    client = join(version)
    client.acknowledge(PUBREL, 77)
    client.expect(PUBCOMP, packet_id=77, reason=0x92 if version == V5 else 0)


@v5("MQTT-4.3.3-4")
def test_an_unknown_pubrec_is_answered(join: Join) -> None:
    client = join()
    client.acknowledge(PUBREC, 77)
    client.expect(PUBREL, packet_id=77, reason=0x92)


@v5("MQTT-3.6.2-2", "MQTT-3.6.2-3", "MQTT-3.7.2-2", "MQTT-3.7.2-3", "MQTT-3.6.2-1", "MQTT-3.7.2-1")
def test_answers_to_the_unknown_respect_the_maximum_packet_size(join: Join) -> None:
    """30 bytes hold the reason code, but hardly a reason string."""
    client = join(properties=((P.MAXIMUM_PACKET_SIZE, 30),))
    client.acknowledge(PUBREL, 77)
    assert client.expect(PUBCOMP, packet_id=77).size <= 30
    client.acknowledge(PUBREC, 78)
    assert client.expect(PUBREL, packet_id=78).size <= 30


@both
def test_unknown_acknowledgements_are_no_reason_to_fall_over(join: Join, version: int) -> None:
    """Neither version demands an answer; the broker may ignore them or end the connection, but it must go on."""
    client = join(version)
    client.acknowledge(PUBACK, 77)
    client.acknowledge(PUBCOMP, 78)
    join(version).expect_nothing()


@v5("MQTT-4.4.0-2", "MQTT-4.8.2-6")
@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)], ids=["PUBACK", "PUBREC"])
def test_a_refusal_ends_the_exchange(join: Join, topic: str, qos: int, kind: int) -> None:
    resuming = Resuming(join, V5)
    client = resuming()
    client.subscribe((topic, 2))
    join().publish(topic, b"x", qos=qos)
    found = client.expect(PUBLISH, payload=b"x", qos=qos)
    client.send(packet(kind, u16(found.packet_id) + b"\x80"))
    client.expect_nothing()  # no PUBREL either
    client.close()
    resuming().expect_nothing()


@v5("MQTT-4.3.3-9")
def test_after_a_refused_qos_2_message_the_identifier_is_free(join: Join, topic: str) -> None:
    """Where the broker refuses a topic, the same identifier can be used at once."""
    client = join()
    client.subscribe((topic, 0))
    client.send(client.publication("$SYS/not/for/clients", b"x", qos=2, packet_id=7))
    if client.expect(PUBREC, packet_id=7).reason < 0x80:
        pytest.skip("this broker lets clients publish to $SYS")
    client.publish(topic, b"new", qos=2, packet_id=7)
    client.expect(PUBLISH, payload=b"new")


@v5("MQTT-4.3.3-7", "MQTT-4.3.3-13", "MQTT-4.4.0-1")
def test_a_message_under_way_does_not_expire(join: Join, topic: str) -> None:
    """Both exchanges began before the three seconds were over; they are finished after them."""
    resuming = Resuming(join, V5)
    publisher, client = join(), resuming()
    client.subscribe((topic + "/#", 2))
    publisher.publish(topic + "/a", b"a", qos=2, properties=[(P.MESSAGE_EXPIRY, 3)])
    publisher.publish(topic + "/b", b"b", qos=2, properties=[(P.MESSAGE_EXPIRY, 3)])
    first, second = client.expect(PUBLISH, payload=b"a"), client.expect(PUBLISH, payload=b"b")
    client.acknowledge(PUBREC, first.packet_id)
    client.expect(PUBREL, packet_id=first.packet_id)
    client.close()
    time.sleep(4)
    client = resuming()
    came = {found.kind: found for found in (client.receive(), client.receive())}
    assert came[PUBREL].packet_id == first.packet_id
    assert came[PUBLISH].packet_id == second.packet_id
    client.acknowledge(PUBCOMP, first.packet_id)
    client.acknowledge(PUBREC, second.packet_id)
    client.expect(PUBREL, packet_id=second.packet_id)
    client.acknowledge(PUBCOMP, second.packet_id)


@v5("MQTT-4.3.3-13")
def test_a_publisher_finishes_what_has_expired(join: Join, topic: str) -> None:
    publisher = join()
    publisher.send(publisher.publication(topic, b"x", qos=2, packet_id=7, properties=[(P.MESSAGE_EXPIRY, 1)]))
    publisher.expect(PUBREC, packet_id=7)
    time.sleep(1.2)
    publisher.acknowledge(PUBREL, 7)
    publisher.expect(PUBCOMP, packet_id=7, reason=0)


@v5("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@v311("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_keep_their_order(join: Join, topic: str, version: int, qos: int) -> None:
    subscriber, publishers = join(version), [join(version), join(version)]
    subscriber.subscribe((topic, qos))
    for number in range(40):
        for who, publisher in enumerate(publishers):
            publisher.publish(topic, b"%d %d" % (who, number), qos=qos)
    came: list[list[int]] = [[], []]
    for _ in range(80):
        who, number = map(int, subscriber.take(topic=topic).payload.split())
        came[who].append(number)
    assert came == [list(range(40))] * 2


@v5("MQTT-4.6.0-5", "MQTT-4.4.0-1")
@v311("MQTT-4.6.0-6", "MQTT-4.4.0-1")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_sent_again_keeps_its_order(join: Join, topic: str, version: int, qos: int) -> None:
    resuming, publisher = Resuming(join, version), join(version)
    client = resuming()
    client.subscribe((topic, qos))
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=qos)
    sent = [client.expect(PUBLISH, payload=b"%d" % number).packet_id for number in range(5)]
    client.disconnect()
    for number in range(5, 8):
        publisher.publish(topic, b"%d" % number, qos=qos)
    client = resuming()
    for number in range(8):
        found = client.take(payload=b"%d" % number, dup=number < 5)
        assert number >= 5 or found.packet_id == sent[number]
    client.expect_nothing()


@v5("MQTT-4.6.0-5")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledgements_come_in_order(join: Join, topic: str, version: int, qos: int) -> None:
    client = join(version)
    client.send(b"".join(client.publication(topic, b"x", qos=qos, packet_id=number) for number in range(1, 21)))
    answers = [client.expect(PUBACK if qos == 1 else PUBREC).packet_id for _ in range(20)]
    assert answers == list(range(1, 21))


@v5("MQTT-4.4.0-1")
@v311("MQTT-4.4.0-1", "MQTT-3.1.2-6")
@both
def test_nothing_is_sent_again_to_a_clean_session(join: Join, topic: str, version: int) -> None:
    resuming = Resuming(join, version)
    client = resuming()
    client.subscribe((topic, 1))
    join(version).publish(topic, b"x")
    client.expect(PUBLISH, payload=b"x")
    client.close()
    join(version, client_id=resuming.name).expect_nothing()
    resuming().expect_nothing()
