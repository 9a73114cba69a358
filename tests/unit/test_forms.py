"""Runs of PUBLISH frames in other forms, compared with what the codec makes of the same packets."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from latecomer.messages.mqtt import V5, V311, Packet, Properties, Puback, Publish, Reason
from latecomer.runtime.forms import ACKS, Forms, alike, joined, moved
from latecomer.wire.mqtt import Reader, encode
from tests.strategies_mqtt import names

versions = st.sampled_from([V5, V311])
payloads = st.one_of(st.binary(max_size=20), st.integers(100, 400).map(bytes), st.just(bytes(16_400)))
messages = st.lists(st.tuples(names, payloads, st.integers(1, 65_535)), min_size=1, max_size=6)


def run(packets: list[Publish], version: int) -> Forms:
    """As the walk over a chunk makes it."""
    data, ids = b"", []
    for packet in packets:
        frame = encode(packet, version)
        if packet.qos:
            ids.append(len(data) + len(frame) - len(packet.payload) - 2 - (version == V5))
        data += frame
    return Forms(data, version, bool(ids), ids)


def packets_of(data: bytes, version: int) -> Sequence[Packet]:
    reader = Reader()
    reader.version = version
    packets = reader.feed(data)
    assert reader.problem is None
    assert not reader.pending
    return packets


@given(messages, st.integers(0, 1), versions, versions)
def test_without_packet_ids(found: list[tuple[str, bytes, int]], qos: int, came: int, goes: int) -> None:
    packets = [Publish(topic, payload, qos, packet_id=id * qos) for topic, payload, id in found]
    wanted = b"".join(encode(Publish(topic, payload), goes) for topic, payload, _ in found)
    assert run(packets, came).plain(goes) == wanted


@given(messages, versions, versions, st.one_of(st.integers(1, 65_535), st.integers(65_530, 65_535)))
def test_under_other_packet_ids(found: list[tuple[str, bytes, int]], came: int, goes: int, first: int) -> None:
    """They count up from the first one, and begin again after 65,535."""
    forms = run([Publish(topic, payload, 1, packet_id=id) for topic, payload, id in found], came)
    wanted = [
        Publish(topic, payload, 1, packet_id=(first + position - 1) % 65_535 + 1)
        for position, (topic, payload, _) in enumerate(found)
    ]
    assert forms.acked(goes, first) == b"".join(encode(packet, goes) for packet in wanted)
    assert packets_of(forms.acked(goes, first), goes) == wanted


@given(messages, versions, st.integers(1, 65_535), st.booleans())
def test_acknowledgements(found: list[tuple[str, bytes, int]], version: int, first: int, in_sequence: bool) -> None:
    ids = [first + n for n in range(len(found))] if in_sequence else [id for _, _, id in found]
    ids = [id if id <= 65_535 else id - 65_535 for id in ids]
    forms = run(
        [Publish(topic, payload, 1, packet_id=id) for (topic, payload, _), id in zip(found, ids, strict=True)], version
    )
    assert packets_of(forms.acknowledgements(), version) == [Puback(id) for id in ids]
    assert packets_of(forms.unwanted(), V5) == [Puback(id, Reason.NO_MATCHING_SUBSCRIBERS) for id in ids]


def test_what_needs_no_change_is_handed_on_as_it_came() -> None:
    forms = run([Publish("t", b"", 1, packet_id=id) for id in (7, 8)], V5)
    assert forms.acked(V5, 7) is forms.data
    assert forms.acked(V5, 8) is forms.acked(V5, 8)
    assert run([Publish("t")], V5).plain(V5) == encode(Publish("t"), V5)


def test_every_acknowledgement_is_in_the_table() -> None:
    assert packets_of(ACKS, V311) == [Puback(id) for id in range(1, 65_536)]


# -- frames alike ------------------------------------------------------------------------------------------------------

uniform = st.tuples(names, st.integers(0, 300), st.integers(1, 65_535), st.integers(2, 30))


@given(uniform, versions, st.integers(1, 65_535))
def test_positions_that_are_evenly_spaced_give_the_same(
    found: tuple[str, int, int, int], version: int, first: int
) -> None:
    """Frames alike are told by a range, any others by a list: what is made of them does not differ."""
    topic, size, id, count = found
    packets = [Publish(topic, bytes(size), 1, packet_id=(id + position - 1) % 65_535 + 1) for position in range(count)]
    by_list = run(packets, version)
    assert isinstance(by_list.ids, list)
    step = by_list.ids[1] - by_list.ids[0]
    by_range = Forms(by_list.data, version, True, range(by_list.ids[0], by_list.ids[-1] + 1, step))
    assert by_range.first_id == by_list.first_id
    assert by_range.acked(version, first) == by_list.acked(version, first)
    assert by_range.acknowledgements() == by_list.acknowledgements()


@given(
    st.sampled_from(["t", "t/a"]),
    st.lists(st.tuples(st.sampled_from(["t", "t/a"]), st.integers(0, 2), st.booleans(), st.integers(0, 2)), max_size=8),
    versions,
    st.integers(0, 1),
    st.integers(0, 10),
    st.integers(0, 3),
)
def test_frames_alike_are_those_that_differ_in_nothing_but_id_and_payload(
    topic: str, others: list[tuple[str, int, bool, int]], version: int, qos: int, most: int, cut: int
) -> None:
    first = encode(Publish(topic, b"xx", qos, packet_id=qos * 7), version)
    data, expected, going = first, 0, True
    for other, size, retain, id in others:
        frame = bytearray(encode(Publish(other, bytes(size), qos, retain, packet_id=qos), version))
        if qos:  # an id of 0, which no codec would write
            at = len(frame) - size - 2 - (version == V5)
            frame[at : at + 2] = id.to_bytes(2)
        data += frame
        going = going and other == topic and size == 2 and not retain and (not qos or id > 0)
        expected += going
    data = data[: len(data) - cut] if cut < len(data) - len(first) else data
    whole = (len(data) - len(first)) // len(first)
    after_topic = 4 + len(topic)
    limit = most if qos else len(data)
    found = alike(data, 0, len(first), after_topic, after_topic + 2 * qos, version == V5, most)
    assert found == min(expected, whole, limit)


def test_properties_end_what_is_alike() -> None:
    plain = encode(Publish("t", b"xx"), V5)
    other = encode(Publish("t", b"", properties=Properties(payload_format=1)), V5)
    assert len(plain) == len(other)
    assert alike(plain + plain + other + plain, 0, len(plain), 5, 5, True, 9) == 1


def test_joining_and_moving_positions() -> None:
    assert joined([], range(3, 9, 3)) == range(3, 9, 3)
    assert joined(range(0, 4, 2), range(9, 11, 1)) == [0, 2, 9, 10]
    assert joined([1], range(9, 11, 1)) == [1, 9, 10]
    assert moved(range(3, 9, 3), -3) == range(0, 6, 3)
    assert moved([3, 5], -3) == [0, 2]
