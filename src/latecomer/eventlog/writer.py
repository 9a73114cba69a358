"""Records → segments.

Theory of operation. Records are kept as they come, so that taking one costs the driver next to nothing, and are made
into columns when a segment is written. They leave the memory when the segment is in place (`Files.write`) and not
before, so a full disk loses none, and a retry repeats none.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from latecomer.eventlog.errors import EventLogError, EventLogFullError
from latecomer.eventlog.files import ROWS_MAX, Files
from latecomer.eventlog.schema import table_of, write_table
from latecomer.model.ids import BrokerId
from latecomer.model.record import Record

FULL_AT = 10
"""Segments' worth of records that wait in memory, while writing fails, before no more are taken."""


class SegmentWriter:
    """Writes the event log of one life of one broker; others may write into the same directory.

    A segment is complete after `rows_max` records, or when the driver says so with `roll`. `broker` and `boot` only
    name the files, so one writer may also take the records of a whole simulated network.

    When `add` or `extend` raises an `EventLogError`, what was given has been taken all the same, and the next `roll`
    tries again; only an `EventLogFullError` means that it was not taken.
    """

    def __init__(self, directory: Path, broker: BrokerId, *, boot: int = 0, rows_max: int = ROWS_MAX) -> None:
        assert rows_max > 0
        self.directory = directory
        self.rows_max = rows_max
        self._files = Files(directory, broker, boot)
        self._records: list[Record] = []
        self._attempt_at = rows_max
        """Rows at which `add` does more than append. After a failure later, so that not each record tries again."""
        self._unsafe = False
        """A segment is in place, but the directory is not safe yet."""
        self._closed = False

    def add(self, record: Record) -> None:
        """Take one record."""
        records = self._records
        if len(records) >= self._attempt_at:  # only when full or closed
            self._check_room()
        records.append(record)
        if len(records) >= self._attempt_at:
            self._write_segments(self.rows_max)

    def extend(self, records: Iterable[Record]) -> None:
        """Take many records: all of them, or none if the writer is full."""
        self._check_room()
        self._records.extend(records)
        if len(self._records) >= self._attempt_at:
            self._write_segments(self.rows_max)

    def roll(self) -> None:
        """Complete the current segment; afterwards everything taken so far is on disk. Without records, nothing."""
        self._write_segments(1)

    def close(self) -> None:
        """Complete the last segment. After an error the writer stays open and can be closed again."""
        if not self._closed:
            self.roll()
            self._closed = True
            self._attempt_at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Records in memory that no segment has yet."""
        return len(self._records)

    # --- writing ---

    def _check_room(self) -> None:
        assert not self._closed, "the writer is closed"
        if len(self._records) >= FULL_AT * self.rows_max:
            raise EventLogFullError(
                f"{self.directory}: {len(self._records)} records wait to be written, and no more are taken; make room "
                f"on the disk or repair the directory, then roll"
            )

    def _write_segments(self, rows_min: int) -> None:
        assert not self._closed, "the writer is closed"
        try:
            while len(self._records) >= rows_min:
                self._write(self._records[: self.rows_max])
                del self._records[: self.rows_max]
                self._unsafe = True
            if self._unsafe:
                self._files.sync()
                self._unsafe = False
        except OSError as error:
            self._attempt_at = min(len(self._records) + self.rows_max, FULL_AT * self.rows_max)
            raise self._error(f"cannot be written ({len(self._records)} records wait in memory)", error) from error
        self._attempt_at = self.rows_max

    def _write(self, records: list[Record]) -> None:
        table = table_of(records)
        self._files.write(records[0].at_us, lambda file: write_table(table, file))

    def _error(self, problem: str, error: OSError) -> EventLogError:
        return EventLogError(
            f"{self.directory}: {problem}: {error.strerror or error}; make room on the disk or repair the directory, "
            f"then try again"
        )
