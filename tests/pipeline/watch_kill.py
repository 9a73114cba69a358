"""`latecomer watch` is killed with SIGKILL again and again while segments appear: nothing is lost or counted twice.

    .venv/bin/python tests/pipeline/watch_kill.py --kills 50

Three brokers write segments at random moments, some of them late, some damaged, and some removed long after they were
counted. Each life of the watch ends by SIGKILL at a random moment: while Spark starts, reads, counts, writes or folds.
Where machines differ in speed moments do not, so most of them are told by what the watch has done since it started.
The last one ends by itself, and its counts must be those of the whole log, counted by Arrow alone, to the last request.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    # gmqtt installs a package `tests` of its own, which would be found before this folder.
    sys.modules["tests"] = ModuleType("tests")
    sys.modules["tests"].__path__ = [str(Path(__file__).parents[1])]

from latecomer.pipeline.session import QUICK
from tests.pipeline.watch_log import drawn, plain_count, state_count, write

BROKERS = ("b1", "b2", "b3")
ROWS = 40
SECONDS = 1200.0
"""Of the log's own time, over which records are strewn."""
LIFE_MOST_S = 600.0
STARTED = 0.7
"""Part of the lives that come so far as to count something."""
START_S = 20.0
"""The others end within this."""
MORE_S = 2.0
"""Between what a watch was seen to do and its end."""


@dataclass(slots=True)
class Outcome:
    kills: int = 0
    batches_at_kill: list[int] = field(default_factory=list)
    segments: int = 0
    rows: int = 0
    requests: int = 0
    counted: int = 0
    differing: int = 0
    ended: int = -1

    @property
    def good(self) -> bool:
        return self.ended == 0 and not self.differing and self.requests == self.counted > 0

    def line(self) -> str:
        told = f"{self.kills} kills, {self.segments} segments, {self.rows:,} rows: {self.requests:,} requests"
        cells = f"{self.differing} periods, classes and brokers differ"
        batches = f"{len(set(self.batches_at_kill))} different numbers of batches at a kill"
        return f"{told}, {self.counted:,} counted, {cells}; {batches}: {'good' if self.good else 'BROKEN'}"


class Network:
    """Brokers that write while somebody watches."""

    def __init__(self, log: Path, seed: int) -> None:
        self.log = log
        self.chance = random.Random(seed)
        self.rows = self.segments = 0
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def segment(self) -> None:
        broker = self.chance.choice(BROKERS)
        self.segments += 1
        file = write(self.log, broker, self.segments, drawn(self.chance, broker, ROWS, SECONDS))
        self.rows += ROWS
        if self.segments % 10 == 0:
            # Half a segment beside it, which is to be told and not counted; hidden until it is there.
            half = file.with_name(f"0-half-{self.segments}.parquet")
            hidden = half.with_name(f"_{half.name}")
            hidden.write_bytes(file.read_bytes()[:-50])
            hidden.rename(half)

    def start(self) -> None:
        self._going.set()
        self._thread.start()

    def stop(self) -> None:
        self._going.clear()
        self._thread.join()

    def _run(self) -> None:
        while self._going.is_set():
            self.segment()
            time.sleep(self.chance.uniform(0.2, 4.0))


def command(log: Path, state: Path, *more: str) -> list[str]:
    options = ["--depth", "2", "--period", "1m", "--segments", "3", "--every", "200ms", "--memory", "600m"]
    spark = [
        "--master",
        "local[1]",
        "--spark-conf",
        f"spark.driver.extraJavaOptions={QUICK}",
        "--spark-conf",
        "spark.sql.shuffle.partitions=1",
    ]
    # A fold every few batches, so that some are killed while they fold.
    call = "import latecomer.pipeline.watch_job as job; job.FOLD_AT = 6; from latecomer.cli.main import main; main()"
    return [sys.executable, "-c", call, "watch", str(log), "--state", str(state), *options, *spark, *more]


def started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A life; what it cannot remove when it is killed is removed with the folder."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def killed(words: list[str], state: Path, chance: random.Random) -> bool:
    """One life that is ended from outside; False: it ended before."""
    process = started(words, state.parent)
    target = batches(state) + chance.choice((1, 1, 2, 4)) if chance.random() < STARTED else None
    until = time.monotonic() + (LIFE_MOST_S if target is not None else chance.uniform(0, START_S))
    try:
        while process.poll() is None and time.monotonic() < until:
            if target is not None and (batches(state) >= target or _being_written(state, target)):
                time.sleep(chance.uniform(0, MORE_S) if chance.random() < 0.7 else 0)
                break
            time.sleep(0.005)
        alive = process.poll() is None
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return alive


def _being_written(state: Path, id: int) -> bool:
    return (state / "batches" / f"_{id:010d}").exists()


def batches(state: Path) -> int:
    """The number of the last batch that was counted."""
    names = [path.name.removeprefix("upto-") for path in (state / "batches").glob("*")]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def trial(folder: Path, kills: int, seed: int, minutes: float) -> Outcome:
    log, state, chance, outcome = folder / "log", folder / "state", random.Random(seed), Outcome()
    network, until = Network(log, seed + 1), time.monotonic() + minutes * 60
    network.segment()
    network.start()
    try:
        while outcome.kills < kills and time.monotonic() < until:
            if not killed(command(log, state), state, chance):
                return outcome  # it ended by itself, which a watch does not
            outcome.kills += 1
            outcome.batches_at_kill.append(batches(state))
            print(f"kill {outcome.kills}: batch {outcome.batches_at_kill[-1]}", file=sys.stderr, flush=True)
    finally:
        network.stop()
    outcome.ended = started(command(log, state, "--once", "--segments", "200"), folder).wait(LIFE_MOST_S)
    return judged(outcome, network, state)


def judged(outcome: Outcome, network: Network, state: Path) -> Outcome:
    for half in network.log.glob("*/events/0-half-*.parquet"):
        half.unlink()
    wanted, found = plain_count(network.log), state_count(state)
    outcome.segments, outcome.rows = network.segments, network.rows
    outcome.requests, outcome.counted = wanted.total(), found.total()
    outcome.differing = len([key for key in wanted | found if wanted[key] != found[key]])
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0, help="after so long no more are killed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="watch-kill-") as folder:
        outcome = trial(Path(folder), asked.kills, asked.seed, asked.minutes)
    print(outcome.line())
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
