"""What a watch keeps on disk, so that one that was killed goes on where it was, and counts nothing twice.

    STATE/lock                     held by the watch that runs
    STATE/options.json             what the counts are counts of
    STATE/checkpoint/              Spark's own: which segments belong to which batch
    STATE/batches/0000000007/      counts and batch.json of one batch
                 /upto-0000000004/ the same of all batches up to that one, folded into one
    STATE/quarantine/0000000007/   rows of a batch that could not be used, with the reason
    STATE/demand.json              what follows from the counts; the others are what it was made from

Theory of operation. A batch is a fixed list of segments: Spark writes the list down before it hands the batch over, and
hands over the same batch again if it was killed before it wrote down that the batch is done. A batch appears in one
step, under its number. So when one is handed over whose number is there, it was counted, and nothing is left to do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.pipeline.classes import Classes
from latecomer.pipeline.output import (
    BATCHES,
    HIDDEN,
    opened,
    read_table,
    remove,
    replace,
    write_table,
    write_text,
)
from latecomer.pipeline.schemas import QUARANTINE
from latecomer.pipeline.stages.periods import KEYS, PERIODS, Seen, merged

STATE = "--state"
VERSION = 1
OPTIONS, CHECKPOINT, QUARANTINED, DEMAND, JAVA = "options.json", "checkpoint", "quarantine", "demand.json", "java.pid"
COUNTS, ABOUT, UPTO = "counts", "batch.json", "upto-"
JAVA_SECONDS = 60.0
"""A Java process whose watch was killed ends by itself, in a few seconds."""


class StateError(LatecomerError):
    """The state cannot be used; the sentence names the folder, and says what to do."""


class Options(msgspec.Struct, frozen=True):
    """What the counts depend on. What can be computed from counts, such as the filter's α, is free to change."""

    log: str
    classes: Classes
    period_s: int
    version: int = VERSION


class Batch(msgspec.Struct, frozen=True):
    """What was taken in by one batch, or by several that were folded."""

    id: int
    """The last one's."""
    segments: int = 0
    rows: int = 0
    requests: int = 0
    brokers: dict[BrokerId, Seen] = {}
    refused: dict[str, int] = {}
    """Rows in quarantine, by reason."""
    damaged: dict[str, str] = {}
    """Segment → why it cannot be used."""
    gone: int = 0
    """Segments that were removed before they could be read."""

    def plus(self, later: Batch) -> Batch:
        brokers = dict(self.brokers)
        for broker, seen in later.brokers.items():
            brokers[broker] = seen.plus(brokers[broker]) if broker in brokers else seen
        refused = dict(self.refused)
        for reason, count in later.refused.items():
            refused[reason] = refused.get(reason, 0) + count
        return Batch(
            id=max(self.id, later.id),
            segments=self.segments + later.segments,
            rows=self.rows + later.rows,
            requests=self.requests + later.requests,
            brokers=dict(sorted(brokers.items())),
            refused=dict(sorted(refused.items())),
            damaged=dict(sorted({**self.damaged, **later.damaged}.items())),
            gone=self.gone + later.gone,
        )


NONE_YET = Batch(id=-1)


