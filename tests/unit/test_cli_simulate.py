"""`latecomer simulate` and `latecomer story`: what the user sees, and what the shell is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.eventlog import read_records
from latecomer.sim.runner import Passing, Run
from latecomer.sim.scenario_check import load, loads
from latecomer.sim.transcript import Transcript, plain

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).parents[2]
WALKTHROUGH = str(ROOT / "scenarios" / "walkthrough.toml")
FLAKY = ROOT / "scenarios" / "flaky_ring.toml"

TOO_SLOW = """\
name = "too slow"
duration = "1s"
limit = "2s"
[topology]
kind = "line"
brokers = 2
latency = "5s"
"""
"""Links slower than three heartbeats never settle: the network breaks its promise."""


def simulate(*arguments: str) -> int:
    return run(VERBS, ["simulate", *arguments])


def test_the_summary_tells_what_became_of_everything(capsys: Capture) -> None:
    assert simulate(WALKTHROUGH) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for word in ("walkthrough: 6 brokers, 5 links, seed 1", "accepted", "delivered", "lost", "duplicates",
                 "publication", "hop", "subscription entries", "routes", "longest queues"):  # fmt: skip
        assert word in shown.out
    assert shown.out.splitlines()[-1] == "All promises kept."


def test_the_result_as_json(capsys: Capture) -> None:
    assert simulate(WALKTHROUGH, "--json", "--digest", "--seed", "5") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["seed"], result["accepted"], result["delivered"], result["lost"]) == (5, 4, 5, 0)
    assert result["violations"] == []
    assert result["deliveries_by_hops"] == {"3": 5}
    assert len(result["digest"]) == 32


def test_a_transcript_has_every_step_and_a_story_the_interesting_ones(capsys: Capture) -> None:
    assert simulate(WALKTHROUGH, "--story") == 0
    story = capsys.readouterr().out
    assert "    2.003000  6 delivered 4.4.1 a/b to A (3 hops)\n" in story
    assert "alive" not in story.partition("walkthrough:")[0]
    assert simulate(WALKTHROUGH, "--transcript") == 0
    transcript = capsys.readouterr().out
    for word in ("hello", "alive", "link-states", "summary", "adopted", "complete", "done", "publication"):
        assert f"  {word}" in transcript


def test_json_and_a_transcript_cannot_both_have_standard_output(capsys: Capture) -> None:
    assert simulate(WALKTHROUGH, "--json", "--story") == 2
    assert capsys.readouterr().err.startswith("latecomer: --json: cannot share standard output")


def test_records_are_written_as_an_event_log(tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "log"
    assert simulate(WALKTHROUGH, "--records", str(log)) == 0
    kinds = Counter(record.kind.value for record in read_records(log))
    assert (kinds["published"], kinds["delivered"], kinds["started"]) == (4, 5, 6)
    assert simulate(WALKTHROUGH, "--records", str(log)) == 2
    assert "already holds an event log; name another directory" in capsys.readouterr().err


def test_a_broken_promise_is_exit_code_1_with_seed_and_replay_command(tmp_path: Path, capsys: Capture) -> None:
    scenario = tmp_path / "too slow.toml"
    scenario.write_text(TOO_SLOW)
    assert simulate(str(scenario), "--seed", "42", "--passing", "frames") == 1
    shown = capsys.readouterr().out
    assert "liveness" in shown
    replay = f"replay with: latecomer simulate '{scenario}' --seed 42 --passing frames\n"
    assert shown.endswith(replay)
    assert "with seed 42; " in shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[topology]\nkind = "lime"\n', ":2: topology.kind: there is no topology 'lime'; known are "),
        ("[topology\n", ":1: not TOML: expected ']' at the end of a table declaration"),
        (None, ": cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    text: str | None, sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    scenario = tmp_path / "s.toml"
    if text is not None:
        scenario.write_text(text)
    assert simulate(str(scenario)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"latecomer: {scenario}{sentence}")
    assert shown.err.count("\n") == 1


def test_an_interrupt_stops_cleanly_with_what_was_reached(tmp_path: Path) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text('duration = "24h"\n[topology]\nkind = "walkthrough"\n')
    command = [sys.executable, "-u", "-m", "latecomer", "simulate", str(scenario), "--story"]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert going.stdout is not None
    while not going.stdout.readline().endswith("the scenario begins\n"):
        pass
    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=60)
    assert going.returncode == 130
    assert ", interrupted\n" in out
    assert err == "latecomer: interrupted\n"


# -- a seed is a run


@cache
def digest(passing: Passing, seed: int = 7) -> str:
    return Run(load(FLAKY, seed), passing=passing, digest=True).play().digest


def test_messages_pass_as_objects_frames_or_bytes_with_the_same_result() -> None:
    assert digest("objects") == digest("frames") == digest("bytes") != digest("objects", 8)


def test_the_same_seed_is_the_same_run_in_any_process() -> None:
    command = [sys.executable, "-m", "latecomer", "simulate", str(FLAKY), "--json", "--digest"]
    found = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        found.append(json.loads(done.stdout)["digest"])
    assert found[0] == found[1] == digest("objects")


# -- what happens at the end


def test_a_broker_may_stay_dead_and_the_rest_agree() -> None:
    text = """\
    duration = "6s"
    [topology]
    kind = "ring"
    brokers = 5
    [[workload]]
    publishers = 5
    topics = { count = 5 }
    subscriptions = 20
    rate = 50
    [[fault]]
    at = "2s"
    kind = "crash"
    broker = "b2"
    """
    result = Run(loads(text, "s.toml", Path())).play()
    assert result.violations == ()
    assert list(result.tables) == ["b1", "b3", "b4", "b5"]
    assert result.delivered > 100
    assert result.events_kept > 0


def test_clients_in_vain_are_told_and_counted() -> None:
    text = """\
    duration = "3s"
    [topology]
    kind = "line"
    brokers = 2
    [[client]]
    id = "A"
    broker = "b2"
    [[fault]]
    at = "1s"
    kind = "crash"
    broker = "b2"
    for = "1s"
    [[step]]
    at = "1500ms"
    client = "A"
    subscribe = "a"
    [[step]]
    at = "1500ms"
    client = "A"
    publish = "a"
    """
    lines: list[str] = []
    result = Run(loads(text, "s.toml", Path()), transcript=Transcript(lines.append)).play()
    assert result.in_vain == 2
    assert result.good
    assert "    1.500000  A cannot subscribe: broker b2 does not answer" in lines
    assert "    1.500000  A cannot publish: broker b2 does not answer" in lines


def test_names_cannot_steer_a_terminal() -> None:
    assert plain("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    text = '[topology]\nkind = "given"\nbrokers = ["\\u001b[2J", "2"]\nlinks = [["\\u001b[2J", "2"]]\n'
    lines: list[str] = []
    Run(loads(text, "s.toml", Path()), transcript=Transcript(lines.append, chatter=True)).begin()
    assert lines
    assert all(line.isprintable() for line in lines)


# -- the story


def test_the_story_tells_what_happened(capsys: Capture) -> None:
    assert run(VERBS, ["story"]) == 0
    story = " ".join(capsys.readouterr().out.split())
    for sentence in (
        "all compute the same tree from it: 1-2, 2-3, 3-4, 3-5, 5-6; 1-6 stays in reserve.",
        "Word spreads along the tree: 6 → 5, 5 → 3, 3 → 2, 3 → 4, 2 → 1.",
        "Broker 6 need not tell 5, which it has told news/#: that covers it.",
        "It travels 1 → 2 → 3 → 5 → 6.",
        "in a new tree: 1-2, 2-3, 3-4, 1-6.",
        "They travel 1 → 6.",
        "Broker 1 keeps 3 events for broker 5, which is away.",
        "3 events for it alone: 1 → 2 → 3 → 5. Eve at broker 5 gets all 3, 3 hops away.",
        "Every accepted publication reached everybody who had asked for it, once and in order.",
    ):
        assert sentence in story
