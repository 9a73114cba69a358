"""`latecomer verify`: what was measured beside what was predicted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from latecomer.cli.main import VERBS, run
from latecomer.cli.verify_work import verdict
from latecomer.model.applied import Applied, Verdict, plan_id, read_record, write_record
from latecomer.model.demand import Demand
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.plan import Plan, Prediction, write_plan
from latecomer.model.record import Kind, Record
from latecomer.model.topology_generators import line
from tests.pipeline.logs import record, write_log

Capture = pytest.CaptureFixture[str]
DEMAND = Demand(("t/#",), {"t/#": {"b1": 3.0, "b3": 1.0}}, window_s=100, requests=400)
PLAN = Plan(
    "line:3",
    ("b1", "b2", "b3"),
    "best",
    ("b1",),
    {"t/#": ("b1",)},
    Prediction("best", 2, 4, 0.5),
    demand=DEMAND,
)
"""Of four requests three are asked where the store is, and one is two hops away: 0.5 hops in the mean."""


def judged(counts: dict[str, dict[str, tuple[int, int, int]]], plan: Plan = PLAN, confidence: float = 0.95) -> Verdict:
    return verdict(plan, "p", line(3), counts, 0, 1, 2, confidence)


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_an_interval_has_the_errors_of_both_samples() -> None:
    found = judged({"t/#": {"b1": (290, 0, 0), "b3": (110, 220, 440)}})
    assert (found.measured.requests, found.measured.hops_mean) == (400, 0.55)
    assert found.measured.error == pytest.approx(math.sqrt((440 / 400 - 0.55**2) / 399))
    assert found.predicted.error == pytest.approx(math.sqrt((1 / 4 * 4 - 0.5**2) / 400))
    half = 1.959964 * math.hypot(found.measured.error, found.predicted.error)
    assert [found.low, found.high] == pytest.approx([0.5 - half, 0.5 + half])
    assert found.holds
    assert found.expected.hops_mean == 0.55, "this is how far the requests that came had to go"
    assert (found.topics[0].measured, found.topics[0].expected) == (0.55, 0.55)


def test_drift_and_detours_are_told_apart() -> None:
    drifted = judged({"t/#": {"b1": (100, 0, 0), "b3": (300, 600, 1200)}})
    assert not drifted.holds
    assert drifted.expected.hops_mean == drifted.measured.hops_mean == 1.5
    strayed = judged({"t/#": {"b1": (300, 300, 300), "b3": (100, 200, 400)}})
    assert not strayed.holds
    assert (strayed.expected.hops_mean, strayed.measured.hops_mean) == (0.5, 1.25)


def test_a_demand_that_nobody_measured_is_exact() -> None:
    exact = msgspec.structs.replace(PLAN, demand=msgspec.structs.replace(DEMAND, requests=0))
    counts = {"t/#": {"b1": (290, 0, 0), "b3": (110, 220, 440)}}
    assert judged(counts, exact).predicted.error == 0
    assert judged(counts, exact).high < judged(counts).high
    assert judged(counts, exact, 0.99).high > judged(counts, exact).high


def test_where_everybody_asks_at_home_nothing_is_left_to_chance() -> None:
    home = msgspec.structs.replace(
        PLAN, prediction=Prediction("best", 0, 4, 0.0), demand=Demand(("t/#",), {"t/#": {"b1": 4.0}}, requests=400)
    )
    assert judged({"t/#": {"b1": (50, 0, 0)}}, home).holds
    assert not judged({"t/#": {"b1": (50, 1, 1)}}, home, 0.5).holds


def test_too_little_to_compare() -> None:
    with pytest.raises(LatecomerError, match="1 requests for topics of the plan were answered in this time, too few"):
        judged({"t/#": {"b1": (1, 0, 0)}})
    with pytest.raises(SettingsError, match="the plan was made for latency"):
        judged({"t/#": {"b1": (9, 0, 0)}}, msgspec.structs.replace(PLAN, distance="latency"))


# -- the verb ----------------------------------------------------------------------------------------------------------


def asked(at_s: float, broker: str, hops: int, store: str = "b1") -> list[Record]:
    return [
        record(at_s, broker, Kind.REQUESTED, client="c", filter="t/#"),
        record(at_s + 0.1, broker, Kind.RECALLED, client="c", filter="t/#", peer=store, hops=hops, detail="complete"),
    ]


@pytest.fixture
def network(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan that was applied 50 s after the log began."""

    @contextmanager
    def shared(*_: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("latecomer.cli.verify.opened", shared)
    records = [each for second in range(40) for each in asked(second, "b1", 2, "b3")]
    records += [
        each for second in range(60, 96) for each in asked(second, "b1" if second % 4 else "b3", 0 if second % 4 else 2)
    ]
    write_log(tmp_path / "log", records)
    began_us = record(0, "b1", Kind.STARTED).at_us
    plan = tmp_path / "plan.json"
    plan.write_text(write_plan(PLAN))
    links = (("b1", "b2"), ("b2", "b3"))
    applied = Applied(plan_id(PLAN), "net", began_us, began_us + 50_000_000, {}, {}, (), links)
    (tmp_path / "plan.applied.json").write_text(write_record(applied))
    return plan


def test_the_verb(network: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["verify", str(network), "--log", str(tmp_path / "log")]
    assert run(VERBS, words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "the prediction holds" in said
    assert "0.500" in said
    found = read_record((tmp_path / "plan.measured.json").read_text(), "", Verdict)
    assert (found.measured.requests, found.measured.hops_mean, found.holds) == (36, 0.5, True)

    early = str(record(0, "b1", Kind.STARTED).at_us // 1_000_000)
    assert run(VERBS, [*words, "--since", early, "--network", "line:3"]) == 1
    said = capsys.readouterr().out
    assert "the prediction does not hold" in said
    assert "Requests did not go to the nearest planned stores: for t/#" in said


def test_what_is_not_known(tmp_path: Path, network: Path, capsys: Capture) -> None:
    file = tmp_path / "plan.applied.json"
    begun = read_record(file.read_text(), "", Applied)
    file.write_text(write_record(msgspec.structs.replace(begun, ended_us=0)))
    assert run(VERBS, ["verify", str(network)]) == 2
    assert "the plan has not been applied to its end: run 'latecomer apply" in capsys.readouterr().err
    file.write_text(write_record(msgspec.structs.replace(begun, plan="another")))
    assert run(VERBS, ["verify", str(network)]) == 2
    assert "there is no plan.applied.json of this plan beside it" in capsys.readouterr().err
    assert run(VERBS, ["verify", str(network), "--network", "line:3"]) == 2
    assert "--since: it is not known since when the plan has been in force" in capsys.readouterr().err
    file.write_text(write_record(msgspec.structs.replace(begun, version=9)))
    assert run(VERBS, ["verify", str(network)]) == 2
    assert "of version 9; this program reads up to 1: use a newer one" in capsys.readouterr().err
