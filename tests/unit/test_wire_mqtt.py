"""MQTT as bytes, by example: what packets look like, what a stream costs, and the fuzzer itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from latecomer.messages.mqtt import (
    PACKET_MAX,
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
from latecomer.wire import mqtt as wire
from latecomer.wire.mqtt import Reader, decode, encode, header
from latecomer.wire.mqtt_fields import LENGTH_MAX, length, read_length
from tests.fuzz.presence import need_atheris

# --- the bytes ------------------------------------------------------------------------------------

# What paho-mqtt 2.1 and mosquitto 2.0 said to one another, and what the figures of the specification show.
GOLDEN: list[tuple[int, str, Packet]] = [
    (
        V311,
        "102600044d51545404ee003c000263310004676f6e65000263310004757365720006736563726574",
        Connect("c1", V311, True, 60, Will("gone", b"c1", 1, True), "user", b"secret"),
    ),
    (V311, "20020000", Connack()),
    (V311, "20020100", Connack(True)),
    (V311, "20020005", Connack(False, Reason.NOT_AUTHORIZED)),
    (V311, "820e00010003612f2b010003622f2302", Subscribe(1, (Request("a/+", 1), Request("b/#", 2)))),
    (V311, "900400010102", Suback(1, (1, 2))),
    (V311, "90050001000280", Suback(1, (0, 2, 0x80))),  # figure 3.27 of 3.1.1
    (V311, "30090003612f627a65726f", Publish("a/b", b"zero")),
    (V311, "330a0003612f6200036f6e65", Publish("a/b", b"one", 1, True, False, 3)),
    (V311, "340a0003622f63000474776f", Publish("b/c", b"two", 2, packet_id=4)),
    (V311, "320a00066e6f626f64790005", Publish("nobody", b"", 1, packet_id=5)),
    (V311, "40020001", Puback(1)),
    (V311, "50020002", Pubrec(2)),
    (V311, "62020004", Pubrel(4)),
    (V311, "70020004", Pubcomp(4)),
    (V311, "a20a00060003612f2b000171", Unsubscribe(6, ("a/+", "q"))),
    (V311, "b0020006", Unsuback(6)),
    (V311, "c000", Pingreq()),
    (V311, "d000", Pingresp()),
    (V311, "e000", Disconnect()),
    (
        V5,
        "104000044d51545405ee003c0f1100000e1021001426000161000162000263310903000174180000000500"
        "04676f6e65000263310004757365720006736563726574",
        Connect(
            "c1",
            V5,
            True,
            60,
            Will("gone", b"c1", 1, True, Properties(content_type="t", will_delay_s=5)),
            "user",
            b"secret",
            Properties(session_expiry_s=3600, receive_maximum=20, user=(("a", "b"),)),
        ),
    ),
    (V5, "200900000621001422000a", Connack(properties=Properties(receive_maximum=20, topic_alias_maximum=10))),
    (
        V5,
        "82120001030bac020003612f2b290003622f2302",
        Subscribe(1, (Request("a/+", 1, False, True, 2), Request("b/#", 2)), Properties(subscription_ids=(300,))),
    ),
    (V5, "90050001000102", Suback(1, (1, 2))),
    (V5, "300a0003612f62007a65726f", Publish("a/b", b"zero")),
    (V5, "300d0003612f62030bac027a65726f", Publish("a/b", b"zero", properties=Properties(subscription_ids=(300,)))),
    (
        V5,
        "332c0003612f620003210101020000003c080003722f3109000200ff23000326000666696c7465720001786f6e65",
        Publish(
            "a/b",
            b"one",
            1,
            True,
            False,
            3,
            Properties(
                payload_format=1,
                message_expiry_s=60,
                response_topic="r/1",
                correlation_data=b"\0\xff",
                topic_alias=3,
                user=(("filter", "x"),),
            ),
        ),
    ),
    (V5, "340b0003622f6300040074776f", Publish("b/c", b"two", 2, packet_id=4)),
    (V5, "40020001", Puback(1)),
    (V5, "4003000510", Puback(5, Reason.NO_MATCHING_SUBSCRIBERS)),
    (V5, "62020004", Pubrel(4)),
    (V5, "7003000492", Pubcomp(4, Reason.PACKET_IDENTIFIER_NOT_FOUND)),
    (V5, "a20b0006000003612f2b000171", Unsubscribe(6, ("a/+", "q"))),
    (V5, "b0050006000011", Unsuback(6, (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED))),
    (V5, "e000", Disconnect()),
    (V5, "e0018e", Disconnect(Reason.SESSION_TAKEN_OVER)),
    (V5, "e00782051100000000", Disconnect(Reason.PROTOCOL_ERROR, Properties(session_expiry_s=0))),
    (V5, "f000", Auth()),
    (V5, "f006180415000178", Auth(Reason.CONTINUE_AUTHENTICATION, Properties(authentication_method="x"))),
]


@pytest.mark.parametrize(
    ("version", "text", "packet"), GOLDEN, ids=[f"v{v} {p.__class__.__name__}" for v, _, p in GOLDEN]
)
def test_the_bytes_of_a_packet(version: int, text: str, packet: Packet) -> None:
    frame = bytes.fromhex(text)
    assert encode(packet, version).hex() == text
    found = header(frame, 0)
    assert found is not None
    assert decode(frame[0], frame[found[0] :], version) == packet


def test_properties_may_come_in_any_order() -> None:
    """§2.2.2.2, and what mosquitto makes of it."""
    packet = decode(0x20, bytes.fromhex("00000622000a210014"), V5)
    assert packet == Connack(properties=Properties(receive_maximum=20, topic_alias_maximum=10))


def test_what_may_be_left_out_may_also_be_there() -> None:
    """§3.4.2.1, §3.14.2.1 and §3.15.2.1 allow the short form, and do not demand it."""
    assert decode(0x40, b"\0\1\0", V5) == decode(0x40, b"\0\1\0\0", V5) == Puback(1)
    assert decode(0xE0, b"\0", V5) == decode(0xE0, b"\0\0", V5) == Disconnect()
    assert decode(0xF0, b"\0\0", V5) == Auth()


@pytest.mark.parametrize("kind", [Puback, Pubrec, Pubrel, Pubcomp, Disconnect])
def test_no_properties_are_no_properties_whoever_made_them(kind: type) -> None:
    """Not only the shared `NONE` gives the short form."""
    numbered = {} if kind is Disconnect else {"packet_id": 1}
    assert encode(kind(**numbered, properties=Properties()), V5) == encode(kind(**numbered), V5)
    assert encode(kind(**numbered, reason=0x92, properties=Properties()), V5)[-1] == 0x92


# --- one packet, two versions ---------------------------------------------------------------------

RETURN_CODES = {
    0x00: 0,
    0x84: 1,
    0x85: 2,
    0x80: 3,
    0x83: 3,
    0x88: 3,
    0x89: 3,
    0x8B: 3,
    0x97: 3,
    0x9C: 3,
    0x9D: 3,
    0x9F: 3,
    0x86: 4,
    0x81: 5,
    0x87: 5,
    0x8A: 5,
    0x8C: 5,
    0x9B: 5,
}


@pytest.mark.parametrize(("reason", "code"), RETURN_CODES.items())
def test_the_return_codes_of_3_1_1(reason: int, code: int) -> None:
    """Table 3.1 of 3.1.1; properties are left out."""
    assert encode(Connack(False, reason, Properties(reason_string="why")), V311) == bytes((0x20, 2, 0, code))


def test_3_1_1_has_one_failure_of_a_subscription() -> None:
    """3.1.1: [MQTT-3.9.3-2]."""
    packet = Suback(1, (0, 1, 2, 0x87, 0x8F), Properties(reason_string="why"))
    assert encode(packet, V311) == b"\x90\x07\0\1" + b"\0\1\2\x80\x80"


def test_3_1_1_has_neither_reasons_nor_properties() -> None:
    why = Properties(reason_string="why")
    assert encode(Puback(1, 0x97, why), V311) == b"\x40\x02\0\1"
    assert encode(Unsuback(1, (0x11,), why), V311) == b"\xb0\x02\0\1"
    assert encode(Disconnect(0x8E, why), V311) == b"\xe0\0"
    assert encode(Publish("a", b"x", properties=Properties(topic_alias=1)), V311) == b"\x30\x04\0\1ax"
    everything = Request("a", 1, True, True, 2)
    assert encode(Subscribe(1, (everything,), Properties(user=(("a", "b"),))), V311) == b"\x82\x06\0\1\0\1a\1"


def test_a_connect_is_written_in_its_own_version() -> None:
    assert encode(Connect("c", V311), V5) == encode(Connect("c", V311), V311)
    assert encode(Connect("c", V5), V311)[8] == V5


# --- lengths --------------------------------------------------------------------------------------

LENGTHS = {  # table 1-1
    0: "00",
    127: "7f",
    128: "8001",
    16_383: "ff7f",
    16_384: "808001",
    2_097_151: "ffff7f",
    2_097_152: "80808001",
    268_435_455: "ffffff7f",
}


@pytest.mark.parametrize(("value", "text"), LENGTHS.items())
def test_the_bytes_of_a_length(value: int, text: str) -> None:
    """[MQTT-1.5.5-1]: the fewest bytes."""
    data = bytes.fromhex(text)
    assert length(value) == data
    assert read_length(data, 0) == (value, len(data))
    assert header(b"?" + b"\x30" + data, 1) == (2 + len(data), 2 + len(data) + value)
    for end in range(1 + len(data)):
        assert header((b"\x30" + data)[:end], 0) is None


@pytest.mark.parametrize("text", ["8000", "ff00", "808000", "80808000", "8080808001", "ffffffff7f", "ffffffff"])
def test_no_other_bytes_are_a_length(text: str) -> None:
    """[MQTT-1.5.5-1], §1.5.5: at most four bytes, and none for nothing."""
    data = b"\x30" + bytes.fromhex(text)
    for kind in (bytes, bytearray, memoryview):
        with pytest.raises(PacketError) as refusal:
            header(kind(data), 0)
        assert refusal.value.reason == Reason.MALFORMED_PACKET


def test_what_no_bytes_can_say_is_refused() -> None:
    for packet in (
        Publish("t" * 65_536, b""),
        Publish("ä" * 40_000, b""),
        Disconnect(0x80, Properties(reason_string="x" * 65_536)),
        Connect("c", will=Will("t", bytes(65_536))),
    ):
        with pytest.raises(PacketError) as refusal:
            encode(packet, V5)
        assert refusal.value.reason == Reason.PACKET_TOO_LARGE
    with pytest.raises(PacketError) as refusal:
        length(LENGTH_MAX + 1)
    assert refusal.value.reason == Reason.PACKET_TOO_LARGE
    with pytest.raises(PacketError) as refusal:
        encode(Publish("half \ud800", b""), V5)
    assert refusal.value.reason == Reason.MALFORMED_PACKET


def test_a_longest_topic() -> None:
    for topic in ("t" * 65_535, "ä" * 32_767):
        frame = encode(Publish(topic, b"x"), V5)
        reader = Reader()
        reader.version = V5
        assert reader.feed(frame) == [Publish(topic, b"x")]


# --- the stream -----------------------------------------------------------------------------------

CONNECT = encode(Connect("c", V5), V5)


def test_the_version_comes_with_the_connect() -> None:
    for version in (V311, V5):
        reader = Reader()
        assert reader.version == 0
        sent: list[Packet] = [Connect("c", version), Publish("a", b"x"), Pingreq()]
        assert reader.feed(b"".join(encode(packet, version) for packet in sent)) == sent
        assert reader.version == version


def test_the_version_is_known_when_the_rest_of_the_connect_is_wrong() -> None:
    """So that the answer is a CONNACK that the client can read."""
    for version in (V311, V5):
        frame = bytearray(encode(Connect("c", version), version))
        frame[9] |= 1  # the reserved flag, [MQTT-3.1.2-3]
        reader = Reader()
        assert reader.feed(frame) == []
        assert reader.problem is not None
        assert (reader.problem.reason, reader.problem_type, reader.version) == (Reason.MALFORMED_PACKET, 1, version)


def test_a_second_connect_does_not_change_the_version() -> None:
    """The core refuses it [MQTT-3.1.0-2], in the words of the first."""
    reader = Reader()
    assert len(reader.feed(CONNECT + encode(Connect("c", V311), V311))) == 2
    assert reader.version == V5


def test_the_first_packet_is_a_connect() -> None:
    """[MQTT-3.1.0-1]; known from the header, before anything is buffered."""
    for first in (0x00, 0x20, 0x30, 0x82, 0xC0, 0xE0, 0xF0):
        reader = Reader()
        assert reader.feed(bytes((first, 100))) == []
        assert reader.problem is not None
        assert (reader.problem.reason, reader.problem_type) == (Reason.PROTOCOL_ERROR, first >> 4)
        assert (reader.pending, reader.version) == (0, 0)


def test_after_a_problem_there_is_nothing() -> None:
    reader = Reader()
    assert reader.feed(CONNECT + b"\xc0\0" + b"\xc1\0" + b"\xc0\0") == [Connect("c", V5), Pingreq()]
    assert reader.problem is not None
    assert (reader.problem.reason, reader.problem_type) == (Reason.MALFORMED_PACKET, 12)
    assert reader.feed(b"\xc0\0") == []
    assert reader.pending == 0


def test_a_packet_is_too_large_by_its_length_alone() -> None:
    """The limit counts the whole packet, as Maximum Packet Size does (§3.1.2.11.4)."""
    frame = encode(Publish("a", b"x" * 200), V5)
    for limit, problem in ((len(frame), None), (len(frame) - 1, Reason.PACKET_TOO_LARGE)):
        reader = Reader(limit)
        reader.version = V5
        reader.feed(frame[:3])
        assert (reader.problem and reader.problem.reason) == problem
    assert Reader().limit == PACKET_MAX == 1 + len(length(LENGTH_MAX)) + LENGTH_MAX


def test_the_limit_may_change_between_packets() -> None:
    reader = Reader(64)
    reader.feed(CONNECT)
    reader.limit = 1000
    assert reader.feed(encode(Publish("a", b"x" * 200), V5)) == [Publish("a", b"x" * 200)]


def test_a_connect_that_is_too_large_tells_its_version_if_it_is_there() -> None:
    for version in (V311, V5):
        frame = encode(Connect("c" * 200, version), version)
        reader = Reader(100)
        reader.feed(frame)
        assert reader.problem is not None
        assert (reader.problem.reason, reader.version) == (Reason.PACKET_TOO_LARGE, version)
        reader = Reader(100)
        reader.feed(frame[:3])
        assert reader.problem is not None
        assert (reader.problem.reason, reader.version) == (Reason.PACKET_TOO_LARGE, 0)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what the reader looks at."""
    looked: list[int] = []
    cut = wire.Reader._cut

    def counting(self: Reader, data: bytes, packets: list[Packet]) -> int:
        looked.append(len(data))
        return cut(self, data, packets)

    monkeypatch.setattr(wire.Reader, "_cut", counting)
    return looked


def test_a_large_packet_in_small_chunks_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not measured by the clock: packets are only cut when one is whole, and the buffer grows in place."""
    reader = Reader()
    reader.version = V5
    looked = counted(monkeypatch)
    packet = Publish("a", bytes(1_000_000))
    frame = encode(packet, V5)
    found = [read for start in range(0, len(frame), 1024) for read in reader.feed(frame[start : start + 1024])]
    assert found == [packet]
    assert looked == [1024, len(frame)]


def test_one_byte_at_a_time_costs_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader()
    reader.version = V5
    looked = counted(monkeypatch)
    frame = encode(Publish("a", bytes(300)), V5)
    found = [read for byte in frame * 50 for read in reader.feed(bytes((byte,)))]
    assert found == [Publish("a", bytes(300))] * 50
    assert sum(looked) <= 50 * (1 + 2 + 3 + len(frame))


# --- the fuzzer -----------------------------------------------------------------------------------


def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    need_atheris()
    target = Path(__file__).resolve().parents[1] / "fuzz" / "mqtt.py"
    done = subprocess.run(
        [sys.executable, str(target), "-runs=2000", "-seed=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 2000 runs" in done.stderr, done.stderr[-3000:]
    assert list(tmp_path.iterdir()) == []
