"""Tables 1 to 3: a plan step by step, the time to compile, the largest network, and growth."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from bench.book import BenchError, Book, clock, clock_often, in_turn, span, table, timed
from bench.planner.work import Kind, demand, limited, network, small_like, ways
from latecomer.model.topology_generators import line
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.best import solve
from latecomer.planner.distances import Distances, distances_of
from latecomer.planner.greedy import votes
from latecomer.planner.problem import Problem
from latecomer.planner.refine import refine

STEPS, COMPILE, LARGE, GROWTH = "steps", "compile", "large", "growth"
STEP_NAMES = ("distances", "votes, one core", "votes, all cores", "wrr", "refine")
MEMORY_GB = 8


def size_name(kind: Kind, brokers: int, topics: int) -> str:
    return f"N = {brokers:,}, T = {topics}, {kind}"


def warm(found: Distances) -> None:
    """Compile, or read from numba's cache, what the steps run."""
    small = limited(small_like(found, 60), 10)
    voted = votes(small, parallel=False)
    votes(small, parallel=True)
    refine(small, plan_with(small, Wrr(), voted))


# --- 1: a plan step by step ---


def steps(book: Book, sizes: Sequence[tuple[int, int]], rounds: int) -> None:
    for brokers, topics in sizes:
        for kind in ("tree", "mesh"):
            found = ways(kind, brokers)
            warm(found)
            problem = limited(found, topics)
            name = size_name(kind, brokers, topics)
            book.say(f"a plan step by step, {name}")
            for _ in range(rounds):
                _pipeline(book, name, problem, kind)


def _pipeline(book: Book, name: str, problem: Problem, kind: Kind) -> None:
    topology = network(kind, len(problem.brokers))
    _, seconds = clock(lambda: distances_of(topology))
    book.note((STEPS, name, "distances"), seconds)
    alone, seconds = clock(lambda: votes(problem, parallel=False))
    book.note((STEPS, name, "votes, one core"), seconds)
    together, seconds = clock(lambda: votes(problem, parallel=True))
    book.note((STEPS, name, "votes, all cores"), seconds)
    assert np.array_equal(alone, together), "threads changed the votes"
    start, seconds = clock(lambda: plan_with(problem, Wrr(), alone))
    book.note((STEPS, name, "wrr"), seconds)
    _, seconds = clock(lambda: refine(problem, start))
    book.note((STEPS, name, "refine"), seconds)


# --- 1b: compiling, 2: the largest; each in a process of its own ---


def compile_times(book: Book) -> None:
    """With an empty cache, then from the cache that this left."""
    with tempfile.TemporaryDirectory(prefix="latecomer-bench-") as folder:
        for state in ("compiled", "from the cache"):
            book.say(f"first calls of a process, {state}")
            for name, seconds in _child("compile", NUMBA_CACHE_DIR=folder).items():
                book.note((COMPILE, name, state), seconds)


def large(book: Book, brokers: int, topics: int) -> None:
    for kind in ("tree", "mesh"):
        name = size_name(kind, brokers, topics)
        book.say(f"{name}, in a process of its own")
        for column, figure in _child(kind, str(brokers), str(topics)).items():
            book.note((LARGE, name, column), figure)


