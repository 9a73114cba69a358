"""Events → the files of one slot.

A file is made from the events given and what the file of the same name already has, so writing a slot again changes
nothing or adds something. Before a file comes into place it is read back: as many rows, the same ids, the same sums,
every event whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from latecomer.history.cold_catalogue import Catalogue
from latecomer.history.cold_errors import ColdError
from latecomer.history.cold_files import Place
from latecomer.history.cold_names import class_of, day_of, part_path
from latecomer.history.cold_rows import BARE, DICTIONARY, HEAVY, KEY, LIGHT, SCHEMA, Heavy, Light, table_of
from latecomer.history.cold_sums import FOOTER_KEY, Sums, stored_in
from latecomer.model.event import Event
from latecomer.model.history import Key, key_of
from latecomer.model.ids import EventId

GROUP_ROWS = 10_000
GROUP_BYTES = 8 * 1024 * 1024
"""Of payloads and bodies: a row group is what a reader holds in memory."""

_STATISTICS = [*LIGHT, "publisher", "qos", "retain"]
_DELTAS = {"published": "DELTA_BINARY_PACKED", "seq": "DELTA_BINARY_PACKED"}
# While they are put together, the columns of a slot can be larger than 32-bit offsets reach.
_WIDE = pa.schema(
    [field.with_type(pa.large_binary()) if field.name in ("payload", "body") else field for field in SCHEMA]
)

Tables = dict[tuple[str, str], list[Any]]
"""Class and day → rows."""


class Writer:
    """Writes the files of one store. Others may write into the same tier: their files have other names."""

    def __init__(self, place: Place, catalogue: Catalogue, writer: str, depth: int) -> None:
        self._place = place
        self._catalogue = catalogue
        self._writer = writer
        self._depth = depth
        self._tidy = False

    def sorted_out(self, start_us: int, end_us: int, events: Iterable[Event]) -> Tables:
        """By class and day, as tables: they take a fraction of the memory that the events do."""
        found: Tables = {}
        rest = iter(events)
        while batch := list(islice(rest, GROUP_ROWS)):
            sorts: dict[tuple[str, str], list[Event]] = {}
            for event in batch:
                assert start_us <= event.published_us <= end_us, "an event of another slot"
                sorts.setdefault((class_of(event.topic, self._depth), day_of(event.published_us)), []).append(event)
            for sort, some in sorts.items():
                found.setdefault(sort, []).append(table_of(some))
        return found

    def write(self, start_us: int, end_us: int, tables: Tables) -> int:
        """Put these into place; returns how many rows the slot has now."""
        if not self._tidy:
            for path in self._catalogue.leftovers(self._writer):
                self._place.delete(path)
        self._tidy = False
        for (folder, day), some in sorted(tables.items()):
            self._merge(part_path(folder, day, start_us, end_us, self._writer), some)
        self._tidy = True
        return sum(
            group.rows
            for part in self._catalogue.parts()
            if (part.start_us, part.end_us, part.writer) == (start_us, end_us, self._writer)
            for group in self._catalogue.groups(part)
        )

    def _merge(self, path: str, new: list[Any]) -> None:
        """Bring a file into place that has these rows, and those of the one that is there."""
        part = self._place.part(path)
        groups = () if part is None else self._catalogue.groups(part)
        old = [] if part is None else [self._catalogue.whole(part, number) for number in range(len(groups))]
        whole = [table for table in old if table is not None]
        damaged = part is not None and (len(whole) < len(old) or not old)
        table = pa.concat_tables([table.cast(_WIDE) for table in (*whole, *new)]).combine_chunks()
        order = _order_of(table)
        if len(order) == sum(table.num_rows for table in whole) and not damaged:
            return
        if damaged:
            self._place.set_aside(path)
        sums = _sums(table, order)
        self._place.write(
            path,
            lambda file: _fill(file, table, order, sums),
            lambda hidden: self._check(hidden, sums),
        )
        self._catalogue.changed(path)

    def _check(self, hidden: str, expected: Sums) -> None:
        found = Sums()
        try:
            with self._place.open(hidden) as source:
                file = pq.ParquetFile(source, read_dictionary=["origin", "topic"], page_checksum_verification=True)
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number, [*LIGHT, *HEAVY], use_threads=False)
                    light, heavy = Light(table), Heavy(table)
                    for row in range(light.rows):
                        read = heavy.event(row)
                        if read is None or key_of(read[0]) != Key(*light.key(row)):
                            raise pa.ArrowInvalid(f"row {row} of row group {number} has changed")
                        found.add(read[0].topic, read[0].published_us, read[0].id)
                packed = stored_in(file.metadata)
        except (pa.ArrowException, OSError) as error:
            raise self._not_the_same(str(error)) from error
        if found != expected or packed != (expected.packed() or b""):
            raise self._not_the_same(f"{found.count} rows instead of {expected.count}, or others")

    def _not_the_same(self, what: str) -> ColdError:
        return ColdError(
            f"{self._place.name}: what was written is not what is read back: {what}; nothing was changed, check the "
            f"disk and try again"
        )


def _order_of(table: Any) -> Any:
    """The rows in the order of their keys, each key once."""
    order = pc.sort_indices(table, [(name, "ascending") for name in KEY])
    if len(order) < 2:
        return order
    repeated = None
    for name in KEY:
        column = table.column(name).take(order).combine_chunks()
        same = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
        repeated = same if repeated is None else pc.and_(repeated, same)
    return order.filter(pa.concat_arrays([pa.array([True]), pc.invert(repeated)]))


def _sums(table: Any, order: Any) -> Sums:
    found = Sums()
    rows = table.select(BARE).take(order)
    times = rows.column("published").cast(pa.int64())
    columns = [column.to_pylist() for column in (rows.column("topic"), times, *(rows.column(id) for id in KEY[1:]))]
    for topic, at, *id in zip(*columns, strict=True):
        found.add(topic, at, EventId(*id))
    return found


def _fill(file: Any, table: Any, order: Any, sums: Sums) -> None:
    with pq.ParquetWriter(
        file,
        SCHEMA,
        compression="zstd",
        compression_level=3,
        use_dictionary=DICTIONARY,
        column_encoding=_DELTAS,
        write_statistics=_STATISTICS,
        write_page_checksum=True,
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index(name)) for name in KEY],
    ) as writer:
        for low, high in _groups(table, order):
            writer.write_table(table.take(order.slice(low, high - low)).cast(SCHEMA), row_group_size=high - low)
        if (packed := sums.packed()) is not None:
            writer.add_key_value_metadata({FOOTER_KEY: packed})


def _groups(table: Any, order: Any) -> Iterator[tuple[int, int]]:
    """Row groups: neither too many rows nor too many bytes, but at least one row."""
    sizes = pc.add(pc.binary_length(table.column("payload")), pc.binary_length(table.column("body")))
    low = size = 0
    for row, more in enumerate(sizes.take(order).to_pylist()):
        if row > low and (row - low >= GROUP_ROWS or size + more > GROUP_BYTES):
            yield low, row
            low, size = row, 0
        size += more
    if low < len(order):
        yield low, len(order)
