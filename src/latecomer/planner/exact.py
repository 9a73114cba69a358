"""The best placement there is, by integer programming, for problems that are small or nearly solved.

A topic at a broker pays its way ring by ring: u[h] = 1 when no replica is within the first h rings of candidates, and
costs the way from ring h − 1 to ring h (Elloumi 2010). Only u[h] ≥ u[h − 1] − Σ ring x is needed, so the program has
about one entry per topic, broker and candidate. Candidates that the prices rule out are not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import highspy
import numpy as np
import numpy.typing as npt

from latecomer.planner.bounds import Bound, bound_of, raise_prices
from latecomer.planner.cost import cost
from latecomer.planner.lagrange import Certificate, Prices, prices_for, quantum
from latecomer.planner.legality import Infeasible, Placement, check, infeasible
from latecomer.planner.problem import NO_LIMIT, Problem

NODES = 100_000
SLACK = 2e-6
"""What the solver's tolerances may hide, as a part of the value; taken off every bound it gives."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The best placement found, and what is proven of it."""

    placement: Placement
    cost: int
    bound: Bound

    @property
    def optimal(self) -> bool:
        return self.bound.kind == "optimal"


@dataclass(slots=True)
class Program:
    """A linear program with rows, as it grows."""

    cost: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    entries: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def variable(self, cost: float, *, whole: bool, least: float = 0.0, most: float = 1.0) -> int:
        self.cost.append(cost)
        self.whole.append(whole)
        self.least.append(least)
        self.most.append(most)
        return len(self.cost) - 1

    def row(self, columns: list[int], entries: list[float], low: float, high: float) -> None:
        self.columns += columns
        self.entries += entries
        self.starts.append(len(self.columns))
        self.low.append(low)
        self.high.append(high)


def exact(problem: Problem, upper: Placement | None = None, *, nodes: int = NODES) -> Exact:
    """The optimum when the search ends within `nodes`; else the best found with the bound reached.

    Rate limits are not part of the program: where they bind, its answer is a bound only, and `upper` is returned.
    """
    if reasons := infeasible(problem):
        raise Infeasible(reasons)
    best = cost(problem, upper.replicas) if upper is not None else None
    prices = prices_for(problem)
    certificate = raise_prices(problem, prices, best, 1000)
    return exact_from(problem, upper, prices, certificate, nodes)


def exact_from(
    problem: Problem, upper: Placement | None, prices: Prices, certificate: Certificate, nodes: int = NODES
) -> Exact:
    """The same with prices at hand; `upper` rules out what cannot beat it."""
    best = cost(problem, upper.replicas) if upper is not None else None
    if upper is not None and best is not None and certificate.value >= best:
        return Exact(upper, best, Bound(best, "optimal", prices.steps))
    candidates, sure = _left(prices, certificate, best)
    program, replica, store = kept_limits(problem, candidates, sure)
    for topic in range(len(problem.topics)):
        _rings(program, problem, topic, candidates, replica[topic])
    value, finished, solution = run(program, nodes)
    found = upper
    if solution is not None:
        found = _better(problem, upper, read(candidates, solution, replica, store))
    if found is None:
        none = solution is None and finished
        raise Infeasible(["no placement keeps all limits" if none else "no placement was found that keeps all limits"])
    total = cost(problem, found.replicas)
    # What was ruled out is not better than `upper`, and the rest not better than the program's value.
    if finished and value == math.inf:
        proven = total
    else:
        proven = min(total, certified(problem, value)) if math.isfinite(value) else 0
    if proven >= total or (finished and proven >= total * (1 - 2 * SLACK)):
        return Exact(found, total, Bound(proven, "optimal", prices.steps))
    kept = bound_of(certificate, total, prices.steps)
    return Exact(found, total, Bound(proven, "tree", prices.steps) if proven > kept.value else kept)


def certified(problem: Problem, value: float) -> int:
    """The solver's bound as an integer: less what its tolerances may hide, then up to the next possible cost."""
    step = quantum(problem)
    return max(0, math.ceil(value * (1 - SLACK) * unit(problem) / step) * step)


def unit(problem: Problem) -> int:
    """Rates are divided by it, so the solver sees numbers near 1."""
    return max(1, int(problem.rates.max()))


def _left(prices: Prices, certificate: Certificate, best: int | None) -> tuple[npt.NDArray[np.int64], frozenset[int]]:
    """Candidates that a better placement may use, and those that it must."""
    if best is None:
        return prices.candidates, frozenset()
    settled = np.array([value >= best for value in certificate.stores])
    out = settled & ~certificate.taken
    return prices.candidates[~out], frozenset(prices.candidates[settled & certificate.taken].tolist())


