"""The process that writes a broker's event log: `python -m latecomer.runtime.journal_process`.

Theory of operation. Standard input is a stream of frames, each a length and a message in MessagePack: first the orders,
then batches of what the broker noted. Runs of one instant, which is some milliseconds long, are merged. Records are
packed until there are enough rows or seconds for a segment, which a short-lived process makes of them (`apart`):
it needs Arrow, and this process, which lives as long as the broker, would keep the memory that Arrow takes. Where
segments come every few seconds, this process makes them itself. While the disk does not take it, nothing more is read:
the pipe fills, and the broker drops what does not fit. What has become of everything is reported on standard output,
line by line.

The end of the input is the only end. A broker that was killed has left its last notes in the pipe, and they are still
written; signals, which the terminal and the service manager send to everybody, are for the broker.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from latecomer.eventlog import EventLogError, Files, Keep
from latecomer.eventlog.apart import Made, make_apart, make_here, pack
from latecomer.eventlog.files import BYTES_MAX
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record
from latecomer.wire.mqtt import header

NICE = 5
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HEAD_BYTES = 4
CHUNK_BYTES = 1 << 20
PART_ROWS = 5_000
"""Records that are packed together, and become columns together."""
OFTEN_S = 10.0
"""Segments that come more often than this are made in this process: to load Arrow for each takes half a second."""
LAST_ATTEMPTS = 3
PROBLEM_MAX = 900
"""Characters: a report must fit into what a pipe takes at once."""

Run = tuple[str, bytes, int, int, Instant]
"""Publisher, topic, count, receivers, instant: publications of one topic that came in a row."""
MixedRun = tuple[str, bytes, int, Instant]
"""Publisher, PUBLISH frames, receivers, instant. An empty publisher: it came by a link, and was noted elsewhere."""
Item = Record | Run | MixedRun
"""What a broker notes. On the wire, records are maps and runs are arrays of five or four."""


class Orders(msgspec.Struct, frozen=True):
    """The first frame: what to write where."""

    directory: bytes
    """As the file system spells it."""
    broker: BrokerId
    boot: int
    rows_max: int
    seconds_max: float
    keep: Keep
    retry_s: float
    bytes_max: int = BYTES_MAX
    """Bytes of packed rows in one segment, or some more: rows are packed many at a time."""


class Status(msgspec.Struct, frozen=True, array_like=True):
    """What has become of everything so far."""

    settled: int = 0
    """Items whose records are in segments, or lost."""
    written: int = 0
    """Records in segments."""
    lost: int = 0
    """Records that no column takes: a mistake of ours."""
    failures: int = 0
    """Attempts to write that failed."""
    problem: str = ""
    """Why nothing can be written at the moment; a sentence, or empty."""


class Segments:
    """Items in, segments out."""

    def __init__(
        self, orders: Orders, report: Callable[[Status], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._orders = orders
        self._report = report
        self._clock = clock
        self._files: Files | None = None
        self._rows: list[Record] = []
        self._parts: list[bytes] = []
        """Packed rows of the segment that is being gathered."""
        self._packed_rows = 0
        self._packed_bytes = 0
        self._made: Made | None = None
        """The contents of the segment, if they are made and wait for the disk."""
        self._first_us: Instant = 0
        self._begun_at = 0.0
        self._retry_at = 0.0
        self._came_items = 0
        self._ends: deque[tuple[int, int]] = deque()
        """After each batch not settled yet: how many rows and items had come by then."""
        self._gone = 0
        """Rows that are in segments, or lost."""
        self.status = Status()

    @property
    def full(self) -> bool:
        """Whether a segment's worth of rows waits for the disk: nothing more should come before it is written."""
        return self._packed_rows >= self._orders.rows_max or self._packed_bytes >= self._orders.bytes_max

    def take(self, items: list[Item]) -> None:
        """Keep what came, and write what is complete."""
        if not self._packed_rows and not self._rows:
            self._begun_at = self._clock()
        self._rows += opened(items, self._orders.broker)
        self._came_items += len(items)
        self._ends.append((self._gone + self._waiting(), self._came_items))
        self.tend()

    def tend(self) -> None:
        """Write what is due, if the disk takes it."""
        while True:
            due = bool(self._waiting()) and self._clock() >= self._begun_at + self._orders.seconds_max
            self._pack(1 if due else PART_ROWS)
            if not (due or self.full) or not self._seal():
                break
        self._settle()

    def wait_s(self) -> float | None:
        """How long nothing has to be done, unless more comes."""
        if not self._waiting():
            return None
        at = self._retry_at if self.full else max(self._retry_at, self._begun_at + self._orders.seconds_max)
        return max(0.0, at - self._clock())

    def finish(self) -> bool:
        """Write everything; False if the disk does not take it."""
        for attempt in range(LAST_ATTEMPTS):
            if attempt:
                time.sleep(min(self._orders.retry_s, 1.0))
            self._retry_at = 0.0
            self._pack(1)
            while self._seal() and self._rows:
                self._pack(1)
            self._settle()
            if not self._waiting():
                return True
        return False

    # --- inside ---

    def _waiting(self) -> int:
        return len(self._rows) + self._packed_rows

    def _pack(self, rows_min: int) -> None:
        """Pack the rows, `rows_min` or more at a time, as many as this segment can have."""
        while not self.full and len(self._rows) >= min(rows_min, self._orders.rows_max - self._packed_rows):
            room = self._orders.rows_max - self._packed_rows
            part = self._rows[: min(room, PART_ROWS)]
            del self._rows[: len(part)]
            if not self._packed_rows:
                self._first_us = part[0].at_us
            packed = pack(part)
            self._parts.append(packed)
            self._made = None
            self._packed_rows += len(part)
            self._packed_bytes += len(packed)

    def _seal(self) -> bool:
        """Make a segment of what is packed; False if that must wait."""
        now = self._clock()
        if self._packed_rows:
            if now < self._retry_at:
                return False
            try:
                lost = self._write().lost
            except (OSError, EventLogError) as error:
                self._retry_at = self._clock() + self._orders.retry_s
                self._change(failures=self.status.failures + 1, problem=self._sentence(error))
                return False
            written = self.status.written + self._packed_rows - lost
            self._change(written=written, lost=self.status.lost + lost, problem="")
        self._gone += self._packed_rows
        self._packed_rows = self._packed_bytes = 0
        self._parts.clear()
        self._made = None
        self._begun_at = now
        return True

    def _write(self) -> Made:
        """Put a segment into place; its contents are made once, however often the disk fails."""
        make = make_here if self._orders.seconds_max < OFTEN_S else make_apart
        made = self._made = self._made or make(self._parts)
        if not made.rows:
            return made
        if self._files is None:
            self._files = Files(Path(os.fsdecode(self._orders.directory)), self._orders.broker, self._orders.boot)
        self._files.write(self._first_us, lambda file: file.write(made.data))
        with suppress(OSError):  # the segment is in place, and must not be written once more
            self._files.sync()
        self._files.thin_out(self._orders.keep)
        return made

    def _sentence(self, error: OSError | EventLogError) -> str:
        if isinstance(error, EventLogError):
            return str(error)[:PROBLEM_MAX]
        directory = os.fsdecode(self._orders.directory)
        problem = f"{directory}: the event log cannot be written: {error.strerror or error}"
        return f"{problem}; make room on the disk or repair the directory"[:PROBLEM_MAX]

    def _settle(self) -> None:
        settled = self.status.settled
        while self._ends and self._ends[0][0] <= self._gone:
            settled = self._ends.popleft()[1]
        self._change(settled=settled)

    def _change(self, **changes: Any) -> None:
        status = msgspec.structs.replace(self.status, **changes)
        if status != self.status:
            self.status = status
            self._report(status)


