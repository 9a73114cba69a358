"""Durations and sizes as people write them: "7d", "1.5h", "20GB", "512MiB"; a plain number counts seconds, or bytes."""

from __future__ import annotations

import re
from fractions import Fraction

UNITS_S = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}
UNITS_S |= {"d": Fraction(86_400), "w": Fraction(604_800)}
UNITS_BYTES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
UNITS_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DURATION_MAX_US = 1000 * 366 * 86_400 * 10**6
SIZE_MAX = 2**62
_WRITTEN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")
_ANY_CASE = {unit.lower(): size for unit, size in UNITS_BYTES.items()}


def duration_us(written: str | float) -> int:
    """A duration in microseconds; ValueError with what is wrong."""
    help = 'write it as in "90s", "15m", "12h", "7d" or "2w"'
    number, unit = _read(written, "duration", help)
    if unit and unit not in UNITS_S:
        raise ValueError(f"{unit!r} is not a unit of time; {help}")
    exact = number * UNITS_S[unit or "s"] * 1_000_000
    if exact > DURATION_MAX_US:
        raise ValueError("must be at most a thousand years")
    return round(exact)


def size_bytes(written: str | float) -> int:
    """A size in bytes; ValueError with what is wrong."""
    help = 'write it as in "500MB", "20GB" or "1TiB"'
    number, unit = _read(written, "size", help)
    if unit.lower() not in _ANY_CASE:
        raise ValueError(f"{unit!r} is not a unit of size; {help}")
    exact = round(number * _ANY_CASE[unit.lower()])
    if exact > SIZE_MAX:
        raise ValueError("is more than any disk has")
    return exact


def _read(written: str | float, what: str, help: str) -> tuple[Fraction, str]:
    if not isinstance(written, str):
        if written < 0:
            raise ValueError(f"must not be negative, and {written:g} is")
        return Fraction(written), ""
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise ValueError(f"{written[:40]!r} is not a {what}; {help}")
    return Fraction(match[1]), match[2]


def show_size(size: int) -> str:
    """Three digits and a unit: `1.25 GB`."""
    if size < 1000:
        return f"{size} B"
    value, units = float(size), iter(("kB", "MB", "GB", "TB", "PB"))
    unit = ""
    while value >= 999.5:
        value, unit = value / 1000, next(units)
    return f"{value:.3g} {unit}"
