"""`kill -9` in the middle of appending and letting go: nothing that was acknowledged is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.network.engine_kill import run

KILLS = 5 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))


@pytest.mark.parametrize("durability", ["power", "process"])
def test_nothing_acknowledged_is_missing_after_a_kill(durability: str, tmp_path: Path) -> None:
    told: list[int] = []
    run(tmp_path / "store", durability, KILLS, 1, lambda number, safe, found: told.append(found))
    assert len(told) == KILLS
    assert told[-1] > 0