def opened(items: list[Item], broker: BrokerId) -> Iterator[Record]:
    """The records that items stand for, in order; those of successive runs are merged."""
    merged = Merged(broker)
    for item in items:
        if isinstance(item, Record):
            yield from merged.records()
            yield item
            continue
        if item[-1] != merged.at_us:
            yield from merged.records()
            merged.at_us = item[-1]
        if len(item) == 5:
            publisher, topic, count, receivers, _ = item
            merged.add(publisher, topic, count, receivers)
        else:
            publisher, frames, receivers, _ = item
            for topic, count in topics(frames).items():
                merged.add(publisher, topic, count, receivers)
    yield from merged.records()


class Merged:
    """Runs of one instant: a line for each publisher and topic, and one for what became of each topic.

    A client that sends one message at a time makes a run of each; a line for each would be a hundred thousand a second.
    """

    def __init__(self, broker: BrokerId) -> None:
        self.at_us: Instant = 0
        self._broker = broker
        self._published: dict[tuple[ClientId, bytes], int] = {}
        self._delivered: dict[bytes, int] = {}

    def add(self, publisher: ClientId, topic: bytes, count: int, receivers: int) -> None:
        if publisher:
            key = publisher, topic
            self._published[key] = self._published.get(key, 0) + count
        if receivers:
            self._delivered[topic] = self._delivered.get(topic, 0) + count * receivers

    def records(self) -> Iterator[Record]:
        """What has come together, and start anew."""
        at_us, broker = self.at_us, self._broker
        for (client, topic), count in self._published.items():
            yield Record(at_us, broker, Kind.PUBLISHED, client=client, topic=_text(topic), count=count)
        for topic, count in self._delivered.items():
            yield Record(at_us, broker, Kind.DELIVERED, topic=_text(topic), count=count)
        self._published.clear()
        self._delivered.clear()


