"""How fast the planner is, beside the naive transcription, k-medoids and p-median, in one run.

python -m bench.planner [--quick] [--rounds 5] [--sections steps,naive] [--spopt PYTHON] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib.metadata import version

from rich.console import Console

from bench.book import Book
from bench.frame import Section, add_sections, conditions, options_for, parsed, run, run_sections, words
from bench.planner import median_peer, medoids_peer, naive_peer, scale
from bench.planner.medoids_peer import Setting

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
    parser = options_for("planner", "The speed of the planner.", rounds=5, quick_rounds=1, quick="small networks")
    add_sections(parser, SECTIONS)
    parser.add_argument(
        "--spopt", metavar="PYTHON", default=sys.executable, help="the Python that has spopt (this one, if it has)"
    )
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parsed(parser)
    options.sections = words(parser, "sections", options.sections, SECTIONS)
    return options


def sections(book: Book, options: argparse.Namespace, spopt: str) -> dict[str, Section]:
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
    peers = [(name, version(name)) for name in ("numba", "kmedoids", "highspy")]
    console.print(conditions(*peers, ("spopt", spopt or "–")))
    if not spopt:
        console.print(median_peer.HINT)
    book = Book(console)
    return run_sections(book, sections(book, options, spopt), options)


def main() -> int:
    options = arguments()
    if options.child:
        scale.child(options.child)
        return 0
    return run(partial(bench, options))
