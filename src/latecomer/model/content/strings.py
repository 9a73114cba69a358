"""The strings that satisfy a set of constraints, exactly, without automata.

Everything about the beginning of a string (order, prefix) is one interval of the lexicographic order, and
every interval falls apart into

    points   single strings: the bounds themselves, and the beginnings of the upper bound
    fans     stem + one character out of a range + anything at all

A fan is so free that nothing but its stem can clash with a suffix, with substrings asked for, or with one
thing to avoid: behind the stem one can write every substring asked for, separated by a character that occurs
in nothing to avoid, and end with the suffix; repeating the separator gives infinitely many such strings, so
finitely many excluded ones never matter. Points are few and simply tried. Hence a witness is found or shown
impossible in polynomial time, where a product of automata would be exponential in the number of `contains`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from latecomer.model.content.terms import Constraint, Op

_LAST = 0x10FFFF
MAX_CHAIN = 16
"""Up to so many strings between two bounds become `in (…)`; bounds that differ by nulls only have so few."""


class Strings(msgspec.Struct, frozen=True):
    """An interval of strings, less `excluded`, that end with `suffix` and contain each of `contains`."""

    low: str = ""
    low_open: bool = False
    high: str | None = None
    """None: no upper bound."""
    high_open: bool = True
    suffix: str = ""
    contains: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def has(self, text: str) -> bool:
        return (
            (text > self.low or (text == self.low and not self.low_open))
            and (self.high is None or text < self.high or (text == self.high and not self.high_open))
            and self.fits(text)
        )

    def fits(self, text: str) -> bool:
        """`has`, apart from the bounds."""
        return text.endswith(self.suffix) and all(part in text for part in self.contains) and text not in self.excluded

    def above(self, low: str, is_open: bool) -> Strings:
        """Only those above a bound."""
        if low < self.low or (low == self.low and self.low_open >= is_open):
            return self
        return msgspec.structs.replace(self, low=low, low_open=is_open)

    def below(self, high: str | None, is_open: bool) -> Strings:
        """Only those below a bound."""
        if high is None or (
            self.high is not None and (high > self.high or (high == self.high and self.high_open >= is_open))
        ):
            return self
        return msgspec.structs.replace(self, high=high, high_open=is_open)

    def starting(self, prefix: str) -> Strings:
        """Only those with this prefix: they are an interval too."""
        return self.above(prefix, False).below(behind_prefix(prefix), True)


def strings_of(constraints: list[Constraint]) -> Strings | tuple[str, ...]:
    """What string constraints (none of them `=`, `in` or `exists`) leave; a tuple if it is only a handful."""
    found = Strings()
    suffix = ""
    contains: list[str] = []
    excluded: list[str] = []
    for constraint in constraints:
        text = constraint.value
        assert isinstance(text, str)
        if constraint.op is Op.SUFFIX:
            short, long = sorted((suffix, text), key=len)
            if not long.endswith(short):
                return ()
            suffix = long
        elif constraint.op is Op.CONTAINS:
            contains.append(text)
        elif constraint.op is Op.NE:
            excluded.append(text)
        else:
            found = _bounded(found, constraint.op, text)
    # `dict.fromkeys` drops repetitions and, unlike a set, keeps a fixed order.
    found = msgspec.structs.replace(
        found, suffix=suffix, contains=tuple(dict.fromkeys(contains)), excluded=tuple(dict.fromkeys(excluded))
    )
    return _tidied(found)


def _bounded(found: Strings, op: Op, text: str) -> Strings:
    if op is Op.PREFIX:
        return found.starting(text)
    if op in (Op.GT, Op.GE):
        return found.above(text, op is Op.GT)
    assert op in (Op.LT, Op.LE)
    return found.below(text, op is Op.LT)


def a_string(strings: Strings, *, not_suffix: str | None = None, not_contains: str | None = None) -> str | None:
    """One of the strings, but one that does not end with `not_suffix` and does not contain `not_contains`."""

    def wanted(text: str) -> bool:
        return not (
            (not_suffix is not None and text.endswith(not_suffix))
            or (not_contains is not None and not_contains in text)
        )

    if not wanted(strings.suffix) or (
        not_contains is not None and any(not_contains in part for part in strings.contains)
    ):
        return None  # what is asked for already has what is to be avoided; so has every string
    for stem in _fan_stems(strings):
        if not_contains is None or not_contains not in stem:
            return _grown(stem, strings, (not_suffix or "") + (not_contains or ""))
    return next((point for point in _points(strings) if strings.has(point) and wanted(point)), None)


def escape_string(strings: Strings, constraint: Constraint) -> str | None:
    """One of the strings that does not satisfy the constraint, or None if they all do."""
    op, value = constraint.op, constraint.value
    if isinstance(value, tuple):
        members = tuple(member for member in value if isinstance(member, str))
        return a_string(_without(strings, members))
    if not isinstance(value, str):
        return None if op is Op.EXISTS else a_string(strings)
    if op is Op.EQ:
        return a_string(_without(strings, (value,)))
    if op is Op.NE:
        return value if strings.has(value) else None
    if op is Op.SUFFIX:
        return a_string(strings, not_suffix=value)
    if op is Op.CONTAINS:
        return a_string(strings, not_contains=value)
    if op is Op.PREFIX:
        below = a_string(strings.below(value, True))
        behind = behind_prefix(value)
        return below if below is not None or behind is None else a_string(strings.above(behind, False))
    if op in (Op.LT, Op.LE):
        return a_string(strings.above(value, op is Op.LE))
    return a_string(strings.below(value, op is Op.GE))


def constraints_of_strings(name: str, strings: Strings) -> list[Constraint]:
    """The canonical constraints that leave these strings."""
    found: list[Constraint] = []
    first = strings.low + "\0" if strings.low_open else strings.low
    if first and strings.high_open and strings.high is not None and strings.high == behind_prefix(first):
        found.append(Constraint(name, Op.PREFIX, first))
    else:
        if strings.low or strings.low_open:
            found.append(Constraint(name, Op.GT if strings.low_open else Op.GE, strings.low))
        if strings.high is not None:
            found.append(Constraint(name, Op.LT if strings.high_open else Op.LE, strings.high))
    if strings.suffix:
        found.append(Constraint(name, Op.SUFFIX, strings.suffix))
    found.extend(Constraint(name, Op.CONTAINS, part) for part in sorted(strings.contains))
    found.extend(Constraint(name, Op.NE, text) for text in sorted(strings.excluded))
    return found or [Constraint(name, Op.PREFIX, "")]  # any string, but a string


# --- the pieces of an interval --------------------------------------------------------------------


def behind_prefix(prefix: str) -> str | None:
    """The least string above all strings with this prefix; None if there is none."""
    kept = prefix.rstrip(chr(_LAST))
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)  # there are no characters between U+D7FF and U+E000


def _fan_stems(strings: Strings) -> Iterator[str]:
    """For each fan of the interval its stem with one character of the range; twice, if there are two.

    Two are enough for everybody: a stem without a certain substring gets it by at most one character.
    """
    low, high = strings.low, strings.high
    if high is not None and (high < low or low == high):
        return
    if high is not None and high.startswith(low):
        for at in range(len(low), len(high)):
            yield from _grafted(high[:at], 0, ord(high[at]) - 1)
        return
    yield from _grafted(low, 0, _LAST)
    split = -1
    if high is not None:
        split = next(at for at in range(len(low)) if low[at] != high[at])
        yield from _grafted(low[:split], ord(low[split]) + 1, ord(high[split]) - 1)
        for at in range(split + 1, len(high)):
            yield from _grafted(high[:at], 0, ord(high[at]) - 1)
    for at in range(split + 1, len(low)):
        yield from _grafted(low[:at], ord(low[at]) + 1, _LAST)


def _points(strings: Strings) -> Iterator[str]:
    """The strings of the interval that are in no fan (and perhaps one or the other outside: ask `has`)."""
    yield strings.low
    if strings.high is not None:
        for at in range(len(strings.high)):
            if strings.high[:at] > strings.low:
                yield strings.high[:at]
        if strings.high != strings.low:
            yield strings.high


def _grafted(stem: str, first: int, last: int) -> Iterator[str]:
    """The stem with up to two different characters out of a range; readable ones where there is a choice."""
    left = 2
    for code in (
        *range(max(first, 0x61), min(last, 0x62) + 1),
        first,
        first + 1,
        0xE000,
        0xE001,
        last,
        last - 1,
    ):
        if left and first <= code <= last and not 0xD800 <= code < 0xE000:
            yield stem + chr(code)
            left -= 1


def _grown(stem: str, strings: Strings, avoid: str) -> str:
    """A string of a fan: stem, everything asked for, suffix, kept apart by a harmless character."""
    gap = next(chr(code) for code in range(0x2D, _LAST) if chr(code) not in avoid)
    body = stem + "".join(gap + part for part in strings.contains)
    grown = body + gap + strings.suffix
    for _ in strings.excluded:
        if grown not in strings.excluded:
            break
        body += gap
        grown = body + gap + strings.suffix
    return grown


def _without(strings: Strings, texts: tuple[str, ...]) -> Strings:
    return msgspec.structs.replace(strings, excluded=strings.excluded + texts)


# --- one way to write the same strings ------------------------------------------------------------


def _tidied(strings: Strings) -> Strings | tuple[str, ...]:
    """The same strings with nothing superfluous, so that the same set is (nearly always) the same value.

    Decision: not carried through for bounds that differ by null characters only, beyond what costs nothing
    here.
    """
    if a_string(strings) is None:
        return ()
    if next(_fan_stems(strings), None) is None:
        points = [point for point in _points(strings) if strings.has(point)]
        if len(points) <= MAX_CHAIN:
            return tuple(points)
    for part in strings.contains:
        fewer = tuple(other for other in strings.contains if other != part)
        rest = msgspec.structs.replace(strings, contains=fewer)
        if a_string(rest, not_contains=part) is None:
            strings = rest
    return _needed_exclusions(_tight_above(_tight_below(_needed_exclusions(strings))))


def _needed_exclusions(strings: Strings) -> Strings:
    others = msgspec.structs.replace(strings, excluded=())
    return msgspec.structs.replace(strings, excluded=tuple(filter(others.has, strings.excluded)))


def _tight_below(strings: Strings) -> Strings:
    """The shortest lower bound: an excluded bound is open; an open one that would not fit is closed."""
    low, low_open = strings.low, strings.low_open
    excluded = strings.excluded
    while (least := low + "\0" if low_open else low) in excluded:  # least: the next string there is
        excluded = tuple(text for text in excluded if text != least)
        low, low_open = least, True
    strings = msgspec.structs.replace(strings, excluded=excluded)
    while True:
        if low_open and not strings.fits(low):
            low_open = False
        elif not low_open and low.endswith("\0"):
            low, low_open = low[:-1], True
        else:
            return msgspec.structs.replace(strings, low=low, low_open=low_open)


def _tight_above(strings: Strings) -> Strings:
    """The tightest upper bound: a closed bound that is not among the strings is an open one."""
    high, high_open = strings.high, strings.high_open
    while high is not None:
        if not high_open and not strings.fits(high):
            high_open = True
        elif high_open and high.endswith("\0"):
            high, high_open = high[:-1], False
        else:
            break
    return msgspec.structs.replace(strings, high=high, high_open=high_open)
