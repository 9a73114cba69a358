"""A routing strategy in words: told to neighbours, printed in reports."""

from __future__ import annotations

from latecomer.model.ids import BrokerId


def describe(kind: str, covering: bool, advertisements: bool, root: BrokerId | None) -> str:
    words = [
        kind,
        "covering" if covering else "no covering",
        "advertisements" if advertisements else "no advertisements",
    ]
    return ", ".join(words if root is None else [*words, f"root {root}"])
