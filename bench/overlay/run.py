"""How fast positions on a ring are planned, beside the paper's table and the naive form; and how good they are.

python -m bench.overlay [--quick] [--rounds 3] [--sections speed,large,…] [--json FILE] [--markdown FILE]

Times are those of the processor (`process_time`), so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from bench.book import BenchError, Book, span, table
from bench.frame import Section, add_sections, conditions, options_for, parsed, run, run_sections, words
from bench.overlay.instances import Pattern, instance
from bench.overlay.naive import naive_path
from latecomer.planner.overlay.exact import exact
from latecomer.planner.overlay.greedy import dynatops_greedy, ssbr_greedy
from latecomer.planner.overlay.lsap import fewest_hops
from latecomer.planner.overlay.search import search

Result = TypeVar("Result")
SECTIONS = ("speed", "large", "growth", "optimum", "bound")
PAPER_S = {
    (10, 100): 0.028,
    (100, 100): 0.184,
    (1000, 100): 96.0,
    (100, 50): 0.098,
    (100, 500): 0.502,
    (100, 5000): 1.9,
}
"""Table II: brokers, topics → seconds on 2 GHz, four cores; how many topics a broker wants is not said."""
SPEED = (
    (10, 100, 5),
    (100, 100, 5),
    (1000, 100, 5),
    (1000, 100, 30),
    (300, 100, 30),
    (100, 50, 5),
    (100, 500, 5),
    (100, 5000, 5),
)
LARGE = (5000, 1000, 5)
GROWTH = ((125, 100, 5), (250, 100, 5), (500, 100, 5), (1000, 100, 5), (2000, 100, 5), (1000, 400, 5), (1000, 100, 20))
SMALL = ((8, 8, 2), (10, 10, 3), (12, 8, 3))
BOUND: tuple[tuple[int, int, int, Pattern], ...] = (
    (200, 100, 5, "uniform"), (200, 100, 5, "multimodal"), (1000, 100, 5, "uniform"), (1000, 100, 5, "multimodal"),
    (1000, 100, 30, "uniform"),
)  # fmt: skip


def spent(work: Callable[[], Result]) -> tuple[Result, float]:
    """With the seconds that the processor spent on it."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def named(brokers: int, topics: int, each: int) -> str:
    return f"{brokers:,} × {topics:,}, {each} each"


def warm() -> None:
    """Compile, or read from numba's cache."""
    problem, start = instance(12, 8, 3)
    dynatops_greedy(problem, start)
    search(problem, start)
    naive_path(problem, start)


# --- 1: the paper's table, and the naive form ---


def speed(book: Book, sizes: Sequence[tuple[int, int, int]], rounds: int) -> None:
    warm()
    for size in sizes:
        name = named(*size)
        book.say(f"DYNATOPS-Greedy, {name}")
        for round in range(rounds):
            problem, start = instance(*size, seed=round + 1)
            _, took = spent(partial(dynatops_greedy, problem, start))
            book.note(("speed", name, "ours"), took)
        path = ssbr_greedy(problem, start)
        book.note(("speed", name, "swaps"), len(path.swaps))
        found, took = spent(partial(naive_path, problem, start))
        book.note(("speed", name, "naive"), took)
        if found != [(one, other) for one, other in path.swaps.tolist()]:
            raise BenchError(f"{name}: the naive form made other swaps")


def speed_table(book: Book, sizes: Sequence[tuple[int, int, int]]) -> Table:
    shown = table(
        "DYNATOPS-Greedy", ("brokers × topics",), ("ours", "swaps", "naive, same swaps", "Table II", "times faster")
    )
    for size in sizes:
        name = named(*size)
        ours, naive = book.get(("speed", name, "ours")), book.get(("speed", name, "naive"))
        paper = PAPER_S.get((size[0], size[1]))
        swaps = book.get(("speed", name, "swaps"))
        cells = (_span(ours), f"{swaps:,.0f}" if swaps is not None else "–", _span(naive), _span(paper))
        shown.add_row(name, *cells, f"{paper / ours:,.0f}" if ours and paper else "–")
    return shown


