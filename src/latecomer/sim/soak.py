"""Many seeds on many cores, in any order, each on its own."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from latecomer.sim.chaos import Life, live
from latecomer.sim.checkers import Violation
from latecomer.sim.history_chaos import live_history, live_travel
from latecomer.sim.homes_chaos import live_homes
from latecomer.sim.mqtt_chaos import live_mqtt
from latecomer.sim.reposition_chaos import live_reposition
from latecomer.sim.ring_chaos import live_ring, live_ring_history, live_ring_mqtt, live_ring_travel, live_ring_wander
from latecomer.sim.wander_chaos import live_wander
from latecomer.sim.wander_coverage import Step


class Clients(StrEnum):
    """Whose lives a seed is: of clients that speak the core's plain interface, of MQTT clients, of late subscribers
    among stores, of MQTT clients that wander from broker to broker, of late subscribers that move while their history
    is replayed, of plain clients while brokers change their positions, of clients that brokers send on to where others
    want the same, or one of each of the first three. `ring`: as these, where brokers route by rendezvous; `rings`: one
    of each of those. `links`: as these, while operators add and take away links and brokers."""

    PLAIN = "plain"
    MQTT = "mqtt"
    HISTORY = "history"
    WANDER = "wander"
    TRAVEL = "travel"
    REPOSITION = "reposition"
    HOMES = "homes"
    RING = "ring"
    RING_MQTT = "ring-mqtt"
    RING_HISTORY = "ring-history"
    RING_WANDER = "ring-wander"
    RING_TRAVEL = "ring-travel"
    RINGS = "rings"
    LINKS_PLAIN = "links-plain"
    LINKS_MQTT = "links-mqtt"
    LINKS_HISTORY = "links-history"
    LINKS_WANDER = "links-wander"
    LINKS = "links"
    ALL = "all"


LIVES: dict[str, Callable[..., Life]] = {
    Clients.PLAIN: live,
    Clients.MQTT: live_mqtt,
    Clients.HISTORY: live_history,
    Clients.WANDER: live_wander,
    Clients.TRAVEL: live_travel,
    Clients.REPOSITION: live_reposition,
    Clients.HOMES: live_homes,
    Clients.RING: live_ring,
    Clients.RING_MQTT: live_ring_mqtt,
    Clients.RING_HISTORY: live_ring_history,
    Clients.RING_WANDER: live_ring_wander,
    Clients.RING_TRAVEL: live_ring_travel,
    Clients.LINKS_PLAIN: partial(live, links=True),
    Clients.LINKS_MQTT: partial(live_mqtt, links=True),
    Clients.LINKS_HISTORY: partial(live_history, links=True),
    Clients.LINKS_WANDER: partial(live_wander, links=True),
}
TOGETHER: dict[str, tuple[str, ...]] = {
    Clients.ALL: (Clients.PLAIN, Clients.MQTT, Clients.HISTORY),
    Clients.RINGS: (
        Clients.RING,
        Clients.RING_MQTT,
        Clients.RING_HISTORY,
        Clients.RING_WANDER,
        Clients.RING_TRAVEL,
    ),
    Clients.LINKS: (Clients.LINKS_PLAIN, Clients.LINKS_MQTT, Clients.LINKS_HISTORY, Clients.LINKS_WANDER),
}
"""The lives of a seed that one word means."""


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
    steps: Counter[Step] = field(default_factory=Counter)
    """What clients that wander have shown of the hand-over, if that was counted."""

    @property
    def replay(self) -> str:
        """The command that shows it again."""
        chosen = "" if self.clients == Clients.PLAIN else f" --clients {self.clients}"
        return f"latecomer soak --start {self.seed} --seeds 1{chosen} --transcript"


def judge(seed: int, clients: str = Clients.PLAIN, *, coverage: bool = False) -> Verdict:
    """Live one seed; with `coverage`, a life of clients that wander.

    A crash of the simulator or of the core is a violation like any other: it belongs to a seed."""
    if clients in TOGETHER:
        return _together([judge(seed, kind) for kind in TOGETHER[clients]])
    steps: Counter[Step] = Counter()
    try:
        life = live_wander(seed, None, steps) if coverage else LIVES[clients](seed, None)
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
        steps,
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


def soak(start: int, seeds: int, jobs: int, clients: str = Clients.ALL, *, coverage: bool = False) -> Iterator[Verdict]:
    """Verdicts as they come; closing the iterator stops the workers."""
    numbers = range(start, start + seeds)
    judge_one = partial(_judge_and_tidy, clients=clients, coverage=coverage)
    if jobs == 1 or seeds == 1:
        collecting = gc.isenabled()
        gc.freeze()
        gc.disable()
        try:
            yield from map(judge_one, numbers)
        finally:
            gc.unfreeze()
            if collecting:
                gc.enable()
        return
    chunk = max(1, min(20, seeds // (jobs * 4)))
    with multiprocessing.get_context("spawn").Pool(jobs, _begin_work) as pool:
        yield from pool.imap_unordered(judge_one, numbers, chunk)


def _begin_work() -> None:
    """Leave interrupts to the parent, and garbage to the moment between two lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.disable()


def _judge_and_tidy(seed: int, clients: str, *, coverage: bool) -> Verdict:
    """A life makes little garbage that counting references does not find: all of it is collected behind the life."""
    try:
        return judge(seed, clients, coverage=coverage)
    finally:
        gc.collect()
