"""`--json` of every verb that has it, with stand-ins for the work: what is printed is JSON, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import typer.main

from latecomer.cli.as_json import as_json
from latecomer.cli.main import VERBS, application, run
from latecomer.model.applied import Applied, plan_id, write_record
from latecomer.model.plan import Plan, Prediction, write_plan
from latecomer.model.topology_generators import line
from latecomer.runtime.admin_views import Overview, Page, TreeView
from latecomer.runtime.homes_views import HomesView
from latecomer.runtime.network_views import MemberView, NetworkView
from latecomer.runtime.overlay_views import OverlayView, PlaceView
from latecomer.runtime.predicting import ModelView
from latecomer.runtime.session_views import SessionView
from latecomer.runtime.store_views import StoresView
from tests.unit.admin_hand import answering, token_file
from tests.unit.example import example, is_like

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
PLAN = Plan("line:5", line(5).ids(), "wrr", ("b1",), {"t/#": ("b1",)}, Prediction("wrr", 2, 4, 0.5))
VIEW = SessionView("b1", "c", "here", expiry_s=3600, queue_messages=2, queue_bytes=300)
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
    desk.result(
        "latecomer.pipeline.log.find_log", SimpleNamespace(segments=(), within=lambda window: SimpleNamespace(bytes=0))
    )
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


def sessions(desk: Desk) -> None:
    with answering(lambda path, _: (200, Page((VIEW,)))) as url:
        said = desk.printed("sessions", "--admin", url, "--token-file", str(token_file(desk.folder)))
    assert is_like(SessionView, json.dumps(json.loads(said)[0]))


def sessions_move(desk: Desk) -> None:
    from latecomer.cli.session_work import Moved

    moved = Moved("c", "b1", "b2", True, 0.25)
    desk.result("latecomer.cli.sessions.found_doors", [])
    desk.result("latecomer.cli.sessions.move", moved)
    said = desk.printed("sessions", "move", "c", "b2")
    assert (is_like(Moved, said), json.loads(said)["from"]) == (True, "b1")
    desk.result("latecomer.cli.sessions.move", msgspec.structs.replace(moved, moved=False, problem="it stays"))
    assert json.loads(desk.printed("sessions", "move", "c", "b2", code=1))["problem"] == "it stays"


def sessions_release(desk: Desk) -> None:
    _told(desk, "release", "released")


def sessions_end(desk: Desk) -> None:
    _told(desk, "end", "ended")


def _told(desk: Desk, verb: str, done: str) -> None:
    """One broker does it, and another knows no such client."""
    unknown = (404, {"problem": "no client 'c' at this broker"})
    with answering(lambda *_: (200, {"done": ""})) as url, answering(lambda *_: unknown) as other:
        doors = ("--admin", url, "--admin", other, "--token-file", str(token_file(desk.folder)))
        assert json.loads(desk.printed("sessions", verb, "c", *doors)) == {"client": "c", done: [url]}


def drain(desk: Desk) -> None:
    from latecomer.cli.drain_work import Drained

    with _broker({"c": VIEW, "d": msgspec.structs.replace(VIEW, client="d", durable=False)}) as url:
        doors = ("--admin", url, "--token-file", str(token_file(desk.folder)))
        said = desk.printed("drain", "b1", *doors)
        found = json.loads(said)
        assert is_like(Drained, said)
        assert (found["to"], found["moved"], found["disconnected"], found["left"]) == (["b2"], 1, 1, [])
        assert json.loads(desk.printed("drain", "b1", "--abort", *doors))["draining"] is False
    with _broker({"c": VIEW}, stays=True) as url:
        doors = ("--admin", url, "--token-file", str(token_file(desk.folder)))
        left = json.loads(desk.printed("drain", "b1", "--wait", "0", *doors, code=1))["left"]
    assert left == [{"client": "c", "why": "the other broker has not fetched it"}]


def join(desk: Desk) -> None:
    from latecomer.cli.join import Joined

    for function, value in {
        "found_doors": [],
        "views_of": ([], []),
        "chosen": [],
        "_elsewhere": example(Joined),
    }.items():
        desk.result(f"latecomer.cli.join.{function}", value)
    assert is_like(Joined, desk.printed("join", "b7", "--admin", "http://localhost:1"))


def leave(desk: Desk) -> None:
    from latecomer.cli.leave_work import Left

    work = SimpleNamespace(begin=lambda: None, carry_out=lambda gone: None, result=lambda: example(Left))
    desk.result("latecomer.cli.leave.found_doors", [])
    desk.result("latecomer.cli.leave.leave_of", work)
    assert is_like(Left, desk.printed("leave", "b7", "--admin", "http://localhost:1"))


def _broker(sessions: dict[str, SessionView], *, stays: bool = False) -> AbstractContextManager[str]:
    """A broker b1, linked with b2, that lets sessions go when it is asked, unless they stay."""
    members = (MemberView("b1", True), MemberView("b2", True), MemberView("b3", False))
    network = NetworkView("b1", "net", "v", True, "b1", members, (), ())

    def answer(path: str, body: bytes) -> tuple[int, object]:
        name = path.removeprefix("/api/v1/").partition("?")[0]
        if name in ("move-session", "disconnect") and not stays:
            del sessions[json.loads(body)["client"]]
        told: dict[str, object] = {
            "overview": Overview("b1", "net", "", 1, 1.0, "", TreeView("v", True, ()), (), {"sessions": len(sessions)}),
            "network": network,
            "sessions": Page(tuple(sessions.values())),
        }
        return 200, told.get(name, {"done": ""})

    return answering(answer)


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


MODEL = ModelView("b1", "loaded", 3, 2, 5)


def movement_model(desk: Desk) -> None:
    _model(desk, "movement-model")


def movement_model_load(desk: Desk) -> None:
    _model(desk, "movement-model", "load", str(desk.file("clients.movement")))


def movement_model_remove(desk: Desk) -> None:
    _model(desk, "movement-model", "remove")


def _model(desk: Desk, *words: str) -> None:
    with answering(lambda *_: (200, MODEL)) as url:
        said = desk.printed(*words, "--admin", url, "--token-file", str(token_file(desk.folder)))
    assert msgspec.json.decode(said, type=list[ModelView]) == [MODEL]


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


def demo(desk: Desk) -> None:
    from latecomer.cli.demo import DemoFigures

    desk.result("latecomer.cli.demo.Loop.run", example(DemoFigures))
    assert is_like(DemoFigures, desk.printed("demo"))


def overlay_plan(desk: Desk) -> None:
    import numpy as np

    from latecomer.cli.overlay import Planned
    from latecomer.model.overlay_plan import OverlayPlan

    desk.result("latecomer.planner.overlay.explain.plan_overlay", (example(OverlayPlan), np.arange(2)))
    demand = desk.file("demand.csv", "topic,broker,rate\nt,b1,1\n")
    wanted = desk.file("subscriptions.csv", "broker,topic\nb1,t\nb2,t\n")
    assert is_like(Planned, desk.printed("overlay", "plan", "--demand", str(demand), "--subscriptions", str(wanted)))


RING = msgspec.structs.replace(
    example(OverlayView), broker="b1", ready=True, waits_for=(), stamp="none", outcome="",
    places=(PlaceView("b1", 7, 512, ("b2",), False), PlaceView("b2", 9, 512, ("b1",), False)),
)  # fmt: skip


def overlay_show(desk: Desk) -> None:
    with answering(lambda path, _: (200, RING)) as url:
        said = desk.printed("overlay", "show", "--admin", url, "--token-file", str(token_file(desk.folder)))
    assert msgspec.json.decode(said, type=list[OverlayView]) == [RING]


def overlay_apply(desk: Desk) -> None:
    from latecomer.cli.overlay_live import Applied, Planned

    desk.result("latecomer.cli.overlay_live.propose", 0.25)
    ring = desk.file("ring.json", '{"positions": {"b1": 5, "b2": 9}}')
    with answering(lambda path, _: (200, RING)) as url:
        words = ("overlay", "apply", str(ring), "--admin", url, "--token-file", str(token_file(desk.folder)))
        assert msgspec.json.decode(desk.printed(*words), type=Planned).places == {"b1": 5, "b2": 9}
        done = msgspec.json.decode(desk.printed(*words, "--yes", "--measure", "0"), type=Applied)
    assert (done.places, done.seconds) == ({"b1": 5, "b2": 9}, 0.25)


def homes(desk: Desk) -> None:
    with answering(lambda path, _: (200, example(HomesView))) as url:
        said = desk.printed("homes", "--admin", url, "--token-file", str(token_file(desk.folder)))
    assert is_like(HomesView, json.dumps(json.loads(said)[0]))


def homes_advise(desk: Desk) -> None:
    from latecomer.pipeline.homes_job import HomesAdvice

    desk.no_spark("homes")
    desk.result("latecomer.pipeline.homes_job.held_of", None)
    desk.result("latecomer.pipeline.homes_job.advise", example(HomesAdvice))
    held = desk.file("subscriptions.csv", "client,broker,topic\nc,b1,t\nd,b2,t\n")
    assert is_like(HomesAdvice, desk.printed("homes", "advise", "--subscriptions", str(held)))


CASES: dict[str, Callable[[Desk], None]] = {
    case.__name__.replace("movement_model", "movement-model").replace("_", " "): case
    for case in (
        analyze, plan, replan, apply, verify, stores, checkins, synth, movement, simulate, reproduce, drain, demo,
        join, leave,
        sessions, sessions_move, sessions_release, sessions_end, overlay_plan, overlay_show, overlay_apply,
        homes, homes_advise,
        movement_model, movement_model_load, movement_model_remove,
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
