"""`kill -9` in the middle of writing: nothing that was reported safe is missing, and nothing is there by half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from latecomer.runtime.disk import Disk, Durability
from tests.unit import disk_child
from tests.unit.disk_child import TYPES, WINDOW

ROUNDS = 20 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))


def killed(folder: Path, durability: Durability, reports: int) -> int:
    """Run the child, kill it after so many reports, and return the last number that it reported."""
    child = subprocess.Popen(
        [sys.executable, disk_child.__file__, str(folder), durability],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert child.stdout is not None
    said = b""
    while said.count(b"\n") < reports:
        part = os.read(child.stdout.fileno(), 65536)
        assert part, "the child ended by itself"
        said += part
    child.kill()
    said += child.stdout.read()
    child.stdout.close()
    child.wait()
    numbers = [int(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return numbers[-1]


def check(folder: Path, last_reported: int) -> None:
    with Disk.open(folder, TYPES) as disk:
        assert disk.problems == []
        tables = disk.take()
    (last,) = tables["last"][""].values()
    assert isinstance(last, int)
    assert last >= last_reported
    assert tables["numbers"][""] == {number: number for number in range(last + 1)}
    kept = range(max(0, last - WINDOW), last + 1)
    assert tables["window"]["w"] == {number: f"row {number}" for number in kept}


@pytest.mark.parametrize("durability", [Durability.POWER, Durability.PROCESS])
def test_nothing_reported_is_missing_after_a_kill(durability: Durability, tmp_path: Path) -> None:
    random = Random(durability)
    for _ in range(ROUNDS // 2):
        check(tmp_path / "data", killed(tmp_path / "data", durability, random.randrange(1, 2000)))
