"""Who is measured has a process of its own: time of each step, and what the process and all below it took for it.

A child tells of its steps on its output, a JSON object per line. Meanwhile the resident memory of its process tree is
added up ten times a second, Java and Python workers included; pages that several of them share count for each. So is
their processor time, which says what a step costs even where others use the same cores.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.book import BenchError

MARK = "@bench "
EVERY_S = 0.1
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Step:
    """What a child did."""

    name: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0


@dataclass(slots=True)
class Told:
    """All that a child told."""

    steps: dict[str, Step] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int = 0
    seconds: float = 0.0

    def s(self, name: str) -> float:
        return self.steps[name].seconds


# --- in the child ---


@contextmanager
def step(name: str) -> Iterator[None]:
    """Time what is in the block, and tell it."""
    _tell({"begin": name})
    began = time.perf_counter()
    yield
    _tell({"end": name, "seconds": time.perf_counter() - began})


def answer(**values: Any) -> None:
    """Hand something to the parent."""
    _tell({"answer": values})


def _tell(line: dict[str, Any]) -> None:
    print(MARK + json.dumps(line), flush=True)


# --- in the parent ---


def child(words: Sequence[str], *, limit_s: float = 2400, **environment: str) -> Told:
    """Run `python -m bench.pipeline --child …` and listen to it."""
    command = [sys.executable, "-m", "bench.pipeline", "--child", *words]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    told, meter = Told(), Meter(process.pid)
    errors: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    stderr = process.stderr
    threads = [
        threading.Thread(target=meter.run, daemon=True),
        threading.Thread(target=lambda: errors.extend(stderr), daemon=True),
    ]
    for thread in threads:
        thread.start()
    late = threading.Timer(limit_s, _end, (process,))
    late.start()
    try:
        for line in process.stdout:
            if line.startswith(MARK):
                _hear(told, meter, json.loads(line[len(MARK) :]))
        code = process.wait()
    finally:
        late.cancel()
        if process.poll() is None:
            _end(process)
        meter.ended = True
    for thread in threads:
        thread.join(2)
    if code:
        late_by = time.perf_counter() - began - limit_s
        why = "".join(errors).strip()[-400:] if late_by < 0 else f"not done within {limit_s:,.0f} s"
        raise BenchError(f"{' '.join(words[:3])}: {why or f'ended with {code}'}")
    told.peak_bytes, told.seconds = meter.highest, time.perf_counter() - began
    return told


def _hear(told: Told, meter: Meter, line: dict[str, Any]) -> None:
    if "begin" in line:
        meter.begin()
    elif "end" in line:
        told.steps[line["end"]] = Step(line["end"], line["seconds"], meter.spent(), meter.since)
    else:
        told.answers |= line["answer"]


def _end(process: subprocess.Popen[str]) -> None:
    """The child, and whatever it started: it is the first of a group of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        process.kill()


@dataclass(slots=True)
class Meter:
    """What a process and those below it take: the most memory at once, and processor time."""

    pid: int
    highest: int = 0
    since: int = 0
    """Since the step began."""
    cpu_s: float = 0.0
    began_s: float = 0.0
    """When the step began."""
    ended: bool = False
    _seen_s: float = 0.0
    _fell: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        self.since = 0
        self.look()
        self.began_s = self.cpu_s

    def spent(self) -> float:
        """Processor time since the step began."""
        self.look()
        return self.cpu_s - self.began_s

    def run(self) -> None:
        while not self.ended:
            self.look()
            time.sleep(EVERY_S)

    def look(self) -> None:
        with self._lock:
            pids = _tree(self.pid)
            found = sum(map(_resident, pids))
            self.highest, self.since = max(self.highest, found), max(self.since, found)
            self._add(sum(map(_ticks, pids)) / TICKS)

    def _add(self, seen_s: float) -> None:
        """Who ends is in the account of its parent, if that waits for it; if not, what it had is missing from then on.
        In between it may be in neither, so that a lower sum is believed when it is there again."""
        if seen_s < self._seen_s and not self._fell:
            self._fell = True
            return
        self.cpu_s += max(0.0, seen_s - self._seen_s)
        self._seen_s, self._fell = seen_s, False


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
            except OSError:
                continue
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _ticks(pid: int) -> int:
    """Of the process, and of those that it started and that have ended."""
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    except OSError:
        return 0
