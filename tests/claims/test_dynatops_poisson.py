"""The Poisson workload of dynatops, and its claims in small."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from latecomer.experiments.dynatops import CLAIMS
from latecomer.experiments.dynatops.configured import Configured
from latecomer.experiments.dynatops.playing import Playing
from latecomer.experiments.dynatops.poisson import Change, Pattern, Poisson
from latecomer.experiments.grid import Table
from latecomer.experiments.papers import chosen, reproduce

SMALL = Poisson(hours=20, users=600, brokers=10, topics=100, modes=10, rate=0.2)
replace = msgspec.structs.replace


@pytest.mark.parametrize("pattern", ["uniform", "zipf", "multimodal"])
@pytest.mark.parametrize("change", ["same mode", "any topic", "new mode"])
def test_users_always_have_five_different_topics(pattern: Pattern, change: Change) -> None:
    workload = replace(SMALL, pattern=pattern, change=change).workload(1)
    slots = workload.slots.copy()
    changes = workload.changes
    rows = list(zip(changes.time, changes.user, changes.slot, changes.what, strict=True))
    for at, (time, user, slot, what) in enumerate(rows):
        slots[user, slot] = what
        if at + 1 == len(rows) or rows[at + 1][0] != time:
            assert len(set(slots[user].tolist())) == 5
            if pattern == "multimodal" and change != "any topic":
                assert len(set((slots[user] // 10).tolist())) == 1
    assert (np.diff(changes.time) >= 0).all()
    users = len(set(zip(changes.time.tolist(), changes.user.tolist(), strict=True)))
    assert users == pytest.approx(SMALL.rate * SMALL.users * SMALL.hours, rel=0.1)


def test_popularity_follows_the_exponent() -> None:
    """The first topic is (101 / 2)^σ times as likely as the hundredth."""
    weights = replace(SMALL, pattern="zipf", sigma=1.0).weights()
    assert weights[0] / weights[-1] == pytest.approx(101 / 2)
    first = replace(SMALL, pattern="zipf", users=20_000, rate=0.0).workload(0).slots
    share = np.bincount(first[:, 0], minlength=100) / len(first)
    assert share == pytest.approx(weights, abs=0.01)


def test_within_a_mode_each_topic_is_as_likely() -> None:
    changes = replace(SMALL, rate=5.0).workload(2).changes
    share = np.bincount(changes.what % 10, minlength=10) / len(changes.what)
    assert share == pytest.approx(np.full(10, 0.1), abs=0.01)


def test_selection_leaves_brokers_fewer_topics_and_changes_when_users_stay_in_their_mode() -> None:
    setting = Playing(hours=10, systems=("bayeux", "chord", "tco", "dynatops"))
    measures = setting.measure(0)
    assert measures["topics_bayeux"] > 900
    assert measures["topics_dynatops"] < 250
    assert measures["changes_dynatops"] < 0.1 * measures["changes_bayeux"]
    assert measures["overhead_dynatops"] < 0.5 * measures["overhead_bayeux"]
    assert measures["overhead_tco"] < measures["overhead_bayeux"]
    assert measures["changes_chord"] == measures["changes_bayeux"]
    assert measures == setting.measure(0)


def test_a_configuration_saves_something_and_stays_below_the_bound() -> None:
    measures = Configured(brokers=30, topics=50, pattern="multimodal").measure(0)
    assert measures["overhead"] > 0
    assert measures["ended_overhead"] >= measures["overhead"]
    assert 0 < measures["swaps"] < measures["bound"]


def test_claims_stand_in_the_order_of_the_ledger() -> None:
    rows = [int(claim.row[1:]) for claim in CLAIMS]
    assert rows == sorted(rows)
    assert {1, 8, 9, 10, 11, 13, 14} <= set(rows)
    assert all(claim.paper == "dynatops" for claim in CLAIMS)


@pytest.mark.parametrize("name", ["D1", "D14"])
def test_examples_come_out(name: str) -> None:
    (claim,) = chosen([name])
    verdict = claim.judge(Table({}), quick=False)
    assert verdict.verdict == "consistent, input fitted"
    assert all(part.word != "not reproduced" for part in verdict.parts)


@pytest.mark.long
@pytest.mark.parametrize("name", ["D8", "D9", "D10-poisson", "D11", "D13"])
def test_a_quick_look_at_every_figure(name: str, tmp_path: Path) -> None:
    (claim,) = chosen([name])
    outcome = reproduce(claim, tmp_path, 2, quick=True)
    assert outcome.verdict.verdict == "undecided"
    assert all((tmp_path / f"{chart.name}.svg").exists() for chart in outcome.charts)
