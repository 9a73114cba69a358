"""What is around the measuring in every bench: options, conditions, sections in turn, and figures written down."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from bench.book import BenchError, Book, markdown
from latecomer import __version__

WIDTH = 160
"""Columns of the tables in a file."""

Section = tuple[Callable[[], None], Callable[[], Table]]
"""What measures, and what shows."""


# --- options ---


def options_for(name: str, about: str, *, rounds: int, quick_rounds: int, quick: str) -> argparse.ArgumentParser:
    """Those that every bench has; `quick` says what the short run leaves out."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=about)
    often = f"{rounds}; quick: {quick_rounds}" if quick_rounds != rounds else str(rounds)
    parser.add_argument("--rounds", type=int, help=f"how often each has its turn ({often})")
    parser.add_argument("--quick", action="store_true", help=f"{quick}: to see whether it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    parser.set_defaults(rounds_of={False: rounds, True: quick_rounds})
    return parser


def add_sections(parser: argparse.ArgumentParser, known: Sequence[str]) -> None:
    """For a bench whose tables can also be had one by one, and in the documentation."""
    parser.add_argument("--sections", default=",".join(known), help=f"of {', '.join(known)} (all)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, for the documentation")


def parsed(parser: argparse.ArgumentParser, *, least_one: Sequence[str] = ()) -> argparse.Namespace:
    """The options given, with the rounds that follow from them."""
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = options.rounds_of[options.quick]
    for name in ("rounds", *least_one):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return options


def words(parser: argparse.ArgumentParser, name: str, said: str, known: Sequence[str]) -> list[str]:
    """Those of a list with commas, each of which there must be."""
    chosen = said.split(",")
    if unknown := [word for word in chosen if word not in known]:
        parser.error(f"--{name}: there is no {unknown[0]}, only {', '.join(known)}")
    return chosen


# --- where ---


def conditions(*programs: tuple[str, str], cores: int | None = None) -> str:
    """What must be known to read the tables; of programs the name and the version."""
    all_programs = (("Latecomer", __version__), ("CPython", platform.python_version()), *programs)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{', '.join(' '.join(program) for program in all_programs)}; "
        f"{'' if cores is None else f'{cores} of '}{os.cpu_count()} cores, {memory:.0f} GB, "
        f"load before the run {os.getloadavg()[0]:.1f}; {platform.platform()}"
    )


def two_cores() -> tuple[int | None, int | None]:
    """One for what is measured, one for the load."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else (None, None)


# --- a run ---


def run(bench: Callable[[Console], int]) -> int:
    """A bench that can be ended at any time, and that says in one sentence why it cannot begin."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return bench(console)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def run_sections(book: Book, sections: Mapping[str, Section], options: argparse.Namespace) -> int:
    """Those asked for, one after the other; what is measured is written down after each."""
    shown: list[Callable[[], Table]] = []
    ended = 0
    for name in sections:
        if name not in options.sections:
            continue
        measure, show = sections[name]
        shown.append(show)
        try:
            measure()
        except KeyboardInterrupt:
            ended = 130
        except BenchError as error:
            book.console.print(f"[red]{name}, given up: {error}[/]")
            ended = 1
        if options.markdown:
            options.markdown.write_text("\n".join(markdown(show()) for show in shown))
        if options.json:
            write_figures(book, options.json)
        if ended == 130:
            break
    for show in shown:
        book.console.print(show())
    say_end(book.console, book.began, interrupted=ended == 130)
    return ended


def write_figures(book: Book, path: Path) -> None:
    """Every figure of every round."""
    figures = [{"table": t, "row": r, "column": c, "figures": f} for (t, r, c), f in book.figures.items()]
    path.write_text(json.dumps(figures, indent=1))


def say_end(console: Console, began: float, *, interrupted: bool) -> None:
    took = f"{time.monotonic() - began:.0f} s"
    console.print(took + (", interrupted: what is above is what was measured" if interrupted else ""))
