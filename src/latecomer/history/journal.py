"""SQLite's write-ahead journal, as far as SQLite does not tell: does it end where it was left, or where it was damaged?

After a crash SQLite reads the journal up to the first frame that fails its checksum and takes that for the end. A
flipped bit in the middle therefore silently takes everything after it along. What stands behind the end tells the two
apart: frames of an unfinished transaction are sound, and remains of an earlier round carry other salts. Anything else
is damage, or was torn by a power cut while it was written; then nothing that was acknowledged is missing.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from pathlib import Path

HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, salt, salt, checksum, checksum
FRAME = struct.Struct(">6I")  # page, pages after commit or 0, salt, salt, checksum, checksum
MAGIC = 0x377F0682
"""The last bit says in which order the checksum takes the bytes of a word."""


def damage(journal: Path, frames: int) -> str | None:
    """What is wrong behind the first `frames` frames, those that SQLite has read; None if nothing is."""
    if not journal.exists():
        return None
    with journal.open("rb") as file:
        head = file.read(HEADER.size)
        if len(head) < HEADER.size:
            return None
        magic, _, page_size, _, *salts, first, second = HEADER.unpack(head)
        order = ">" if magic & 1 else "<"
        if magic & ~1 != MAGIC or _checksum(head[:24], order, 0, 0) != (first, second):
            return "the head of the journal is damaged" if file.read(1) else None
        if frames:
            file.seek(HEADER.size + (frames - 1) * (FRAME.size + page_size))
            first, second = FRAME.unpack(file.read(FRAME.size))[4:]
            file.seek(page_size, 1)
        in_chain = True
        number = frames
        while len(frame := file.read(FRAME.size + page_size)) == FRAME.size + page_size:
            number += 1
            *_, salt, pepper, sum_1, sum_2 = FRAME.unpack_from(frame)
            matches = (salt == salts[0]) + (pepper == salts[1])
            if matches == 0:
                in_chain = False
                continue
            if in_chain and matches == 2:
                first, second = _checksum(frame[:8] + frame[FRAME.size :], order, first, second)
                if (first, second) == (sum_1, sum_2):
                    continue
            return f"the journal is damaged from frame {number} on"
    return None


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return first, second
