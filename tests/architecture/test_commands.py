"""Commands in README, guides and examples name options that there are, and files that a reader has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main

from latecomer.cli.main import VERBS, application

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]
FILE = re.compile(r"[\w./-]+\.(csv|toml|jsonl|graphml|parquet|txt|gz|pem|json|password|log|jpg)")
WRITTEN_BY = ("--out", "--output", "--plot", "--model", "--calibration")
OTHERS: dict[str, tuple[str, ...]] = {
    # Data sets of others: the page links to them. And files of the reader's own.
    "checkins.md": (
        "Gowalla_totalCheckins.txt.gz", "Gowalla_edges.txt.gz", "dataset_TIST2015_Checkins.txt",
        "dataset_TIST2015_POIs.txt", "checkins.parquet", "friends.parquet",
    ),
    "movement.md": ("checkins.parquet", "flights.parquet"),
    "start.md": ("app.log", "cat.jpg"),
    # Made on the page itself, from plan.md or by openssl and an editor.
    "apply.md": ("plan.json",),
    "operate.md": ("b7.toml",),
    "watch.md": ("plan.json",),
    "security.md": ("robot.password", "alice.password", "ca.pem", "b1.toml"),
}  # fmt: skip


@cache
def options(verb: str) -> dict[str, set[str]]:
    """The options of a verb, by subcommand; a verb without any is its own."""
    command: Any = typer.main.get_command(application(VERBS, verb)).commands[verb]  # type: ignore[attr-defined]
    inner = getattr(command, "commands", {"": command})
    if getattr(command, "invoke_without_command", False):
        inner = {"": command, **inner}
    return {name: {option for param in one.params for option in param.opts} for name, one in inner.items()}


def commands(page: Path) -> Iterator[list[str]]:
    """Command lines of code blocks, without remarks and the prompt; a backslash continues a line."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if (found := line.removeprefix("$ ")).startswith("latecomer "):
                yield shlex.split(found, comments=True)[1:]
    for line in re.findall(r"`latecomer ([^`]+)`", text) if page.parent.name == "examples" else ():
        yield shlex.split(line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_can_be_typed(page: Path) -> None:
    known = dict(VERBS)
    made = set(OTHERS.get(page.name, ()))
    for words in commands(page):
        verb, *rest = words
        if verb.startswith("-"):
            continue
        assert verb in known, words
        found = options(verb)
        allowed = found[rest[0]] if rest and rest[0] in found else found[""]
        used = {word.partition("=")[0] for word in rest if re.match(r"--\w", word)} - {"--help"}
        assert used <= allowed, f"{page.name}: {shlex.join(words)}"
        made |= {after for before, after in pairwise(rest) if before in WRITTEN_BY}
        for word in filter(FILE.fullmatch, rest):
            there = (ROOT / word).exists() or (ROOT / "examples" / word).exists()
            assert word in made or there, f"{page.name}: {word} is nowhere: {shlex.join(words)}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []
