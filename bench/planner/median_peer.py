"""Table 6: the p-median of spopt, which PuLP gives to HiGHS, and `exact`, on networks that are small enough.

One topic, p replicas, no limits. spopt pulls in half of a geographic information system, so it may live in an
environment of its own: `--spopt` names the Python there. What it took to import is not counted, what it took to write
the program is.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.book import BenchError, Book, clock, in_turn, table, timed, times
from bench.planner.work import Ints, Kind, demand, unlimited, ways
from latecomer.planner.best import solve
from latecomer.planner.cost import cost
from latecomer.planner.distances import Distances
from latecomer.planner.exact import exact
from latecomer.planner.problem import RATE_UNIT, Problem

MEDIAN = "median"
REPLICAS = 5
SECONDS = 120
"""That HiGHS may take for one network."""
SCRIPT = Path(__file__).with_name("spopt_script.py")
HINT = "spopt is left out: `pip install spopt highspy` into any environment, and name its Python with --spopt"
COLUMNS = ("spopt", "exact", "best")


def version_of(python: str) -> str:
    """Of spopt there; empty when it has none."""
    asked = "import importlib.metadata as m, highspy, spopt; print(m.version('spopt'))"
    try:
        done = subprocess.run([python, "-W", "ignore", "-c", asked], capture_output=True, text=True)
    except OSError as error:
        raise BenchError(f"{python} cannot be started: {error}") from error
    return done.stdout.strip() if done.returncode == 0 else ""


def compare(book: Book, sizes: Sequence[int], rounds: int, python: str | None) -> None:
    """Each round is another network: how long a proof takes depends on the network more than on anything else."""
    for kind in ("tree", "mesh"):
        for brokers in sizes:
            book.say(f"p-median, {kind}, N = {brokers}")
            for seed in range(rounds + 1):
                found, rates = ways(kind, brokers, seed), demand(1, brokers, seed)
                problem = unlimited(found, rates, [REPLICAS])
                costs: dict[str, int] = {}
                contenders: dict[str, Callable[[], float]] = {
                    "exact": partial(_exact, problem, costs),
                    "best": partial(_best, problem, costs),
                }
                if seed == 0:  # compiles
                    for run in contenders.values():
                        run()
                    continue
                if python is not None:
                    contenders["spopt"] = partial(_spopt, python, problem, found, rates, costs)
                in_turn(book, MEDIAN, _row(kind, brokers), contenders, 1)
                _same(costs)


def _exact(problem: Problem, costs: dict[str, int]) -> float:
    found, seconds = clock(lambda: exact(problem))
    if not found.optimal:
        raise BenchError("not proven within the nodes allowed")
    costs["exact"] = found.cost
    return seconds


def _best(problem: Problem, costs: dict[str, int]) -> float:
    found, seconds = clock(lambda: solve(problem, effort="thorough"))
    if found.bound.kind != "optimal":
        raise BenchError("not proven")
    costs["best"] = found.cost
    return seconds


def _spopt(python: str, problem: Problem, found: Distances, rates: Ints, costs: dict[str, int]) -> float:
    asked = {
        "distance": found.distance.tolist(),
        "demand": (rates[0] / RATE_UNIT).tolist(),
        "p": REPLICAS,
        "seconds": SECONDS,
    }
    command = [python, "-W", "ignore", str(SCRIPT)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"spopt failed: {done.stderr.strip()[-200:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if answer["status"] != "Optimal":
        raise BenchError(f"{answer['status']} after {SECONDS} s")
    costs["spopt"] = cost(problem, [answer["places"]])
    return float(answer["write"] + answer["solve"])


def _same(costs: dict[str, int]) -> None:
    """All call theirs optimal; solvers of floating-point numbers mean: to a millionth."""
    if costs and max(costs.values()) > min(costs.values()) * (1 + 1e-6):
        raise BenchError(f"optima that differ: {costs}")


def _row(kind: Kind, brokers: int) -> str:
    return f"{kind}, N = {brokers}"


def median_table(book: Book, sizes: Sequence[int]) -> Table:
    made = table(
        f"6. the proven optimum of one topic with {REPLICAS} replicas; each round another network; all optima the same",
        ["network"],
        ["spopt, HiGHS", "exact, HiGHS", "best (thorough)", "spopt / exact", "spopt / best"],
    )
    for kind in ("tree", "mesh"):
        for brokers in sizes:
            row = _row(kind, brokers)
            keys = {column: (MEDIAN, row, column) for column in COLUMNS}
            ratios = [times(book, keys["spopt"], keys[ours]) for ours in ("exact", "best")]
            made.add_row(row, *(timed(book, key) for key in keys.values()), *ratios)
    return made
