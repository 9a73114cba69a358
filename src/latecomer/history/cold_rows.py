"""The columns of a cold file: for any tool that reads Parquet, and for an exact way back.

Decision: `body` is the MessagePack of the whole event but its payload, which has a column of its own. Together they are
the event, bit for bit; the payload, which is most of an event, is not stored twice. `crc32` is over both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa

from latecomer.core.attributes import attributes_of
from latecomer.model.event import Event

_TIME = pa.timestamp("us", tz="UTC")
_USER = pa.list_(pa.struct([pa.field("name", pa.string(), False), pa.field("value", pa.string(), False)]))

SCHEMA = pa.schema(
    [
        pa.field("published", _TIME, nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("publisher", pa.string(), nullable=False),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("retain", pa.bool_(), nullable=False),
        pa.field("expires", _TIME),  # null: never
        pa.field("content_type", pa.string()),
        pa.field("user", _USER, nullable=False),  # in order, names may repeat
        pa.field("attributes", pa.string(), nullable=False),  # JSON; what content filters look at
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("crc32", pa.int64(), nullable=False),
    ]
)
KEY = ["published", "origin", "epoch", "seq"]
BARE = [*KEY, "topic"]
"""Enough to add up."""
LIGHT = [*BARE, "expires"]
"""Enough to tell whether a row is wanted, unless its content decides."""
HEAVY = ["payload", "body", "crc32"]
DICTIONARY = ["origin", "topic", "publisher", "qos", "content_type", "epoch"]
"""Columns whose values repeat."""

_encode = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Event)


def table_of(events: Sequence[Event]) -> Any:
    """Events as an Arrow table, in the order given."""
    bodies = [_encode(msgspec.structs.replace(event, payload=b"")) for event in events]
    extras = [event.extras for event in events]
    columns: dict[str, list[Any]] = {
        "published": [event.published_us for event in events],
        "origin": [event.id.origin for event in events],
        "epoch": [event.id.epoch for event in events],
        "seq": [event.id.seq for event in events],
        "topic": [event.topic for event in events],
        "publisher": [event.publisher for event in events],
        "qos": [event.qos for event in events],
        "retain": [event.retain for event in events],
        "expires": [event.expires_us or None for event in events],
        "content_type": [None if extra is None else extra.content_type for extra in extras],
        "user": [_user(event) for event in events],
        "attributes": [_json(attributes_of(event)).decode() for event in events],
        "payload": [event.payload for event in events],
        "body": bodies,
        "crc32": [crc32(event.payload, crc32(body)) for event, body in zip(events, bodies, strict=True)],
    }
    return pa.Table.from_arrays([_column(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _user(event: Event) -> list[dict[str, str]]:
    if event.extras is None:
        return []
    return [{"name": name, "value": value} for name, value in event.extras.user]


def _column(values: list[Any], type: Any) -> Any:
    # By way of integers: instants behind the year 9999 are none to Python's calendar.
    return pa.array(values, pa.int64()).cast(type) if type == _TIME else pa.array(values, type)


def column_problems(schema: Any) -> list[str]:
    """What keeps a file with this schema from being read."""
    problems = []
    for name in (*LIGHT, *HEAVY):
        at = schema.get_field_index(name)
        if at < 0:
            problems.append(f"no column {name}")
        elif schema.field(at).type != SCHEMA.field(name).type:
            problems.append(f"column {name} is {schema.field(at).type}, not {SCHEMA.field(name).type}")
    return problems


class Light:
    """The light columns of a row group, by row; memory that Arrow holds, looked at in place."""

    def __init__(self, table: Any) -> None:
        self.rows: int = table.num_rows
        self.size: int = table.nbytes
        self.published = _numbers(table.column("published"))
        self.epoch = _numbers(table.column("epoch"))
        self.seq = _numbers(table.column("seq"))
        self.expires = None
        """Not read, if nobody asked for it."""
        if "expires" in table.column_names:
            self.expires = table.column("expires").combine_chunks().cast(pa.int64())
        self._origins, self._origin_codes, _ = _coded(table.column("origin"))
        self.topics, _, self.topic_codes = _coded(table.column("topic"))

    def key(self, row: int) -> tuple[int, str, int, int]:
        return self.published[row], self._origins[self._origin_codes[row]], self.epoch[row], self.seq[row]


class Heavy:
    """The rest of what makes an event."""

    def __init__(self, table: Any) -> None:
        self.size: int = table.nbytes
        self._payload = _Bytes(table.column("payload"))
        self._body = _Bytes(table.column("body"))
        self._crc = _numbers(table.column("crc32"))

    def event(self, row: int) -> tuple[Event, int] | None:
        """The event and its size; None: it is not what was written."""
        body, payload = self._body[row], self._payload[row]
        if crc32(payload, crc32(body)) != self._crc[row]:
            return None
        try:
            event = _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return msgspec.structs.replace(event, payload=bytes(payload)), len(body) + len(payload)


class _Bytes:
    """A binary column, by row and without copies."""

    def __init__(self, column: Any) -> None:
        array = column.combine_chunks()
        _, offsets, data = array.buffers()
        self._offsets = memoryview(offsets).cast("i")[array.offset :]
        self._data = memoryview(data if data is not None else b"")

    def __getitem__(self, row: int) -> memoryview:
        return self._data[self._offsets[row] : self._offsets[row + 1]]


def _numbers(column: Any) -> memoryview[int]:
    return _memory(column.combine_chunks().cast(pa.int64()), "q")


def _coded(column: Any) -> tuple[list[str], memoryview[int], Any]:
    array = column.combine_chunks()
    return array.dictionary.to_pylist(), _memory(array.indices, "i"), array.indices


def _memory(array: Any, code: Any) -> memoryview[int]:
    if array.null_count:
        raise pa.ArrowInvalid("a value is missing")
    return memoryview(array.buffers()[1]).cast(code)[array.offset : array.offset + len(array)]
