"""`--json` of every verb that has it, with stand-ins for the work: what is printed is JSON, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from latecomer.cli.as_json import as_json
from latecomer.cli.main import VERBS, application, run
from latecomer.model.applied import Applied, plan_id, write_record
from latecomer.model.plan import Plan, Prediction, write_plan
from latecomer.model.topology_generators import line
from latecomer.runtime.store_views import StoresView
from tests.unit.admin_hand import answering, token_file
from tests.unit.example import example, is_like

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
PLAN = Plan("line:5", line(5).ids(), "wrr", ("b1",), {"t/#": ("b1",)}, Prediction("wrr", 2, 4, 0.5))
SCENARIO = Path(__file__).parents[2] / "scenarios" / "walkthrough.toml"


def verbs_with_json() -> list[str]:
    """As the command line itself knows them, subcommands included."""
    return [name for verb, _ in VERBS for name in _with_json(typer.main.get_command(application(VERBS, verb)), verb)]


def _with_json(app: Any, verb: str) -> list[str]:
    command = app.commands[verb]
    commands = {verb: command} | {f"{verb} {name}": one for name, one in getattr(command, "commands", {}).items()}
    return [name for name, one in commands.items() if any("--json" in param.opts for param in one.params)]


class Desk:
    """Where a verb finds stand-ins."""

    def __init__(self, patch: Patch, folder: Path, capsys: Capture) -> None:
        self.patch = patch
        self.folder = folder
        self._capsys = capsys

    def no_spark(self, module: str) -> None:
        self.patch.setattr(f"latecomer.cli.{module}.opened", lambda *_: nullcontext())

    def result(self, function: str, value: Any) -> None:
        self.patch.setattr(function, lambda *_, **__: value)

    def printed(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert run(VERBS, [*words, "--json"]) == code
        said = self._capsys.readouterr().out
        json.loads(said)
        return said

    def file(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def analyze(desk: Desk) -> None:
    from latecomer.pipeline.job import Analysis

    desk.no_spark("analyze")
    desk.result("latecomer.pipeline.job.analyze", example(Analysis))
    desk.result("latecomer.pipeline.log.segment_names", ["one"])
    said = desk.printed("analyze", str(desk.folder))
    assert is_like(Analysis, said)
    assert json.loads(said)["path"] == "a/path"


def plan(desk: Desk) -> None:
    from latecomer.cli.plan_work import Work

    desk.result("latecomer.cli.plan_work.make_plan", Work(PLAN, None, None))  # type: ignore[arg-type]
    demand = desk.file("demand.csv", "topic,broker,rate\na,1,2\n")
    assert is_like(Plan, desk.printed("plan", "--topology", "tree:7", "--demand", str(demand)))


def replan(desk: Desk) -> None:
    from latecomer.cli.replan_work import Replan

    desk.result("latecomer.cli.replan_work.make_replan", (example(Replan), None, None))
    demand = desk.file("demand.csv", "topic,broker,rate\nt/#,b1,2\n")
    old = desk.file("plan.json", write_plan(PLAN))
    assert is_like(Replan, desk.printed("replan", "--plan", str(old), "--demand", str(demand), "--topology", "line:5"))


def apply(desk: Desk) -> None:
    from latecomer.cli.apply_work import Step

    desk.result("latecomer.cli.apply.read_live", SimpleNamespace(running=True))
    desk.result("latecomer.cli.apply.check_plan", ())
    desk.result("latecomer.cli.apply.survey", SimpleNamespace(stores={}))
    desk.result("latecomer.cli.apply._remarks", ())
    desk.result("latecomer.cli.apply.check_room", None)
    desk.result("latecomer.cli.apply.steps_to", [example(Step)])
    desk.result("latecomer.cli.apply.carry_out", example(Applied))
    file = str(desk.file("plan.json", write_plan(PLAN)))
    assert "steps" in desk.printed("apply", file)
    assert is_like(Applied, desk.printed("apply", file, "--yes"))


def verify(desk: Desk) -> None:
    from latecomer.model.applied import Verdict

    links = tuple((link.a, link.b) for link in line(5).links)
    desk.no_spark("verify")
    desk.result("latecomer.pipeline.log.find_log", SimpleNamespace(segments=()))
    desk.result("latecomer.pipeline.job.measure", SimpleNamespace(window=SimpleNamespace(since_us=1, until_us=2)))
    desk.result("latecomer.cli.verify._counts", ({}, 0))
    desk.result("latecomer.cli.verify.verdict", example(Verdict))
    file = desk.file("plan.json", write_plan(PLAN))
    desk.file("plan.applied.json", write_record(Applied(plan_id(PLAN), "net", 1, 2, {}, {}, (), links)))
    assert is_like(Verdict, desk.printed("verify", str(file), "--log", str(desk.folder)))


def stores(desk: Desk) -> None:
    with answering(lambda path, _: (200, example(StoresView))) as url:
        said = desk.printed("stores", "--admin", url, "--token-file", str(token_file(desk.folder)))
    assert is_like(StoresView, json.dumps(json.loads(said)[0]))


def checkins(desk: Desk) -> None:
    from latecomer.pipeline.checkins_job import Counts

    desk.no_spark("checkins")
    desk.result("latecomer.pipeline.checkins_job.analyse_checkins", SimpleNamespace(counts=example(Counts)))
    assert is_like(Counts, desk.printed("checkins", str(desk.file("checkins.csv"))))


def synth(desk: Desk) -> None:
    from latecomer.pipeline.synth_job import Made

    desk.no_spark("synth")
    desk.result("latecomer.pipeline.synth_job.synthesize", example(Made))
    assert is_like(Made, desk.printed("synth", "--users", "9", "--months", "2", "--out", str(desk.folder / "out")))


def movement(desk: Desk) -> None:
    from latecomer.pipeline.movement_job import Outcome, Report

    desk.no_spark("movement")
    desk.result("latecomer.pipeline.movement_job.predict_movement", example(Outcome))
    assert is_like(Report, desk.printed("movement", str(desk.file("stays.csv"))))


def simulate(desk: Desk) -> None:
    from latecomer.sim.report import Result

    assert is_like(Result, desk.printed("simulate", str(SCENARIO)))


def reproduce(desk: Desk) -> None:
    from latecomer.experiments.verdict import Verdict

    desk.patch.setattr(
        "latecomer.experiments.papers.reproduce",
        lambda claim, *_, **__: SimpleNamespace(claim=claim, verdict=example(Verdict)),
    )
    said = desk.printed("reproduce", "S1", "--quick", "--jobs", "1", "--out", str(desk.folder / "out"))
    assert is_like(Verdict, json.dumps(json.loads(said)[0]))


CASES: dict[str, Callable[[Desk], None]] = {
    case.__name__: case
    for case in (
        analyze, plan, replan, apply, verify, stores, checkins, synth, movement, simulate, reproduce,
    )
}  # fmt: skip


@pytest.mark.parametrize("verb", verbs_with_json())
def test_a_result_is_printed_as_json_and_nothing_else(
    verb: str, monkeypatch: Patch, tmp_path: Path, capsys: Capture
) -> None:
    assert verb in CASES, f"add how '{verb} --json' is tried to CASES"
    CASES[verb](Desk(monkeypatch, tmp_path, capsys))


def test_a_path_is_text_and_what_has_no_form_in_json_is_named() -> None:
    assert json.loads(as_json({"where": Path("a") / "b"})) == {"where": "a/b"}
    with pytest.raises(NotImplementedError, match="object has no form in JSON"):
        as_json(object())
