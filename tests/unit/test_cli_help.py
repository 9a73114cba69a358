"""What `--help` and wrong command lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console

from latecomer.cli.help import EXAMPLES, PANELS
from latecomer.cli.main import VERBS, application, run
from latecomer.cli.plan_tables import remark
from latecomer.pipeline.numbers import rate

Capture = pytest.CaptureFixture[str]
NAMES = [name for name, _ in VERBS]
GROUPS = {"store", "user", "overlay"}
"""They do nothing without a verb of their own."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every verb, and every verb of a verb."""
    for name in NAMES:
        command: Any = typer.main.get_command(application(VERBS, name)).commands[name]  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        if not inner or getattr(command, "invoke_without_command", False):
            yield name, command
        for other, found in inner.items():
            yield f"{name} {other}", found


def test_every_verb_has_an_example_and_a_group() -> None:
    assert {name for name, _ in commands()} | GROUPS == set(EXAMPLES)
    assert sorted(NAMES) == sorted(name for group in PANELS.values() for name in group)


def test_every_option_of_an_example_is_one(capsys: Capture) -> None:
    known = {name: {option for param in command.params for option in param.opts} for name, command in commands()}
    for name, example in EXAMPLES.items():
        used = {word for word in example.split() if word.startswith("--")}
        assert name in GROUPS or used <= known[name], name


@pytest.mark.parametrize("verb", [*EXAMPLES, ""])
def test_help_shows_no_types_of_python(verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run(VERBS, [*verb.split(), "-h"]) == 0
    said = capsys.readouterr().out
    for leaked in ("<bool>", "<list[", "<int", "<str>", "<path>", "...}", "[[", "......"):
        assert leaked not in said, leaked
    assert EXAMPLES.get(verb, "docs/reference/exit-codes.md").split("--")[0].rstrip() in said


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("sub", "sub [OPTIONS] FILTER..."),
        ("pub", "pub [OPTIONS] TOPIC [MESSAGE]"),
        ("store verify", "store verify [OPTIONS] [DIR]"),
        ("movement", "movement [OPTIONS] [FILE]..."),
        ("reproduce", "reproduce [OPTIONS] [PAPER|CLAIM]..."),
    ],
)
def test_the_usage_line(words: str, usage: str, capsys: Capture) -> None:
    assert run(VERBS, [*words.split(), "--help"]) == 0
    assert f"Usage: latecomer {usage} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pub a b --qos 3", "--qos: must be less than or equal to 2. See 'latecomer pub --help'."),
        ("sub a --format xml", "--format: 'xml' is not one of 'plain', 'verbose', 'json'. See 'latecomer sub --help'."),
        ("soak --seeds many", "--seeds: must be a whole number. See 'latecomer soak --help'."),
        ("sub", "Missing argument 'FILTER'. See 'latecomer sub --help'."),
        ("pub a/# b", "TOPIC: a topic name must not contain the wildcard '#' at character 3 in 'a/#'"),
        ("plan --topology tree:abc --demand x", "--topology: tree: brokers must be a whole number, not 'abc'"),
        (
            f"replan --plan {__file__} --demand x",
            f"--plan: {__file__!r} is not a plan; name a file that 'latecomer plan --out' wrote",
        ),
    ],
)
def test_a_wrong_value_is_told_in_our_words(words: str, sentence: str, capsys: Capture) -> None:
    assert run(VERBS, words.split()) == 2
    assert capsys.readouterr().err == f"latecomer: {sentence}\n"


@pytest.mark.parametrize(
    ("line", "found"), [("latecomer wa", "watch"), ("latecomer sub --whe", "--where"), ("latecomer user ad", "add")]
)
def test_a_shell_completes_verbs_and_their_options(line: str, found: str) -> None:
    asked = {"_LATECOMER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    script = Path(sys.executable).with_name("latecomer")
    done = subprocess.run([script], env=os.environ | asked, capture_output=True, text=True, check=True)
    assert found in done.stdout.split()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.000_02, "0.00002"), (1.379, "1.38"), (913.25, "913"), (76_560.4, "76,560")],
)
def test_a_rate_is_never_written_with_an_exponent(value: float, shown: str) -> None:
    assert rate(value) == shown


@pytest.mark.parametrize(("terminal", "lines"), [(True, 3), (False, 1)])
def test_a_remark_of_a_plan_is_indented_on_every_line(terminal: bool, lines: int) -> None:
    said = StringIO()
    remark(Console(file=said, width=40, force_terminal=terminal, no_color=True), "word " * 20)
    shown = said.getvalue().rstrip().splitlines()
    assert len(shown) == lines
    assert all(line.startswith("  word") for line in shown)
