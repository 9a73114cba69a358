"""`latecomer soak`: the last line, the exit code, and how a failure is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latecomer.cli import soak as module
from latecomer.cli.main import VERBS, run
from latecomer.sim import chaos
from latecomer.sim.chaos import Life
from latecomer.sim.checkers import Violation
from latecomer.sim.soak import LIVES, Verdict
from latecomer.sim.transcript import Transcript

Capture = pytest.CaptureFixture[str]


def verdict(seed: int, *violations: str) -> Verdict:
    return Verdict(seed, "4 brokers, 3 links, [red]forwarding", violations, 1000, 2000, 9, 1, 0)


def plant(monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict) -> None:
    def planted(start: int, seeds: int, jobs: int, clients: str, *, coverage: bool) -> Iterator[Verdict]:
        return iter(verdicts)

    monkeypatch.setattr(module, "soak", planted)


def test_seeds_that_keep_every_promise(capsys: Capture) -> None:
    assert run(VERBS, ["soak", "--seeds", "3", "--start", "5", "--jobs", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == "3 seeds, 0 failures"
    assert shown.err == "", "no progress bar where nobody watches"


def test_several_processes_live_the_same_seeds(capsys: Capture) -> None:
    said = []
    for jobs in ("1", "2"):
        assert run(VERBS, ["soak", "--seeds", "6", "--start", "0", "--clients", "plain", "--jobs", jobs]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[0].splitlines()[-1] == "6 seeds, 0 failures"


def test_a_failure_names_its_seed_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plant(monkeypatch, verdict(6), verdict(7, "1.0s lost: [b]c1", "2.0s twice", "3.0s order", "4.0s more"), verdict(8))
    assert run(VERBS, ["soak", "--seeds", "3", "--start", "6"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seed 7 failed (4 brokers, 3 links, [red]forwarding)",
        "  1.0s lost: [b]c1",
        "  2.0s twice",
        "  3.0s order",
        "  and 1 more",
        "  replay: latecomer soak --start 7 --seeds 1 --transcript",
        "3,000 publications accepted, 6,000 deliveries",
        "3 seeds, 1 failures",
    ]


def test_the_clock_draws_the_start_and_says_how_to_live_the_same_again(capsys: Capture) -> None:
    assert run(VERBS, ["soak", "--seeds", "2", "--jobs", "1", "--clients", "plain"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    command = first.partition("latecomer ")[2].split()
    assert command[:2] == ["soak", "--start"]
    assert run(VERBS, [*command, "--jobs", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == rest, "the same seeds, and nothing drawn"
    assert run(VERBS, ["soak", "--seeds", "1", "--transcript"]) == 2
    assert "add --start SEED" in capsys.readouterr().err


def test_many_failures_are_counted_and_not_all_told(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plant(monkeypatch, *[verdict(seed, "lost") for seed in range(module.SHOWN_MAX + 5)])
    assert run(VERBS, ["soak", "--seeds", "25"]) == 1
    shown = capsys.readouterr().out
    assert shown.count("replay:") == module.SHOWN_MAX
    assert shown.splitlines()[-1] == "25 seeds, 25 failures"


def test_whatever_stops_it_the_last_line_counts(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(start: int, seeds: int, jobs: int, clients: str, *, coverage: bool) -> Iterator[Verdict]:
        yield verdict(0)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "soak", interrupted)
    assert run(VERBS, ["soak"]) == 130
    assert capsys.readouterr().out.splitlines()[-1] == "1 seeds, 0 failures"


def test_a_crash_of_the_core_is_a_failure_of_its_seed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def crash(self: object) -> Life:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(chaos._Chaos, "run", crash)
    assert run(VERBS, ["soak", "--seeds", "1", "--start", "3"]) == 1
    shown = capsys.readouterr().out
    assert "seed 3 failed (crashed)" in shown
    assert "ZeroDivisionError: planted" in shown
    assert shown.splitlines()[-1] == "1 seeds, 1 failures"


def test_a_transcript_ends_like_a_soak(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def live(seed: int, transcript: Transcript) -> Life:
        transcript.say(1, "something happened")
        return Life(seed, "a short life", [Violation(2_000_000, "lost", "c1\x1b[2J never got it")])

    monkeypatch.setitem(LIVES, "plain", live)
    assert run(VERBS, ["soak", "--start", "3", "--seeds", "1", "--transcript"]) == 1
    step, summary, violation, last = capsys.readouterr().out.splitlines()
    assert step.endswith("something happened")
    assert summary.startswith("seed 3: a short life; digest ")
    assert violation == "2.000000s lost: c1\\x1b[2J never got it", "nothing steers the terminal"
    assert last == "1 seeds, 1 failures"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "0"], "--seeds: must be at least 1, not 0"),
        (["--start", "-1"], "--start: must not be negative, not -1"),
        (["--jobs", "-1"], "--jobs: must not be negative, not -1; 0 means one per core"),
        (["--seeds", "2", "--transcript"], "--transcript: shows one seed: add --seeds 1"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: list[str], sentence: str, capsys: Capture) -> None:
    assert run(VERBS, ["soak", *arguments]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"latecomer: {sentence}\n")
