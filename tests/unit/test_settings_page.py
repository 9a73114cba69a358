"""The page that documents the settings names each of them, with the default it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.core.settings import BrokerSettings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scenario.md"


ELSEWHERE = ("routing", "hand_over", "homes")
"""Routing has a table of its own; sessions do not move in scenarios."""


@pytest.mark.parametrize("field", [name for name in BrokerSettings.__struct_fields__ if name not in ELSEWHERE])
def test_every_setting_is_documented(field: str) -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if f"`{field.removesuffix('_us')}`" in line]
    assert rows, f"docs/reference/scenario.md does not name {field}"
    default = getattr(BrokerSettings(), field)
    texts = {f'"{default}"', str(default)}
    if field.endswith("_us"):
        texts = {
            f'"{default // size}{unit}"'
            for unit, size in (("ms", 1000), ("s", 10**6), ("m", 60 * 10**6))
            if default % size == 0
        }
    assert any(text in row for row in rows for text in texts), f"{rows} does not have the default {default}"
