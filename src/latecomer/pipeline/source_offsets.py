"""How far a stream has come: exactly which segments it has had, in few words.

Segments of one life of a broker are numbered from 1 and come one after the other, so a few ranges name them all, as in
`{"./992e9a7e321efcda-0000000001": "1-57,59"}`. They may come out of order where two processes write as one broker: a
number that was left out is still taken when it comes. Segments whose names say nothing are listed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from latecomer.pipeline.source_records import life_of

Offset = dict[str, str]
OTHERS = ""
"""The key of the segments whose names say nothing; they are told one per line."""


def offset_of(names: Iterable[str]) -> Offset:
    """What has been had when these have been had."""
    lives: dict[str, list[int]] = {}
    others: list[str] = []
    for name in names:
        found = life_of(name)
        if found is None:
            others.append(name)
        else:
            lives.setdefault(found[0], []).append(found[1])
    told = {life: _ranges(sorted(set(numbers))) for life, numbers in sorted(lives.items())}
    return told | ({OTHERS: "\n".join(sorted(others))} if others else {})


def joined(before: Offset, names: Iterable[str]) -> Offset:
    """What has been had when these have been had as well."""
    more = offset_of(names)
    found: Offset = {}
    for life in sorted({*before, *more}):
        if life == OTHERS:
            found[life] = "\n".join(sorted({*_lines(before), *_lines(more)}))
        else:
            numbers = {number for some in (before, more) for number in _numbers(some.get(life, ""))}
            found[life] = _ranges(sorted(numbers))
    return found


def missing(names: Sequence[str], had: Offset) -> list[str]:
    """Those that have not been had."""
    others = frozenset(_lines(had))
    known = {life: frozenset(_numbers(told)) for life, told in had.items() if life != OTHERS}
    nothing: frozenset[int] = frozenset()

    def new(name: str) -> bool:
        found = life_of(name)
        return name not in others if found is None else found[1] not in known.get(found[0], nothing)

    return [name for name in names if new(name)]


def _lines(offset: Offset) -> list[str]:
    return offset.get(OTHERS, "").splitlines()


def _numbers(told: str) -> list[int]:
    found: list[int] = []
    for part in told.split(",") if told else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _ranges(numbers: Sequence[int]) -> str:
    if not numbers:
        return ""
    cuts = [at for at, (left, right) in enumerate(pairwise(numbers), 1) if right != left + 1]
    parts = [numbers[low:high] for low, high in pairwise([0, *cuts, len(numbers)])]
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