class State(msgspec.Struct, frozen=True):
    """The folder of a watch. A value, so that it can be handed to wherever Spark counts."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    # -- batches

    def there(self, id: int) -> bool:
        """This batch was counted."""
        return (self.path / BATCHES / _name(id)).is_dir() or id <= self._upto()

    def put(self, batch: Batch, counts: DataFrame | None, refused: DataFrame | None) -> None:
        """A batch, in one step; what cannot be used goes first, so that no batch is without it."""
        if refused is not None:
            write_table(refused, self.path / QUARANTINED / _name(batch.id), sort=QUARANTINE.names)
        self._put(_name(batch.id), batch, counts)

    def folders(self) -> list[Path]:
        """Where the counts are: the newest fold, and the batches after it. Ask once for all that must agree."""
        upto, base = self._upto(), self.path / BATCHES
        if not base.is_dir():
            return []
        numbers = sorted(int(path.name) for path in base.iterdir() if path.name.isdecimal())
        fold = [base / f"{UPTO}{_name(upto)}"] if upto >= 0 else []
        return fold + [base / _name(number) for number in numbers if number > upto]

    def total(self, folders: Sequence[Path]) -> Batch:
        """Several batches together."""
        found = NONE_YET
        for folder in folders:
            found = found.plus(_about(folder))
        return found

    def total_now(self) -> Batch:
        """All of them, for who does not fold: a folder may be folded, and removed, while it is looked at."""
        while True:
            folders = self.folders()
            try:
                return self.total(folders)
            except StateError:
                if self.folders() == folders:
                    raise

    def counts(self, spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
        """Their counts; a period, class and broker may have several lines."""
        tables = [folder / COUNTS for folder in folders if (folder / COUNTS).is_dir()]
        return read_table(spark, *tables, schema=PERIODS) if tables else spark.createDataFrame([], PERIODS)

    def fold(self, spark: SparkSession, at: int) -> None:
        """Put batches together when there are so many. Only for who also reads them: the folders that are folded go."""
        folders = self.folders()
        if len(folders) >= at:
            total = self.total(folders)
            self._put(f"{UPTO}{_name(total.id)}", total, merged(self.counts(spark, folders)))
            self._tidy()

    def _put(self, name: str, batch: Batch, counts: DataFrame | None) -> None:
        hidden = self.path / BATCHES / f"{HIDDEN}{name}"
        remove(hidden)
        hidden.mkdir(parents=True)
        if counts is not None:
            write_table(counts, hidden / COUNTS, sort=KEYS)
        write_text(hidden / ABOUT, msgspec.json.encode(batch).decode())
        replace(hidden, hidden.with_name(name))

    def _upto(self) -> int:
        names = (path.name for path in (self.path / BATCHES).glob(f"{UPTO}*"))
        return max((int(name.removeprefix(UPTO)) for name in names), default=-1)

    def _tidy(self) -> None:
        """Remove what was folded; a watch that is killed before that leaves it to the next."""
        current = {path.name for path in self.folders()}
        for path in (self.path / BATCHES).glob("*"):
            if path.name not in current and not path.name.startswith(HIDDEN):
                remove(path)

    # -- what it says to others

    def say(self, name: str, text: str) -> Path:
        """A file of the folder, whole or not at all."""
        write_text(self.path / name, text)
        return self.path / name

    def unsay(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


def _name(id: int) -> str:
    return f"{id:010d}"


def _about(folder: Path) -> Batch:
    try:
        return msgspec.json.decode((folder / ABOUT).read_bytes(), type=Batch)
    except (OSError, msgspec.DecodeError) as error:
        told = f"{folder / ABOUT}: cannot be read: {error}; restore it, or watch with a new {STATE}"
        raise StateError(told) from None


# -- taking it


@contextmanager
def taken(path: Path, options: Options) -> Iterator[State]:
    """The state, for one watch at a time, if it is one of the same counts."""
    with opened(path, STATE):
        state = State(path.absolute())
        _check_options(state, options)
        _await_java(state)
        yield state


def _check_options(state: State, options: Options) -> None:
    file = state.path / OPTIONS
    if not file.exists():
        if any(True for _ in (state.path / BATCHES).glob("*")) or state.checkpoint.exists():
            raise SettingsError(STATE, f"{state.path} holds something else than a watch; name another folder")
        state.say(OPTIONS, msgspec.json.format(msgspec.json.encode(options), indent=2).decode() + "\n")
        return
    try:
        before = msgspec.json.decode(file.read_bytes(), type=Options)
    except msgspec.DecodeError as error:
        raise SettingsError(STATE, f"{file}: cannot be read: {error}; name another folder") from None
    if before.version > VERSION:
        raise SettingsError(STATE, f"{state.path} was made by a newer version; use that, or name another folder")
    differing: list[tuple[str, str, str]] = []
    if before.log != options.log:
        differing.append(("the log", before.log, options.log))
    if before.period_s != options.period_s:
        differing.append(("a --period of", f"{before.period_s} s", f"{options.period_s} s"))
    if before.classes != options.classes:
        differing.append(("topic classes", *_told_apart(before.classes, options.classes)))
    for what, then, now in differing:
        told = f"{state.path} has counts for {what} {then}, not {now}"
        raise SettingsError(STATE, f"{told}; say the same as then, or name another folder")


def _told_apart(then: Classes, now: Classes) -> tuple[str, str]:
    """Of two lists the first that differ."""
    if then.filters and now.filters:
        pairs = zip_longest(then.filters, now.filters, fillvalue="no more")
        return next((one, other) for one, other in pairs if one != other)
    first, second = (f"by --depth {one.depth}" if one.depth else "that are named" for one in (then, now))
    return first, second


def _await_java(state: State, seconds: float = JAVA_SECONDS) -> None:
    """Wait for the Java process of a watch that was killed: until it has ended, it may still write a checkpoint."""
    try:
        pid = int((state.path / JAVA).read_text())
    except (OSError, ValueError):
        return
    until = time.monotonic() + seconds
    while _is_java(pid):
        if time.monotonic() > until:
            told = f"the Java process {pid} of an earlier watch still runs; end it, or name another folder"
            raise SettingsError(STATE, f"{state.path}: {told}")
        time.sleep(0.1)
    state.unsay(JAVA)


def _is_java(pid: int) -> bool:
    """Numbers of processes come again: another program is no Java."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
