"""Chapter 4.8.2: shared subscriptions."""

from __future__ import annotations

import pytest

from tests.conformance.codec import NO_LOCAL, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, V5, P, packet, u16
from tests.conformance.conftest import Join, unique
from tests.conformance.statement import v5

LASTING = ((P.SESSION_EXPIRY, 600),)


@v5("MQTT-4.8.2-1", "MQTT-4.8.2-2", "MQTT-4.7.3-1")
@pytest.mark.parametrize(
    "pattern",
    ["$share//a", "$share/g", "$share/g/", "$share/", "$share/g+/a", "$share/#/a", "$share/+/a", "$share/g#/a"],
)
def test_a_share_needs_a_name_and_a_filter(join: Join, pattern: str) -> None:
    client = join()
    client.send(client.subscription([(pattern, 0)], 9))
    answer = client.receive()
    if answer.kind == SUBACK:
        assert answer.reasons == [0x8F]
    else:
        assert answer.reason in (0x81, 0x82, 0x8F), f"{answer}"
        client.expect_closed()


@v5("MQTT-3.8.3-4")
def test_no_local_on_a_share_is_an_error(join: Join, topic: str) -> None:
    client = join()
    client.send(client.subscription([(f"$share/g/{topic}", NO_LOCAL)], 9))
    client.expect_end(0x82)


@v5("MQTT-4.8.2-1")
@pytest.mark.parametrize("name", ["g", "Ω", "a b", "$share", "g$"])
def test_each_message_goes_to_one_member(join: Join, topic: str, name: str) -> None:
    members, outsider, publisher = [join() for _ in range(3)], join(), join()
    for member in members:
        assert member.subscribe((f"$share/{name}/{topic}/+", 1)) == [1]
    outsider.subscribe((topic + "/+", 0))
    for number in range(30):
        publisher.publish(f"{topic}/{number % 5}", b"%d" % number)
    shares = []
    for member in members:
        found = member.leftovers()
        assert all(one.topic.startswith(topic) for one in found)
        shares.append([int(one.payload) for one in found])
    assert sorted(number for share in shares for number in share) == list(range(30))
    assert all(shares), "a member that takes nothing has no share"
    assert len(outsider.leftovers()) == 30


@v5("MQTT-4.8.2-1")
def test_groups_are_independent(join: Join, topic: str) -> None:
    """Another name, another filter and a subscription of one's own each get their copy."""
    one, other, both_groups, publisher = join(), join(), join(), join()
    one.subscribe((f"$share/g1/{topic}", 0))
    other.subscribe((f"$share/g2/{topic}", 0), (f"$share/g1/{topic}/#", 0))
    both_groups.subscribe((f"$share/g3/{topic}", 0), (topic, 0))
    publisher.publish(topic, b"x")
    assert [len(client.leftovers()) for client in (one, other, both_groups)] == [1, 2, 2]


@v5("MQTT-3.3.1-9", "MQTT-3.3.1-10")
@pytest.mark.parametrize("options", [0, 0x10])
def test_no_retained_messages_for_a_share(join: Join, topic: str, options: int) -> None:
    """§4.8.2, §3.8.4: retained messages are not sent for a shared subscription when it is made."""
    client = join()
    client.publish(topic, b"x", retain=True)
    client.subscribe((f"$share/g/{topic}", options))
    client.expect_nothing()
    client.publish(topic, b"", retain=True)


@v5("MQTT-4.8.2-3", "MQTT-3.8.4-8")
def test_members_get_the_qos_that_they_were_granted(join: Join, topic: str) -> None:
    members, publisher = [join() for _ in range(3)], join()
    for qos, member in enumerate(members):
        assert member.subscribe((f"$share/g/{topic}", qos)) == [qos]
    for number in range(12):
        publisher.publish(topic, b"%d" % number, qos=2)
    for qos, member in enumerate(members):
        assert all(found.qos == qos for found in member.leftovers())


