"""Table 4: the text of the paper, transcribed word by word (tests/planner/naive.py), and the compiled kernels.

Both start from known distances and ways, and only the greedy runs are timed. Every vote must be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from bench.book import Book, clock, clock_often, in_turn, table, timed, times
from bench.planner.scale import exponent
from bench.planner.work import Ints, Kind, demand, graph, network, small_like, ways
from latecomer.planner.greedy import Access, votes
from latecomer.planner.problem import Problem

if TYPE_CHECKING:
    from tests.planner import naive
else:  # by its file: some distributions install a package `tests` of their own, which a plain folder does not beat
    _spec = spec_from_file_location("naive", Path(__file__).parents[2] / "tests" / "planner" / "naive.py")
    assert _spec is not None
    assert _spec.loader is not None
    naive = module_from_spec(_spec)
    _spec.loader.exec_module(naive)

NAIVE = "naive"
TOPICS = 2
REPLICAS = 4
CASES: tuple[tuple[Kind, Access], ...] = (("tree", "path"), ("mesh", "path"), ("mesh", "nearest"))
ACCESS: dict[Access, str] = {"path": "first store on the way", "nearest": "nearest store"}


def compare(book: Book, sizes: Sequence[int], rounds: int) -> None:
    for kind, access in CASES:
        for brokers in sizes:
            book.say(f"the naive transcription, {kind}, {access}, N = {brokers}")
            _compare(book, kind, access, brokers, rounds)


def _compare(book: Book, kind: Kind, access: Access, brokers: int, rounds: int) -> None:
    rates = demand(TOPICS, brokers)
    found = ways(kind, brokers)
    problem = Problem.small(found, rates, brokers, TOPICS, REPLICAS)
    votes(Problem.small(small_like(found), demand(TOPICS, 30), 30, TOPICS, REPLICAS), access, parallel=False)
    links = graph(network(kind, brokers))
    length, steps = naive.distances(brokers, links)
    paths = [[naive.way(length, steps, links, start, origin) for start in range(brokers)] for origin in range(brokers)]
    table_of = rates.tolist()
    answers: dict[str, Ints] = {}

    def transcribed() -> float:
        answers["naive"], seconds = clock(lambda: _votes(access, length, paths, table_of))
        return seconds

    def ours() -> float:
        answers["latecomer"], seconds = clock_often(lambda: votes(problem, access, parallel=False))
        return seconds

    in_turn(book, NAIVE, _row(kind, access, brokers), {"naive": transcribed, "latecomer": ours}, rounds)
    assert np.array_equal(answers["naive"], answers["latecomer"]), "not the same votes"


def _votes(access: Access, length: naive.Table, paths: list[list[list[int]]], rates: list[list[int]]) -> Ints:
    """`naive.votes`, without finding the ways again for every origin."""
    count = len(length)
    found = np.zeros((len(rates), count), np.int64)
    for origin in range(count):
        for topic, row in enumerate(rates):
            if access == "nearest":
                traffic = partial(naive.traffic_to_nearest, length, origin, row)
            else:
                traffic = partial(naive.traffic_on_paths, paths[origin], length[origin], row)
            found[topic, naive.greedy(count, origin, REPLICAS, [True] * count, traffic)] += 1
    return found


def _row(kind: Kind, access: Access, brokers: int) -> str:
    return f"{kind}, {access}, {brokers}"


def naive_table(book: Book, sizes: Sequence[int]) -> Table:
    made = table(
        f"4. votes for T = {TOPICS}, k = {REPLICAS} on one core, beside the naive transcription; all votes the same",
        ["network, who answers"],
        ["N", "naive", "Latecomer", "ratio"],
    )
    for kind, access in CASES:
        for brokers in sizes:
            row = _row(kind, access, brokers)
            theirs, ours = (NAIVE, row, "naive"), (NAIVE, row, "latecomer")
            made.add_row(
                f"{kind}, {ACCESS[access]}" if brokers == sizes[0] else "",
                f"{brokers}", timed(book, theirs), timed(book, ours), times(book, theirs, ours),
            )  # fmt: skip
        if len(sizes) > 1:
            grown = [
                exponent([(float(n), book.get((NAIVE, _row(kind, access, n), who)) or 1.0) for n in sizes])
                for who in ("naive", "latecomer")
            ]
            made.add_row("", "exponent", *(f"{value:.2f}" for value in grown), "", style="dim", end_section=True)
    return made
