"""The contents of a segment, made by a short-lived process.

Arrow takes about 100 MB, and a process that has loaded it keeps them for as long as it lives. So who writes a segment
now and then forks, and the child loads Arrow, makes columns of the rows, writes them into the file that it inherited,
says what became of them, and ends. Only for processes with a single thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import BinaryIO, NoReturn

import msgspec

from latecomer.eventlog.errors import EventLogError
from latecomer.model.record import Record


class NoRow(Exception):
    """None of the rows fits into the columns, so there is nothing to write; how many there were."""


class _Answer(msgspec.Struct, frozen=True):
    """What the child says."""

    written: int = 0
    lost: int = 0
    error: int = 0
    """Why the file could not be written, as a number of the system."""
    problem: str = ""
    """The same for whatever has no number."""


def pack(rows: Sequence[Record]) -> bytes:
    """Rows as they wait for their segment: about 100 bytes each, a fifth of what the objects take."""
    return msgspec.msgpack.encode(rows)


def fill_apart(parts: Sequence[bytes], file: BinaryIO) -> int:
    """Write packed rows as the contents of a segment; returns how many of them no column took."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(here)
        _child(parts, file, there)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not said:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise EventLogError(f"the process that makes a segment of the event log {how}; is there enough memory?")
    answer = msgspec.msgpack.decode(said, type=_Answer)
    if answer.error:
        raise OSError(answer.error, os.strerror(answer.error))
    if answer.problem:
        raise EventLogError(f"a segment of the event log cannot be made: {answer.problem}")
    if not answer.written:
        raise NoRow(answer.lost)
    return answer.lost


def _child(parts: Sequence[bytes], file: BinaryIO, there: int) -> NoReturn:
    code = 1
    try:
        try:
            answer = _make(parts, file)
        except OSError as error:
            answer = _Answer(error=error.errno or 0, problem=str(error))
        except Exception as error:
            answer = _Answer(problem=f"{type(error).__name__}: {error}"[:500])
        os.write(there, msgspec.msgpack.encode(answer))
        code = 0
    finally:
        os._exit(code)  # nothing of the parent is tidied up here


def _make(parts: Sequence[bytes], file: BinaryIO) -> _Answer:
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
    if table.num_rows:
        write_table(table, file)
        file.flush()
    return _Answer(table.num_rows, lost)


def _fits(row: Record) -> bool:
    from latecomer.eventlog.schema import table_of

    try:
        table_of([row])
    except Exception:
        return False
    return True