def kept_limits(
    problem: Problem, candidates: npt.NDArray[np.int64], sure: frozenset[int]
) -> tuple[Program, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Variables for replicas [T, C] and stores [C], and all limits on them but those of rates."""
    program = Program()
    topics, places = len(problem.topics), len(candidates)
    replica = np.empty((topics, places), np.int64)
    pinned = frozenset(problem.pinned)
    for topic in range(topics):
        for at, broker in enumerate(candidates.tolist()):
            fits = problem.size[topic] <= problem.capacity[broker]
            least = float((topic, broker) in pinned)
            replica[topic, at] = program.variable(0.0, whole=True, least=least, most=float(fits))
    store = np.array(
        [
            program.variable(0.0, whole=True, least=float(b in sure or b in problem.pinned_stores))
            for b in candidates.tolist()
        ]
    )
    sizes = [float(size) for size in problem.size]
    for at, broker in enumerate(candidates.tolist()):
        columns = [int(column) for column in replica[:, at]]
        for column in columns:
            program.row([column, int(store[at])], [1.0, -1.0], -highspy.kHighsInf, 0.0)
        program.row([*columns, int(store[at])], [*sizes, -float(problem.capacity[broker])], -highspy.kHighsInf, 0.0)
    program.row([int(column) for column in store], [1.0] * places, 0.0, float(problem.stores))
    for topic in range(topics):
        columns = [int(column) for column in replica[topic]]
        program.row(columns, [1.0] * places, float(problem.fewest[topic]), float(problem.most[topic]))
        for domain in np.unique(problem.domain[candidates]).tolist():
            together = [columns[at] for at in np.flatnonzero(problem.domain[candidates] == domain).tolist()]
            if len(together) > 1:
                program.row(together, [1.0] * len(together), 0.0, 1.0)
    return program, replica, store


def _rings(
    program: Program,
    problem: Problem,
    topic: int,
    candidates: npt.NDArray[np.int64],
    replica: npt.NDArray[np.int64],
) -> None:
    """What each broker pays for the topic. Rings end where the fewest replicas cannot all be further out."""
    inside = len(candidates) - int(problem.fewest[topic])
    for broker in np.flatnonzero(problem.rates[topic]).tolist():
        rate = int(problem.rates[topic, broker]) / unit(problem)
        distance = problem.distance[candidates, broker].astype(np.int64)
        levels = np.unique(distance).tolist()
        # The first ring is paid by everybody: a variable that is 1 carries it.
        before = program.variable(rate * levels[0], whole=False, least=1.0) if levels[0] else -1
        count = 0
        for near, far in pairwise(levels):
            ring = [int(column) for column in replica[distance == near]]
            count += len(ring)
            if count > inside:
                break
            further = program.variable(rate * (far - near), whole=False)
            if before < 0:
                program.row([further, *ring], [1.0] * (len(ring) + 1), 1.0, highspy.kHighsInf)
            else:
                program.row([further, before, *ring], [1.0, -1.0] + [1.0] * len(ring), 0.0, highspy.kHighsInf)
            before = further


def run(program: Program, nodes: int) -> tuple[float, bool, npt.NDArray[np.float64] | None]:
    """(bound, whether the search ended, solution). Infeasible: the bound is infinite."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.cost), len(program.low)
    model.col_cost_ = np.array(program.cost)
    model.col_lower_, model.col_upper_ = np.array(program.least), np.array(program.most)
    model.row_lower_, model.row_upper_ = np.array(program.low), np.array(program.high)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(program.starts, np.int32)
    model.a_matrix_.index_ = np.array(program.columns, np.int32)
    model.a_matrix_.value_ = np.array(program.entries)
    model.integrality_ = [
        highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous for whole in program.whole
    ]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", SLACK / 4),
        ("mip_abs_gap", 1e-9),
        ("mip_max_nodes", nodes),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return float("inf"), True, None
    info = solver.getInfo()
    there = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    solution = np.array(solver.getSolution().col_value) if there else None
    return float(info.mip_dual_bound), status == highspy.HighsModelStatus.kOptimal, solution


def read(
    candidates: npt.NDArray[np.int64],
    solution: npt.NDArray[np.float64],
    replica: npt.NDArray[np.int64],
    store: npt.NDArray[np.int64],
) -> Placement:
    """The placement that a solution of the program is."""
    stores = tuple(candidates[solution[store] > 0.5].tolist())
    replicas = tuple(tuple(candidates[solution[row] > 0.5].tolist()) for row in replica)
    return Placement(stores, replicas)


def _better(problem: Problem, upper: Placement | None, found: Placement) -> Placement | None:
    if check(problem, found):
        return upper  # rate limits bind
    if upper is not None and cost(problem, upper.replicas) <= cost(problem, found.replicas):
        return upper
    return found


def limited(problem: Problem) -> bool:
    """Rate limits are set, so the program's answer may not keep them."""
    return bool((problem.rate_limit != NO_LIMIT).any())
