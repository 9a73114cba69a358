"""A seed is a run, byte for byte: in any process, and whichever way messages get from one broker to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest

from latecomer.sim import chaos
from latecomer.sim.chaos import live
from latecomer.sim.runner import Passing, transport
from latecomer.sim.transcript import Digest
from latecomer.sim.world import World

SEEDS = (0, 3, 14, 23, 56, 178)
"""Small networks and some of 22 to 30 brokers, both strategies, with and without covering and advertisements."""
PASSED = (2, 4, 9, 14)
"""Seeds small enough to be passed byte by byte."""

PRINT_DIGESTS = """
import sys
from latecomer.sim.chaos import live
from latecomer.sim.transcript import Digest
print(hash("a"))
for seed in map(int, sys.argv[1:]):
    digest = Digest()
    live(seed, digest)
    print(digest.value())
"""


def python(hash_seed: int, *arguments: str) -> list[str]:
    """The lines another process prints, with its own order of sets."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, encoding="utf-8", check=True, timeout=300
    )
    return done.stdout.splitlines()


def digest_of(seed: int) -> str:
    digest = Digest()
    live(seed, digest)
    return digest.value()


def test_the_same_in_processes_that_hash_differently() -> None:
    seeds = list(map(str, SEEDS))
    one_hash, *one = python(1, "-c", PRINT_DIGESTS, *seeds)
    other_hash, *other = python(2, "-c", PRINT_DIGESTS, *seeds)
    assert one_hash != other_hash, "the processes do hash differently"
    assert one == other == [digest_of(seed) for seed in SEEDS]
    assert len(set(one)) == len(SEEDS), "different seeds are different runs"


def test_the_seeds_are_not_all_small_or_alike() -> None:
    lives = [chaos._Chaos(seed, None) for seed in SEEDS]
    assert max(len(life.brokers) for life in lives) >= 20
    assert {life.world.topology.is_tree() for life in lives} == {True, False}
    assert len({type(life.world.settings.routing) for life in lives}) == 2


def test_a_replay_is_the_same_line_by_line() -> None:
    replay = ("-m", "latecomer", "soak", "--start", "14", "--seeds", "1", "--transcript")
    one, other = python(1, *replay), python(2, *replay)
    assert len(one) > 1000
    assert one == other
    assert one[-1] == "1 seeds, 0 failures"
    assert one[-2].endswith(f"digest {digest_of(14)}")


@pytest.mark.parametrize("seed", PASSED)
@pytest.mark.parametrize("passing", ["frames", "bytes"])
def test_the_same_through_the_wire(seed: int, passing: Passing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects handed over as they are, whole frames, single bytes: faults and all, it is the same run."""
    objects = digest_of(seed)
    monkeypatch.setattr(chaos, "World", partial(World, transport=transport(passing)))
    assert digest_of(seed) == objects
