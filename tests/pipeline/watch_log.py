"""A small log for the tests of `watch`: made by seed, written in pieces, and counted without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from latecomer.eventlog import SegmentWriter
from latecomer.model.record import Kind, Record

BEGIN_US = 1_700_000_040_000_000
"""The beginning of a minute."""
SECOND_US = 1_000_000
MINUTE_S = 60

Count = Counter[tuple[int, str, str]]
"""(period, class, broker) → requests"""


def asked(broker: str, filter: str, second: float) -> Record:
    """A request for history, so many seconds after the beginning."""
    return Record(BEGIN_US + round(second * SECOND_US), broker, Kind.REQUESTED, filter=filter)


def write(log: Path, broker: str, boot: int, records: Iterable[Record]) -> Path:
    """One segment of a broker, in its own folder as `latecomer up` has it."""
    folder = log / broker / "events"
    before = set(folder.glob("*.parquet"))
    with SegmentWriter(folder, broker, boot=boot) as writer:
        writer.extend(records)
    return next(iter(set(folder.glob("*.parquet")) - before))


def drawn(chance: random.Random, broker: str, rows: int, seconds: float) -> list[Record]:
    """Requests for topics two levels deep, and other records between them."""
    return [
        asked(broker, f"t/{chance.randrange(5)}/x", chance.uniform(0, seconds))
        if chance.random() < 0.7
        else Record(BEGIN_US + round(chance.uniform(0, seconds) * SECOND_US), broker, Kind.DELIVERED, topic="t/1/x")
        for _ in range(rows)
    ]


def plain_count(log: Path, period_s: int = MINUTE_S) -> Count:
    """The requests of a log whose filters have no wildcards, by Arrow alone: classes are two levels deep."""
    found: Count = Counter()
    for file in sorted(log.glob("*/events/*.parquet")):
        table = pq.read_table(file, columns=["at_us", "broker", "kind", "filter"])
        for at_us, broker, kind, filter in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if kind == Kind.REQUESTED.value:
                found[at_us // (period_s * SECOND_US), "/".join(filter.split("/")[:2]) + "/#", broker] += 1
    return found


def state_count(state: Path) -> Count:
    """What a watch has counted, by Arrow alone: the newest fold, and the batches after it."""
    found: Count = Counter()
    folds = sorted(path.name for path in (state / "batches").glob("upto-*"))
    upto = int(folds[-1].removeprefix("upto-")) if folds else -1
    folders = [path for path in (state / "batches").iterdir() if path.name.isdecimal() and int(path.name) > upto]
    folders += [state / "batches" / folds[-1]] if folds else []
    for folder in folders:
        for file in sorted(folder.glob("counts/*.parquet")):
            table = pq.read_table(file, columns=["period", "class", "broker", "requests"])
            for period, name, broker, requests in zip(*(c.to_pylist() for c in table.columns), strict=True):
                found[period, name, broker] += requests
    return +found
