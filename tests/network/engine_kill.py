"""`kill -9` while a store is written: a process that appends, lets go and says what is safe, and one that kills it.

python -m tests.network.engine_kill --kills 500
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from latecomer.history import Engine, EngineSettings
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId

STEP_US = 10_000
SETTINGS = EngineSettings(keep_us=60_000_000, segment_us=10_000_000, segment_bytes=200_000, reserve_bytes=0)
"""A segment has a thousand events, and the last six or seven are kept."""


def event_of(seq: int) -> Event:
    return Event(EventId("b", 1, seq), f"t/{seq % 7}", published_us=seq * STEP_US, payload=b"%d" % seq * (seq % 90))


def child(folder: Path, durability: str, seed: int) -> None:
    """Append on and on; say the number behind the last that is safe."""
    random = Random(seed)
    engine = Engine.open(folder, SETTINGS, durability=durability)
    assert engine.problems == ()
    status = engine.status()
    seq = status.newest_us // STEP_US + 1 if status.events else 0
    while True:
        size = random.choice((1, 1, 10, 200))
        engine.append([event_of(number) for number in range(seq, seq + size)])
        seq += size
        os.write(1, b"%d\n" % seq)
        if random.random() < 0.05:
            engine.expire(seq * STEP_US)


def killed(folder: Path, durability: str, seed: int, reports: int) -> int:
    """Run the child, kill it after so many reports; the last number it said."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", str(folder), durability, str(seed)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < reports:
        part = os.read(process.stdout.fileno(), 65536)
        assert part, "the child ended by itself"
        said += part
    process.kill()
    said += process.stdout.read()
    process.stdout.close()
    process.wait()
    return int(said[: said.rindex(b"\n")].split(b"\n")[-1])


def check(folder: Path, safe: int, whole: bool) -> int:
    """Everything that was said to be safe is there and right, and nothing else; how many events."""
    with Engine.open(folder, SETTINGS, durability="none") as engine:
        assert engine.problems == ()
        kept_from_us = engine.status().kept_from_us
        assert kept_from_us <= max(0, safe * STEP_US + 200 * STEP_US - SETTINGS.keep_us)
        page = engine.read(Query(Filter("#")), 0, 5000, 1 << 30)
        found = list(page.events)
        while page.next is not None:
            page = engine.read(Query(Filter("#"), after=page.next), 0, 5000, 1 << 30)
            found += page.events
        first = -(-kept_from_us // STEP_US)
        assert found == [event_of(seq) for seq in range(first, first + len(found))]
        assert first + len(found) >= safe, f"{safe - first - len(found)} acknowledged events are missing"
        if whole:
            assert engine.verify().problems == ()
    return len(found)


def run(folder: Path, durability: str, kills: int, seed: int, tell: Callable[[int, int, int], object]) -> None:
    random = Random(seed)
    for number in range(kills):
        safe = killed(folder, durability, random.randrange(2**32), random.randrange(1, 60))
        tell(number, safe, check(folder, safe, whole=number % 10 == 0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", default="power")
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "DURABILITY", "SEED"))
    given = parser.parse_args()
    if given.child:
        folder, durability, seed = given.child
        child(Path(folder), durability, int(seed))

    def tell(number: int, safe: int, found: int) -> None:
        if number % 50 == 49:
            print(f"{number + 1} kills, {safe} events acknowledged, {found} of them kept: none missing", flush=True)

    with TemporaryDirectory() as temporary:
        run(Path(temporary) / "store", given.durability, given.kills, given.seed, tell)


if __name__ == "__main__":
    main()
