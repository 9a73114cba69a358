"""How fast the data pipeline is, beside DuckDB and Polars, and how large a network it plans for, in one run.

python -m bench.pipeline [--quick] [--rounds 1] [--sections checkins,scale] [--data DIR] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.broker.brokers import BenchError
from bench.broker.run import WIDTH
from bench.pipeline import checkins, ingestion, scale
from bench.pipeline.logs import LogSize
from bench.planner.book import markdown
from bench.stores.book import Book
from latecomer import __version__

PORTIONS = (0.1, 1, 3, 10)
QUICK_PORTIONS = (0.01,)
LOG = LogSize(5_000_000, 300)
DEMANDS = (LogSize(1_000_000, 1_000), LogSize(10_000_000, 1_000))
"""The others are measured on the way to a plan."""
PLANS = (LogSize(1_000_000, 100), LogSize(10_000_000, 300), LogSize(100_000_000, 1_000))
QUICK_LOG = LogSize(200_000, 30)
QUICK_PLANS = (LogSize(200_000, 30),)
SOURCE_ROWS, QUICK_SOURCE_ROWS = 2_000_000, 100_000
CHILDREN: dict[str, Callable[..., None]] = {
    "synth": checkins.synth_child,
    "spark": lambda *words: checkins.engine_child("spark", *words),
    "duckdb": lambda *words: checkins.engine_child("duckdb", *words),
    "polars": lambda *words: checkins.engine_child("polars", *words),
    "nothing": checkins.nothing_child,
    "tune": checkins.tune_child,
    "ingest": ingestion.ingest_child,
    "source": ingestion.source_child,
    "demand": scale.demand_child,
    "plan": scale.plan_child,
}
Section = tuple[Callable[[], None], Callable[[], Table]]
SECTIONS = ("checkins", "fixed", "tuning", "log", "source", "demand", "plan")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description="The speed of the data pipeline.")
    parser.add_argument("--rounds", type=int, default=1, help="how often each has its turn (1)")
    parser.add_argument("--quick", action="store_true", help="small sizes: to see whether it runs")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)} (all)")
    parser.add_argument("--cores", type=int, default=2, help="of Spark, DuckDB and Polars (2)")
    parser.add_argument("--portions", help="of 3 million check-ins (0.1,1,3,10)")
    parser.add_argument("--algorithm", default="best", help="of the plans (best)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep what is made up there, and use what is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, for the documentation")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1 or options.cores < 1:
        parser.error("--rounds and --cores must be at least 1")
    options.sections = options.sections.split(",")
    if unknown := [word for word in options.sections if word not in SECTIONS]:
        parser.error(f"--sections: there is no {unknown[0]}, only {', '.join(SECTIONS)}")
    options.portions = [float(word) for word in options.portions.split(",")] if options.portions else None
    return options


def conditions(console: Console, cores: int) -> None:
    """What must be known to read the tables."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    console.print(
        f"Latecomer {__version__}, CPython {platform.python_version()}, PySpark {version('pyspark')}, DuckDB "
        f"{version('duckdb')}, Polars {version('polars')}, numba {version('numba')}; "
        f"{cores} of {os.cpu_count()} cores, {memory:.0f} GB, "
        f"load before the run {os.getloadavg()[0]:.1f}; {platform.platform()}"
    )


def sections(book: Book, options: argparse.Namespace, data: Path) -> dict[str, Section]:
    """Per section what measures and what shows."""
    quick, rounds, cores = options.quick, options.rounds, options.cores
    portions = options.portions or (QUICK_PORTIONS if quick else PORTIONS)
    log = QUICK_LOG if quick else LOG
    rows = QUICK_SOURCE_ROWS if quick else SOURCE_ROWS
    demands, plans = ((), QUICK_PLANS) if quick else (DEMANDS, PLANS)
    return {
        "checkins": (
            lambda: checkins.compare(book, data, portions, rounds, cores),
            lambda: checkins.compare_table(book, portions),
        ),
        "fixed": (lambda: checkins.fixed(book, rounds, cores), lambda: checkins.fixed_table(book)),
        "tuning": (
            lambda: checkins.tune(book, data, portions[0] if quick else 1, cores),
            lambda: checkins.tuning_table(book),
        ),
        "log": (
            lambda: ingestion.measure_log(book, data, log, rounds, cores),
            lambda: ingestion.log_table(book),
        ),
        "source": (
            lambda: ingestion.measure_source(book, data, rows, max(rounds, 3), cores),
            lambda: ingestion.source_table(book),
        ),
        "demand": (
            lambda: scale.measure_demand(book, data, demands, cores),
            lambda: scale.demand_table(book, dict.fromkeys((*demands, *plans))),
        ),
        "plan": (
            lambda: scale.measure_plan(book, data, plans, cores, options.algorithm),
            lambda: scale.plan_table(book, plans, options.algorithm),
        ),
    }


def bench(options: argparse.Namespace, console: Console, data: Path) -> int:
    conditions(console, options.cores)
    book = Book(console)
    shown: list[Callable[[], Table]] = []
    ended = 0
    for name, (measure, show) in sections(book, options, data).items():
        if name not in options.sections:
            continue
        try:
            measure()
        except KeyboardInterrupt:
            ended = 130
        except BenchError as error:
            console.print(f"[red]{name}, given up: {error}[/]")
            ended = 1
        shown.append(show)
        if ended == 130:
            break
    tables = [show() for show in shown]
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
        CHILDREN[options.child[0]](*options.child[1:])
        return 0
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    with ExitStack() as stack:
        if options.data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="latecomer-bench-")))
        else:
            data = options.data.absolute()
            data.mkdir(parents=True, exist_ok=True)
        try:
            return bench(options, console, data)
        except BenchError as error:
            print(error, file=sys.stderr)
            return 2