def _child(*words: str, **environment: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.planner", "--child", *words]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"the process for {' '.join(words)} failed: {done.stderr.strip()[-300:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def child(words: Sequence[str]) -> None:
    """What such a process does: figures by name, as JSON on its output."""
    figures = _first_calls() if words[0] == "compile" else _largest(words[0], int(words[1]), int(words[2]))
    print(json.dumps(figures))


def _first_calls() -> dict[str, float]:
    figures: dict[str, float] = {}
    found, figures["distances"] = clock(lambda: ways("mesh", 60))
    problem = limited(found, 10)
    voted, figures["votes, one core"] = clock(lambda: votes(problem, parallel=False))
    _, figures["votes, all cores"] = clock(lambda: votes(problem, parallel=True))
    start, figures["wrr"] = clock(lambda: plan_with(problem, Wrr(), voted))
    _, figures["refine"] = clock(lambda: refine(problem, start))
    _, figures["best, quick"] = clock(lambda: solve(problem, effort="quick"))
    return figures


def _largest(kind: str, brokers: int, topics: int) -> dict[str, float]:
    """Memory is that of all of it: interpreter, compiler, distances, votes, plan."""
    assert kind in ("tree", "mesh")
    figures: dict[str, float] = {}
    place: Kind = "tree" if kind == "tree" else "mesh"
    topology = network(place, brokers)
    distances_of(network("mesh", 60))
    distances_of(line(300))  # further apart than one byte says
    found, figures["distances"] = clock(lambda: distances_of(topology))
    warm(found)
    problem = limited(found, topics)
    voted, figures["votes, all cores"] = clock(lambda: votes(problem, parallel=True))
    _, figures["wrr"] = clock(lambda: plan_with(problem, Wrr(), voted))
    unit = 1 if sys.platform == "darwin" else 1024
    figures["peak memory, GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
    return figures


# --- 3: growth ---

GROWING: dict[str, tuple[Sequence[int], Callable[[int], tuple[int, int, int]]]] = {
    "N (T = 10, k = 10)": ((125, 250, 500, 1000, 2000), lambda size: (size, 10, 10)),
    "T (N = 500, k = 10)": ((10, 20, 40, 80, 160), lambda size: (500, size, 10)),
    "k (N = 1,000, T = 10)": ((1, 4, 16, 64), lambda size: (1000, 10, size)),
}
QUICK_STEPS = 3


def growth(book: Book, rounds: int, *, quick: bool) -> None:
    for kind in ("tree", "mesh"):
        for what, (sizes, sized) in GROWING.items():
            book.say(f"growth with {what}, {kind}")
            contenders: dict[str, Callable[[], float]] = {}
            for size in sizes[:QUICK_STEPS] if quick else sizes:
                brokers, topics, replicas = sized(size)
                found = ways(kind, brokers)
                warm(found)
                problem = Problem.small(found, demand(topics, brokers), brokers, topics, replicas)
                contenders[str(size)] = partial(_seconds_of_votes, problem)
            in_turn(book, GROWTH, f"{what}, {kind}", contenders, rounds)


def _seconds_of_votes(problem: Problem) -> float:
    return clock_often(lambda: votes(problem, parallel=False))[1]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through all points on double logarithmic paper."""
    slope: float = np.polyfit([math.log(x) for x, _ in points], [math.log(y) for _, y in points], 1)[0]
    return slope


# --- what was found ---


def step_table(book: Book, sizes: Sequence[tuple[int, int]]) -> Table:
    made = table("1. a plan step by step: M = 40, k from 1 to 20", ["network"], STEP_NAMES)
    for brokers, topics in sizes:
        for kind in ("tree", "mesh"):
            name = size_name(kind, brokers, topics)
            made.add_row(name, *(timed(book, (STEPS, name, step)) for step in STEP_NAMES))
    return made


def compile_table(book: Book) -> Table:
    states = ("compiled", "from the cache")
    made = table("1b. first call in a process, N = 60: numba's part, in no other figure", ["step"], states)
    for name in (*STEP_NAMES, "best, quick"):
        made.add_row(name, *(timed(book, (COMPILE, name, state)) for state in states))
    return made


def large_table(book: Book, brokers: int, topics: int) -> Table:
    names = ("distances", "votes, all cores", "wrr")
    made = table(
        "2. the largest, each in a process of its own, once", ["network"], [*names, "peak memory", "within 8 GB"]
    )
    for kind in ("tree", "mesh"):
        name = size_name(kind, brokers, topics)
        peak = book.get((LARGE, name, "peak memory, GB"))
        shown = ("–", "–") if peak is None else (f"{peak:.2f} GB", "yes" if peak <= MEMORY_GB else "NO")
        made.add_row(name, *(timed(book, (LARGE, name, step)) for step in names), *shown)
    return made


def growth_table(book: Book) -> Table:
    made = table(
        "3. growth of votes on one core; exponent: of the fitted power, and of the last step",
        ["growing"],
        ["time for each size", "exponent", "last step"],
    )
    for kind in ("tree", "mesh"):
        for what in GROWING:
            row = f"{what}, {kind}"
            keys = [key for key in book.figures if key[:2] == (GROWTH, row)]
            points = sorted((float(key[2]), book.get(key) or 0.0) for key in keys)
            if len(points) < 2:
                continue
            shown = ", ".join(f"{size:,.0f}: {span(seconds)}" for size, seconds in points)
            made.add_row(row, shown, f"{exponent(points):.2f}", f"{exponent(points[-2:]):.2f}")
    return made
