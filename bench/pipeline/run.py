"""How fast the data pipeline is, beside DuckDB and Polars, and how large a network it plans for, in one run.

python -m bench.pipeline [--quick] [--rounds 1] [--sections checkins,plan] [--data DIR] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench.book import Book
from bench.frame import Section, add_sections, conditions, options_for, parsed, run, run_sections, words
from bench.pipeline import checkins, ingestion, scale
from bench.pipeline.logs import LogSize

PORTIONS = (0.1, 1, 3, 10)
QUICK_PORTIONS = (0.01,)
LOG = LogSize(5_000_000, 300)
DEMANDS = (LogSize(1_000_000, 1_000), LogSize(10_000_000, 1_000))
"""The others are measured on the way to a plan."""
PLANS = (LogSize(1_000_000, 100), LogSize(10_000_000, 300), LogSize(100_000_000, 1_000))
QUICK_LOG = LogSize(200_000, 30)
QUICK_DEMANDS = (LogSize(100_000, 30),)
QUICK_PLANS = (QUICK_LOG,)
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
SECTIONS = ("checkins", "fixed", "tuning", "log", "source", "demand", "plan")


def arguments() -> argparse.Namespace:
    parser = options_for("pipeline", "The speed of the data pipeline.", rounds=1, quick_rounds=1, quick="small sizes")
    add_sections(parser, SECTIONS)
    parser.add_argument("--cores", type=int, default=2, help="of Spark, DuckDB and Polars (2)")
    parser.add_argument("--portions", help="of 3 million check-ins (0.1,1,3,10)")
    parser.add_argument("--engines", default=",".join(checkins.ENGINES), help="that carry out the check-ins' job (all)")
    parser.add_argument("--algorithm", default="best", help="of the plans (best)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep what is made up there, and use what is there")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parsed(parser, least_one=["cores"])
    options.sections = words(parser, "sections", options.sections, SECTIONS)
    options.engines = words(parser, "engines", options.engines, checkins.ENGINES)
    options.portions = [float(word) for word in options.portions.split(",")] if options.portions else None
    return options


def sections(book: Book, options: argparse.Namespace, data: Path) -> dict[str, Section]:
    """Per section what measures and what shows."""
    quick, rounds, cores = options.quick, options.rounds, options.cores
    portions = options.portions or (QUICK_PORTIONS if quick else PORTIONS)
    tuned = portions[0] if quick else 1
    log = QUICK_LOG if quick else LOG
    rows = QUICK_SOURCE_ROWS if quick else SOURCE_ROWS
    demands, plans = (QUICK_DEMANDS, QUICK_PLANS) if quick else (DEMANDS, PLANS)
    return {
        "checkins": (
            lambda: checkins.compare(book, data, portions, rounds, cores, options.engines),
            lambda: checkins.compare_table(book, portions),
        ),
        "fixed": (lambda: checkins.fixed(book, rounds, cores), lambda: checkins.fixed_table(book)),
        "tuning": (
            lambda: checkins.tune(book, data, tuned, cores),
            lambda: checkins.tuning_table(book, tuned),
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


def bench(options: argparse.Namespace, console: Console) -> int:
    names = ("PySpark", "DuckDB", "Polars", "numba")
    console.print(conditions(*((name, version(name.lower())) for name in names), cores=options.cores))
    book = Book(console)
    with ExitStack() as stack:
        if options.data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="latecomer-bench-")))
        else:
            data = options.data.absolute()
            data.mkdir(parents=True, exist_ok=True)
        return run_sections(book, sections(book, options, data), options)


def main() -> int:
    options = arguments()
    if options.child:
        CHILDREN[options.child[0]](*options.child[1:])
        return 0
    return run(partial(bench, options))
