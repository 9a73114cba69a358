"""Which statements of the specifications a test is about: `@v5("MQTT-3.1.2-24")`, `@v311("MQTT-3.1.2-24")`.

The numbers of the two versions overlap and mean different things, so there are two decorators. `page.py` reads them
from the source; here they only check that the statement exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.conformance.statements_v5 import STATEMENTS as V5_STATEMENTS
from tests.conformance.statements_v311 import STATEMENTS as V311_STATEMENTS

Test = TypeVar("Test", bound=Callable[..., None])


def cites(known: dict[str, tuple[str, str]], statements: tuple[str, ...]) -> Callable[[Test], Test]:
    for statement in statements:
        assert statement in known, f"there is no statement {statement}"
    return lambda test: test


def v5(*statements: str) -> Callable[[Test], Test]:
    return cites(V5_STATEMENTS, statements)


def v311(*statements: str) -> Callable[[Test], Test]:
    return cites(V311_STATEMENTS, statements)


both = pytest.mark.parametrize("version", [4, 5], ids=["3.1.1", "5"])
"""A test of what the two versions have in common."""
