"""Chapters 3.1 and 3.2: CONNECT and CONNACK."""

from __future__ import annotations

import pytest

from tests.conformance.codec import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PUBLISH,
    SUBSCRIBE,
    V5,
    V311,
    Hello,
    P,
    Will,
    packet,
    string,
    u16,
)
from tests.conformance.conftest import PASSWORD, USER, Join, Place, unique
from tests.conformance.raw import Closed, expect_refusal
from tests.conformance.statement import both, v5, v311


@v5("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-8")
@v311("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-3.2.2-1")
@both
def test_a_connect_is_acknowledged(join: Join, version: int) -> None:
    client = join(version)
    assert (client.connack.reason, client.connack.session_present) == (0, False)
    client.expect_nothing()


@v5("MQTT-3.1.0-1", "MQTT-3.14.0-1")
@v311("MQTT-3.1.0-1", "MQTT-4.8.0-1")
@both
@pytest.mark.parametrize(
    "first",
    [
        packet(PINGREQ),
        packet(DISCONNECT),
        packet(PUBLISH, string("t") + b"\0"),
        packet(SUBSCRIBE, u16(1) + b"\0" + string("t") + b"\0", 2),
        packet(CONNACK, b"\0\0\0"),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["PINGREQ", "DISCONNECT", "PUBLISH", "SUBSCRIBE", "CONNACK", "HTTP"],
)
def test_the_first_packet_is_connect(join: Join, version: int, first: bytes) -> None:
    client = join.raw(version)
    client.send(first)
    client.expect_closed()


@v5("MQTT-3.1.0-2", "MQTT-3.2.0-2")
@v311("MQTT-3.1.0-2")
@both
def test_a_second_connect_is_an_error(join: Join, version: int) -> None:
    client = join(version)
    client.send(Hello(client_id=unique("c"), version=version).encode())
    client.expect_end(0x82)


@v5("MQTT-3.1.2-1")
@v311("MQTT-3.1.2-1")
@both
@pytest.mark.parametrize("name", ["mqtt", "MQTt", "MQT", "MQTTT", "", "AMQP"])
def test_another_protocol_name_is_refused(join: Join, version: int, name: str) -> None:
    client = join.raw(version)
    client.send(Hello(client_id=unique("c"), version=version, name=name).encode())
    expect_refusal(client, 0x84, 0x81, 0x82) if version == V5 else expect_refusal(client, 1)


@v5("MQTT-3.1.2-2", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-4.13.2-1")
@pytest.mark.parametrize("level", [0, 6, 127, 255])
def test_another_protocol_version_is_refused(join: Join, level: int) -> None:
    """The answer has the form of some version: return code 1 of 3.1.1, or reason 0x84 of MQTT 5."""
    client = join.raw()
    body = string("MQTT") + bytes([level, 2]) + u16(0) + b"\0" + string(unique("c"))
    client.send(packet(CONNECT, body))
    data = bytearray()
    while more := client.read_more():
        data += more
    assert bytes(data) in (b"", b"\x20\x02\x00\x01") or (data[0] == 0x20 and data[2:4] == b"\x00\x84"), data


@v311("MQTT-3.1.2-2", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
@pytest.mark.parametrize("level", [0, 2, 3])
def test_a_client_of_an_older_level_gets_return_code_1(join: Join, level: int) -> None:
    """An older client can read this answer, and not that of MQTT 5."""
    client = join.raw(V311)
    client.send(packet(CONNECT, string("MQTT") + bytes([level, 2]) + u16(0) + string(unique("c"))))
    client.expect(CONNACK, reason=1, session_present=False)
    client.expect_closed()


BAD_FLAGS = {
    "reserved flag": 0x03,
    "Will QoS without will": 0x0A,
    "Will Retain without will": 0x22,
    "Will QoS 3": 0x1E,
}


@v5("MQTT-3.1.2-3", "MQTT-3.1.2-11", "MQTT-3.1.2-12", "MQTT-3.1.2-13", "MQTT-3.1.4-1", "MQTT-3.14.0-1")
@v311("MQTT-3.1.2-3", "MQTT-3.1.2-11", "MQTT-3.1.2-13", "MQTT-3.1.2-14", "MQTT-3.1.2-15", "MQTT-3.1.4-1")
@both
@pytest.mark.parametrize("name", BAD_FLAGS)
def test_connect_flags_that_contradict_are_malformed(join: Join, version: int, name: str) -> None:
    flags = BAD_FLAGS[name]
    will = Will("will/topic") if flags & 4 else None
    client = join.raw(version)
    client.send(Hello(client_id=unique("c"), version=version, flags=flags, will=will).encode())
    expect_refusal(client, 0x81, 0x82) if version == V5 else client.expect_closed()


MISSING = {
    "will": (0x06, b""),
    "user name": (0x82, b""),
    "password": (0xC2, string("someone")),
    "client identifier": (0x02, None),
}


@v5("MQTT-3.1.2-9", "MQTT-3.1.2-17", "MQTT-3.1.2-19", "MQTT-3.1.3-3", "MQTT-3.1.4-1")
@v311("MQTT-3.1.2-9", "MQTT-3.1.2-19", "MQTT-3.1.2-21", "MQTT-3.1.3-3", "MQTT-3.1.4-1", "MQTT-3.2.2-6")
@both
@pytest.mark.parametrize("name", MISSING)
def test_what_a_flag_announces_must_be_there(join: Join, version: int, name: str) -> None:
    flags, rest = MISSING[name]
    head = string("MQTT") + bytes([version, flags]) + u16(0) + (b"\0" if version == V5 else b"")
    client = join.raw(version)
    client.send(packet(CONNECT, head if rest is None else head + string(unique("c")) + rest))
    expect_refusal(client, 0x81, 0x82) if version == V5 else client.expect_closed()


@v5("MQTT-3.1.2-16", "MQTT-3.1.2-18", "MQTT-3.1.3-1")
@v311("MQTT-3.1.2-18", "MQTT-3.1.2-20", "MQTT-3.1.2-11", "MQTT-3.1.3-1", "MQTT-3.1.4-1")
@both
@pytest.mark.parametrize("user", [None, "someone"])
def test_what_no_flag_announces_must_not_be_there(join: Join, version: int, user: str | None) -> None:
    """A field behind the last announced one is a user name or password without its flag."""
    first, length_and_body = (whole := Hello(client_id=unique("c"), version=version, user=user).encode())[:1], whole[2:]
    client = join.raw(version)
    extra = string("secret")
    client.send(first + bytes([len(length_and_body) + len(extra)]) + length_and_body + extra)
    expect_refusal(client, 0x81, 0x82) if version == V5 else client.expect_closed()


@v311("MQTT-3.1.2-22", "MQTT-3.1.4-1")
def test_a_password_needs_a_user_name_in_3_1_1(join: Join) -> None:
    client = join.raw(V311)
    client.send(Hello(client_id=unique("c"), version=V311, password=b"secret").encode())
    client.expect_closed()


def test_a_password_needs_no_user_name_in_mqtt_5(join: Join) -> None:
    """§3.1.2.9: whatever the broker thinks of the password, the packet is not malformed."""
    client = join.raw()
    client.send(Hello(client_id=unique("c"), password=b"secret").encode())
    assert client.expect(CONNACK).reason in (0x00, 0x86, 0x87)


ILL = {"surrogate": b"\xed\xa0\x80", "overlong": b"\xc0\x80", "null": b"a\0", "no such byte": b"\xfe"}


@v5("MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-3.1.3-4", "MQTT-3.1.3-11", "MQTT-3.1.3-12", "MQTT-3.1.4-1")
@v311("MQTT-1.5.3-1", "MQTT-1.5.3-2", "MQTT-3.1.3-4", "MQTT-3.1.3-10", "MQTT-3.1.3-11", "MQTT-3.1.4-1")
@both
@pytest.mark.parametrize("where", ["client identifier", "will topic", "user name"])
@pytest.mark.parametrize("text", ILL.values(), ids=ILL.keys())
def test_the_strings_of_a_connect_are_utf8(join: Join, version: int, where: str, text: bytes) -> None:
    hello = {
        "client identifier": Hello(client_id=text, version=version),
        "will topic": Hello(client_id=unique("c"), version=version, will=Will(text)),
        "user name": Hello(client_id=unique("c"), version=version, user=text),
    }[where]
    client = join.raw(version)
    client.send(hello.encode())
    expect_refusal(client, 0x81, 0x82) if version == V5 else client.expect_closed()


@v5("MQTT-3.1.3-5", "MQTT-3.1.3-2", "MQTT-3.1.2-6")
@v311("MQTT-3.1.3-5", "MQTT-3.1.3-2")
@both
@pytest.mark.parametrize(
    "client_id", ["0", "Z9", "abcdefghijklmnopqrstuvw", "ABCDEFGHIJKLMNOPQRSTUVW", "0123456789xyzXYZ"]
)
def test_plain_client_identifiers_are_allowed(join: Join, version: int, client_id: str) -> None:
    first = join(version, client_id=client_id)
    assert not first.connack.session_present
    first.expect_nothing()
    first.disconnect()


@v5("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_an_empty_identifier_is_replaced(join: Join) -> None:
    one, other = join(client_id=""), join(client_id="")
    names = [client.connack.get(P.ASSIGNED_CLIENT_ID) for client in (one, other)]
    assert all(isinstance(name, str) and name for name in names)
    assert names[0] != names[1]
    one.expect_nothing()  # not taken over by the other
    again = join(client_id=names[0])
    assert again.connack.get(P.ASSIGNED_CLIENT_ID) is None
    one.expect_end(0x8E)  # the name was that of the session


@v5("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.1.3-8")
def test_an_empty_identifier_without_clean_start_is_replaced_or_refused(join: Join) -> None:
    client = join.raw()
    client.send(Hello(clean=False).encode())
    answer = client.expect(CONNACK)
    if answer.reason:
        assert answer.reason == 0x85
        client.expect_closed()
    else:
        assert answer.get(P.ASSIGNED_CLIENT_ID)


@v311("MQTT-3.1.3-6")
def test_an_empty_identifier_is_unique_in_3_1_1(join: Join) -> None:
    one, other = join(V311, client_id=""), join(V311, client_id="")
    one.expect_nothing()
    other.expect_nothing()


@v311("MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.1.3-9", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
def test_an_empty_identifier_needs_a_clean_session_in_3_1_1(join: Join) -> None:
    client = join.raw(V311)
    client.send(Hello(version=V311, clean=False).encode())
    client.expect(CONNACK, reason=2, session_present=False)
    client.expect_closed()


@v5("MQTT-3.1.4-3", "MQTT-3.1.3-2", "MQTT-3.14.4-1", "MQTT-3.14.4-2")
@v311("MQTT-3.1.4-2", "MQTT-3.1.3-2")
@both
def test_a_new_connection_takes_over(join: Join, version: int) -> None:
    name = unique("c")
    old = join(version, client_id=name)
    new = join(version, client_id=name)
    old.expect_end(0x8E)
    new.expect_nothing()


@v5("MQTT-3.1.4-6")
@v311("MQTT-3.1.4-5")
@both
def test_after_a_refusal_nothing_is_processed(join: Join, topic: str, version: int) -> None:
    """A CONNECT with a reserved flag, and behind it in the same segment a PUBLISH that must not arrive."""
    watcher, intruder = join(version), join.raw(version)
    watcher.subscribe((topic, 0))
    intruder.send(
        Hello(client_id=unique("c"), version=version, flags=3).encode() + intruder.publication(topic, b"intruder")
    )
    expect_refusal(intruder, 0x81, 0x82) if version == V5 else intruder.expect_closed()
    watcher.expect_nothing()


CONNECT_PROPERTIES: dict[str, tuple[tuple[tuple[int, int | str | bytes], ...], set[int]]] = {
    "Receive Maximum 0": (((P.RECEIVE_MAXIMUM, 0),), {0x82}),
    "Maximum Packet Size 0": (((P.MAXIMUM_PACKET_SIZE, 0),), {0x82}),
    "Request Problem Information 2": (((P.REQUEST_PROBLEM, 2),), {0x81, 0x82}),
    "Request Response Information 2": (((P.REQUEST_RESPONSE, 2),), {0x81, 0x82}),
    "twice": (((P.SESSION_EXPIRY, 1), (P.SESSION_EXPIRY, 1)), {0x81, 0x82}),
    "property of a PUBLISH": (((P.TOPIC_ALIAS, 1),), {0x81, 0x82}),
    "authentication data alone": (((P.AUTH_DATA, b"x"),), {0x81, 0x82}),
}


@v5("MQTT-3.1.4-1", "MQTT-3.1.4-2", "MQTT-3.2.2-7", "MQTT-4.13.1-1")
@pytest.mark.parametrize("name", CONNECT_PROPERTIES)
def test_properties_of_a_connect_are_checked(join: Join, name: str) -> None:
    properties, reasons = CONNECT_PROPERTIES[name]
    client = join.raw()
    client.send(Hello(client_id=unique("c"), properties=properties).encode())
    expect_refusal(client, *reasons)


@v5("MQTT-3.1.2-28")
def test_response_information_only_on_request(join: Join) -> None:
    assert join().connack.get(P.RESPONSE_INFORMATION) is None
    assert join(properties=((P.REQUEST_RESPONSE, 0),)).connack.get(P.RESPONSE_INFORMATION) is None


@v5("MQTT-3.2.2-9", "MQTT-3.2.2-10", "MQTT-3.2.2-12", "MQTT-3.2.2-13")
def test_nothing_is_announced_as_missing(join: Join, topic: str) -> None:
    """This broker has every QoS, retained messages, wildcards, identifiers and shares, so it must not deny them."""
    client = join(will=Will(topic, qos=2, retain=True))
    for identifier in (
        P.MAXIMUM_QOS,
        P.RETAIN_AVAILABLE,
        P.WILDCARD_AVAILABLE,
        P.SUBSCRIPTION_IDS_AVAILABLE,
        P.SHARED_AVAILABLE,
    ):
        assert client.connack.number(identifier, 2 if identifier == P.MAXIMUM_QOS else 1) >= 1
    assert client.connack.number(P.RECEIVE_MAXIMUM, 65535) > 0
    assert client.connack.number(P.MAXIMUM_PACKET_SIZE, 1) > 0
    assert client.subscribe((topic, 2)) == [2]
    client.disconnect()


@v5("MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
@pytest.mark.parametrize("limit", [5, 20, 30, 100])
def test_the_connack_respects_the_maximum_packet_size(join: Join, limit: int) -> None:
    """A CONNACK that cannot be made small enough is not sent at all."""
    client = join.raw()
    client.send(Hello(client_id=unique("c"), properties=((P.MAXIMUM_PACKET_SIZE, limit),)).encode())
    try:
        assert client.receive().size <= limit
    except Closed:
        assert limit < 30, "a CONNACK without reason string and user properties fits into 30 bytes"


@v5("MQTT-3.1.2-22", "MQTT-3.2.2-22")
@v311("MQTT-3.1.2-24")
@both
def test_a_silent_client_is_disconnected(join: Join, topic: str, version: int) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 0))
    silent = join(version, keep_alive=1, will=Will(topic, b"silent"))
    assert silent.connack.get(P.SERVER_KEEP_ALIVE) is None
    silent.expect_end(0x8D)
    watcher.expect(PUBLISH, topic=topic, payload=b"silent")  # as if the network had failed


@v5("MQTT-3.1.2-21", "MQTT-3.2.2-21")
def test_a_server_keep_alive_is_announced_when_it_differs(join: Join) -> None:
    announced = join(keep_alive=65535).connack.get(P.SERVER_KEEP_ALIVE)
    assert announced is None or (isinstance(announced, int) and 0 < announced < 65535)


@v5("MQTT-3.1.4-2", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-3.2.2-8", "MQTT-4.13.2-1")
@v311("MQTT-3.2.2-4", "MQTT-3.2.2-5", "MQTT-3.1.4-5")
@both
@pytest.mark.parametrize("user", ["nobody", USER])
def test_a_stranger_is_refused(join: Join, broker: Place, topic: str, version: int, user: str) -> None:
    """A name that nobody has, or a wrong password; a broker that asks for no passwords may let them in."""
    watcher, client = join(version), join.raw(version)
    watcher.subscribe((topic, 0))
    hello = Hello(client_id=unique("c"), version=version, clean=False, user=user, password=b"wrong")
    client.send(hello.encode() + client.publication(topic, b"intruder"))
    answer = client.expect(CONNACK, session_present=False)
    assert answer.reason in ((0x86, 0x87) if version == V5 else (4, 5)) or (answer.reason == 0 and not broker.ours)
    if answer.reason:
        client.expect_closed()
        watcher.expect_nothing()


@v5("MQTT-3.1.2-17", "MQTT-3.1.2-19", "MQTT-3.1.3-1", "MQTT-3.1.4-5")
@v311("MQTT-3.1.2-19", "MQTT-3.1.2-21", "MQTT-3.1.3-1", "MQTT-3.1.4-4")
@both
def test_every_field_of_a_connect_together(join: Join, topic: str, version: int) -> None:
    """Identifier, will, user name and password in one packet: each is found where it belongs."""
    watcher = join(version)
    watcher.subscribe((topic, 0))
    join(version, will=Will(topic, b"\0\4will"), user=USER, password=PASSWORD.encode()).close()
    watcher.expect(PUBLISH, topic=topic, payload=b"\0\4will")


@v5("MQTT-4.12.0-1", "MQTT-4.12.0-4", "MQTT-3.2.2-7")
def test_an_unknown_authentication_method_is_refused(join: Join) -> None:
    client = join.raw()
    client.send(Hello(client_id=unique("c"), properties=((P.AUTH_METHOD, "no such method"),)).encode())
    client.expect(CONNACK, reason=0x8C, session_present=False)
    client.expect_closed()
