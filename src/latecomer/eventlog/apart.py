"""The contents of a segment, made by a short-lived process.

Arrow takes about 100 MB, and a process that has loaded it keeps them for as long as it lives. So who writes a segment
now and then forks, and the child loads Arrow, makes columns of the rows, hands the file's contents back through a pipe,
and ends. Only for processes with a single thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from io import BytesIO
from typing import NoReturn

import msgspec

from latecomer.eventlog.errors import EventLogError
from latecomer.model.record import Record


class Made(msgspec.Struct, frozen=True):
    """The contents of a segment."""

    data: bytes = b""
    """As Parquet; empty if none of the rows fits into the columns."""
    rows: int = 0
    lost: int = 0
    """Rows that no column takes: a mistake of ours."""
    problem: str = ""
    """Why there is nothing; for the parent."""


def pack(rows: Sequence[Record]) -> bytes:
    """Rows as they wait for their segment: about 100 bytes each, a fifth of what the objects take."""
    return msgspec.msgpack.encode(rows)


def make_here(parts: Sequence[bytes]) -> Made:
    """The same in this process, which has Arrow for good afterwards: for those who make segments all the time."""
    try:
        return _make(parts)
    except Exception as error:
        raise EventLogError(f"a segment of the event log cannot be made: {type(error).__name__}: {error}") from error


def make_apart(parts: Sequence[bytes]) -> Made:
    """The contents of a segment with these packed rows."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(here)
        _child(parts, there)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise EventLogError(f"the process that makes a segment of the event log {how}; is there enough memory?")
    made = msgspec.msgpack.decode(said, type=Made)
    if made.problem:
        raise EventLogError(f"a segment of the event log cannot be made: {made.problem}")
    return made


def _child(parts: Sequence[bytes], there: int) -> NoReturn:
    code = 1
    try:
        try:
            made = _make(parts)
        except Exception as error:
            made = Made(problem=f"{type(error).__name__}: {error}"[:500])
        with os.fdopen(there, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(made))
        code = 0
    finally:
        os._exit(code)  # nothing of the parent is tidied up here


def _make(parts: Sequence[bytes]) -> Made:
    import pyarrow as pa

    from latecomer.eventlog.schema import table_of, write_table

    lost, tables = 0, []
    for part in parts:
        rows = msgspec.msgpack.decode(part, type=list[Record])
        try:
            tables.append(table_of(rows))
        except Exception:  # a record that no column takes is our mistake, and must not end the log
            fitting = [row for row in rows if _fits(row)]
            lost += len(rows) - len(fitting)
            tables.append(table_of(fitting))
    table = pa.concat_tables(tables)
    file = BytesIO()
    if table.num_rows:
        write_table(table, file)
    return Made(file.getvalue(), table.num_rows, lost)


def _fits(row: Record) -> bool:
    from latecomer.eventlog.schema import table_of

    try:
        table_of([row])
    except Exception:
        return False
    return True
