"""The guide's example of an algorithm of one's own is one file, and everything takes it from the registry."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.planner.algorithms import ALGORITHMS, plan_with, reassign
from latecomer.planner.legality import Infeasible, check
from tests.planner.limited import limited

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "plan.md"


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (code,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "near.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("near", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "near", module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(ALGORITHMS, "near", module.Near())
    return module


def test_it_keeps_all_limits_or_says_which_not(near: ModuleType) -> None:
    made = 0
    for seed in range(150):
        problem = limited(seed)
        try:
            found = plan_with(problem, near.Near())
        except Infeasible:
            continue
        made += 1
        assert check(problem, found) == []
        assert reassign(problem, found.stores, near.Near()) == found
    assert made > 60


def test_the_command_line_takes_it_from_the_registry(
    near: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand, out = tmp_path / "demand.csv", tmp_path / "plan.json"
    demand.write_text("topic,broker,rate\na,1,3\nb,6,2\n")
    words = ["plan", "--topology", "walkthrough", "--demand", str(demand), "--stores", "2", "--capacity", "1"]
    assert run(VERBS, [*words, "--algorithm", "near", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["algorithm"] == "near"
    assert run(VERBS, [*words, "--json"]) == 0
    names = [one["algorithm"] for one in json.loads(capsys.readouterr().out)["others"]]
    assert names == ["rnd", "seq", "wrr", "near", "grd_opt"]
    assert run(VERBS, ["replan", "--plan", str(out), "--demand", str(demand), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recommendation"] == "keep"
