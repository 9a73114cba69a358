"""Settings × seeds: measured once, kept, resumed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from latecomer.experiments.grid import Measures, Setting, measure
from latecomer.experiments.trials import Placing

CALLS: list[tuple[int, int]] = []


class Squaring(Setting, frozen=True, kw_only=True):
    """A setting that says when it is measured."""

    SOURCES: ClassVar[tuple[str, ...]] = ("experiments/grid.py",)

    number: int

    def measure(self, seed: int) -> Measures:
        CALLS.append((self.number, seed))
        return {"square": float(self.number**2), "seed": float(seed)}


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()


THREE = [Squaring(number=number) for number in (1, 2, 3)]


def test_every_setting_is_measured_with_every_seed() -> None:
    table = measure(THREE, 4)
    assert sorted(CALLS) == [(number, seed) for number in (1, 2, 3) for seed in range(4)]
    assert table.values(THREE[2], "square") == [9.0] * 4
    assert table.values(THREE[0], "seed") == [0.0, 1.0, 2.0, 3.0]


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file.jsonl"
    measure(THREE[:2], 2, file)
    CALLS.clear()
    told: list[tuple[int, int]] = []
    table = measure(THREE, 3, file, told=lambda done, total: told.append((done, total)))
    assert sorted(CALLS) == [(1, 2), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert told[0] == (4, 9)
    assert told[-1] == (9, 9)
    assert table.values(THREE[1], "square") == [4.0] * 3


def test_half_a_line_is_measured_again_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    measure(THREE, 2, file)
    file.write_bytes(file.read_bytes()[:-20])
    CALLS.clear()
    measure(THREE, 2, file)
    assert CALLS == [(3, 1)]
    CALLS.clear()
    measure(THREE, 2, file)
    assert CALLS == []


def test_what_other_code_measured_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    measure(THREE[:1], 1, file)
    line = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode({**line, "code": "0" * 16}) + b"\n")
    CALLS.clear()
    measure(THREE[:1], 1, file)
    assert CALLS == [(1, 0)]


SMALL = [Placing(brokers=12, stores=stores, capacity=5) for stores in range(2, 12)]


KILLED = """
import sys
from pathlib import Path
from latecomer.experiments.grid import measure
from latecomer.experiments.trials import Placing
measure([Placing(brokers=12, stores=stores, capacity=5) for stores in range(2, 12)], 2000, Path(sys.argv[1]))
"""


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file)])
    try:
        while not file.exists() or file.read_bytes().count(b"\n") < 3:
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    told: list[int] = []
    resumed = measure(SMALL[:1], 100, file, told=lambda done, total: told.append(done))
    assert told[0] >= 3
    assert resumed.rows == measure(SMALL[:1], 100).rows
