"""Figures by table, row and column: taken in turns, shown as the medians of their rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from latecomer.model.errors import LatecomerError

Result = TypeVar("Result")
Key = tuple[str, str, str]
"""Table, row, column."""
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


class BenchError(Exception):
    """A sentence for the table; the others go on."""


@dataclass(slots=True)
class Book:
    """Figures of all rounds; a fault takes the place of figures."""

    console: Console
    began: float = field(default_factory=time.monotonic)
    figures: dict[Key, list[float]] = field(default_factory=dict)
    faults: dict[Key, str] = field(default_factory=dict)
    load_bound: dict[Key, bool] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """A line of progress."""
        self.console.print(f"[dim]{time.monotonic() - self.began:5.0f} s  {text}[/]")

    def note(self, key: Key, figure: float, *, load_bound: bool = False) -> None:
        self.figures.setdefault(key, []).append(figure)
        self.load_bound[key] = self.load_bound.get(key, False) or load_bound

    @contextmanager
    def excuse(self, *keys: Key) -> Iterator[None]:
        """What goes wrong inside is the fault of these."""
        try:
            yield
        except (BenchError, LatecomerError) as error:
            for key in keys:
                self.faults[key] = str(error)
            self.say(f"{' '.join(keys[0])}: {error}")

    def turn(self, key: Key, measure: Callable[[], float]) -> None:
        """One figure, unless there was a fault before."""
        if key in self.faults:
            return
        with self.excuse(key):
            self.note(key, measure())

    def get(self, key: Key) -> float | None:
        """The median of its rounds."""
        return None if key in self.faults or key not in self.figures else statistics.median(self.figures[key])

    def ratio(self, ours: Key, theirs: Key) -> float | None:
        """The median of the ratios round by round: what slowed a round down slowed down both."""
        if self.get(ours) is None or self.get(theirs) is None:
            return None
        pairs = zip(self.figures[ours], self.figures[theirs], strict=False)
        return statistics.median(mine / other for mine, other in pairs if other)


# --- taking turns ---


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


# --- showing ---


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
