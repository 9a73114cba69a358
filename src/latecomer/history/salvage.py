"""Rows out of a file that SQLite cannot find its way through: every page is looked at by itself.

A wrong bit in an inner page of a table hides all the pages below it, though they are whole. So the pages that look like
leaves of a table are read as such, wherever they are; the checksum of an event says whether it is one.

The format: https://www.sqlite.org/fileformat2.html#b_tree_pages
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

PAGE = 4096
LEAF = 13
LOCAL_MAX = PAGE - 35
LOCAL_MIN = (PAGE - 12) * 32 // 255 - 23
COLUMNS = 7
CRC, BODY = 5, 6
INTEGERS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""Bytes of an integer, or of none, by its type."""


def bodies(path: Path) -> Iterator[bytes]:
    """The bodies of events in the leaves of this file that pass their checksum, in no order, perhaps repeatedly."""
    with path.open("rb") as file:
        pages = path.stat().st_size // PAGE
        for number in range(pages):
            file.seek(number * PAGE)
            page = file.read(PAGE)
            if len(page) < PAGE or page[0] != LEAF:
                continue
            for cell in range(min(int.from_bytes(page[3:5], "big"), PAGE // 4)):
                at = int.from_bytes(page[8 + 2 * cell : 10 + 2 * cell], "big")
                body = _body(_payload(file, pages, page, at))
                if body is not None:
                    yield body


def _payload(file: BinaryIO, pages: int, page: bytes, at: int) -> bytes:
    """The record of a cell, together with what did not fit into the page."""
    size, at = _varint(page, at)
    _, at = _varint(page, at)
    if size <= LOCAL_MAX:
        return page[at : at + size]
    local = LOCAL_MIN + (size - LOCAL_MIN) % (PAGE - 4)
    local = local if local <= LOCAL_MAX else LOCAL_MIN
    parts = [page[at : at + local]]
    following = int.from_bytes(page[at + local : at + local + 4], "big")
    left = min(size, pages * PAGE) - local
    while left > 0 and 0 < following <= pages:
        file.seek((following - 1) * PAGE)
        more = file.read(PAGE)
        parts.append(more[4 : 4 + left])
        left -= PAGE - 4
        following = int.from_bytes(more[:4], "big")
    return b"".join(parts)


def _body(record: bytes) -> bytes | None:
    """The last column of a record that has the columns of `event`, if the checksum before it is right."""
    end, at = _varint(record, 0)
    types: list[int] = []
    while at < min(end, len(record)) and len(types) <= COLUMNS:
        kind, at = _varint(record, at)
        types.append(kind)
    if len(types) != COLUMNS or types[BODY] < 12 or types[BODY] % 2 or types[CRC] not in INTEGERS:
        return None
    length = (types[BODY] - 12) // 2
    body = record[len(record) - length :] if length else b""
    crc = record[len(record) - length - INTEGERS[types[CRC]] : len(record) - length]
    value = 1 if types[CRC] == 9 else int.from_bytes(crc, "big")
    return body if len(body) == length and crc32(body) == value else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(9):
        if at + i >= len(data):
            return 0, len(data)
        byte = data[at + i]
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    raise AssertionError
