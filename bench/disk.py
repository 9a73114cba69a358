"""How fast the broker's disk is: messages per second by durability and by how many wait for their commit.

A message is what the core writes for one: its event into the outbox and into a mailbox of one of 100 clients, and later
the removal of both. So many messages are submitted at a time; when all of them are reported safe the next ones follow,
as when so many publishers wait for their acknowledgements. `busy` keeps the submitting thread at work all the time, as
an event loop under load would be, so that the writer thread has to ask for the interpreter. Rounds are interleaved.

    python bench/disk.py [--rounds N] [--messages N] [--directory D]
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from latecomer.core.effects import Drop, Put, Trim
from latecomer.core.tables import TABLES
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime.disk import Disk, Durability

WAITING = (1, 10, 100, 1000)
CLIENTS = 100
LAG = 500
PAYLOAD_BYTES = 256


def writes_of(number: int) -> list[Put | Drop | Trim]:
    event = Event(
        EventId("b1", 1, number), "house/kitchen/temperature", "sensor", number, True, payload=bytes(PAYLOAD_BYTES)
    )
    client = f"client-{number % CLIENTS}"
    writes: list[Put | Drop | Trim] = [Put("outbox", "", number, event), Put("mailbox", client, number, event)]
    if number >= LAG:
        old = number - LAG
        writes += [Drop("outbox", "", old), Trim("mailbox", f"client-{old % CLIENTS}", old + 1)]
    return writes


def run(folder: Path, durability: Durability, waiting: int, messages: int, *, busy: bool) -> tuple[float, float]:
    """Messages per second, and microseconds that submitting one takes."""
    prepared = [writes_of(number) for number in range(messages)]
    missing = 0
    submitting = 0.0

    def done(error: Exception | None) -> None:
        nonlocal missing
        assert error is None
        missing -= 1

    with Disk.open(folder, TABLES, durability) as disk:
        begin = time.perf_counter()
        for start in range(0, messages, waiting):
            part = prepared[start : start + waiting]
            missing = len(part)
            before = time.perf_counter()
            for writes in part:
                disk.submit(writes, done)
            submitting += time.perf_counter() - before
            while missing:
                if not busy:
                    time.sleep(0.00005)
        seconds = time.perf_counter() - begin
    return messages / seconds, submitting / messages * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast the broker's disk is.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=10_000, help="at most; less where few wait")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; left out: the one for temporary files")
    arguments = parser.parse_args()
    cases = [case for case in product(Durability, (False, True)) if case != (Durability.NONE, True)]
    found: dict[tuple[Durability, bool, int], list[tuple[float, float]]] = {}
    for _, (durability, busy), waiting in product(range(arguments.rounds), cases, WAITING):
        messages = min(arguments.messages, 300 * waiting)
        with TemporaryDirectory(dir=arguments.directory) as folder:
            result = run(Path(folder) / "data", durability, waiting, messages, busy=busy)
        found.setdefault((durability, busy, waiting), []).append(result)
    table = Table(title=f"messages per second, median of {arguments.rounds}, the best in brackets")
    table.add_column("durability")
    for waiting in WAITING:
        table.add_column(f"{waiting:,} waiting", justify="right")
    table.add_column("submit", justify="right")
    for durability, busy in cases:
        cells = []
        for waiting in WAITING:
            speeds = [speed for speed, _ in found[durability, busy, waiting]]
            cells.append(f"{statistics.median(speeds):,.0f} ({max(speeds):,.0f})")
        cost = statistics.median(cost for _, cost in found[durability, busy, WAITING[-1]])
        table.add_row(f"{durability}{', busy' if busy else ''}", *cells, f"{cost:.1f} µs")
    Console().print(table)


if __name__ == "__main__":
    main()
