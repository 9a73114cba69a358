"""The reference page and the example file follow from the schema."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from latecomer.cli.settings_page import PAGE, write_pages
from latecomer.model.access import parse_rules
from latecomer.runtime.settings import SHAPE, Settings, loads
from latecomer.runtime.settings_text import describe, example

DOCS = Path(__file__).parents[2] / "docs"

page, shown_example = cache(describe), cache(example)
"""Making them takes long: the sources of all settings are read."""


def test_the_page_is_the_one_that_the_schema_makes(tmp_path: Path) -> None:
    (tmp_path / PAGE.parent).mkdir()
    write_pages(tmp_path)
    made = (tmp_path / PAGE).read_text("utf-8")
    assert made == page()
    assert (DOCS / PAGE).read_text("utf-8") == made, "run: make docs"


@pytest.mark.parametrize("table", [table for table in SHAPE.tables if table])
def test_every_field_is_on_the_page_with_a_sentence(table: str) -> None:
    title = f"## `[[{table}]]`" if table in ("listeners", "link.neighbours") else f"## `[{table}]`"
    section = page().partition(title)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .*? \| .*? \| (.*) \|$", section, re.MULTILINE)
    assert rows
    assert all(len(meaning) > 5 for _, meaning in rows)


def test_the_example_says_what_holds_anyway() -> None:
    assert loads(shown_example()) == Settings()


def test_the_example_uncommented_is_what_holds_anyway() -> None:
    said = re.sub(r"^# (\w+ = [^…\n]+)$", r"\1", shown_example(), flags=re.MULTILINE)
    said = said.replace("# [core.routing]", "[core.routing]")
    in_tables = re.sub(r"^# \[\[[\w.]+\]\]$.*?(?=^\[)", "", said, flags=re.MULTILINE | re.DOTALL)
    assert "queue_bytes = 16777216\n" in in_tables
    assert loads(in_tables, "example") == Settings()


def test_the_guide_shows_settings_that_work(tmp_path: Path) -> None:
    guide = (DOCS / "guide" / "security.md").read_text("utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        loads(block, "guide", tmp_path, checked=False)
    rules = re.search(r"^```\n(# verb .*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert rules is not None
    shown = parse_rules(rules[1], "guide")
    assert shown.may_subscribe("alice", "c", "sensors/#")
    assert not shown.may_subscribe(None, "c", "sensors/#")