def _span(seconds: float | None) -> str:
    return "–" if seconds is None else span(seconds)


# --- 2: a large ring, in a process of its own ---


def large(book: Book, size: tuple[int, int, int]) -> None:
    book.say(f"a large ring, {named(*size)}")
    command = [sys.executable, "-m", "bench.overlay", "--child", *map(str, size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the large ring failed: {done.stderr.strip()[-200:]}")
    for column, figure in json.loads(done.stdout).items():
        book.note(("large", named(*size), column), figure)


def child(size: tuple[int, int, int]) -> int:
    warm()
    (problem, start), made = spent(partial(instance, *size))
    choice, took = spent(partial(dynatops_greedy, problem, start))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"problem": made, "greedy": took, "memory": memory, "swaps": len(ssbr_greedy(problem, start).swaps)}
    print(json.dumps(found | {"movers": choice.movers}))
    return 0


def large_table(book: Book, size: tuple[int, int, int]) -> Table:
    shown = table(
        "A large ring", ("brokers × topics",), ("reading", "DYNATOPS-Greedy", "swaps", "memory of the process")
    )
    name = named(*size)
    problem, greedy, swaps, memory = (
        book.get(("large", name, key)) for key in ("problem", "greedy", "swaps", "memory")
    )
    if memory is not None and swaps is not None:
        shown.add_row(name, _span(problem), _span(greedy), f"{swaps:,.0f}", f"{memory / 1e6:,.0f} MB")
    return shown


# --- 3: growth ---


def growth(book: Book, sizes: Sequence[tuple[int, int, int]], rounds: int) -> None:
    warm()
    for size in sizes:
        book.say(f"growth, {named(*size)}")
        for round in range(rounds):
            problem, start = instance(*size, seed=round + 1)
            path, took = spent(partial(ssbr_greedy, problem, start))
            book.note(("growth", named(*size), "time"), took)
            book.note(("growth", named(*size), "swaps"), len(path.swaps))


def growth_table(book: Book, sizes: Sequence[tuple[int, int, int]]) -> Table:
    shown = table("Growth of SSBR-Greedy", ("brokers × topics",), ("time", "swaps", "per swap"))
    for size in sizes:
        took, swaps = (book.get(("growth", named(*size), key)) for key in ("time", "swaps"))
        if took is not None and swaps:
            shown.add_row(named(*size), span(took), f"{swaps:,.0f}", span(took / swaps))
    return shown


# --- 4 and 5: how good ---


def optimum(book: Book, sizes: Sequence[tuple[int, int, int]], rings: int) -> None:
    """Greedy and search beside the best there is; each as its part above it, in per cent."""
    warm()
    for size in sizes:
        for pattern in ("uniform", "multimodal"):
            name = f"{named(*size)}, {pattern}"
            book.say(f"the optimum, {name}")
            for seed in range(rings):
                problem, start = instance(*size, seed=seed + 1, pattern=pattern)
                found = search(problem, start)
                best = exact(problem, found.configuration)
                if not best.optimal or not best.cost:
                    book.note(("optimum", name, "left out"), 1)
                    continue
                greedy = int(ssbr_greedy(problem, start).costs[-1])
                book.note(("optimum", name, "greedy"), 100 * (greedy / best.cost - 1))
                book.note(("optimum", name, "search"), 100 * (found.cost / best.cost - 1))
                book.note(("optimum", name, "assignment"), 100 * (1 - found.bound / best.cost))


def optimum_table(book: Book, sizes: Sequence[tuple[int, int, int]]) -> Table:
    shown = table(
        "Above the optimum, mean (largest)",
        ("brokers × topics",),
        ("rings", "SSBR-Greedy", "search", "search optimal", "LSAP bound below it"),
    )
    for size in sizes:
        for pattern in ("uniform", "multimodal"):
            name = f"{named(*size)}, {pattern}"
            greedy, ours, bound = (
                book.figures.get(("optimum", name, key), []) for key in ("greedy", "search", "assignment")
            )
            if ours:
                exact_ones = f"{sum(1 for one in ours if one < 1e-9)} of {len(ours)}"
                shown.add_row(name, str(len(ours)), _spread(greedy), _spread(ours), exact_ones, _spread(bound))
    return shown


def _spread(figures: Sequence[float]) -> str:
    return f"{statistics.fmean(figures):.1f} % ({max(figures):.1f} %)"


def bound(book: Book, sizes: Sequence[tuple[int, int, int, Pattern]]) -> None:
    warm()
    for *size, pattern in sizes:
        brokers, topics, each = size
        name = f"{named(brokers, topics, each)}, {pattern}"
        book.say(f"the bound, {name}")
        problem, start = instance(brokers, topics, each, pattern=pattern)
        path = ssbr_greedy(problem, start)
        assigned, took = spent(partial(fewest_hops, problem))
        book.note(("bound", name, "assigned s"), took)
        found, took = spent(partial(search, problem, start))
        book.note(("bound", name, "search s"), took)
        for key, cost in (
            ("before", path.costs[0]),
            ("greedy", path.costs[-1]),
            ("search", found.cost),
            ("bound", assigned.bound),
        ):
            book.note(("bound", name, key), problem.amount(int(cost)))


def bound_table(book: Book, sizes: Sequence[tuple[int, int, int, Pattern]]) -> Table:
    shown = table(
        "Large rings: cost, and above the LSAP bound",
        ("brokers × topics",),
        ("hashed", "SSBR-Greedy", "search", "its time", "bound", "its time"),
    )
    for brokers, topics, each, pattern in sizes:
        name = f"{named(brokers, topics, each)}, {pattern}"
        least = book.get(("bound", name, "bound"))
        if not least:
            continue
        costs = [book.get(("bound", name, key)) or 0.0 for key in ("before", "greedy", "search")]
        cells = [f"{cost:,.0f} (+{100 * (cost / least - 1):.0f} %)" for cost in costs]
        times = [_span(book.get(("bound", name, key))) for key in ("search s", "assigned s")]
        shown.add_row(name, *cells, times[0], f"{least:,.0f}", times[1])
    return shown


# --- the run ---


def arguments() -> argparse.Namespace:
    parser = options_for("overlay", "The speed of the overlay planner.", rounds=3, quick_rounds=1, quick="small rings")
    add_sections(parser, SECTIONS)
    parser.add_argument("--child", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parsed(parser)
    options.sections = words(parser, "sections", options.sections, SECTIONS)
    return options


def sections(book: Book, options: argparse.Namespace) -> dict[str, Section]:
    """Per section what measures and what shows."""
    quick, rounds = options.quick, options.rounds
    speeds = SPEED[:2] if quick else SPEED
    largest = (500, 100, 5) if quick else LARGE
    sizes = GROWTH[:2] if quick else GROWTH
    small, rings = (SMALL[:1], 5) if quick else (SMALL, 20)
    bounds = BOUND[:1] if quick else BOUND
    return {
        "speed": (lambda: speed(book, speeds, rounds), lambda: speed_table(book, speeds)),
        "large": (lambda: large(book, largest), lambda: large_table(book, largest)),
        "growth": (lambda: growth(book, sizes, rounds), lambda: growth_table(book, sizes)),
        "optimum": (lambda: optimum(book, small, rings), lambda: optimum_table(book, small)),
        "bound": (lambda: bound(book, bounds), lambda: bound_table(book, bounds)),
    }


def main() -> int:
    options = arguments()
    if options.child:
        brokers, topics, each = options.child
        return child((brokers, topics, each))

    def bench(console: Console) -> int:
        console.print(conditions(*((name, version(name)) for name in ("numba", "scipy", "highspy"))))
        book = Book(console)
        return run_sections(book, sections(book, options), options)

    return run(bench)
