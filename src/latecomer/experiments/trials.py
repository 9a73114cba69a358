"""One placement, measured: a network and its demand by chance, all algorithms on it, and what each costs.

Everything here is the closed form: the mean hop distance is Σ r·d / Σ r with d the hops to the nearest replica, without
a single message being sent. `live` sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Literal, NamedTuple

import msgspec
import numpy as np

from latecomer.experiments.grid import Measures, Setting
from latecomer.experiments.workload import (
    TREES,
    IntArray,
    Negative,
    Neighbourhood,
    StoreRule,
    TreeKind,
    localities,
    neighbourhoods,
    shares,
    stores_needed,
    uniform_rates,
    zipf_rates,
)
from latecomer.model.topology import Topology
from latecomer.planner.algorithms import Algorithm, plan_with, reassign
from latecomer.planner.assignment.grd_opt import GrdOpt
from latecomer.planner.assignment.rnd import Rnd
from latecomer.planner.assignment.seq import Seq
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.best import solve
from latecomer.planner.cost import after_failures, hops_mean
from latecomer.planner.distances import Distances, distances_of
from latecomer.planner.greedy import Access, votes
from latecomer.planner.legality import Placement
from latecomer.planner.problem import RATE_UNIT, Problem, replace_problem
from latecomer.planner.replication import Asked, ByWeight, Fixed, Replication, SharedSlots

ALGORITHMS = ("seq", "wrr", "grd_opt", "rnd")
REQUESTS = 25.0
"""Requests per second at each broker, all topics together (*planning* §6.1.1)."""
DEAR_RUNS = 20
"""Most seeds of what takes long next to the closed form: plans that are solved, requests that are simulated."""


class Ground(NamedTuple):
    """What chance decides before anything is planned."""

    topology: Topology
    distances: Distances
    order_seed: str
    """Of who is asked by whom: the same whatever the exponents, so that a demand drifts and is not drawn anew."""


class Placing(Setting, frozen=True, kw_only=True):
    """A network, a demand and limits; what the papers leave out has a name and a default."""

    SOURCES: ClassVar[tuple[str, ...]] = ("model", "planner", "experiments/workload.py", "experiments/trials.py")

    brokers: int = 100
    topics: int = 10
    tree: TreeKind = "labelled"
    demand: Literal["zipf", "uniform"] = "zipf"
    """`zipf`: 25 · p[t] requests per second at every broker that asks; `uniform`: between 0 and 1, as in *storing*."""
    popularity: float = 0.0
    locality: float | None = None
    """None: all brokers ask for all topics."""
    negative: Negative = "reversed"
    neighbourhood: Neighbourhood = "share"
    capacity: int = 5
    stores: int | None = None
    """M; None: it follows from the replicas."""
    store_rule: StoreRule = "fit-all"
    replicas: int = 2
    """min_k, or k where `equal`; of no meaning where M is given."""
    equal: bool = False
    random_stores: Literal["aggregate", "random"] = "aggregate"
    access: Access = "path"
    solved: bool = False
    """Also the planner's own answer under the same limits, and the bound that no answer can be below."""

    def measure(self, seed: int) -> Measures:
        problem = self.problem(self.ground(seed))
        measures: Measures = {"stores": problem.stores, "requests": problem.total_rate / RATE_UNIT}
        placements = self.placements(problem, seed)
        measures["alike"] = alike(placements["seq"], placements["wrr"])
        for name, placement in placements.items():
            measures[f"hops_{name}"] = hops_mean(problem, placement.replicas)
            measures[f"ont_{name}"] = measures[f"hops_{name}"] * measures["requests"]
            measures[f"stores_{name}"] = used(placement)
        if self.solved:
            solution = solve(problem, effort="quick")
            measures["hops_refined"] = solution.cost / problem.total_rate
            measures["hops_bound"] = solution.bound.value / problem.total_rate
            measures["hops_within"] = self.within(problem, seed)
        return measures

    def runs(self, asked: int) -> int:
        return min(asked, DEAR_RUNS) if self.solved else asked

    def within(self, problem: Problem, seed: int) -> float:
        """The best assignment to the stores that the paper chooses: which of its two phases loses?"""
        stores = self.placements(problem, seed, ("wrr",))["wrr"].stores
        fixed = replace_problem(problem, pinned_stores=tuple(sorted(stores)))
        return solve(fixed, effort="quick").cost / problem.total_rate

    def ground(self, seed: int) -> Ground:
        topology = TREES[self.tree](self.brokers, Random(f"{seed}/tree"))
        return Ground(topology, distances_of(topology), f"{seed}/demand")

    def problem(self, ground: Ground) -> Problem:
        """The planner's problem on this ground."""
        rates, capacity = self.rates(ground), self.capacity
        room = None if self.stores is None else self.stores * capacity
        most = self.brokers if self.stores is None else self.stores
        asked = Asked(tuple(rates.sum(axis=1).tolist()), (most,) * self.topics, (1,) * self.topics, room)
        counts = self.replication().replicas(asked)
        stores = self.stores or min(self.brokers, stores_needed(counts.tolist(), capacity, self.store_rule))
        return Problem.small(ground.distances, rates, stores, capacity, np.minimum(counts, stores).tolist())

    def replication(self) -> Replication:
        if self.stores is not None:
            return SharedSlots()
        return Fixed(self.replicas) if self.equal else ByWeight(self.replicas)

    def rates(self, ground: Ground) -> IntArray:
        random = Random(ground.order_seed)
        if self.demand == "uniform":
            return uniform_rates(self.topics, self.brokers, random)
        popularity = shares(self.topics, self.popularity, self.negative)
        parts = localities(self.topics, self.locality, self.neighbourhood, self.negative)
        asking = neighbourhoods(ground.distances.distance, parts, random)
        return zipf_rates(REQUESTS, popularity, asking, self.brokers, spread=self.neighbourhood == "spread")

    def placements(self, problem: Problem, seed: int, algorithms: Sequence[str] = ALGORITHMS) -> dict[str, Placement]:
        """The answers of the algorithms; they share the votes."""
        found = votes(problem, self.access)
        rnd = Rnd(seed=seed, stores=self.random_stores)
        known: dict[str, Algorithm] = {"seq": Seq(), "wrr": Wrr(), "grd_opt": GrdOpt(), "rnd": rnd}
        return {name: plan_with(problem, known[name], found) for name in algorithms}


