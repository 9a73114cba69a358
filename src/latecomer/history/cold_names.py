"""The names in a cold tier: `class=sensors/day=2026-11-16/part-<start>-<end>-<writer>.parquet`.

Decision: names from outside become directories only in letters that mean nothing to any file system. What is not a-z,
0-9, '-', '_' or '.' is percent-encoded, capitals too: 'A' and 'a' are one name to some file systems. Spark, DuckDB and
Arrow decode that again. A name that would grow too long ends in '~' and a hash. No class at all (a topic that begins
with '/') is what Hive calls the default partition, and reads as null.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import unquote

import msgspec

CLASS_MAX = 120
"""Characters of an encoded class; file systems end at 255 bytes, object stores at 1024 for the whole path."""
NO_CLASS = "__HIVE_DEFAULT_PARTITION__"
"""No class can be called so: its capitals would be encoded."""
UNFINISHED = ".unfinished"

_DAY_US = 86_400_000_000
_FIRST_DAY = date(1970, 1, 1).toordinal()
_FREE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_part = re.compile(r"class=([^/]+)/day=(\d{4}-\d\d-\d\d)/part-(\d{20})-(\d{20})-([0-9a-zA-F_.%~-]*)\.parquet")
_unfinished = re.compile(r"class=[^/]+/day=[^/]+/_part-\d{20}-\d{20}-([0-9a-zA-F_.%~-]*)\.parquet\.unfinished")


class Part(msgspec.Struct, frozen=True):
    """One file: the events of one slot, class and day, as one writer had them."""

    path: str
    """Below the tier."""
    levels: str | None
    """What its topics begin with; None: the name was too long to tell."""
    day: str
    start_us: int
    end_us: int
    writer: str
    """Encoded."""
    size: int = 0
    changed_ns: int = 0


def encoded(name: str) -> str:
    """A name in harmless letters, different for different names."""
    raw = name.encode("utf-8", "surrogatepass")
    pieces = [chr(byte) if byte in _FREE else f"%{byte:02X}" for byte in raw]
    text = "".join(pieces)
    if len(text) <= CLASS_MAX:
        return text
    tail = "~" + blake2b(raw, digest_size=16).hexdigest()
    head = ""
    for piece in pieces:
        if len(head) + len(piece) + len(tail) > CLASS_MAX:
            break
        head += piece
    return head + tail


@lru_cache(maxsize=4096)
def class_of(topic: str, depth: int) -> str:
    """The directory of a topic: its first levels."""
    return encoded("/".join(topic.split("/", depth)[:depth])) or NO_CLASS


def day_of(published_us: int) -> str:
    """The date in UTC. What lies after the year 9999 counts as its last day: the calendar ends there."""
    return date.fromordinal(min(published_us // _DAY_US + _FIRST_DAY, date.max.toordinal())).isoformat()


def part_path(folder: str, day: str, start_us: int, end_us: int, writer: str) -> str:
    return f"class={folder}/day={day}/part-{start_us:020d}-{end_us:020d}-{writer}.parquet"


@lru_cache(maxsize=4096)
def _stem(folder: str) -> str:
    head, cut, _ = ("" if folder == NO_CLASS else folder).partition("~")
    return head if cut else f"{head}%2F"


def stem_of(path: str) -> str:
    """How the encoded topics of a file begin, as far as its class tells. A file whose stem is not the beginning of that
    of another, nor the other way round, has no topic in common with it, of whatever depth their classes are."""
    return _stem(path.partition("/")[0].removeprefix("class="))


def unfinished(path: str) -> str:
    """Where a file is while it grows: the rule of Spark and Hadoop is that '_' in front hides it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/_{name}{UNFINISHED}"


def parse_part(path: str, size: int, changed_ns: int) -> Part | None:
    """The file at this path below the tier; None: it is none of ours."""
    found = _part.fullmatch(path)
    if found is None:
        return None
    folder, day, start, end, writer = found.groups()
    levels = None if "~" in folder else "" if folder == NO_CLASS else unquote(folder, errors="replace")
    return Part(path, levels, day, int(start), int(end), writer, size, changed_ns)


def unfinished_by(path: str) -> str | None:
    """Whose unfinished file this is, encoded; None: it is no such file."""
    found = _unfinished.fullmatch(path)
    return None if found is None else found[1]