@v5("MQTT-4.8.2-4", "MQTT-4.4.0-1")
def test_a_qos_2_message_is_finished_with_the_member_that_has_it(join: Join, topic: str) -> None:
    name, publisher, other = unique("c"), join(), join()
    member = join(client_id=name, properties=LASTING)
    member.subscribe((f"$share/g/{topic}", 2))
    publisher.publish(topic, b"x", qos=2)
    number = member.expect(PUBLISH, payload=b"x", qos=2).packet_id
    other.subscribe((f"$share/g/{topic}", 2))
    member.acknowledge(PUBREC, number)
    member.expect(PUBREL, packet_id=number)
    member.close()
    other.expect_nothing()
    back = join(client_id=name, clean=False, properties=LASTING)
    back.expect(PUBREL, packet_id=number)
    back.acknowledge(PUBCOMP, number)
    other.expect_nothing()


@v5("MQTT-4.8.2-5")
def test_a_qos_2_message_goes_to_nobody_else_when_the_session_ends(join: Join, topic: str) -> None:
    name, publisher, other = unique("c"), join(), join()
    member = join(client_id=name, properties=LASTING)
    member.subscribe((f"$share/g/{topic}", 2))
    publisher.publish(topic, b"x", qos=2)
    number = member.expect(PUBLISH, payload=b"x", qos=2).packet_id
    other.subscribe((f"$share/g/{topic}", 2))
    member.acknowledge(PUBREC, number)
    member.expect(PUBREL, packet_id=number)
    member.close()
    join(client_id=name).disconnect()  # Clean Start: the session ends
    other.expect_nothing()


@v5("MQTT-4.8.2-6", "MQTT-4.4.0-2")
@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)], ids=["PUBACK", "PUBREC"])
def test_a_refused_message_goes_to_nobody_else(join: Join, topic: str, qos: int, kind: int) -> None:
    member, other, publisher = join(), join(), join()
    member.subscribe((f"$share/g/{topic}", qos))
    publisher.publish(topic, b"x", qos=qos)
    found = member.expect(PUBLISH, payload=b"x")
    other.subscribe((f"$share/g/{topic}", qos))
    member.send(packet(kind, u16(found.packet_id) + b"\x83"))
    member.expect_nothing()
    other.expect_nothing()


@v5("MQTT-3.10.4-1", "MQTT-3.10.4-2")
def test_leaving_a_share(join: Join, topic: str) -> None:
    one, other, publisher = join(), join(), join()
    for member in (one, other):
        member.subscribe((f"$share/g/{topic}", 0))
    assert one.unsubscribe(topic, f"$share/h/{topic}", f"$share/g/{topic}") == [0x11, 0x11, 0]
    for _ in range(5):
        publisher.publish(topic, b"x")
    one.expect_nothing()
    assert len(other.leftovers()) == 5
    other.close()
    one.subscribe((f"$share/g/{topic}", 0))
    publisher.ping()
    for _ in range(3):
        publisher.publish(topic, b"y")
    assert len(one.leftovers()) == 3  # the one who left without a word takes nothing any more


@v5("MQTT-3.3.4-3")
def test_a_share_has_an_identifier_for_each_member(join: Join, topic: str) -> None:
    one, other = join(), join()
    one.subscribe((f"$share/g/{topic}", 0), properties=[(P.SUBSCRIPTION_ID, 11)])
    other.subscribe((f"$share/g/{topic}", 0), properties=[(P.SUBSCRIPTION_ID, 12)])
    for _ in range(6):
        other.publish(topic, b"x", qos=0)
    other.ping()
    assert {tuple(found.all(P.SUBSCRIPTION_ID)) for found in one.leftovers()} <= {(11,)}


@v5("MQTT-4.8.2-1")
def test_the_versions_share(join: Join, topic: str) -> None:
    """3.1.1 has no shared subscriptions, and nothing against them: `$share` may be a share or a plain name there."""
    old = join(4)
    assert old.subscribe((f"$share/g/{topic}", 0))[0] in (0, 0x80)
    join(V5).publish(topic, b"x")
    assert len(old.leftovers()) in (0, 1)
