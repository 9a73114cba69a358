"""Every statement has a test or a reason, and the page says so."""

from __future__ import annotations

import re

import pytest

from tests.conformance import page

VERSIONS = pytest.mark.parametrize(("version", "total", "client_only"), [("v5", 251, 24), ("v311", 141, 13)])


@VERSIONS
def test_every_statement_is_known(version: str, total: int, client_only: int) -> None:
    known = page.statements(version)
    assert len(known) == total
    assert sum(who == "client" for who, _ in known.values()) == client_only


@VERSIONS
def test_every_statement_has_a_test_or_a_reason(version: str, total: int, client_only: int) -> None:
    known, cited, excused = page.statements(version), page.citations(version), page.reasons(version)
    assert [name for name in known if name not in cited and name not in excused] == []
    assert [name for name in excused if name in cited] == [], "what is tested needs no excuse"
    assert [name for name in [*cited, *excused] if name not in known] == []


@VERSIONS
def test_every_statement_is_on_the_page_once(version: str, total: int, client_only: int) -> None:
    five, _, three = page.PAGE.read_text("utf-8").partition("\n## MQTT 3.1.1\n")
    listed = re.findall(r"^\| (MQTT-[\d.]+-\d+) ", five if version == "v5" else three, re.MULTILINE)
    assert listed == list(page.statements(version))


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text("utf-8") == page.text(), "run tests/conformance/page.py"
