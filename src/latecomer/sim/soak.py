"""Many seeds on many cores, in any order, each on its own."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from latecomer.sim.chaos import Life, live
from latecomer.sim.checkers import Violation
from latecomer.sim.mqtt_chaos import live_mqtt


class Clients(StrEnum):
    """Whose lives a seed is: of clients that speak the core's plain interface, of MQTT clients, or one of each."""

    PLAIN = "plain"
    MQTT = "mqtt"
    BOTH = "both"


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
    clients: str = Clients.PLAIN
    """Whose life failed, if one did."""

    @property
    def replay(self) -> str:
        """The command that shows it again."""
        chosen = "" if self.clients == Clients.PLAIN else f" --clients {self.clients}"
        return f"latecomer soak --start {self.seed} --seeds 1{chosen} --transcript"


def judge(seed: int, clients: str = Clients.PLAIN) -> Verdict:
    """Live one seed. A crash of the simulator or of the core is a violation like any other: it belongs to a seed."""
    if clients == Clients.BOTH:
        return _together(judge(seed, Clients.PLAIN), judge(seed, Clients.MQTT))
    try:
        life = live_mqtt(seed) if clients == Clients.MQTT else live(seed)
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
        clients,
    )


def _together(one: Verdict, other: Verdict) -> Verdict:
    """One verdict on both lives of a seed; the first that failed is the one to look at."""
    told = one if one.violations or not other.violations else other
    return Verdict(
        told.seed,
        told.description,
        told.violations,
        one.accepted + other.accepted,
        one.deliveries + other.deliveries,
        one.frames + other.frames,
        one.faults + other.faults,
        max(one.quiet_after_us, other.quiet_after_us),
        told.clients,
    )


def soak(start: int, seeds: int, jobs: int, clients: str = Clients.BOTH) -> Iterator[Verdict]:
    """Verdicts as they come; closing the iterator stops the workers."""
    numbers = range(start, start + seeds)
    judge_one = partial(judge, clients=clients)
    if jobs == 1 or seeds == 1:
        yield from map(judge_one, numbers)
        return
    chunk = max(1, min(20, seeds // (jobs * 4)))
    with multiprocessing.get_context("spawn").Pool(jobs, _leave_interrupts_to_the_parent) as pool:
        yield from pool.imap_unordered(judge_one, numbers, chunk)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
