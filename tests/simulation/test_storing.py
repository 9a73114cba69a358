"""The storing paper's simulation (§V), next to theory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from latecomer.core.tree import Tree
from latecomer.model.filters import parse_filter
from latecomer.model.topics import topic_covers
from latecomer.sim.report import Result
from latecomer.sim.runner import Run
from latecomer.sim.scenario import Demand, Store
from latecomer.sim.scenario_check import Prepared, load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "storing.toml"
STORED = 0.5 * 40
"""λ/μ"""
HOPS = 1.5
"""By hand, as in the scenario."""


def hops_expected(tree: Tree, stores: Sequence[Store], demands: Sequence[Demand]) -> float:
    """Σ r·d / Σ r of demands that some store covers."""
    cost = total = 0.0
    for demand in demands:
        topic = parse_filter(demand.filter).topic
        near = [
            tree.hops(demand.broker, store.broker)
            for store in stores
            if any(topic_covers(topics, topic) for topics in store.topics)
        ]
        if near:
            cost += demand.rate * min(near)
            total += demand.rate
    return cost / total if total else 0.0


@pytest.fixture(scope="module")
def played() -> tuple[Prepared, Run, Result]:
    prepared = load(SCENARIO)
    run = Run(prepared)
    return prepared, run, run.play()


def test_every_request_is_answered(played: tuple[Prepared, Run, Result]) -> None:
    _, _, result = played
    assert result.good
    assert result.retrieved.requests > 1000
    assert (result.retrieved.unanswered, result.retrieved.incomplete) == (0, 0)


def test_stores_hold_what_arrives_times_how_long_it_lives(played: tuple[Prepared, Run, Result]) -> None:
    """M/G/∞. Answers that are a lifetime apart are nearly independent: 900 s are 22 of them for either topic, so the
    mean has a standard deviation of √(2 · 20 / 22 / 2) ≈ 1."""
    _, run, result = played
    assert result.retrieved.events_mean == pytest.approx(STORED, abs=2)
    published = dict.fromkeys(("a", "b"), 0)
    for event in run.world.nodes["2"].disk.store.events.values():
        published[event.topic] += 1
    assert all(count < 3 * STORED for count in published.values()), "what has expired is gone"


def test_nobody_is_given_what_has_expired(played: tuple[Prepared, Run, Result]) -> None:
    """Lifetimes are exponential: of what lives, the mean age is the mean lifetime, and little is four times as old."""
    _, run, _ = played
    requests = [request for request in run.clients.requests.values() if request.events]
    assert all(event.expires_us for request in requests for event in request.events)
    ages = [request.events[-1].published_us - event.published_us for request in requests for event in request.events]
    assert sum(ages) / len(ages) == pytest.approx(40e6, rel=0.15)
    assert sum(age > 160e6 for age in ages) / len(ages) < 0.05


def test_the_mean_hop_distance_is_that_of_the_rates(played: tuple[Prepared, Run, Result]) -> None:
    """Hops are 0 to 3 and requests independent: with 1250 of them the mean has a standard deviation of about 0.02."""
    prepared, run, result = played
    core = run.world.nodes["1"].core
    assert core is not None
    assert core.interest.tree is not None
    assert hops_expected(core.interest.tree, prepared.scenario.store, prepared.scenario.demand) == pytest.approx(HOPS)
    assert result.retrieved.hops_mean == pytest.approx(HOPS, abs=0.06)


def test_equal_stores_share_the_requests(played: tuple[Prepared, Run, Result]) -> None:
    """Broker 3 has two stores at one hop and sends them the requests of brokers 3 and 4 in turn: 0.9 to 0.5."""
    _, run, result = played
    share = result.retrieved.by_store["2"] / result.retrieved.requests
    assert share == pytest.approx(0.9 / 1.4, abs=0.04)
    through = [
        r for r in run.clients.requests.values() if r.client in ("asker-3", "asker-4") and r.query.filter.topic == "a"
    ]
    served = [r.outcome.stores[0] for r in through if r.outcome is not None]
    assert abs(served.count("2") - served.count("5")) <= 1
