"""Durations as people write them: "250us", "5ms", "2s", "1.5m"; a whole number counts microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

DURATION_MAX_US = 366 * 24 * 3600 * 1_000_000
UNITS_US = {"us": 1, "µs": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_WRITTEN = re.compile(r"([+-]?)([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-zµ]*)")
_HELP = 'write it with its unit, as in "250us", "5ms", "2s" or "1m"'


class Duration(int):
    """Microseconds that came from a settings file."""


def read_duration(written: object) -> Duration:
    """A duration from a settings file; ValueError with what is wrong."""
    if isinstance(written, bool) or not isinstance(written, int | str):
        raise ValueError(f"is not a duration; {_HELP}")
    if isinstance(written, int):
        return _within_limits(written, f"{written} us" if abs(written) < 10**18 else "that")
    match = _WRITTEN.fullmatch(written.strip())
    if match is None or not match[3]:
        raise ValueError(f"{written[:40]!r} is not a duration; {_HELP}")
    sign, number, unit = match.groups()
    if unit not in UNITS_US:
        raise ValueError(f"{unit!r} is not a unit of time; {_HELP}")
    exact = Fraction(number) * UNITS_US[unit]
    if exact.denominator != 1:
        raise ValueError(f"{written!r} is not a whole number of microseconds, which is as fine as time gets")
    return _within_limits(-exact.numerator if sign == "-" else exact.numerator, repr(written))


def _within_limits(micros: int, shown: str) -> Duration:
    if micros < 0:
        raise ValueError(f"must not be negative, and {shown} is")
    if micros > DURATION_MAX_US:
        raise ValueError(f"is at most a year, and {shown} is more")
    return Duration(micros)


def show_duration(micros: int) -> str:
    """The shortest exact way to write it."""
    for unit in ("h", "m", "s", "ms"):
        if micros and micros % UNITS_US[unit] == 0:
            return f"{micros // UNITS_US[unit]}{unit}"
    if micros >= 1_000_000:
        return f"{micros / 1e6:.6f}".rstrip("0") + "s"
    return f"{micros}us"
