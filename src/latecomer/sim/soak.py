"""Many seeds on many cores, in any order, each on its own."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from latecomer.sim.chaos import Life, live
from latecomer.sim.checkers import Violation


@dataclass(slots=True)
class Verdict:
    """How a seed ended, small enough to travel between processes."""

    seed: int
    description: str
    violations: tuple[str, ...]
    accepted: int
    deliveries: int
    frames: int
    faults: int
    quiet_after_us: int


def judge(seed: int) -> Verdict:
    """Live one seed. A crash of the simulator or of the core is a violation like any other: it belongs to a seed."""
    try:
        life = live(seed)
    except Exception:  # whatever it is, the seed that shows it must be named
        life = Life(seed, "crashed", [Violation(0, "crash", traceback.format_exc())])
    return Verdict(
        seed,
        life.description,
        tuple(str(violation) for violation in life.violations),
        life.accepted,
        life.deliveries,
        life.frames,
        life.faults,
        life.quiet_after_us,
    )


def soak(start: int, seeds: int, jobs: int) -> Iterator[Verdict]:
    """Verdicts as they come; closing the iterator stops the workers."""
    numbers = range(start, start + seeds)
    if jobs == 1 or seeds == 1:
        yield from map(judge, numbers)
        return
    chunk = max(1, min(20, seeds // (jobs * 4)))
    with multiprocessing.get_context("spawn").Pool(jobs, _leave_interrupts_to_the_parent) as pool:
        yield from pool.imap_unordered(judge, numbers, chunk)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