class Failing(Placing, frozen=True, kw_only=True):
    """Stores fail, and requests go to the nearest that is left (*planning* Fig. 9)."""

    failed: int
    draws: int = 20
    """Sets of failed stores, drawn by chance; the mean over them is one measurement."""

    def measure(self, seed: int) -> Measures:
        problem = self.problem(self.ground(seed))
        measures: Measures = {}
        for name, placement in self.placements(problem, seed, ("seq", "wrr", "rnd")).items():
            random = Random(f"{seed}/failed")  # the same places in the order of choice for every algorithm
            hops: list[float] = []
            unserved = 0
            for _ in range(self.draws):
                gone = [placement.stores[place] for place in random.sample(range(problem.stores), self.failed)]
                cost, lost = after_failures(problem, placement.replicas, gone)
                hops.append(cost / (problem.total_rate - lost))
                unserved += lost
            measures[f"hops_{name}"] = sum(hops) / self.draws
            measures[f"whole_{name}"] = hops_mean(problem, placement.replicas)
            measures[f"unserved_{name}"] = unserved / self.draws / problem.total_rate
        return measures


class Drifting(Placing, frozen=True, kw_only=True):
    """Planned for one demand, asked by another: keep everything, redo the assignment, or plan anew (*planning* §6.2).

    The demand of today is that of the fields above; `planned` is the exponent of the day of the plan, of the locality
    where there is one and otherwise of the popularity.
    """

    planned: float = -1.0

    def measure(self, seed: int) -> Measures:
        ground = self.ground(seed)
        before, now = self.before().problem(ground), self.problem(ground)
        measures: Measures = {}
        found = votes(now, self.access)
        for name, algorithm in (("seq", Seq()), ("wrr", Wrr())):
            kept = plan_with(before, algorithm, votes(before, self.access))
            again = reassign(now, kept.stores, algorithm, found)
            measures[f"kept_{name}"] = hops_mean(now, kept.replicas)
            measures[f"reassigned_{name}"] = hops_mean(now, again.replicas)
            measures[f"replanned_{name}"] = hops_mean(now, plan_with(now, algorithm, found).replicas)
        return measures

    def before(self) -> Drifting:
        """The day of the plan."""
        if self.locality is None:
            return msgspec.structs.replace(self, popularity=self.planned)
        return msgspec.structs.replace(self, locality=self.planned)


def used(placement: Placement) -> int:
    """Brokers that keep something."""
    return len({store for places in placement.replicas for store in places})


def alike(one: Placement, other: Placement) -> float:
    """Per cent of the topics that two placements keep in the same stores."""
    pairs = list(zip(one.replicas, other.replicas, strict=True))
    return 100 * sum(sorted(here) == sorted(there) for here, there in pairs) / len(pairs)
