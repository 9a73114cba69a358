"""Times and wishes about history, as people write them.

    since=-1h               the last hour          -90s -15m -1h -7d -2w
    since=now               nothing of the past
    since=2026-11-16        from midnight UTC
    since=2026-11-16T06:00:00Z,until=2026-11-16T07:30:00Z
    since=1794808800.25     seconds since 1970
    last=100                the newest hundred

Several options are joined by commas. `last` alone means the newest of all time, `until` alone everything up to then.
What is subscribed to goes on after the history, whatever `until` says.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import NUMBER_MAX

LAST_MAX = 1_000_000
SECOND_US = 1_000_000
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
NAMES = ("since", "until", "last")
TIMES = "-90s, -15m, -1h, -7d, -2w, now, 2026-11-16T06:00:00Z, 2026-11-16, or seconds since 1970"

_relative = re.compile(r"-([0-9]{1,9})([smhdw])")
_seconds = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")
_date = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|z|[-+][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


class Options(msgspec.Struct, frozen=True):
    """What was asked for, as it was written; empty: not said."""

    since: str = ""
    until: str = ""
    last: str = ""

    def __str__(self) -> str:
        return ",".join(f"{name}={text}" for name in NAMES if (text := getattr(self, name)))


class Wish(msgspec.Struct, frozen=True):
    """What was asked for, in instants of microseconds, both included."""

    since: int = 0
    until: int = 0
    """0: without end."""
    last: int = 0
    """0: all."""


def parse_when(text: str, now_us: int) -> int:
    """An instant, or a `SettingsError` that says how one is written. What lies before 1970 is 1970."""
    text = text.strip()
    if text == "now":
        return now_us
    if found := _relative.fullmatch(text):
        return max(0, now_us - int(found[1]) * UNITS_S[found[2]] * SECOND_US)
    if found := _seconds.fullmatch(text):
        return int(found[1]) * SECOND_US + int((found[2] or "").ljust(6, "0"))
    if found := _date.fullmatch(text):
        day, minute, second, zone = found.groups()
        try:
            moment = datetime.fromisoformat(
                f"{day}T{minute or '00:00'}{second or ':00'}{zone or 'Z'}".replace("z", "Z")
            )
            return max(0, (moment - _EPOCH) // timedelta(microseconds=1))
        except (ValueError, OverflowError):
            raise SettingsError("", f"there is no time {_quoted(text)}: write {TIMES}") from None
    raise SettingsError("", f"{_quoted(text)} is not a time: write {TIMES}")


def format_when(us: int) -> str:
    """An instant in ISO 8601, UTC, with microseconds. Clocks may be wrong: beyond the year 9999 all is its end."""
    seconds, rest_us = divmod(min(us, _LAST_US), SECOND_US)
    return f"{_second(seconds)}.{rest_us:06}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Many events are published in one second."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def parse_options(text: str) -> Options:
    """Read `since=…,until=…,last=…`; at least one of them."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if name not in NAMES or not equals or not value:
            raise SettingsError("", f"{_quoted(part)} is no option of history: write since=…, until=… or last=…")
        if name in found:
            raise SettingsError("", f"{name} is said twice: say it once")
        found[name] = value
    return Options(**found)


def make_wish(options: Options, now_us: int) -> Wish:
    """What the options mean at this moment."""
    since = _named("since", options.since, now_us) if options.since else 0
    until = _named("until", options.until, now_us) if options.until else 0
    if options.until and not until:
        raise SettingsError("until", "until must lie after 1970: nothing is older")
    if until and since > until:
        raise SettingsError("since", "since must not lie after until: exchange them")
    return Wish(since, until, _count(options.last) if options.last else 0)


def _named(name: str, text: str, now_us: int) -> int:
    try:
        when = parse_when(text, now_us)
    except SettingsError as error:
        raise SettingsError(name, f"{name}: {error.problem}") from None
    return min(when, NUMBER_MAX)


def _count(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= LAST_MAX):
        raise SettingsError("last", f"last must be a number from 1 to {LAST_MAX:,}, not {_quoted(text)}")
    return int(text)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
