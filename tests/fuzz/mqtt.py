"""Hostile bytes against the client's side: `python tests/fuzz/mqtt.py -runs=N`.

Beside raw bytes the fuzzer is given bodies in whole packets and damaged examples of every packet, in both versions.
Each must be refused with a `PacketError`, or be read the same however the stream is cut, and survive being written and
read again.
"""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    import atheris

    with atheris.instrument_imports(include=["latecomer"]):
        importlib.import_module("latecomer.wire.mqtt")

from latecomer.messages.mqtt import (
    V5,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from latecomer.wire.mqtt import Reader, decode, encode, header
from latecomer.wire.mqtt_fields import length

USER = (("filter", "price < 5"), ("ä", ""))
MESSAGE = Properties(
    payload_format=1,
    message_expiry_s=60,
    content_type="text/plain",
    response_topic="answers/1",
    correlation_data=b"\0\xff",
    user=USER,
)
EXAMPLES: tuple[Packet, ...] = (
    Connect("c1", V311, True, 60, Will("gone", b"c1", 1, True), "user", b"secret"),
    Connect(
        "c1",
        V5,
        False,
        60,
        Will("gone", b"c1", 2, False, Properties(will_delay_s=5, content_type="t")),
        "user",
        b"secret",
        Properties(
            session_expiry_s=3600,
            receive_maximum=20,
            maximum_packet_size=70_000,
            topic_alias_maximum=9,
            request_problem_information=1,
            request_response_information=0,
            authentication_method="m",
            authentication_data=b"d",
            user=USER,
        ),
    ),
    Connack(
        False,
        Reason.SUCCESS,
        Properties(
            session_expiry_s=3600,
            assigned_client_id="c7",
            server_keep_alive_s=300,
            receive_maximum=20,
            topic_alias_maximum=9,
            maximum_qos=1,
            retain_available=1,
            maximum_packet_size=70_000,
            wildcard_available=1,
            subscription_ids_available=1,
            shared_available=1,
            response_information="answers/",
        ),
    ),
    Connack(False, Reason.USE_ANOTHER_SERVER, Properties(server_reference="b2", reason_string="full")),
    Publish("a/b", b"payload", 1, True, True, 7, MESSAGE),
    Publish("", b"x" * 200, properties=Properties(topic_alias=3, subscription_ids=(1, 300, 70_000))),
    Publish("a/b/ä", b""),
    Puback(1),
    Pubrec(2, Reason.NO_MATCHING_SUBSCRIBERS),
    Pubrel(3, Reason.PACKET_IDENTIFIER_NOT_FOUND, Properties(reason_string="who?")),
    Pubcomp(4),
    Subscribe(5, (Request("a/+/#", 1), Request("$share/g/a", 2, False, True, 2)), Properties(subscription_ids=(300,))),
    Suback(5, (Reason.GRANTED_QOS_1, Reason.NOT_AUTHORIZED), Properties(user=USER)),
    Unsubscribe(6, ("a/+/#", "b"), Properties(user=USER)),
    Unsuback(6, (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED)),
    Pingreq(),
    Pingresp(),
    Disconnect(Reason.DISCONNECT_WITH_WILL, Properties(session_expiry_s=0, server_reference="b2")),
    Auth(Reason.CONTINUE_AUTHENTICATION, Properties(authentication_method="m", authentication_data=b"d")),
)
V311_HAS_NOT = (Auth,)


# --- what must hold -------------------------------------------------------------------------------


def check_stream(stream: bytes, sizes: list[int], version: int) -> list[Packet]:
    """Read a stream in chunks of these sizes, over and over, and at once; returns what was read."""
    packets, reader = read(stream, sizes, version)
    whole, other = read(stream, [len(stream) or 1], version)
    assert packets == whole
    assert str(reader.problem) == str(other.problem)
    assert (reader.problem and reader.problem.reason) == (other.problem and other.problem.reason)
    assert (reader.version, reader.pending, reader.problem_type) == (other.version, other.pending, other.problem_type)
    for packet in packets:
        check_packet(packet, reader.version)
    return packets


def read(stream: bytes, sizes: list[int], version: int) -> tuple[list[Packet], Reader]:
    """Whatever is raised here is a mistake."""
    reader = Reader()
    reader.version = version
    packets: list[Packet] = []
    start = turn = 0
    while start < len(stream):
        chunk = stream[start : start + sizes[turn % len(sizes)]]
        packets += reader.feed(chunk)
        start += len(chunk)
        turn += 1
    if reader.problem is not None:
        assert reader.problem.reason >= 0x80
        assert str(reader.problem)
        assert reader.feed(stream) == []
    return packets, reader


def check_packet(packet: Packet, version: int) -> None:
    """It can be written and read again, and is then written in the same way."""
    frame = encode(packet, version)
    found = header(frame, 0)
    assert found is not None
    start, end = found
    assert end == len(frame)
    again = decode(frame[0], frame[start:], version)
    assert again == packet
    assert encode(again, version) == frame


def check_body(first: int, body: bytes, version: int) -> None:
    """Either a packet or a `PacketError`."""
    try:
        packet = decode(first, body, version)
    except PacketError:
        return
    check_packet(packet, version)


# --- bytes out of bytes ---------------------------------------------------------------------------


def framed(first: int, body: bytes) -> bytes:
    return bytes((first,)) + length(len(body)) + body


def damaged(packet: Packet, version: int, data: bytes) -> bytes:
    """The packet with its body overwritten, cut or stretched, in steps of three bytes; the length is right again."""
    frame = encode(packet, version)
    found = header(frame, 0)
    assert found is not None
    body = bytearray(frame[found[0] :])
    for step in range(0, len(data) - 2, 3):
        place, what, value = data[step : step + 3]
        at = place % (len(body) + 1)
        if what < 128:
            body[at : at + 1] = bytes((value,))
        elif what < 192:
            del body[at : at + what - 127]
        else:
            body[at:at] = bytes((value,)) * (what - 191)
    return framed(frame[0], bytes(body))


def fuzz(data: bytes) -> None:
    """The first bytes choose how wild the stream is and how it is cut."""
    if len(data) < 4:
        return
    kind, choice, size, other = data[:4]
    version = V5 if kind & 1 else V311
    rest = data[4:]
    sizes = [1 + size, 1 + other]
    if kind & 6 == 0:
        check_stream(rest, sizes, version)
    elif kind & 6 == 2:
        check_body(choice, rest, version)
    elif kind & 6 == 4:
        check_stream(framed(choice, rest) + encode(Pingreq(), version), sizes, version)
    else:
        example = EXAMPLES[choice % len(EXAMPLES)]
        if version == V5 or not isinstance(example, V311_HAS_NOT):
            stream = damaged(example, version, rest) + encode(Puback(9), version)
            check_stream(stream, sizes, 0 if isinstance(example, Connect) else version)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
