"""The page about limits and these tests speak of the same things."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
OPERATOR = "test_operator.py"
"""What operators do is in the guide, not among the limits."""
PAGE = HERE.parents[1] / "docs" / "reference" / "limits.md"


def test_the_page_names_every_test_and_no_other() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text("utf-8")))
    here = {
        path: path.read_text("utf-8") for path in HERE.glob("test_*.py") if path.name not in ("test_page.py", OPERATOR)
    }
    tests = {name for text in here.values() for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert named == tests
