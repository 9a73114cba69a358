"""Lives of networks whose brokers change their positions on the ring, with crashes in every state of a proposal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random

import msgspec

from latecomer.core.broker import Broker
from latecomer.core.inputs import RepositionAborted, RepositionWanted
from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import LinkMessage
from latecomer.messages.reposition import Place, Positions, Prepared, Proposal, Withdrawn
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.ring import BITS
from latecomer.model.topology import Link, Node, Topology
from latecomer.sim.chaos import SECOND_US, Life, _Chaos, draw_settings, draw_topology
from latecomer.sim.disk import Disk
from latecomer.sim.linking import with_links
from latecomer.sim.reposition_checkers import PositionsChecker
from latecomer.sim.sides import Observer
from latecomer.sim.transcript import Transcript

FRAMES: tuple[type, ...] = (Proposal, Prepared, Positions, Withdrawn)


def live_reposition(seed: int, transcript: Transcript | None = None, *, links: bool = False) -> Life:
    """One life in which somebody wants brokers to stand elsewhere, again and again."""
    return with_links(_RepositionChaos(seed, transcript), seed, links).run()


class Fuses(Observer):
    """Crash a broker when a frame of a proposal is sent."""

    def __init__(self, crash: Callable[[BrokerId], None]) -> None:
        self.crash = crash
        self.armed: list[tuple[type, bool]] = []
        """The kind of frame, and whether its sender is meant: otherwise who is to get it."""

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        if self.armed:
            for frame in frames:
                for fuse in [fuse for fuse in self.armed if type(frame) is fuse[0]]:
                    self.armed.remove(fuse)
                    self.crash(sender if fuse[1] else receiver)


class _RepositionChaos(_Chaos):
    """The run of one seed."""

    unready = 0.3
    """How likely, in a round, a broker crashes that cannot get ready since a link is down."""

    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        super().__init__(seed, transcript)
        self.positions = PositionsChecker(self.world, self.promises)
        self.fuses = Fuses(self._crash_soon)
        self.crashed_in: Counter[tuple[str, str]] = Counter()
        self._unready = Random(f"{seed} unready")
        """Drawn apart, so that lives without such crashes are what they were."""
        self.world.observe(self.positions, self.fuses, _Crashes(self))
        self._faults |= {
            "propose": self._propose,
            "propose at two brokers": self._propose_twice,
            "abort": self._abort,
            "crash in a proposal": self._crash_in_proposal,
        }

    def _draw(self, random: Random) -> tuple[Topology, BrokerSettings]:
        """Mostly networks in which every ring has its links, and patience shorter and longer than faults last."""
        topology = draw_topology(random) if random.random() < 0.2 else _meshed(random)
        settings = draw_settings(random, topology)
        patience_us = random.choice((300_000, SECOND_US, 3 * SECOND_US))
        return topology, msgspec.structs.replace(settings, reposition_us=patience_us)

    def _round(self) -> None:
        """Every round has a proposal, whatever faults are drawn."""
        for _ in range(self.random.randint(1, 3)):
            at = self.world.now + self.random.randrange(4 * SECOND_US)
            self.world.at(at, self._happen, self.random.choice(("propose", "propose", "propose at two brokers")))
        if self.random.random() < 0.5:
            self._crash_in_proposal()
        if self._unready.random() < self.unready:
            self._crash_unready()
        super()._round()

    def _quiet(self) -> bool:
        return super()._quiet() and self.positions.quiet(self._cores())

    def _settle(self) -> None:
        self.fuses.armed.clear()
        super()._settle()
        if self._quiet():
            self.positions.check(self._cores())

    def _cores(self) -> list[Broker]:
        return [node.core for node in self.world.nodes.values() if node.core is not None]

    # -- faults --------------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        self._want(self.random.choice(self.brokers), self._places())

    def _propose_twice(self) -> None:
        for broker in self.random.sample(self.brokers, 2):
            wait_us = self.random.choice((0, 1_000, 20_000, 100_000))
            self.world.at(self.world.now + wait_us, self._want, broker, self._places())

    def _want(self, broker: BrokerId, places: tuple[Place, ...]) -> None:
        self._say(f"fault: {broker} wants {' '.join(f'{name} at {position}' for name, position in places)}")
        self.world.tell(broker, RepositionWanted(places))

    def _places(self) -> tuple[Place, ...]:
        """Some brokers, or all, stand elsewhere."""
        random = self.random
        moved = random.sample(self.brokers, random.randint(1, len(self.brokers)))
        return tuple((broker, position) for broker, position in zip(moved, _spots(random, len(moved)), strict=True))

    def _abort(self) -> None:
        broker = self.random.choice(self.brokers)
        self._say(f"fault: {broker} is told to abort")
        self.world.tell(broker, RepositionAborted())

    def _crash_in_proposal(self) -> None:
        fuse = (self.random.choice(FRAMES), self.random.random() < 0.5)
        self._say(f"fault: the {'sender' if fuse[1] else 'receiver'} of the next {fuse[0].__name__.lower()} will crash")
        self.fuses.armed.append(fuse)

    def _crash_unready(self) -> None:
        random, now, hold_us = self._unready, self.world.now, self.world.settings.hold_us
        link = random.choice(self.world.topology.links)
        proposer, victim = random.choice(self.brokers), random.choice((link.a, link.b))
        at = now + hold_us + random.randrange(100_000, SECOND_US)
        spots = tuple(zip(self.brokers, _spots(random, len(self.brokers)), strict=True))
        self._say(f"fault: {link.a} - {link.b} breaks, {proposer} proposes, {victim} crashes before it is ready")
        self.world.break_wire(link.a, link.b, 3 * hold_us)
        self.world.at(at, self._want, proposer, spots)
        self.world.at(at + random.choice((20_000, 60_000, 150_000)), self._crash_now, victim)
        self.world.at(at + SECOND_US, self.world.start, victim)

    def _crash_soon(self, broker: BrokerId) -> None:
        """Not in the middle of a step, and perhaps only when the frame has arrived."""
        wait_us, time = self.random.choice((0, 0, 500, 5_000)), self._time()
        self.world.at(self.world.now + wait_us, self._crash_now, broker)
        self.world.at(self.world.now + wait_us + time, self.world.start, broker)

    def _crash_now(self, broker: BrokerId) -> None:
        self._say(f"fault: {broker} crashes in a proposal")
        self.world.crash(broker, silently=self.random.random() < 0.3)


class _Crashes(Observer):
    """Counts in which states of a proposal brokers crashed."""

    def __init__(self, chaos: _RepositionChaos) -> None:
        self.chaos = chaos

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        core = self.chaos.world.nodes[broker].core
        assert core is not None
        self.chaos.crashed_in[core.reposition.managing, core.reposition.moving] += 1


def _meshed(random: Random) -> Topology:
    """Links between all brokers, or nearly all."""
    size, latency_us = random.choice((2, 3, 4, 5, 6, 8)), random.choice((100, 1_000, 10_000))
    nodes = tuple(Node(f"b{number}") for number in range(1, size + 1))
    pairs = list(combinations((node.id for node in nodes), 2))
    if size > 3 and random.random() < 0.2:
        pairs.remove(random.choice(pairs))
    return Topology(f"mesh of {size}", nodes, tuple(Link(a, b, latency_us=latency_us) for a, b in pairs))


def _spots(random: Random, count: int) -> list[int]:
    return random.sample(range(1 << BITS), count)
