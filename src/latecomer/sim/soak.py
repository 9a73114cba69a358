"""Many seeds on many cores, in any order, each on its own."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from latecomer.sim.chaos import Life, live
from latecomer.sim.checkers import Violation
from latecomer.sim.history_chaos import live_history
from latecomer.sim.mqtt_chaos import live_mqtt
from latecomer.sim.transcript import Transcript


class Clients(StrEnum):
    """Whose lives a seed is: of clients that speak the core's plain interface, of MQTT clients, of late subscribers
    among stores, or one of each."""

    PLAIN = "plain"
    MQTT = "mqtt"
    HISTORY = "history"
    ALL = "all"


LIVES: dict[str, Callable[[int, Transcript | None], Life]] = {
    Clients.PLAIN: live,
    Clients.MQTT: live_mqtt,
    Clients.HISTORY: live_history,
}


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
    if clients == Clients.ALL:
        return _together([judge(seed, kind) for kind in LIVES])
    try:
        life = LIVES[clients](seed, None)
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


def _together(verdicts: list[Verdict]) -> Verdict:
    """One verdict on all lives of a seed; the first that failed is the one to look at."""
    told = next((verdict for verdict in verdicts if verdict.violations), verdicts[0])
    return Verdict(
        told.seed,
        told.description,
        told.violations,
        sum(verdict.accepted for verdict in verdicts),
        sum(verdict.deliveries for verdict in verdicts),
        sum(verdict.frames for verdict in verdicts),
        sum(verdict.faults for verdict in verdicts),
        max(verdict.quiet_after_us for verdict in verdicts),
        told.clients,
    )


def soak(start: int, seeds: int, jobs: int, clients: str = Clients.ALL) -> Iterator[Verdict]:
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
