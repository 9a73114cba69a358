"""Measured delays between brokers. As a file, CSV with the columns `from,to,ms`; a pair that is named in one direction
only is as long in the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from latecomer.model.csv_rows import read_rows
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted

KEY = "delays"
HEADING = ("from", "to", "ms")
PARTS = 10
"""Delays are whole tenths of a millisecond."""
LONGEST_MS = 1_000_000.0

Delays: TypeAlias = list[list[int]]
"""[from][to] in parts of a millisecond, in the order of the brokers."""


def read_delays(text: str, source: str, brokers: Sequence[BrokerId]) -> Delays:
    """The delays between all of these brokers; an error names the line, or the pair that is missing."""
    number = {broker: at for at, broker in enumerate(brokers)}
    told: dict[tuple[int, int], int] = {}
    for line, (origin, end, ms) in read_rows(text, source, (HEADING,)):
        for broker in (origin, end):
            if broker not in number:
                problem = f"the broker {quoted(broker)} is not on the ring; add it or correct it"
                raise SettingsError(KEY, problem, source=source, line=line)
        told[number[origin], number[end]] = _parts(ms, source, line)
    count = range(len(brokers))
    for a in count:
        for b in count:
            if a < b and (a, b) not in told and (b, a) not in told:
                problem = f"no delay between {quoted(brokers[a])} and {quoted(brokers[b])}; add it"
                raise SettingsError(KEY, problem, source=source)
    return [[0 if a == b else told[a, b] if (a, b) in told else told[b, a] for b in count] for a in count]


def _parts(text: str, source: str, line: int) -> int:
    try:
        ms = float(text)
    except ValueError:
        ms = math.nan
    if not 0 <= ms <= LONGEST_MS:
        problem = f"{quoted(text)} is not a delay; write milliseconds from 0 to {LONGEST_MS:,.0f}"
        raise SettingsError(KEY, problem, source=source, line=line)
    return round(ms * PARTS)
