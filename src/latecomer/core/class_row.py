"""What a store knows of how complete it is, per topic class."""

from __future__ import annotations

import msgspec

from latecomer.model.ids import NUMBER_MAX

GAPS_MAX = 64
ALWAYS = 1
"""Instant from which on a class is complete that has everything ever published."""
NOT_YET = NUMBER_MAX
"""The same of one whose subscription may not have reached everybody (`beginnings`)."""


class ClassRow(msgspec.Struct, frozen=True, array_like=True):
    """A topic class as it stands on disk."""

    since_us: int
    """Everything published from here on has been kept, but for `gaps`."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Stretches of which something may be missing, as (from, to); to 0: it goes on."""


def closed(row: ClassRow, now: int) -> ClassRow:
    return ClassRow(row.since_us, tuple((start, end or now) for start, end in row.gaps))


def with_gap(row: ClassRow, start: int, end: int) -> ClassRow:
    """A gap that goes on stays behind all others."""
    gaps = tuple(sorted((*row.gaps, (start, end)), key=lambda gap: gap[1] == 0))
    if len(gaps) > GAPS_MAX:
        (start, _), (_, end), *rest = gaps  # the oldest two become one
        gaps = ((start, end), *rest)
    return ClassRow(row.since_us, gaps)


def without_gaps_since(row: ClassRow) -> int:
    """From when on nothing is missing."""
    return max((row.since_us, *(end or NUMBER_MAX for _, end in row.gaps)))
