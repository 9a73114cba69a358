"""What was found out so far: figures by table, row and column; shown at the end, or when interrupted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from bench.broker.brokers import BenchError
from latecomer.model.errors import LatecomerError

Key = tuple[str, str, str]
"""Table, row, column."""


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
