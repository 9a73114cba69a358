"""`latecomer watch`: what it says, what it proposes, and what it refuses."""

from __future__ import annotations

import time
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from latecomer.cli.apply import applied_file
from latecomer.cli.main import VERBS, run
from latecomer.cli.plan_work import Order, make_plan
from latecomer.cli.replan_work import Asked
from latecomer.cli.watch_advice import Adviser
from latecomer.cli.watch_tables import line, shown, view
from latecomer.model.applied import Applied, plan_id, write_record
from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import PlanLimits, read_plan, write_plan
from latecomer.model.topology_generators import tree
from latecomer.pipeline.stages.periods import Seen, Span
from latecomer.pipeline.watch_job import Glance
from latecomer.pipeline.watch_state import Batch
from tests.pipeline.watch_log import BEGIN_US, asked, write

Capture = pytest.CaptureFixture[str]
WEST = {"t/1/#": {"b4": 3.0, "b8": 2.0}, "t/2/#": {"b9": 2.0, "b5": 1.0}}
EAST = {"t/1/#": {"b7": 3.0, "b15": 2.0}, "t/2/#": {"b14": 2.0, "b6": 1.0}}
"""The same topics, asked for at the other end of the tree."""


def demand(rates: dict[str, dict[str, float]], requests: int) -> Demand:
    return Demand(tuple(rates), rates, window_s=60, requests=requests)


def plan_file(folder: Path) -> Path:
    """A plan for requests in the west of a tree of fifteen."""
    limits = PlanLimits(stores=2, capacity=1)
    plan = make_plan(Order("tree:15", tree(15, 2), demand(WEST, 400), limits), "wrr", lambda _: None).plan
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(write_plan(plan))
    return folder / "plan.json"


def adviser(folder: Path) -> Adviser:
    return Adviser(plan_file(folder), None, None, Asked(), folder)


# -- advice


def test_a_plan_is_proposed_while_demand_is_elsewhere(tmp_path: Path) -> None:
    asking = adviser(tmp_path)
    same = asking.advise(demand(WEST, 300))
    assert same.proposal is None
    assert same.sentences[0] == f"The plan in force is {asking.plan_file}."
    assert same.sentences[-1].startswith("Demand is as planned: 0.0 % of the requests are for other topics")

    moved = asking.advise(demand(EAST, 300))
    assert moved.proposal == tmp_path / "proposal-1.json"
    assert moved.sentences[1].startswith("Locality has drifted: 100 % of the requests come from elsewhere")
    assert any(sentence.startswith("Recommendation: ") for sentence in moved.sentences)
    proposed = read_plan(moved.proposal.read_text(), "proposal-1.json")
    assert proposed.moves
    assert proposed.demand is not None
    assert proposed.demand.rates == EAST
    assert asking.advise(demand(EAST, 300)) is moved  # nothing new, nothing computed

    text = moved.proposal.read_text()
    back = asking.advise(demand(WEST, 301))
    assert back.proposal is None
    assert back.sentences[-1] == f"{moved.proposal} is no longer advised."
    again = asking.advise(demand(EAST, 302))
    assert again.proposal == tmp_path / "proposal-2.json"
    assert moved.proposal.read_text() == text  # somebody may be applying it


