"""A placement on the broker core: publications arrive and expire, clients ask, and answers are counted.

The same placement as in `trials`, but every request is one: it travels from broker to broker along the advertisement
tables of *storing* §III, and the store that answers is the one the network found. The mean hop distance measured so
must agree with the closed form.

Decision: a request asks for the newest message only. How far it travels does not depend on how much it brings back,
and 1000 messages per answer (1 message per second and topic, living 1000 s) are only work.
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, Literal

from latecomer.core.settings import BrokerSettings
from latecomer.experiments.grid import Measures, Setting
from latecomer.experiments.trials import DEAR_RUNS, Placing
from latecomer.model.topology import Topology
from latecomer.model.topology_generators import walkthrough
from latecomer.planner.cost import hops_mean
from latecomer.planner.legality import Placement
from latecomer.planner.problem import RATE_UNIT, Problem
from latecomer.sim.durations import Duration
from latecomer.sim.runner import Run
from latecomer.sim.scenario import SECOND_US, Demand, Scenario, Store, Workload
from latecomer.sim.scenario_check import Prepared
from latecomer.sim.topologies import Given, Walkthrough

PUBLICATIONS = 1.0
"""Messages per second and topic."""
LIFETIME = Duration(1000 * SECOND_US)


class Live(Placing, frozen=True, kw_only=True):
    """One algorithm's placement, run until about so many requests were made."""

    SOURCES: ClassVar[tuple[str, ...]] = (*Placing.SOURCES, "core", "messages", "sim", "experiments/live.py")

    algorithm: Literal["seq", "wrr", "rnd"] = "wrr"
    asked: int = 2000

    def runs(self, asked: int) -> int:
        return min(asked, DEAR_RUNS)

    def measure(self, seed: int) -> Measures:
        ground = self.ground(seed)
        problem = self.problem(ground)
        placement = self.placements(problem, seed, (self.algorithm,))[self.algorithm]
        # Other chances at every point: brokers that ask alike in all of them would err alike.
        run = Run(prepared(ground.topology, problem, placement, self.asked, 1000 * seed + self.brokers))
        result = run.play()
        assert result.good, result.violations
        answered = [request.outcome.hops for request in run.clients.requests.values() if request.outcome is not None]
        assert len(answered) == result.retrieved.requests
        mean = sum(answered) / len(answered)
        spread = sqrt(sum((hops - mean) ** 2 for hops in answered) / (len(answered) - 1))
        return {
            "simulated": mean,
            "expected": hops_mean(problem, placement.replicas),
            "error": spread / sqrt(len(answered)),
            "answers": len(answered),
        }


class Sharing(Setting, frozen=True, kw_only=True):
    """Two stores of one topic, equally far from a broker: who answers the requests that pass it?

    The network of *storing* Figs. 1 and 2, as far as the text gives it: brokers 1–2, 2–3, 3–4, 3–5, 5–6 and stores at 2
    and 5, so that broker 3 has two equal entries. A client at broker 4 asks.
    """

    SOURCES: ClassVar[tuple[str, ...]] = ("model", "core", "messages", "sim", "experiments/live.py")

    asked: int = 200

    def runs(self, asked: int) -> int:
        return min(asked, DEAR_RUNS)

    def measure(self, seed: int) -> Measures:
        topology = walkthrough()
        scenario = Scenario(
            name="two equal stores",
            seed=seed,
            duration=Duration(self.asked * SECOND_US),
            topology=Walkthrough(),
            store=(Store(broker="2", topics=("a",)), Store(broker="5", topics=("a",))),
            demand=(Demand(broker="4", filter="a", rate=1.0, last=1),),
            workload=(Workload(topics=("a",), rate=PUBLICATIONS, lifetime=LIFETIME),),
        )
        run = Run(Prepared(scenario, topology, BrokerSettings()))
        result = run.play()
        assert result.good, result.violations
        answered = [request.outcome.stores for request in run.clients.requests.values() if request.outcome is not None]
        by_first = sum(stores == ("2",) for stores in answered)
        by_second = sum(stores == ("5",) for stores in answered)
        return {"fewer": 100 * min(by_first, by_second) / len(answered), "answers": len(answered)}


def prepared(topology: Topology, problem: Problem, placement: Placement, asked: int, seed: int) -> Prepared:
    """The scenario that a placement and its demand make."""
    names = [f"t{topic}" for topic in range(len(problem.topics))]
    brokers = topology.ids()
    keeps: dict[int, list[str]] = {}
    for topic, places in enumerate(placement.replicas):
        for place in places:
            keeps.setdefault(place, []).append(names[topic])
    demands = [
        Demand(broker=brokers[broker], filter=names[topic], rate=rate / RATE_UNIT, last=1)
        for topic, row in enumerate(problem.rates.tolist())
        for broker, rate in enumerate(row)
        if rate
    ]
    scenario = Scenario(
        name="placement",
        seed=seed,
        duration=Duration(max(1, round(asked * RATE_UNIT / problem.total_rate * SECOND_US))),
        topology=Given(brokers=brokers, links=tuple((link.a, link.b) for link in topology.links)),
        store=tuple(Store(broker=brokers[place], topics=tuple(keeps[place])) for place in sorted(keeps)),
        demand=tuple(demands),
        workload=tuple(Workload(topics=(name,), rate=PUBLICATIONS, lifetime=LIFETIME) for name in names),
    )
    return Prepared(scenario, topology, BrokerSettings())
