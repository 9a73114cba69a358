"""A short run of tests/network/kill.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.kill import trial


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.long)])
def test_brokers_are_killed_and_nothing_acknowledged_is_lost(kills: int, tmp_path: Path) -> None:
    outcome = trial(tmp_path, kills=kills, seed=7)
    assert all(row.acknowledged for row in outcome.rows)
    assert outcome.good, "\n".join(outcome.lines())