def _text(topic: bytes) -> str:
    return topic.decode("utf-8", "backslashreplace")


def topics(frames: bytes) -> dict[bytes, int]:
    """How often each topic occurs in a run of whole PUBLISH frames."""
    counts: dict[bytes, int] = {}
    at, size = 0, len(frames)
    while at < size:
        body, after = at + 2, at + 2 + frames[at + 1]
        if frames[at + 1] > 127:  # a length of more than one byte
            found = header(frames, at)
            assert found is not None
            body, after = found
        topic = frames[body + 2 : body + 2 + (frames[body] << 8) + frames[body + 1]]
        counts[topic] = counts.get(topic, 0) + 1
        at = after
    return counts


class Frames:
    """Cuts the stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete by now."""
        found: list[bytes] = []
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= HEAD_BYTES:
            end = at + HEAD_BYTES + int.from_bytes(buffer[at : at + HEAD_BYTES])
            if end > len(buffer):
                break
            found.append(bytes(buffer[at + HEAD_BYTES : end]))
            at = end
        del buffer[:at]
        return found


def serve(source: int, sink: int) -> int:
    """Write what comes until it ends; the exit code of the process."""
    os.set_blocking(sink, False)
    decode = msgspec.msgpack.Decoder(list[Record | tuple[Any, ...]]).decode
    encode = msgspec.json.Encoder().encode

    def report(status: Status) -> None:
        with suppress(OSError):  # the broker is gone or busy: the next report says the same and more
            os.write(sink, encode(status) + b"\n")

    frames = Frames()
    came: list[bytes] = []
    while not came:
        if not (data := os.read(source, CHUNK_BYTES)):
            return 0  # the broker ended before it said what to do
        came = frames.feed(data)
    segments = Segments(msgspec.msgpack.decode(came.pop(0), type=Orders), report)
    for frame in came:
        segments.take(decode(frame))
    for data in _chunks(source, segments):
        for frame in frames.feed(data):
            segments.take(decode(frame))
    return 0 if segments.finish() else 1


def _chunks(source: int, segments: Segments) -> Iterator[bytes]:
    """The input, as it comes and as the disk has room for it, until its end; meanwhile what is due is written."""
    readable, ended = select.poll(), select.poll()
    readable.register(source, select.POLLIN)
    ended.register(source, 0)
    while True:
        wait_s = segments.wait_s()
        wait_ms = None if wait_s is None else int(wait_s * 1000) + 1
        if segments.full:
            if ended.poll(wait_ms) and not segments.finish():
                return
            segments.tend()
        elif not readable.poll(wait_ms):
            segments.tend()
        elif data := os.read(source, CHUNK_BYTES):
            yield data
        else:
            return


def main() -> int:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)  # the broker blocked them, for the time until now
    with suppress(OSError):
        os.nice(NICE)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # it interrupts nobody when a batch wakes it
    return serve(sys.stdin.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
