"""The event log of a running broker: noted here, written by a process of its own.

Theory of operation. Noting a record is an append to a list, noting a run of one topic an addition to a count: runs that
come together share an instant, and are one line in the end. Some milliseconds later, or when many items have come
together, a part of them is encoded and written to a pipe without waiting; if there is more, the next part has its turn
in the event loop's next. The process at the other end (`journal_process`) does everything that takes long: it opens
runs, makes columns and writes segments. A thread would do so under the interpreter's lock, and every message would wait
for it; and this process never loads Arrow.

The log is no promise: delivery never waits for it. What does not fit into the buffer while the disk is full or slow is
dropped and counted. If the writing process dies, what it had not reported as written is counted as dropped, and another
one is started. If the broker is killed, what is in the pipe is still written.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec

from latecomer.eventlog import EventLogError, Files, Keep
from latecomer.eventlog.files import BYTES_MAX, ROWS_MAX
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Record
from latecomer.runtime.journal_process import HEAD_BYTES, IGNORED, Item, Orders, Status

PAUSE_S = 0.02
"""How long items come together before they are sent."""
BATCH_ITEMS = 512
"""Of these at most are encoded at a time: a fraction of a millisecond. So many do not wait for the pause to end."""
BATCH_BYTES = 1 << 19
PENDING_MAX = 200_000
CLOSED = -1
PIPE_BYTES = 1 << 20
START_S = 0.1
"""The process starts so much later: the broker's own start comes first."""
RETRY_S = 5.0
CLOSE_S = 30.0
AGAIN_S, AGAIN_MAX_S = 1.0, 60.0
COMMAND = (sys.executable, "-P", "-m", "latecomer.runtime.journal_process")

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Child:
    """One life of the writing process."""

    process: subprocess.Popen[bytes]
    input: int
    """-1: closed."""
    output: int
    heard: bytes = b""
    status: Status = field(default_factory=Status)
    sent: int = 0
    """Items it was given."""


