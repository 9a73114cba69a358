"""The one place in a Parquet file that differs from one Java process to the next, put in order.

At the end of a file stands, for every column, in which encodings it is written. Java keeps them in a set whose order
follows from where objects happen to be hashed, so the same table from another process would have other bytes. Their
order means nothing to readers. The footer is a struct in Thrift's compact protocol; only these lists are touched.
"""

from __future__ import annotations

from pathlib import Path

MAGIC = b"PAR1"
TAIL = 8
"""The length of the footer in four bytes, and the magic."""
ENCODINGS = (4, 1, 3, 2)
"""FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData.encodings."""
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
NUMBERS = (4, 5, 6)
FIXED = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}
"""Bytes of a field's value; that of a truth is in its type."""


def settle(path: Path) -> None:
    """Put the encodings in order, in place; nothing else changes, not even the length."""
    with path.open("r+b") as file:
        file.seek(-TAIL, 2)
        tail = file.read(TAIL)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC:
            raise ValueError(f"{path} is no Parquet file")
        file.seek(-TAIL - size, 2)
        before = file.read(size)
        after = settled(before)
        if after != before:
            file.seek(-TAIL - size, 2)
            file.write(after)


def settled(footer: bytes) -> bytes:
    """The footer with all encodings in rising order."""
    walk = _Walk(bytearray(footer))
    walk.value(STRUCT, ())
    return bytes(walk.data)


class _Walk:
    """Goes through a value to where it ends."""

    def __init__(self, data: bytearray) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        found = shift = 0
        while (one := self.byte()) & 0x80:
            found |= (one & 0x7F) << shift
            shift += 7
        return found | one << shift

    def value(self, kind: int, path: tuple[int, ...]) -> None:
        if kind == STRUCT:
            self._fields(path)
        elif kind in (LIST, SET):
            self._list(path)
        elif kind == MAP:
            self._map(path)
        elif kind == BINARY:
            size = self.number()
            self.at += size
        elif kind in FIXED:
            self.at += FIXED[kind]
        elif kind in NUMBERS:
            self.number()
        else:
            raise ValueError(f"a footer has a value of kind {kind}")

    def _fields(self, path: tuple[int, ...]) -> None:
        id = 0
        while head := self.byte():
            delta, kind = head >> 4, head & 15
            if delta:
                id += delta
            else:
                twice = self.number()
                id = (twice >> 1) ^ -(twice & 1)
            self.value(kind, (*path, id))

    def _list(self, path: tuple[int, ...]) -> None:
        head = self.byte()
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self.number()
        if path == ENCODINGS:
            # Ten are defined; as numbers of one byte each they keep their order when they are written.
            self.data[self.at : self.at + size] = bytes(sorted(self.data[self.at : self.at + size]))
        for _ in range(size):
            self._element(kind, path)

    def _map(self, path: tuple[int, ...]) -> None:
        size = self.number()
        kinds = self.byte() if size else 0
        for _ in range(size):
            self._element(kinds >> 4, path)
            self._element(kinds & 15, path)

    def _element(self, kind: int, path: tuple[int, ...]) -> None:
        """Outside of a struct a truth is a byte of its own."""
        self.value(BYTE if kind in (TRUE, FALSE) else kind, path)
