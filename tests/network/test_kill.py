"""A short run of tests/network/kill.py."""

from __future__ import annotations

from pathlib import Path

from tests.network.kill import trial


def test_brokers_are_killed_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    outcome = trial(tmp_path, kills=5, seed=7)
    assert all(row.acknowledged for row in outcome.rows)
    assert outcome.good, "\n".join(outcome.lines())
