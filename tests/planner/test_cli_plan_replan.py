"""`latecomer replan`: what the operator reads about a plan under new demand, and what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from latecomer.cli.main import VERBS, run
from latecomer.model.plan import Plan, read_plan, write_plan

Capture = pytest.CaptureFixture[str]

OLD = {"a": {"1": 1, "2": 2, "3": 6, "6": 8}, "b": {"1": 9, "4": 8, "5": 6, "6": 4}, "c": {"4": 3, "5": 3}}
NEW = {"a": {"1": 1, "2": 2, "3": 6, "4": 12}, "b": {"1": 2, "4": 8, "5": 6, "6": 4}, "c": {"4": 30, "5": 3}}
SIZES = {"a": 2_000_000, "b": 3_000_000, "c": 1_000_000}


def demand(folder: Path, rates: dict[str, dict[str, Any]], **more: Any) -> Path:
    file = folder / f"demand{len(list(folder.iterdir()))}.json"
    file.write_text(json.dumps({"rates": rates, **more}))
    return file


@pytest.fixture
def old(tmp_path: Path, capsys: Capture) -> Path:
    file = tmp_path / "old.json"
    words = ["--stores", "3", "--capacity", "2", "--min-replicas", "2", "--out", str(file)]
    assert run(VERBS, ["plan", "--topology", "walkthrough", "--demand", str(demand(tmp_path, OLD)), *words]) == 0
    capsys.readouterr()
    return file


def replan(old: Path, new: Path, *arguments: str) -> int:
    return run(VERBS, ["replan", "--plan", str(old), "--demand", str(new), *arguments])


def result(capsys: Capture) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# --- what is recommended ---


def test_the_same_demand_moves_nothing(old: Path, tmp_path: Path, capsys: Capture) -> None:
    assert replan(old, demand(tmp_path, OLD)) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("Recommendation: keep the plan.\n")
    assert "popularity moved 0.0 % (worth it from 50 %), locality 0.0 % (necessary above 25 %): skip." in shown
    for option in ("--reassign", "--full"):
        assert replan(old, demand(tmp_path, OLD), option, "--json") == 0
        found = result(capsys)
        assert found["recommendation"] == "keep"
        assert found["plan"]["moves"] == []
        assert found["plan"]["replicas"] == json.loads(old.read_text())["replicas"]


def test_new_demand_is_worth_moves(old: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new.json"
    assert replan(old, demand(tmp_path, NEW), "--out", str(out)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "walkthrough: under the new demand the old plan has mean 1.770 hops, 131.00 requests·hops/s"
    assert any(line.startswith("  Saved and cost are requests·hops. A move counts as one request") for line in lines)
    assert any(line.endswith(": reassign.") and "Rule of thumb (planning §6.2)" in line for line in lines)
    assert any(line.startswith("  Ours: full saves ") for line in lines)
    assert "Recommendation: full, 4 moves for 84.7 % less traffic." in lines
    found = read_plan(out.read_text(), "new.json")
    assert len(found.moves) == 4
    before = read_plan(old.read_text(), "old.json")
    for move in found.moves:
        assert move.source in before.replicas[move.topic]
        assert move.target in found.replicas[move.topic]
        assert move.target not in before.replicas[move.topic]


def test_offers_add_up(old: Path, tmp_path: Path, capsys: Capture) -> None:
    new = demand(tmp_path, NEW, sizes=SIZES)
    assert replan(old, new, "--json", "--response", "500kB", "--horizon", "1h") == 0
    found = result(capsys)
    assert (found["horizon_s"], found["response_bytes"]) == (3600.0, 500_000)
    keep, *others = found["offers"]
    assert (keep["name"], keep["moves"], keep["gain"], keep["way"], keep["net"]) == ("keep", [], 0.0, 0.0, 0.0)
    assert [other["name"] for other in others][-2:] == ["reassign", "full"]
    for one in others:
        assert one["gain_per_s"] == pytest.approx(keep["cost_per_s"] - one["cost_per_s"])
        assert one["net"] == pytest.approx(one["gain_per_s"] * 3600 - one["way"])
        assert one["bytes"] == sum(SIZES[move["topic"]] for move in one["moves"])
        assert one["way"] >= sum(SIZES[move["topic"]] / 500_000 for move in one["moves"])
    assert found["recommendation"] in [one["name"] for one in found["offers"]]


def test_a_short_horizon_or_small_responses_make_moves_too_dear(old: Path, tmp_path: Path, capsys: Capture) -> None:
    new = demand(tmp_path, NEW, sizes=SIZES)
    assert replan(old, new, "--horizon", "1s", "--response", "1B") == 0
    shown = capsys.readouterr().out
    assert "Ours: nothing on offer gains more over 1 s than it costs." in shown
    assert shown.endswith("Recommendation: keep the plan.\n")
    assert "A move counts as (its bytes / 1 B) requests over its hops" in shown
    assert "reassign." in shown  # the rule of thumb looks at the demand alone


def test_what_is_asked_for_is_written_whatever_the_advice(old: Path, tmp_path: Path, capsys: Capture) -> None:
    new = demand(tmp_path, NEW, sizes=SIZES)
    assert replan(old, new, "--full", "--horizon", "1s", "--response", "1B", "--json") == 0
    found = result(capsys)
    assert found["recommendation"] == "keep"
    assert [one["name"] for one in found["offers"]] == ["keep", "full"]
    assert len(found["plan"]["moves"]) == 4


def test_reassignment_keeps_the_stores(old: Path, tmp_path: Path, capsys: Capture) -> None:
    assert replan(old, demand(tmp_path, NEW), "--reassign", "--json") == 0
    found = result(capsys)
    assert found["plan"]["stores"] == json.loads(old.read_text())["stores"]
    assert found["offers"][-1]["opened"] == found["offers"][-1]["closed"] == []
    assert found["offers"][-1]["gain"] > 0.4


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_a_budget_of_moves(old: Path, tmp_path: Path, capsys: Capture, moves: int) -> None:
    for more in ((), ("--reassign",)):
        assert replan(old, demand(tmp_path, NEW), "--moves", str(moves), "--json", *more) == 0
        found = result(capsys)
        assert len(found["plan"]["moves"]) <= moves
        assert found["offers"][1]["gain"] >= 0
        if more:
            assert found["offers"][1]["opened"] == []


def test_a_plan_that_does_not_say_its_demand_has_no_rule_of_thumb(old: Path, tmp_path: Path, capsys: Capture) -> None:
    old.write_text(write_plan(msgspec.structs.replace(read_plan(old.read_text(), "old"), demand=None)))
    assert replan(old, demand(tmp_path, NEW)) == 0
    assert "the plan does not say what demand it was made for" in capsys.readouterr().out


def test_topics_come_and_stay(old: Path, tmp_path: Path, capsys: Capture) -> None:
    """c is no longer asked for and still kept; d is new, and needs more room than the plan had."""
    rates = {"a": OLD["a"], "b": OLD["b"], "d": {"6": 5}}
    assert replan(old, demand(tmp_path, rates)) == 2
    assert "2 more than the largest 3 stores hold" in capsys.readouterr().err
    limits, out = tmp_path / "limits.toml", tmp_path / "new.json"
    limits.write_text("stores = 3\ncapacity = 3\nmin_replicas = 2\n")
    assert replan(old, demand(tmp_path, rates), "--limits", str(limits), "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "Topic 'c' is not in the demand; nobody asks, and it is still kept." in shown
    assert "  least " in shown
    found = read_plan(out.read_text(), "new.json")
    assert set(found.replicas) == {"a", "b", "c", "d"}
    assert all(found.replicas.values())
    assert [move.source for move in found.moves if move.topic == "d"] == [None] * len(found.replicas["d"])
    assert found.limits.capacity == 3


def test_limits_that_became_tighter_are_kept(old: Path, tmp_path: Path, capsys: Capture) -> None:
    """The old plan cannot stay, and no reassignment either: the store is to go."""
    before = read_plan(old.read_text(), "old")
    store = before.stores[0]
    other = next(broker for broker in before.brokers if broker not in before.stores)
    limits, out = tmp_path / "limits.toml", tmp_path / "new.json"
    for text, reason in (
        (f'barred = ["{store}"]\nstores = 3\ncapacity = 2\nmin_replicas = 2\n', f"broker '{store}' is barred"),
        ("stores = 2\ncapacity = 3\nmin_replicas = 2\n", "3 stores are 1 too many"),
        (
            f'pinned_stores = ["{other}"]\nstores = 3\ncapacity = 2\nmin_replicas = 2\n',
            f"broker '{other}' is pinned and has no store",
        ),
    ):
        limits.write_text(text)
        assert replan(old, demand(tmp_path, OLD), "--limits", str(limits), "--out", str(out)) == 0
        shown = capsys.readouterr().out
        assert f"The old plan cannot stay: {reason}" in shown
        assert "Recommendation: full, " in shown
        found = read_plan(out.read_text(), "new.json")
        assert store not in found.stores or "barred" not in text
        assert other in found.stores or "pinned" not in text
        assert len(found.stores) <= found.limits.stores
        assert replan(old, demand(tmp_path, OLD), "--limits", str(limits), "--reassign") == 2
        assert "try --full" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["wrr", "best"])
def test_a_number_of_stores_that_follows_from_the_demand_may_change(
    tmp_path: Path, capsys: Capture, algorithm: str
) -> None:
    """Weights of 4 : 1 want five slots, alike ones two, and back; the reassignment is offered where it can be."""
    skewed, alike = {"a": {"1": 4}, "b": {"6": 1}}, {"a": {"1": 4}, "b": {"6": 4}}
    for first, second, names in (
        (skewed, alike, ["keep", "reassign", "full"]),
        (alike, skewed, ["keep", "full"]),
    ):
        file = tmp_path / "plan.json"
        words = ["--capacity", "1", "--min-replicas", "1", "--algorithm", algorithm, "--out", str(file)]
        network = ["--topology", "walkthrough", "--demand", str(demand(tmp_path, first))]
        assert run(VERBS, ["plan", *network, *words]) == 0
        capsys.readouterr()
        assert replan(file, demand(tmp_path, second), "--json") == 0
        assert [one["name"] for one in result(capsys)["offers"]] == names


def test_a_small_gain_is_not_worth_moving(tmp_path: Path, capsys: Capture) -> None:
    """Two stores of one topic each: to change places would save 6 of 1006 requests·hops/s."""
    limits, file = tmp_path / "limits.toml", tmp_path / "plan.json"
    limits.write_text('stores = 2\ncapacity = 1\npinned_stores = ["1", "2"]\n')
    first = demand(tmp_path, {"a": {"1": 500, "2": 499}, "b": {"1": 499, "2": 500}})
    words = ["--topology", "walkthrough", "--demand", str(first), "--limits", str(limits), "--out", str(file)]
    assert run(VERBS, ["plan", *words]) == 0
    assert read_plan(file.read_text(), "plan").replicas == {"a": ("1",), "b": ("2",)}
    second = demand(tmp_path, {"a": {"1": 500, "2": 503}, "b": {"1": 503, "2": 500}})
    capsys.readouterr()
    assert replan(file, second) == 0
    shown = capsys.readouterr().out
    assert "reassign 0.499 0.6 %" in " ".join(shown.split())
    assert "Ours: what is on offer gains too little (1 % is the least, " in shown
    assert shown.endswith("Recommendation: keep the plan.\n")


def test_a_plan_that_survives_losses_is_not_given_up_for_distance(tmp_path: Path, capsys: Capture) -> None:
    """A new plan by wrr, which knows no losses, is nearer and worse after one."""
    file = tmp_path / "safe.json"
    words = ["--stores", "3", "--capacity", "2", "--survive-loss", "--out", str(file)]
    assert run(VERBS, ["plan", "--topology", "walkthrough", "--demand", str(demand(tmp_path, OLD)), *words]) == 0
    file.write_text(changed(read_plan(file.read_text(), "safe"), algorithm="wrr"))
    capsys.readouterr()
    assert replan(file, demand(tmp_path, {**OLD, "c": {"4": 3, "5": 3.5}}), "--json") == 0
    found = result(capsys)
    assert found["offers"][-1]["gain"] > 0.1
    assert found["recommendation"] == "keep"
    limits = tmp_path / "limits.toml"
    limits.write_text("stores = 2\ncapacity = 3\nsurvive_loss = true\n")  # and with one store less nothing is as safe
    assert replan(file, demand(tmp_path, OLD), "--limits", str(limits), "--json") == 0
    assert result(capsys)["recommendation"] == "full"


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--full", "--reassign"], "--full: stores move or stay; leave out --full or --reassign"),
        (["--full", "--moves", "3"], "--moves: a full plan has no budget; leave out --full"),
        (["--moves", "-1"], "--moves: must be greater than or equal to 0"),
        (["--horizon", "soon"], "--horizon: 'soon' is not a duration"),
        (["--horizon", "0s"], "--horizon: must be longer than nothing, as in 7d"),
        (["--response", "small"], "--response: 'small' is not a size"),
        (["--response", "0B"], "--response: must be at least one byte"),
        (["--response", "1kB"], "--response: needs the size of every topic in the demand; 'a' has none"),
        (["--topology", "ring:5"], "stores: the plan has a store at '"),
        (["--topology", "moon"], "--topology: 'moon' is neither a file"),
    ],
)
def test_wrong_options(old: Path, tmp_path: Path, capsys: Capture, arguments: list[str], sentence: str) -> None:
    assert replan(old, demand(tmp_path, NEW), *arguments) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


def changed(plan: Plan, **fields: Any) -> str:
    return write_plan(msgspec.structs.replace(plan, **fields))


def test_bad_plans_are_one_sentence_with_the_file(old: Path, tmp_path: Path, capsys: Capture) -> None:
    good = read_plan(old.read_text(), "old")
    text = old.read_text()
    bad = tmp_path / "bad.json"
    for content in ("", "[]"):
        bad.write_text(content)
        assert replan(bad, demand(tmp_path, NEW)) == 2
        told = f"{str(bad)!r} is not a plan; name a file that 'latecomer plan --out' wrote"
        assert capsys.readouterr().err == f"latecomer: --plan: {told}\n"
    for content, sentence in (
        (text[: len(text) // 2], "plan: not a plan: "),
        (changed(good, version=99), "version: a plan of version 99"),
        (changed(good, stores=("9",)), "stores: the store '9' is not among the brokers of the plan"),
        (changed(good, replicas={"a": ("2",)}), "replicas.a: '2' is not among the stores of the plan"),
        (changed(good, topology="gone.jsonl"), "name another with --topology"),
        (changed(good, algorithm="magic"), "algorithm: there is no 'magic'"),
        (changed(good, algorithm="grd_opt"), "algorithm: grd_opt is a yardstick that keeps no limits"),
    ):
        bad.write_text(content)
        assert replan(bad, demand(tmp_path, NEW)) == 2
        shown = capsys.readouterr().err
        assert sentence in shown
        assert shown.startswith(f"latecomer: {bad}:")
        assert shown.count("\n") == 1


def test_bad_demand(old: Path, tmp_path: Path, capsys: Capture) -> None:
    for rates, sentence in (
        ({"a": {"moon": 1}}, "rates.a: there is no broker 'moon' in the network"),
        ({"a": {"1": -1}}, "rates.a.1: a rate of -1.0"),
        ({}, "topics: demand without topics"),
    ):
        file = demand(tmp_path, rates)
        assert replan(old, file) == 2
        shown = capsys.readouterr().err
        assert shown.startswith(f"latecomer: {file}: {sentence}")
        assert shown.count("\n") == 1
