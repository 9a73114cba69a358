"""The progress bar of `latecomer demo` and `latecomer traffic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

Told = Callable[[str, int, int], None]
"""What is going on, how much of it is done, and how much there is; 0: nobody knows."""


class Act:
    """One line for what is going on; a new one with its own clock when that changes.

    A bar that is full has ended for rich: its clock and its pulse stand still. So one act's bar is never used again for
    the next one.
    """

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.what = ""
        self.task: TaskID | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self.what or self.task is None:
            if self.task is not None:
                self.bar.remove_task(self.task)
            self.what, self.task = what, self.bar.add_task(what, total=total or None)
        self.bar.update(self.task, completed=done, total=total or None)


@contextmanager
def progress(console: Console) -> Iterator[Told]:
    """On a terminal; nothing anywhere else."""
    if not console.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description:<42}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield Act(bar)
