"""How fast the planner is, beside the naive transcription, k-medoids and p-median, in one run.

python -m bench.planner [--quick] [--rounds 5] [--sections steps,naive] [--spopt PYTHON] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numba
from rich.console import Console
from rich.table import Table

from bench.broker.brokers import BenchError
from bench.broker.run import WIDTH
from bench.planner import median_peer, medoids_peer, naive_peer, scale
from bench.planner.book import markdown
from bench.planner.medoids_peer import Setting
from bench.stores.book import Book
from latecomer import __version__

SECTIONS = ("steps", "compile", "large", "growth", "naive", "medoids", "median")
SIZES = ((100, 10), (1_000, 100))
LARGE = (5_000, 100)
NAIVE_SIZES = (20, 40, 80)
MEDIAN_SIZES = (20, 50, 100)
SETTINGS = (
    Setting("mesh", 100, uniform=True),
    Setting("mesh", 100, uniform=False),
    Setting("tree", 100, uniform=False),
    Setting("mesh", 1_000, uniform=True),
    Setting("mesh", 1_000, uniform=False),
    Setting("tree", 1_000, uniform=False),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.planner", description="The speed of the planner.")
    parser.add_argument("--rounds", type=int, help="how often each has its turn (5; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="small networks: to see whether it runs")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)} (all)")
    parser.add_argument(
        "--spopt", metavar="PYTHON", default=sys.executable, help="the Python that has spopt (this one, if it has)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, for the documentation")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.sections = options.sections.split(",")
    if unknown := [word for word in options.sections if word not in SECTIONS]:
        parser.error(f"--sections: there is no {unknown[0]}, only {', '.join(SECTIONS)}")
    return options


def conditions(console: Console, spopt: str) -> None:
    """What must be known to read the tables."""
    console.print(
        f"Latecomer {__version__}, CPython {platform.python_version()}, numba {numba.__version__}, "
        f"kmedoids {version('kmedoids')}, highspy {version('highspy')}, spopt {spopt or '–'}; "
        f"{os.cpu_count()} cores, load before the run {os.getloadavg()[0]:.1f}; {platform.platform()}"
    )
    if not spopt:
        console.print(median_peer.HINT)


def sections(
    book: Book, options: argparse.Namespace, spopt: str
) -> dict[str, tuple[Callable[[], None], Callable[[], Table]]]:
    """Per section what measures and what shows."""
    quick, rounds = options.quick, options.rounds
    sizes = SIZES[:1] if quick else SIZES
    largest = (1_000, 10) if quick else LARGE
    naive_sizes = NAIVE_SIZES[:2] if quick else NAIVE_SIZES
    median_sizes = MEDIAN_SIZES[:1] if quick else MEDIAN_SIZES
    settings = [setting for setting in SETTINGS if setting.brokers <= (100 if quick else 1_000)]
    return {
        "steps": (lambda: scale.steps(book, sizes, rounds), lambda: scale.step_table(book, sizes)),
        "compile": (lambda: scale.compile_times(book), lambda: scale.compile_table(book)),
        "large": (lambda: scale.large(book, *largest), lambda: scale.large_table(book, *largest)),
        "growth": (lambda: scale.growth(book, rounds, quick=quick), lambda: scale.growth_table(book)),
        "naive": (
            lambda: naive_peer.compare(book, naive_sizes, min(rounds, 3)),
            lambda: naive_peer.naive_table(book, naive_sizes),
        ),
        "medoids": (
            lambda: medoids_peer.compare(book, settings, rounds, bounded=1_000),
            lambda: medoids_peer.medoids_table(book, settings),
        ),
        "median": (
            lambda: median_peer.compare(book, median_sizes, rounds, options.spopt if spopt else None),
            lambda: median_peer.median_table(book, median_sizes),
        ),
    }


def bench(options: argparse.Namespace, console: Console) -> int:
    spopt = median_peer.version_of(options.spopt)
    conditions(console, spopt)
    book = Book(console)
    tables: list[Table] = []
    ended = 0
    for name, (measure, show) in sections(book, options, spopt).items():
        if name not in options.sections:
            continue
        try:
            measure()
        except KeyboardInterrupt:
            ended = 130
        except BenchError as error:
            console.print(f"[red]{name}, given up: {error}[/]")
            ended = 1
        tables.append(show())
        if ended == 130:
            break
    for made in tables:
        console.print(made)
    took = f"{time.monotonic() - book.began:.0f} s"
    console.print(took + (", interrupted: what is above is what was measured" if ended == 130 else ""))
    if options.markdown:
        options.markdown.write_text("\n".join(markdown(made) for made in tables))
    if options.json:
        figures = [{"table": t, "row": r, "column": c, "figures": f} for (t, r, c), f in book.figures.items()]
        options.json.write_text(json.dumps(figures, indent=1))
    return ended


def main() -> int:
    options = arguments()
    if options.child:
        scale.child(options.child)
        return 0
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    try:
        return bench(options, console)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2