class Journal:
    """Takes records and runs, from its making until `close`; made and used in a running event loop.

    Memory is bounded by `pending_bytes_max` encoded bytes and `PENDING_MAX` items that are not encoded yet.
    """

    def __init__(
        self,
        directory: Path,
        broker: BrokerId,
        boot: int,
        clock: Callable[[], Instant],
        *,
        rows_max: int = ROWS_MAX,
        seconds_max: float = 60.0,
        bytes_max: int = BYTES_MAX,
        pending_bytes_max: int = 32 << 20,
        keep: Keep = Keep(),  # noqa: B008 - frozen
        pause_s: float = PAUSE_S,
        retry_s: float = RETRY_S,
        again_s: float = AGAIN_S,
        command: Sequence[str] = COMMAND,
    ) -> None:
        assert rows_max > 0
        Files(directory, broker, boot)  # a directory that is none is told now
        self._directory = directory
        self._clock = clock
        self._orders = Orders(os.fsencode(directory), broker, boot, rows_max, seconds_max, keep, retry_s, bytes_max)
        self._pending_bytes_max = pending_bytes_max
        self._pause_s = pause_s
        self._again_s = self._first_again_s = again_s
        self._command = tuple(command)
        self._loop = asyncio.get_running_loop()
        self._encoder = msgspec.msgpack.Encoder()

        self._pending: list[Item] = []
        self._runs: dict[tuple[ClientId, bytes, int], list[int]] = {}
        """Publisher, topic and receivers of runs that are not in the list yet; and how many publications they had
        together, as a list of one, which is added to faster than the dictionary is changed."""
        self._runs_at: Instant = 0
        """When the first of the runs came that are not sent yet, and not followed by a record; 0: there are none."""
        self._wake_at = 0
        """Items at which noting does more than that: 0 if nothing is planned, then a batch, then all that fit."""
        self._flushing: asyncio.Handle | None = None
        self._queue: deque[tuple[bytearray, int]] = deque()
        """Encoded batches, and how many items each has."""
        self._queue_bytes = 0
        self._offset = 0
        """Where the first batch goes on."""
        self._blocked = False
        """The pipe is full, and the event loop says when it is not."""
        self._child: _Child | None = None
        self._starting: asyncio.TimerHandle | None = self._loop.call_later(START_S, self._start)
        self._stirred = asyncio.Event()
        self._closing = False

        self.written = 0
        """Records in segments."""
        self.dropped = 0
        """Records and runs that there was no room for, or that the writing process took with it."""
        self.failures = 0
        """Attempts to write that failed."""
        self.problem = ""
        """Why nothing can be written at the moment; a sentence, or empty."""

    # --- noting ---

    def note(self, record: Record) -> None:
        """Take one record."""
        if self._runs_at:
            self._close_runs()  # a record does not pass the runs before it, nor they the record
        if len(self._pending) < self._wake_at or self._wake():
            self._pending.append(record)

    def run(self, publisher: ClientId, topic: bytes, count: int, receivers: int) -> None:
        """Take `count` publications of one topic that came in a row, and went to so many clients of this broker.

        Without a publisher they came by a link: recorded as published elsewhere, as delivered here.
        """
        total = self._runs.get((publisher, topic, receivers))
        if total is not None:
            total[0] += count
        elif len(self._pending) + len(self._runs) < self._wake_at or self._wake():
            self._runs[publisher, topic, receivers] = [count]
            self._runs_at = self._runs_at or self._clock()

    def mixed_run(self, publisher: ClientId, frames: bytes, receivers: int) -> None:
        """The same for whole PUBLISH frames, of any topics; the writing process looks into them."""
        if len(self._pending) < self._wake_at or self._wake():
            at_us = self._runs_at
            if not at_us:
                at_us = self._runs_at = self._clock()
            self._pending.append((publisher, frames, receivers, at_us))

    def _close_runs(self) -> None:
        at_us = self._runs_at
        self._pending += [
            (publisher, topic, count, receivers, at_us) for (publisher, topic, receivers), [count] in self._runs.items()
        ]
        self._runs.clear()
        self._runs_at = 0

    @property
    def waiting(self) -> int:
        """Records and runs that are in memory only."""
        under_way = 0 if self._child is None else self._child.sent - self._child.status.settled
        return len(self._pending) + len(self._runs) + sum(items for _, items in self._queue) + under_way

    def _wake(self) -> bool:
        """See to it that what is noted is sent; False if there is no room for it."""
        if self._wake_at == 0:
            self._wake_at = BATCH_ITEMS
            self._flushing = self._loop.call_later(self._pause_s, self._flush)
        elif self._wake_at == BATCH_ITEMS:
            self._wake_at = PENDING_MAX
            assert self._flushing is not None
            self._flushing.cancel()
            self._flushing = self._loop.call_soon(self._flush)
        else:
            self.dropped += 1
            return False
        return True

    # --- sending ---

    def _flush(self) -> None:
        """Send a part, and see to the rest in the loop's next turn."""
        self._close_runs()
        self._encode_part()
        self._send()
        if self._pending:
            self._wake_at = PENDING_MAX
            self._flushing = self._loop.call_soon(self._flush)
        else:
            self._wake_at = 0
            self._flushing = None

    def _encode_part(self) -> None:
        pending = self._pending
        count = size = 0
        # More at a time if one turn of the loop brings more than this, so that the list does not grow for ever.
        for item in islice(pending, max(BATCH_ITEMS, len(pending) // 8)):
            count += 1
            if type(item) is tuple:
                size += len(item[1])
                if size > BATCH_BYTES:
                    break
        part = pending[:count]
        del pending[:count]
        if self._queue_bytes + size > self._pending_bytes_max:
            self.dropped += count
            return
        frame = bytearray(HEAD_BYTES)
        try:
            self._encoder.encode_into(part, frame, HEAD_BYTES)
        except (UnicodeEncodeError, OverflowError):  # a mistake of ours, and no reason to lose the others
            part = [item for item in part if self._can_travel(item)]
            self.dropped += count - len(part)
            self._encoder.encode_into(part, frame, HEAD_BYTES)
        self._queue.append((_headed(frame), len(part)))
        self._queue_bytes += len(frame)

    def _can_travel(self, item: Item) -> bool:
        try:
            self._encoder.encode(item)
        except (UnicodeEncodeError, OverflowError):
            _log.exception("a record cannot be written to the event log")
            return False
        return True

    def _send(self) -> None:
        """Write as much as the pipe takes."""
        child, queue = self._child, self._queue
        if child is None or child.input < 0:
            return
        try:
            while queue:
                frame, items = queue[0]
                self._offset += os.write(child.input, memoryview(frame)[self._offset :])
                if self._offset == len(frame):
                    queue.popleft()
                    self._queue_bytes -= len(frame)
                    self._offset = 0
                    child.sent += items
        except BlockingIOError:
            if not self._blocked:
                self._blocked = True
                self._loop.add_writer(child.input, self._send)
            return
        except BrokenPipeError:
            pass  # it is gone, as its other pipe will say
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(child.input)
        self._stirred.set()

    # --- the process ---

    def _start(self) -> None:
        self._starting = None
        # Signals are blocked until the process has said what it ignores: a Ctrl-C that comes in between is not its end.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
        try:
            process = subprocess.Popen(
                self._command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # It shall find the modules that this process has found.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            self._start_later(f"the process that writes the event log cannot be started: {error.strerror or error}")
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert process.stdin is not None
        assert process.stdout is not None
        child = self._child = _Child(process, process.stdin.fileno(), process.stdout.fileno())
        for handle in (child.input, child.output):
            os.set_blocking(handle, False)
        with suppress(OSError):  # then it stays as it is
            fcntl.fcntl(child.input, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._loop.add_reader(child.output, self._hear)
        orders = bytearray(HEAD_BYTES)
        self._encoder.encode_into(self._orders, orders, HEAD_BYTES)
        with suppress(BrokenPipeError):  # as in `_send`
            os.write(child.input, _headed(orders))
        self._send()

    def _start_later(self, why: str) -> None:
        self._stirred.set()
        if not self._closing:
            _log.error("%s; next attempt in %g s", why, self._again_s)
            self._starting = self._loop.call_later(self._again_s, self._start)
            self._again_s = min(2 * self._again_s, AGAIN_MAX_S)

    def _hear(self) -> None:
        """Take what the process reports; of several reports the last says it all."""
        child = self._child
        assert child is not None
        try:
            data = os.read(child.output, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._bury(child)
            return
        *lines, child.heard = (child.heard + data).split(b"\n")
        if lines:
            before, child.status = child.status, msgspec.json.decode(lines[-1], type=Status)
            self._take_note_of(before, child.status)
        self._stirred.set()

    def _take_note_of(self, before: Status, status: Status) -> None:
        self.written += status.written - before.written
        self.failures += status.failures - before.failures
        self.dropped += status.lost - before.lost
        if status.lost > before.lost:
            _log.error("%d records cannot be written to the event log", status.lost - before.lost)
        if status.written:
            self._again_s = self._first_again_s
        if status.problem and not self.problem:
            _log.error("%s", status.problem)
        elif self.problem and not status.problem:
            _log.warning("%s: the event log is written again", self._directory)
        self.problem = status.problem

    def _bury(self, child: _Child) -> None:
        """The process has ended: count what it had, and start another one."""
        self._loop.remove_reader(child.output)
        self._close_input(child)
        assert child.process.stdout is not None
        child.process.stdout.close()
        code = child.process.wait()
        self._child = None
        self._offset = 0  # half a batch was no batch for it
        lost = child.sent - child.status.settled
        self.dropped += lost
        self._start_later(f"the process that writes the event log ended ({code}); {lost} records are lost")

    def _close_input(self, child: _Child) -> None:
        if child.input >= 0:
            if self._blocked:
                self._blocked = False
                self._loop.remove_writer(child.input)
            child.input = -1
            assert child.process.stdin is not None
            child.process.stdin.close()

    # --- the end ---

    async def close(self, seconds: float = CLOSE_S) -> None:
        """Have everything written, and end the process; an `EventLogError` if that fails. It can be called again."""
        self._closing = True
        self._wake_at = CLOSED
        dropped = self.dropped
        for timer in (self._flushing, self._starting):
            if timer is not None:
                timer.cancel()
        self._close_runs()
        while self._pending:
            self._encode_part()
        if self._queue and self._child is None:
            self._start()
        self._send()
        end, failures = self._loop.time() + seconds, self.failures
        # A disk that fails once more has had its chance; what is still in the queue then is lost.
        await self._until(end, lambda: not self._queue or self._child is None or self.failures > failures)
        if self._child is not None:
            self._close_input(self._child)
        await self._until(end, lambda: self._child is None)
        self.dropped += sum(items for _, items in self._queue)
        self._queue.clear()
        self._queue_bytes = self._offset = 0
        if self._child is not None:
            raise EventLogError(f"{self._directory}: the disk does not answer; {self.waiting} records may be lost")
        if self.dropped > dropped:
            raise EventLogError(f"{self.problem or self._directory}; {self.dropped - dropped} records are lost")

    async def _until(self, end: float, done: Callable[[], bool]) -> None:
        while not done():
            self._stirred.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._stirred.wait()
            except TimeoutError:
                return


def _headed(frame: bytearray) -> bytearray:
    frame[:HEAD_BYTES] = (len(frame) - HEAD_BYTES).to_bytes(HEAD_BYTES)
    return frame
