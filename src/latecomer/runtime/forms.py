"""A run of PUBLISH frames in the forms that its receivers want: another version, another QoS, other packet ids."""

from __future__ import annotations

from latecomer.core.session.state import PACKET_IDS
from latecomer.messages.mqtt import V311, PacketError
from latecomer.wire.mqtt import header

PUBLISH_0, PUBLISH_1 = 0x30, 0x32
ACKS = b"".join(b"\x40\x02" + id.to_bytes(2) for id in range(1, PACKET_IDS + 1))
"""Every PUBACK of a success, in the order of packet ids."""
HIGH, LOW = ACKS[2::4], ACKS[3::4]
"""The bytes of all packet ids, in order."""


Positions = list[int] | range
"""Where something stands in a run; a range if it is the same everywhere."""


def joined(before: Positions, more: range) -> Positions:
    """Some positions, and more behind them."""
    if not before:
        return more
    positions = list(before) if isinstance(before, range) else before
    positions.extend(more)
    return positions


def moved(positions: Positions, by: int) -> Positions:
    """The same positions in a part of the run."""
    if isinstance(positions, range):
        return range(positions.start + by, positions.stop + by, positions.step)
    return [at + by for at in positions]


def alike(data: bytes, at: int, end: int, after_topic: int, after: int, version5: bool, most: int) -> int:
    """How many frames follow the one from `at` to `end` that have the same kind, length and topic, an id that is one,
    and no properties; of QoS 1, at most so many."""
    head, step = data[at:after_topic], end - at
    pid, properties = after_topic - at, after - at
    size, count = len(data) - step, 0
    if pid == properties:
        most = size  # QoS 0 has no limit
    while count < most and end <= size and data.startswith(head, end):
        if version5 and data[end + properties]:
            break
        if properties != pid and not data[end + pid] and not data[end + pid + 1]:
            break
        count += 1
        end += step
    return count


class Forms:
    """A run in the forms that its receivers want, each made once."""

    __slots__ = ("acked_forms", "data", "first_id", "ids", "plain_forms", "qos1", "stride", "version")

    def __init__(self, data: bytes, version: int, qos1: bool, ids: Positions) -> None:
        self.data = data
        self.version = version
        self.qos1 = qos1
        self.ids = ids
        self.stride = self._stride()
        self.first_id = self._sequence()
        self.plain_forms: dict[int, bytes] = {}
        self.acked_forms: dict[tuple[int, int], bytes] = {}

    def _stride(self) -> int:
        """How far apart the packet ids stand, if it is always the same; otherwise 0."""
        ids = self.ids
        return ids.step if isinstance(ids, range) and len(ids) > 1 else 0

    def _sequence(self) -> int:
        """The first packet id, if they count up by one; 0 if they do not."""
        data, ids, step = self.data, self.ids, self.stride
        if not ids:
            return 0
        at, count = ids[0], len(ids)
        first = due = (data[at] << 8) + data[at + 1]
        if due + count > PACKET_IDS + 1:
            return 0
        if step:
            end = ids[-1] + 1
            same = data[at:end:step] == HIGH[due - 1 : due - 1 + count]
            return first if same and data[at + 1 : end + 1 : step] == LOW[due - 1 : due - 1 + count] else 0
        for at in ids:
            if (data[at] << 8) + data[at + 1] != due:
                return 0
            due += 1
        return first

    def plain(self, version: int) -> bytes:
        """With QoS 0."""
        if version == self.version and not self.qos1:
            return self.data
        form = self.plain_forms.get(version)
        if form is None:
            form = self.plain_forms[version] = self._written_anew(version, 0)
        return form

    def acked(self, version: int, first_id: int) -> bytes:
        """With QoS 1 and packet ids from `first_id` on."""
        if version == self.version and first_id == self.first_id:
            return self.data
        form = self.acked_forms.get((version, first_id))
        if form is None:
            form = self._written_anew(version, first_id) if version != self.version else self._patched(first_id)
            self.acked_forms[version, first_id] = form
        return form

    def acknowledgements(self) -> bytes:
        data, ids, first = self.data, self.ids, self.first_id
        if first:
            return ACKS[4 * first - 4 : 4 * (first - 1 + len(ids))]
        return b"".join([b"\x40\x02" + data[at : at + 2] for at in ids])

    def unwanted(self) -> bytes:
        """The same with the reason that there are no matching subscribers (MQTT 5)."""
        return b"".join([b"\x40\x03" + self.data[at : at + 2] + b"\x10" for at in self.ids])

    def _patched(self, id: int) -> bytes:
        out, ids, count = bytearray(self.data), self.ids, len(self.ids)
        if self.stride and id + count <= PACKET_IDS + 1:
            at, end = ids[0], ids[-1] + 1
            out[at : end : self.stride] = HIGH[id - 1 : id - 1 + count]
            out[at + 1 : end + 1 : self.stride] = LOW[id - 1 : id - 1 + count]
            return bytes(out)
        for at in ids:
            out[at] = id >> 8
            out[at + 1] = id & 255
            id = id + 1 if id < PACKET_IDS else 1
        return bytes(out)

    def _written_anew(self, version: int, id: int) -> bytes:
        """Another version, or another QoS: the same messages with other headers."""
        data = self.data
        pieces: list[bytes] = []
        at, size = 0, len(self.data)
        while at < size:
            found = header(data, at)
            assert found is not None
            body, end = found
            topic_end = body + 2 + (data[body] << 8) + data[body + 1]
            payload = topic_end + (2 if self.qos1 else 0) + (0 if self.version == V311 else 1)
            middle = b""
            if id:
                middle = id.to_bytes(2)
                id = id + 1 if id < PACKET_IDS else 1
            if version != V311:
                middle += b"\0"
            first = PUBLISH_1 if id else PUBLISH_0
            length = topic_end - body + len(middle) + end - payload
            pieces += (bytes((first,)), _length(length), data[body:topic_end], middle, data[payload:end])
            at = end
        return b"".join(pieces)


def frame_at(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Where the body, what follows the topic, and the next frame of a run begin; None: there is no QoS 0 frame."""
    try:
        body = at + 2
        end = body + data[at + 1]
        if data[at + 1] > 127:
            found = header(data, at)
            if found is None:
                return None
            body, end = found
        if data[at] != PUBLISH_0:
            return None
        after_topic = body + 2 + (data[body] << 8) + data[body + 1]
    except (PacketError, IndexError):
        return None
    return (body, after_topic, end) if after_topic <= end <= len(data) else None


def _length(length: int) -> bytes:
    """A remaining length [MQTT-1.5.5-1]."""
    out = bytearray()
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    out.append(length)
    return bytes(out)
