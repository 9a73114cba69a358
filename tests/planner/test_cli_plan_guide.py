"""The guide's transcripts are what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "plan.md"


def transcripts() -> list[tuple[list[str], str]]:
    """Every command of the guide with what follows it."""
    blocks = re.findall(r"^```\n\$ (.+?)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(shlex.split(command), shown) for command, shown in blocks]


def words(text: str) -> list[str]:
    """Lines without the space around cells."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")]


def test_the_guide_tells_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = []
    for (program, *arguments), shown in transcripts():
        if program == "cat":
            Path(arguments[0]).write_text(shown, encoding="utf-8")
            continue
        assert program == "latecomer"
        run(VERBS, arguments)
        printed = capsys.readouterr()
        assert words(printed.out + printed.err) == words(shown)
        done.append(arguments[0])
    assert done == ["plan", "plan", "replan"]
    assert (tmp_path / "plan.svg").exists()
