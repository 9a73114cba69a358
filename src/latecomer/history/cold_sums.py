"""What a cold file adds up to, by topic and hour, kept in its footer: replicas compare hours without reading a row.

Decision: the footer is the one place that comes and goes with the file, in one step. Parquet's values there are text,
and some readers refuse a file in which they are not, so the bytes (MessagePack, Zstandard) go through Base64. The sums
are a shortcut and nothing else: whatever is wrong with them, the rows are added up instead.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import pack, unpack
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa

from latecomer.history.digest import MODULUS, digest_of
from latecomer.model.ids import EventId, Number

HOUR_US = 3_600_000_000
FOOTER_KEY = b"latecomer.sums"
VERSION = 1
TOPICS_MAX = 20_000
"""A file with more has no sums: its footer, which every reader reads, would grow too large."""
BYTES_MAX = 16 * 1024 * 1024
"""The same, before compression: topics can be long, and hours many."""


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """What the footer has. A later version may look different from the second field on."""

    version: int
    size: int
    crc32: int
    """Over the bytes before compression; Parquet has no checksum for footers."""
    data: bytes


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """Column by column, which is what compresses."""

    topics: list[str]
    topic: list[Number]
    """Its place in `topics`; one entry for each sum, as in the next two."""
    hour: list[Number]
    """Since 1970."""
    count: list[Number]
    digests: bytes
    """Eight each."""


@dataclass(slots=True)
class Sums:
    """Counts and digests: of everything, and of each topic and hour."""

    count: int = 0
    digest: int = 0
    topics: dict[str, dict[int, tuple[int, int]]] | None = field(default_factory=dict)
    """Topic → hour → count and digest; None: there are too many topics."""

    def add(self, topic: str, published_us: int, id: EventId) -> None:
        digest = digest_of(id)
        self.count += 1
        self.digest = (self.digest + digest) % MODULUS
        if self.topics is None:
            return
        hours = self.topics.setdefault(topic, {})
        hour = published_us // HOUR_US
        count, sum = hours.get(hour, (0, 0))
        hours[hour] = count + 1, (sum + digest) % MODULUS
        if len(self.topics) > TOPICS_MAX:
            self.topics = None

    def packed(self) -> bytes | None:
        """As the footer has it; None: too much for one."""
        if self.topics is None:
            return None
        topics = sorted(self.topics)
        rows = [
            (number, hour, *sums)
            for number, topic in enumerate(topics)
            for hour, sums in sorted(self.topics[topic].items())
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        number, hour, count, digest = columns if columns else ([], [], [], [])
        data = msgspec.msgpack.encode(_Stored(topics, number, hour, count, pack(f"<{len(digest)}Q", *digest)))
        if len(data) > BYTES_MAX:
            return None
        squeezed = pa.compress(data, codec="zstd", asbytes=True)
        return b64encode(msgspec.msgpack.encode(_Packed(VERSION, len(data), crc32(data), squeezed)))


def stored_in(footer: Any) -> bytes:
    """The sums of a file, still packed; empty: it has none."""
    found: bytes = (footer.metadata or {}).get(FOOTER_KEY, b"")
    return found


def unpacked(text: bytes, rows: int) -> Iterator[tuple[str, int, int, int]] | None:
    """Topic, hour, count and digest of each sum of a file with so many rows; None: they cannot be used.

    A tool that copies a table may take the footer along and leave out rows.
    """
    try:
        found = msgspec.msgpack.decode(b64decode(text, validate=True), type=_Packed)
        if found.version != VERSION or not 0 < found.size <= BYTES_MAX:
            return None
        data = pa.decompress(found.data, found.size, codec="zstd", asbytes=True)
        if crc32(data) != found.crc32:
            return None
        stored = msgspec.msgpack.decode(data, type=_Stored)
    except (NotBase64, msgspec.MsgspecError, UnicodeDecodeError, pa.ArrowException, OSError):
        return None
    many = len(stored.topic)
    if (len(stored.hour), len(stored.count), len(stored.digests)) != (many, many, 8 * many):
        return None
    if sum(stored.count) != rows or max(stored.topic, default=-1) >= len(stored.topics):
        return None
    names = (stored.topics[number] for number in stored.topic)
    return zip(names, stored.hour, stored.count, unpack(f"<{many}Q", stored.digests), strict=True)