def test_a_proposal_that_is_applied_is_the_plan_in_force(tmp_path: Path) -> None:
    asking = adviser(tmp_path)
    proposal = asking.advise(demand(EAST, 300)).proposal
    assert proposal is not None
    plan = read_plan(proposal.read_text(), "")
    applied = Applied(plan_id(plan), "net", time.time_ns() // 1000, 0, {}, {})
    applied_file(proposal).write_text(write_record(applied))
    told = asking.advise(demand(EAST, 300)).sentences
    assert told[0] == f"The plan in force is {asking.plan_file}. {proposal} is being applied."
    ended = msgspec.structs.replace(applied, ended_us=time.time_ns() // 1000)
    applied_file(proposal).write_text(write_record(ended))
    after = asking.advise(demand(EAST, 300))
    assert after.sentences[0].startswith(f"The plan in force is {proposal}, applied 20")
    assert after.sentences[-1].startswith("Demand is as planned")
    moved = asking.advise(demand(WEST, 300))
    assert moved.proposal == tmp_path / "proposal-2.json"  # away from the plan in force, which stays as it is
    assert read_plan(proposal.read_text(), "") == plan


def test_demand_that_moves_once_is_proposed_for_once(tmp_path: Path) -> None:
    """The filter carries the requests over from west to east in ten steps; a plan is made when they have arrived."""
    asking = adviser(tmp_path)
    asking.settle_us = 3 * 60_000_000
    proposals, waited = [], 0
    for step in range(16):
        east = 1 - 0.7**step
        rates = {
            topic: {broker: rate * share for row, share in ((WEST, 1 - east), (EAST, east))
                    for broker, rate in row[topic].items()}
            for topic in WEST
        }  # fmt: skip
        found = asking.advise(demand(rates, 400), step * 60_000_000)
        waited += any("Demand is still moving" in sentence for sentence in found.sentences)
        proposals.append(found.proposal)
    assert waited >= 3
    assert sorted(tmp_path.glob("proposal-*.json")) == [tmp_path / "proposal-1.json"]
    assert proposals[-1] == tmp_path / "proposal-1.json"


def test_three_requests_from_elsewhere_are_no_reason(tmp_path: Path) -> None:
    found = adviser(tmp_path).advise(demand({"t/1/#": {"b4": 0.02, "b7": 0.02}, "t/2/#": {"b9": 0.01}}, 3))
    assert found.finding is not None
    assert not found.finding.drifted
    assert found.proposal is None


def test_a_plan_that_was_applied_is_the_new_measure(tmp_path: Path) -> None:
    asking = adviser(tmp_path)
    proposal = asking.advise(demand(EAST, 300)).proposal
    assert proposal is not None
    proposal.replace(asking.plan_file)
    assert asking.advise(demand(EAST, 300)).sentences[-1].startswith("Demand is as planned")


def test_what_cannot_be_compared_is_told_and_stops_nothing(tmp_path: Path) -> None:
    asking = adviser(tmp_path)
    text = asking.plan_file.read_text()
    asking.plan_file.write_text("{")
    assert "cannot be compared" in asking.advise(demand(WEST, 300)).sentences[0]
    asking.plan_file.write_text(text)
    stranger = asking.advise(demand({**WEST, "t/1/#": {**WEST["t/1/#"], "new": 1.0}}, 300))
    assert "Broker 'new' is not in the network of the plan" in stranger.sentences[1]
    assert "as planned" in stranger.sentences[-1]
    assert "Nobody has asked" in asking.advise(demand({"t/1/#": {}}, 0)).sentences[-1]


def test_a_plan_without_a_demand_is_refused(tmp_path: Path) -> None:
    asking = adviser(tmp_path)
    plan = read_plan(asking.plan_file.read_text(), "plan.json")
    asking.plan_file.write_text(write_plan(msgspec.structs.replace(plan, demand=None)))
    with pytest.raises(SettingsError, match="does not say what demand it was made for"):
        asking.plan()


# -- what is shown


def test_a_line_tells_what_is_new_and_what_was_bad() -> None:
    before = Glance(Batch(2, segments=3, rows=300, requests=30))
    total = Batch(
        3, 5, 500, 50, {"b1": Seen(500, BEGIN_US, BEGIN_US)}, {"no broker": 2}, {"x.parquet": "damaged: half"}, 1
    )
    told = line(Glance(total, Span(28333334, 28333335, 60), demand(WEST, 9), 4), before)
    assert told.startswith("batch 3: 2 segments, 200 rows, 20 requests; in all 500 rows, 50 requests; 2 periods closed")
    assert "up to 2023-11-14 22:16:00 UTC: 8.000 requests/s" in told
    assert (
        "2 rows in quarantine (2 no broker); 1 segments in quarantine (the first is x.parquet: damaged: half)" in told
    )
    assert told.endswith("1 segments were gone before they could be read; 4 requests for topics of no class")
    assert "no period is closed yet" in line(before)
    assert line(Glance(Batch(-1))) == "no segment has been counted yet; no period is closed yet"


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--once"], 130), (["--for", "1h"], 130)])
def test_an_endless_watch_is_ended_with_ctrl_c(
    options: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("latecomer.cli.watch._watch", interrupted)
    assert run(VERBS, ["watch", str(tmp_path / "log"), "--state", str(tmp_path / "state"), *options]) == code


def test_a_terminal_has_a_table() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100, color_system=None)
    with shown(console) as show:
        show.tell("starting Spark")
        show.glance(Glance(Batch(0), Span(1, 2, 60), demand(WEST, 9)), None)
    plain = Console(file=StringIO(), width=100)
    plain.print(view(Glance(Batch(0), Span(1, 2, 60), demand(WEST, 9)), None))
    assert "t/1/#              5.000   62.5%         2   b4" in plain.file.getvalue()  # type: ignore[attr-defined]


# -- the verb


def test_once_with_a_plan(
    spark: SparkSession, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests come from the east: one line for the batch, a proposal, and the demand that it is for."""
    monkeypatch.setattr("latecomer.cli.watch.opened", lambda *_: nullcontext(spark))
    plan, log, state = plan_file(tmp_path), tmp_path / "log", tmp_path / "state"
    for broker, filter in (("b7", "t/1/x"), ("b14", "t/2/x")):
        write(log, broker, 1, [asked(broker, filter, second) for second in range(240)])
    words = ["watch", str(log), "--state", str(state), "--period", "1m", "--plan", str(plan), "--once"]
    assert run(VERBS, words) == 0
    told = capsys.readouterr().out
    assert "batch 0: 2 segments, 480 rows, 480 requests" in told
    assert "of the requests come from elsewhere, where chance alone" in told
    assert f"The plan is in {state / 'proposal-1.json'}." in " ".join(told.split())
    assert read_plan((state / "proposal-1.json").read_text(), "").demand is not None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--alpha", "0"], "--alpha: 0 is no weight"),
        (["--period", "1500ms"], "--period: '1500ms' is not a number of whole seconds"),
        (["--period", "0"], "--period: must be longer than nothing"),
        (["--for", "soon"], "--for: 'soon' is not a duration"),
        (["--network", "net.toml"], "--network: is needed to compare demand with a plan"),
        (["--plan", "nowhere.json"], "'nowhere.json' cannot be read"),
        (["--settle", "long"], "--settle: 'long' is not a duration"),
        (["--depth", "99"], "--depth: 99 levels"),
        (["--once"], "does not exist, and --once does not wait for it"),
        (["--state", "log/state"], "are one inside the other"),
        (["--master", "nonsense"], "is no Spark"),
    ],
)
def test_refusals(
    words: list[str], told: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "nonsense" in words:
        (tmp_path / "log").mkdir()
    assert run(VERBS, ["watch", "log", "--state", "state", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_log_that_never_comes(tmp_path: Path, capsys: Capture) -> None:
    words = ["watch", str(tmp_path / "log"), "--state", str(tmp_path / "state"), "--for", "100ms"]
    assert run(VERBS, words) == 0
    assert "does not exist yet; waiting for it" in " ".join(capsys.readouterr().out.split())
