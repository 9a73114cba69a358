"""`--replicas`: who chooses the counts, what is then proved, and that plan files carry the rule on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from latecomer.cli.main import VERBS, run
from latecomer.model.plan import Plan, read_plan, write_plan

Capture = pytest.CaptureFixture[str]
DEMAND = "topic,broker,rate\na,1,90\nb,1,5\nb,4,5\n"
"""Nearly all of the weight is at one broker: there the second copy of 'a' by the weight rule saves nothing."""
LIMITS = ("--stores", "3", "--capacity", "1")


@pytest.fixture
def demand(tmp_path: Path) -> Path:
    file = tmp_path / "demand.csv"
    file.write_text(DEMAND)
    return file


def plan(demand: Path, *arguments: str) -> int:
    return run(VERBS, ["plan", "--topology", "walkthrough", "--demand", str(demand), *arguments])


def made(demand: Path, capsys: Capture, *arguments: str) -> Plan:
    assert plan(demand, *arguments, "--json") == 0
    return read_plan(capsys.readouterr().out, "output")


def test_free_counts_are_the_default_and_cost_less_than_the_rule(demand: Path, capsys: Capture) -> None:
    free, by_weight = made(demand, capsys, *LIMITS), made(demand, capsys, *LIMITS, "--replicas", "weight")
    assert free.limits.replica_rule == "free"
    assert by_weight.limits.replica_rule == "weight"
    assert [len(by_weight.replicas[topic]) for topic in "ab"] == [2, 1]
    assert [len(free.replicas[topic]) for topic in "ab"] == [1, 2]
    assert free.prediction.optimal
    assert by_weight.prediction.optimal  # for its counts
    assert free.prediction.cost < by_weight.prediction.cost


def test_the_sentence_says_among_which_plans(demand: Path, capsys: Capture) -> None:
    for option, sentence in (
        ([], "No plan with at most 3 stores of 1 topic costs less."),
        (["--replicas", "weight"], "No plan with at most 3 stores of 1 topic and these replica counts costs less."),
    ):
        assert plan(demand, *LIMITS, *option) == 0
        assert capsys.readouterr().out.splitlines()[-1] == sentence
    assert plan(demand, *LIMITS, "--algorithm", "wrr") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("This costs at most ")
    assert last.endswith(" more than the best plan with at most 3 stores of 1 topic. --algorithm best looks further.")


def test_what_is_proved_after_a_loss_is_a_sentence_of_its_own(demand: Path, capsys: Capture) -> None:
    assert plan(demand, "--stores", "3", "--capacity", "2", "--survive-loss") == 0
    *_, after, without = capsys.readouterr().out.splitlines()
    among = "at most 3 stores of 2 topics and at least 2 replicas of each topic"
    assert after == f"After the loss of its worst store, no plan with {among} costs less."
    assert without.startswith(("No plan with ", "This costs at most "))
    assert plan(demand, "--stores", "3", "--capacity", "2", "--survive-loss", "--algorithm", "refine") == 0
    *_, after, without = capsys.readouterr().out.splitlines()
    assert after == "Whether another plan costs less after the loss of its worst store is not known."


def test_replan_goes_on_by_the_rule_of_the_plan(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    later = tmp_path / "later.csv"
    later.write_text("topic,broker,rate\na,6,90\nb,6,5\nb,4,5\n")
    for rule in ("free", "weight"):
        old = tmp_path / f"{rule}.json"
        old.write_text(write_plan(made(demand, capsys, *LIMITS, "--replicas", rule)))
        for option, expected in (([], rule), (["--replicas", "weight"], "weight"), (["--replicas", "free"], "free")):
            words = ["replan", "--plan", str(old), "--demand", str(later), "--full", "--json", *option]
            assert run(VERBS, words) == 0
            found = msgspec.json.decode(capsys.readouterr().out)["plan"]
            assert found["limits"]["replica_rule"] == expected
            assert [len(found["replicas"][topic]) for topic in "ab"] == ([1, 2] if expected == "free" else [2, 1])


def test_a_plan_from_before_the_rule_is_read(demand: Path, capsys: Capture) -> None:
    text = write_plan(made(demand, capsys, *LIMITS)).replace('"replica_rule": "free",', "")
    assert "replica_rule" not in text
    assert read_plan(text, "old").limits.rule() == "free"
