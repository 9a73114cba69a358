"""The loop, closed: a network with a demand that is known → its log → Spark → demand → plan → the plan applied → its
log → Spark → the distance that was predicted.

The network is simulated: the same core as behind sockets, in virtual time, with requests as a Poisson process. Store
after store is assigned while publications and requests go on, and the old one is withdrawn at the end.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from latecomer.cli.plan_work import Order, make_plan
from latecomer.cli.simulate import RecordLog
from latecomer.core.settings import BrokerSettings
from latecomer.eventlog.writer import SegmentWriter
from latecomer.model.demand import Demand
from latecomer.model.evidence import evidence
from latecomer.model.plan import Plan, PlanLimits
from latecomer.model.topology_generators import tree
from latecomer.pipeline.classes import Classes
from latecomer.pipeline.log import Window, find_log
from latecomer.pipeline.measure import Measured, measure
from latecomer.sim.durations import Duration
from latecomer.sim.runner import Run
from latecomer.sim.scenario import SECOND_US, Scenario, Store, Workload
from latecomer.sim.scenario import Demand as Asked
from latecomer.sim.scenario_check import Prepared
from latecomer.sim.topologies import Given

BROKERS, TOPICS = 12, 4
RATE = 6.0
"""Requests per second."""
HALF_S = 200
SETTLE_S = 30
NAMES = [f"city/{topic}/air" for topic in range(TOPICS)]
FILTERS = [f"city/{topic}/#" for topic in range(TOPICS)]
NOW_US = 1 << 60
"""For the log: what virtual time says is never the future."""


def known_rates() -> dict[str, dict[str, float]]:
    """Some topics are asked for more than others, and each by a few brokers most."""
    chance = Random(5)
    weights = {
        (name, f"b{broker}"): 3.0 ** -chance.randrange(4) / (1 + topic)
        for topic, name in enumerate(FILTERS)
        for broker in range(1, BROKERS + 1)
        if chance.random() < 0.6
    }
    total = sum(weights.values())
    rates: dict[str, dict[str, float]] = {name: {} for name in FILTERS}
    for (name, broker), weight in weights.items():
        rates[name][broker] = RATE * weight / total
    return rates


class Network:
    """Twelve brokers in a tree; the first keeps everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topology = tree(BROKERS, 2)
        self.writer = SegmentWriter(folder, "simulated")
        scenario = Scenario(
            name="loop",
            seed=11,
            duration=Duration((2 * HALF_S + SETTLE_S) * SECOND_US),
            topology=Given(brokers=self.topology.ids(), links=tuple((link.a, link.b) for link in self.topology.links)),
            store=(Store(broker="b1", topics=("city/#",)),),
            demand=tuple(
                Asked(broker=broker, filter=name, rate=rate, last=1)
                for name, row in known_rates().items()
                for broker, rate in row.items()
            ),
            workload=tuple(Workload(topics=(name,), rate=0.5) for name in NAMES),
        )
        self.run = Run(Prepared(scenario, self.topology, BrokerSettings()), observers=[RecordLog(self.writer.add)])
        self.run.begin()
        self.run.set_going()

    def until(self, second: int) -> int:
        """Let time pass; the instant that it is then."""
        self.run.advance(second * SECOND_US)
        self.writer.roll()
        return self.run.world.now

    def apply(self, plan: Plan) -> None:
        """Fill, wait, withdraw, as `latecomer apply` does."""
        kept = {store: [topic for topic, stores in plan.replicas.items() if store in stores] for store in plan.stores}
        for store, topics in kept.items():
            self.run.store(store, (*topics, *(("city/#",) if store == "b1" else ())))
        self.until(HALF_S + SETTLE_S)
        self.run.store("b1", tuple(kept.get("b1", ())))

    def measured(self, spark: SparkSession, window: Window) -> Measured:
        return measure(spark, find_log(self.folder), Classes(depth=2), window, now_us=NOW_US)


def test_the_loop(spark: SparkSession, tmp_path: Path) -> None:
    network = Network(tmp_path / "log")
    begun = network.run.world.now
    before = network.measured(spark, Window(begun, network.until(HALF_S)))
    assert_as_asked(before.demand)

    plan = make_plan(
        Order("tree:12", network.topology, before.demand, PlanLimits(stores=4, capacity=2)), "best", lambda what: None
    ).plan
    network.apply(plan)
    changed = network.run.world.now
    after = network.measured(spark, Window(changed, network.until(2 * HALF_S + SETTLE_S)))

    network.run.heal()
    result = network.run.result()
    assert result.good, result.violations
    assert (result.retrieved.incomplete, result.retrieved.unanswered) == (0, 0)
    assert (before.refused, after.refused) == ({}, {})
    found, old = after.distances.total, before.distances.total
    # Both the demand that the prediction was made from and the requests since are samples of the same.
    error = found.hops_error * sqrt(1 + found.served / before.demand.requests)
    assert found.hops_mean == pytest.approx(plan.prediction.hops_mean, abs=3 * error)
    assert found.hops_mean < old.hops_mean - 3 * (found.hops_error + old.hops_error)


def assert_as_asked(demand: Demand) -> None:
    """Counts of a Poisson process: chi-square over all places, and no more misplaced than the evidence says."""
    assert demand.topics == tuple(FILTERS)
    rates, seconds = known_rates(), demand.window_s
    places = [
        (rate * seconds, demand.rates[name].get(broker, 0.0) * seconds)
        for name, row in rates.items()
        for broker, rate in row.items()
    ]
    square = sum((seen - wanted) ** 2 / wanted for wanted, seen in places)
    assert square < len(places) + 4 * sqrt(2 * len(places))
    assert sum(seen for _, seen in places) == pytest.approx(demand.requests)
    assert demand.requests == pytest.approx(RATE * seconds, abs=4 * sqrt(RATE * seconds))
    off = sum(abs(seen / demand.requests - wanted / (RATE * seconds)) for wanted, seen in places) / 2
    assert off < 1.5 * evidence(demand).misplaced
