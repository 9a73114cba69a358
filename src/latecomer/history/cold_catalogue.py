"""What lies in a cold tier, remembered: the list of files, their footers, and the row groups looked at last.

Files never change in place, so what was read of one holds until a file of another size or time has its name.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.history.cold_errors import ColdDamage, ColdError
from latecomer.history.cold_files import Moved, Place, reason_of
from latecomer.history.cold_names import Part, unfinished_by
from latecomer.history.cold_rows import BARE, HEAVY, LIGHT, SCHEMA, Heavy, Light, column_problems
from latecomer.history.cold_sums import stored_in

FOOTERS_MAX = 256
FOOTERS_BYTES = 32 * 1024 * 1024
"""Of Arrow's own, which are large; the bounds we take from them are kept for every file."""
SUMS_BYTES = 32 * 1024 * 1024
"""Of sums, as the footers have them."""
CACHE_BYTES = 32 * 1024 * 1024
"""Of row groups: the next page is mostly in the one of the page before."""


T = TypeVar("T")
_HALVES: dict[str, tuple[type[Light | Heavy], list[str]]] = {
    "bare": (Light, BARE),
    "light": (Light, LIGHT),
    "heavy": (Heavy, HEAVY),
}


class Group(msgspec.Struct, frozen=True):
    """The bounds of a row group, both included; None: not known."""

    rows: int
    min_us: int
    max_us: int
    min_topic: str | None
    max_topic: str | None


class Totals(msgspec.Struct, frozen=True):
    """What all files add up to; without events the times mean nothing."""

    events: int
    bytes: int
    oldest_us: int
    newest_us: int


