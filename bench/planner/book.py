"""Turns and clocks: who takes part is run in turn, round by round, and each figure is the median of its rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich.table import Table
from rich.text import Text

from bench.stores.book import Book, Key

Result = TypeVar("Result")
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def clock(run: Callable[[], Result]) -> tuple[Result, float]:
    began = time.perf_counter()
    result = run()
    return result, time.perf_counter() - began


def clock_often(run: Callable[[], Result], least: float = 0.02) -> tuple[Result, float]:
    """What takes no time is repeated until the clock can tell; the mean of one turn."""
    result, seconds = clock(run)
    turns = 1
    while seconds < least:
        result, more = clock(run)
        seconds += more
        turns += 1
    return result, seconds / turns


def in_turn(book: Book, table: str, row: str, contenders: Mapping[str, Callable[[], float]], rounds: int) -> None:
    """Seconds of each contender, who measures itself; the order turns, so that nobody always comes after the same."""
    names = list(contenders)
    for number in range(rounds):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            book.turn((table, row, name), contenders[name])


def span(seconds: float | None) -> str:
    """A time with three digits and its unit."""
    if seconds is None:
        return "–"
    unit, size = next((one for one in UNITS if seconds >= one[1]), UNITS[-1])
    value = seconds / size
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def timed(book: Book, key: Key) -> str:
    """The median, and half of what the rounds differ by."""
    if key in book.faults:
        return f"[dim]{book.faults[key][:60]}[/]"
    figures = book.figures.get(key, [])
    value = book.get(key)
    if value is None or len(figures) < 2 or not value:
        return span(value)
    return f"{span(value)} [dim]±{(max(figures) - min(figures)) / 2 / value:.0%}[/]"


def times(book: Book, slow: Key, fast: Key) -> str:
    """How many times as long the first takes, round by round."""
    value = book.ratio(slow, fast)
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(title: str, first: Sequence[str], columns: Sequence[str]) -> Table:
    made = Table(title=title, title_justify="left")
    for column in first:
        made.add_column(column, overflow="fold")
    for column in columns:
        made.add_column(column, justify="right", overflow="fold")
    return made


def markdown(made: Table) -> str:
    """The same table for a page of the documentation."""
    heads = [" ".join(str(column.header).split()) for column in made.columns]
    rules = ["---:" if column.justify == "right" else "---" for column in made.columns]
    cells = [[Text.from_markup(str(cell)).plain for cell in column.cells] for column in made.columns]
    rows = [heads, rules, *zip(*cells, strict=True)]
    return "\n".join([f"**{made.title}**", "", *(f"| {' | '.join(row)} |" for row in rows), ""])