class Catalogue:
    """Reads the files of a place, each thing once. Safe to use from several threads."""

    def __init__(self, place: Place, fresh_s: float) -> None:
        self.place = place
        self.groups_read = 0
        """Row groups fetched and decoded, the light and the heavy half counted each."""
        self._fresh_s = fresh_s
        self._lock = RLock()
        self._parts: dict[str, Part] = {}
        self._listed: float | None = None
        self._totals: Totals | None = None
        self._groups: dict[Part, tuple[Group, ...]] = {}
        self._footers: OrderedDict[Part, Any] = OrderedDict()
        self._sums: OrderedDict[Part, bytes] = OrderedDict()
        self._sums_size = 0
        self._cache: OrderedDict[tuple[Part, int, str], Light | Heavy] = OrderedDict()
        self._cached = 0
        self._damaged: dict[str, tuple[Part, ColdDamage]] = {}

    # --- the list ---

    def parts(self, *, anew: bool = False) -> list[Part]:
        """The files in place, as they were a few seconds ago, or `anew`."""
        with self._lock:
            now = time.monotonic()
            if anew or self._listed is None or now - self._listed >= self._fresh_s:
                found, _ = self.place.list()
                self._take({part.path: part for part in found})
                self._listed = now
            return list(self._parts.values())

    def totals(self) -> Totals:
        """As of the last look at the place: a store asks this with every append, and must not wait for a network."""
        with self._lock:
            parts, totals = list(self._parts.values()), self._totals
        if totals is not None and parts:
            return totals
        parts = self.parts()
        groups = [group for part in parts for group in self.groups(part)]
        totals = Totals(
            sum(group.rows for group in groups),
            sum(part.size for part in parts),
            min((group.min_us for group in groups), default=0),
            max((group.max_us for group in groups), default=0),
        )
        with self._lock:
            if parts == list(self._parts.values()):
                self._totals = totals
        return totals

    def leftovers(self, writer: str) -> list[str]:
        """What this writer left unfinished when it was stopped."""
        return [path for path in self.place.list()[1] if unfinished_by(path) == writer]

    def changed(self, path: str) -> None:
        """We wrote or removed this file ourselves."""
        with self._lock:
            parts = {**self._parts}
            part = self.place.part(path)
            if part is None:
                parts.pop(path, None)
            else:
                parts[path] = part
            self._take(parts)

    def _take(self, parts: dict[str, Part]) -> None:
        gone = [part for path, part in self._parts.items() if parts.get(path) != part]
        if parts != self._parts:
            self._totals = None
        self._parts = parts
        for part in gone:
            self._groups.pop(part, None)
            self._footers.pop(part, None)
            self._sums_size -= len(self._sums.pop(part, b""))
        for path, (part, _) in list(self._damaged.items()):
            if parts.get(path) != part:
                del self._damaged[path]

    # --- damage ---

    @property
    def damaged(self) -> list[ColdDamage]:
        with self._lock:
            return [damage for _, damage in self._damaged.values()]

    def is_damaged(self, part: Part) -> bool:
        with self._lock:
            return part.path in self._damaged and self._damaged[part.path][0] == part

    def report(self, part: Part, reason: str) -> None:
        """A file is not what was written: unless it has been replaced meanwhile, remember that."""
        if not self.place.same(part):
            raise Moved
        with self._lock:
            self._damaged.setdefault(
                part.path,
                (
                    part,
                    ColdDamage(
                        f"{self.place.full(part.path)}: the file is damaged: {reason}; restore it from a copy, or let "
                        f"another store of these topics fill the gap"
                    ),
                ),
            )

    # --- what is in a file ---

    def groups(self, part: Part) -> tuple[Group, ...]:
        """The row groups; none if the file is damaged."""
        with self._lock:
            known = self._groups.get(part)
        return self._look(part)[0] if known is None else known

    def sums(self, part: Part) -> tuple[bytes, int]:
        """The sums of a file, packed, and of how many rows they must be."""
        with self._lock:
            known, groups = self._sums.get(part), self._groups.get(part)
            if known is not None:
                self._sums.move_to_end(part)
        if known is None or groups is None:
            groups, known = self._look(part)
        return known, sum(group.rows for group in groups)

    def light(self, part: Part, group: int, *, expiring: bool) -> Light | None:
        """Keys and topics of a row group, and, if asked for, when they expire; None: damaged."""
        with self._lock:
            found = None if expiring else self._cached_half((part, group, "light"))
        if found is None:
            found = self._half(part, group, "light" if expiring else "bare")
        assert found is None or isinstance(found, Light)
        return found

    def heavy(self, part: Part, group: int) -> Heavy | None:
        """The rest of it; None: damaged."""
        found = self._half(part, group, "heavy")
        assert found is None or isinstance(found, Heavy)
        return found

    def whole(self, part: Part, group: int) -> Any:
        """A row group with all columns, as a table; None: damaged."""
        return self._read(part, lambda: self._table(part, group, SCHEMA.names).cast(SCHEMA))

    def _look(self, part: Part) -> tuple[tuple[Group, ...], bytes]:
        """Read a footer, and remember what matters of it."""
        footer = self._read(part, lambda: self._footer(part))
        groups, sums = ((), b"") if footer is None else (_groups_of(footer), stored_in(footer))
        with self._lock:
            self._groups[part] = groups
            self._sums_size += len(sums) - len(self._sums.pop(part, b""))
            self._sums[part] = sums
            while self._sums_size > SUMS_BYTES and len(self._sums) > 1:
                self._sums_size -= len(self._sums.popitem(last=False)[1])
        return groups, sums

    def _half(self, part: Part, group: int, half: str) -> Light | Heavy | None:
        name = (part, group, half)
        with self._lock:
            found = self._cached_half(name)
        if found is None:
            kind, columns = _HALVES[half]
            found = self._read(part, lambda: kind(self._table(part, group, columns)))
            if found is not None:
                with self._lock:
                    self.groups_read += 1
                    self._keep(name, found)
        return found

    def _cached_half(self, name: tuple[Part, int, str]) -> Light | Heavy | None:
        found = self._cache.get(name)
        if found is not None:
            self._cache.move_to_end(name)
        return found

    def _keep(self, name: tuple[Part, int, str], found: Light | Heavy) -> None:
        if name not in self._cache:
            self._cache[name] = found
            self._cached += found.size
        while self._cached > CACHE_BYTES and len(self._cache) > 1:
            _, old = self._cache.popitem(last=False)
            self._cached -= old.size

    def _table(self, part: Part, group: int, columns: list[str]) -> Any:
        footer = self._footer(part)
        with self._open(part) as source:
            file = pq.ParquetFile(
                source,
                metadata=footer,
                read_dictionary=["origin", "topic"],
                pre_buffer=not self.place.local,
                page_checksum_verification=True,
            )
            return file.read_row_group(group, columns, use_threads=False)

    def _open(self, part: Part) -> Any:
        source = self.place.open(part.path)
        if source.size() != part.size:
            source.close()
            raise Moved
        return source

    def _footer(self, part: Part) -> Any:
        with self._lock:
            footer = self._footers.get(part)
            if footer is not None:
                self._footers.move_to_end(part)
                return footer
        with self._open(part) as source:
            footer = pq.read_metadata(source)
        if problems := column_problems(footer.schema.to_arrow_schema()):
            raise pa.ArrowInvalid(", ".join(problems))
        with self._lock:
            self._footers[part] = footer
            while len(self._footers) > 1 and (
                len(self._footers) > FOOTERS_MAX
                or sum(kept.serialized_size for kept in self._footers.values()) > FOOTERS_BYTES
            ):
                self._footers.popitem(last=False)
        return footer

    def _read(self, part: Part, read: Callable[[], T]) -> T | None:
        """Do it; a damaged file is reported, one that went away is `Moved`, a place out of reach raises."""
        try:
            return read()
        except FileNotFoundError:
            raise Moved from None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            known = getattr(error, "errno", None) not in (None, errno.EIO)
            if isinstance(error, OSError) and (known or not self.place.reachable(part.path)):
                raise ColdError(
                    f"{self.place.name}: the cold tier cannot be read: {reason_of(error)}; see that it can be "
                    f"reached, then try again"
                ) from error
            self.report(part, reason_of(error))
            return None


def _groups_of(footer: Any) -> tuple[Group, ...]:
    names = [footer.schema.column(at).path for at in range(footer.num_columns)]
    published, topic = names.index("published"), names.index("topic")
    found = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        times = group.column(published).statistics
        topics = group.column(topic).statistics
        timed = times is not None and times.has_min_max
        named = topics is not None and topics.has_min_max
        found.append(
            Group(
                group.num_rows,
                times.min_raw if timed else 0,
                times.max_raw if timed else 2**63 - 1,
                topics.min_raw.decode("utf-8", "replace") if named else None,
                topics.max_raw.decode("utf-8", "replace") if named else None,
            )
        )
    return tuple(found)
