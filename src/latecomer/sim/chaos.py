"""One seed, one life of a network: topology, clients, workload and faults all drawn from it.

A life has rounds. In each, clients publish, subscribe and change their minds while faults of several kinds happen at
once (*safety*: whatever happens, nothing comes twice, out of order, or unasked). Then every fault is taken back, and
the network must become quiet, agree on its tables, and have delivered everything it owes (*liveness*).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from latecomer.core.routing import Forwarding, Hierarchy, Routing
from latecomer.core.settings import BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.event import Value
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.topics import topic_matches
from latecomer.model.topology import Topology
from latecomer.sim.checkers import Agreement, Promises, Violation, check_bounds
from latecomer.sim.clients import SimClients
from latecomer.sim.linking import Linking, with_links
from latecomer.sim.network import JitterShape
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World

SECOND_US = 1_000_000
LIVENESS_US = 15 * SECOND_US
"""After the last fault is gone the network must be quiet within this (P10)."""

TOPICS = ("a", "a/b", "a/c", "a/b/d", "b", "b/x/y", "c/1", "c/2", "$sys/load")
FILTERS = (
    "#", "+", "a/#", "a/+", "a/b", "a/c", "a/b/d", "+/b", "b", "b/#", "b/+/y", "c/1", "c/2", "c/+", "$sys/#",
    "a/# ? v > 5", "a/# ? v > 7", "a/b ? v <= 3", '# ? k prefix "x"', 'c/+ ? k = "xy"', "+/+ ? v != 4",
    "b ? v in (1, 2, 3)",
)  # fmt: skip
JITTERS: tuple[tuple[int, JitterShape], ...] = (
    (0, "uniform"),
    (500, "uniform"),
    (5_000, "uniform"),
    (20_000, "uniform"),
    (500, "exponential"),
    (5_000, "exponential"),
    (500, "heavy"),
    (2_000, "heavy"),
)
KEYS = ("x", "xy", "y", "zx")


@dataclass(slots=True)
class Life:
    """How one seed ended."""

    seed: int
    description: str
    violations: list[Violation] = field(default_factory=list)
    accepted: int = 0
    deliveries: int = 0
    excused: int = 0
    dropped: int = 0
    refusals: int = 0
    frames: int = 0
    faults: int = 0
    quiet_after_us: Instant = 0
    """Longest time from the last fault's end to quiet."""

    @property
    def failed(self) -> bool:
        return bool(self.violations)


def live(seed: int, transcript: Transcript | None = None, *, links: bool = False) -> Life:
    """Live one life. The same seed is the same life, byte for byte, in any process."""
    return with_links(_Chaos(seed, transcript), seed, links).run()


class Faults:
    """What can go wrong with brokers and the wires between them."""

    random: Random
    world: World
    brokers: list[BrokerId]
    transcript: Transcript | None
    life: Life
    linking: Linking | None = None
    _faults: dict[str, Callable[[], None]]

    def _happen(self, kind: str) -> None:
        self.life.faults += 1
        self._faults[kind]()

    def _fault(self, kind: str) -> None:
        self._happen(kind)
        if self.linking is not None:
            self.linking.stir()

    def _time(self) -> int:
        """Shorter or longer than the time a broken link is held."""
        return self.random.choice((50_000, 300_000, SECOND_US, 2_050_000, 3 * SECOND_US, 6 * SECOND_US))

    def _link(self) -> tuple[BrokerId, BrokerId]:
        link = self.random.choice(self.world.topology.links)
        return (link.a, link.b) if self.random.random() < 0.5 else (link.b, link.a)

    def _say(self, text: str) -> None:
        if self.transcript is not None:
            self.transcript.say(self.world.now, text)

    def _break(self) -> None:
        (a, b), time, silently = self._link(), self._time(), self.random.random() < 0.5
        self._say(f"fault: {a} - {b} breaks{' silently' if silently else ''} for {time} us")
        self.world.break_wire(a, b, time, silently=silently)

    def _blink(self) -> None:
        """A connection that breaks again and again."""
        a, b = self._link()
        self._say(f"fault: {a} - {b} blinks")
        for _ in range(self.random.randint(2, 6)):
            self.world.at(self.world.now + self.random.randrange(SECOND_US), self.world.break_wire, a, b, 10_000)

    def _partition(self) -> None:
        side = self.random.sample(self.brokers, self.random.randint(1, max(1, len(self.brokers) // 2)))
        time, silently = self._time(), self.random.random() < 0.5
        self._say(f"fault: {' '.join(side)} cut off{' silently' if silently else ''} for {time} us")
        self.world.partition(side, time, silently=silently)

    def _crash(self, *, keeps_disk: bool = True) -> None:
        world = self.world
        for broker in self.random.sample(self.brokers, self.random.choice((1, 1, 1, min(3, len(self.brokers))))):
            silently, time = self.random.random() < 0.3, self._time()
            self._say(f"fault: {broker} crashes{'' if keeps_disk else ' and loses its disk'} for {time} us")
            world.crash(broker, keeps_disk=keeps_disk, silently=silently)
            world.at(world.now + time, world.start, broker)

    def _lose_disk(self) -> None:
        self._crash(keeps_disk=False)

    def _pause(self) -> None:
        broker, time = self.random.choice(self.brokers), self._time()
        self._say(f"fault: {broker} pauses for {time} us")
        self.world.pause(broker, time)

    def _slow(self) -> None:
        broker, step_us, time = self.random.choice(self.brokers), self.random.choice((500, 5_000, 20_000)), self._time()
        self._say(f"fault: {broker} takes {step_us} us over each step for {time} us")
        self.world.slow_down(broker, step_us)
        self.world.at(self.world.now + time, self.world.slow_down, broker, 0)

    def _stall(self) -> None:
        (a, b), time = self._link(), self._time()
        self._say(f"fault: {a} -> {b} stalls for {time} us")
        self.world.stall(a, b, time)

    def _deafen(self) -> None:
        a, b = self._link()
        self._say(f"fault: {b} hears nothing from {a}")
        self.world.deafen(a, b)

    def _slow_disk(self) -> None:
        broker, disk_us = self.random.choice(self.brokers), self.random.choice((0, 1_000, 50_000, 300_000))
        self._say(f"fault: the disk of {broker} takes {disk_us} us a write")
        self.world.nodes[broker].disk_us = disk_us


class _Chaos(Faults):
    """The run of one seed."""

    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.transcript = transcript
        # Strings and tuples would be hashed by process; an integer seed is the same everywhere.
        self.random = random = Random(seed)
        topology, settings = self._draw(random)
        jitter_us, jitter_shape = random.choice(JITTERS)
        self.world = World(
            topology,
            settings,
            random,
            jitter_us=jitter_us,
            jitter_shape=jitter_shape,
            disk_us=random.choice((0, 200, 4_000)),
        )
        self.promises = Promises(self.world)
        self.clients = SimClients(self.world, [self.promises])
        self.agreement = Agreement(self.world, self.clients)
        self.world.observe(self.promises)
        if transcript is not None:
            self.world.observe(transcript)
        self.brokers = list(topology.ids())
        self.life = Life(seed, f"{len(self.brokers)} brokers, {len(topology.links)} links, {settings.routing}")
        self._faults: dict[str, Callable[[], None]] = {
            "break": self._break,
            "blink": self._blink,
            "partition": self._partition,
            "crash": self._crash,
            "lose disk": self._lose_disk,
            "pause": self._pause,
            "stall": self._stall,
            "deafen": self._deafen,
            "slow disk": self._slow_disk,
            "slow": self._slow,
            "expire": self._expire,
        }

    def _draw(self, random: Random) -> tuple[Topology, BrokerSettings]:
        topology = draw_topology(random)
        return topology, draw_settings(random, topology)

    # -- the life ----------------------------------------------------------------------------------------------------

    def run(self) -> Life:
        random, life = self.random, self.life
        self.world.start_all()
        for number in range(random.randint(3, 3 + 2 * len(self.brokers))):
            self._join(f"c{number}")
        self._settle()
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            if life.failed or self.promises.violations:
                break
            self._round()
            self._settle()
        life.violations = self.promises.violations
        life.accepted = self.promises.accepted_count
        life.deliveries = self.promises.deliveries
        life.excused = self.promises.excused
        life.dropped = self.promises.dropped
        life.refusals = self.clients.refusals
        life.frames = sum(self.world.counts.values())
        return life

    def _join(self, client: ClientId) -> None:
        random = self.random
        self.clients.join(client, random.choice(self.brokers))
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            self.clients.subscribe(client, self._filter())
        if self.world.settings.routing.advertisements and random.random() < 0.7:
            self.clients.advertise(client, self._filter())

    def _round(self) -> None:
        random, world = self.random, self.world
        span = random.randint(SECOND_US, 6 * SECOND_US)
        for _ in range(random.choice((5, 20, 40, 80))):
            world.at(world.now + random.randrange(span), self._publish)
        for _ in range(random.choice((0, 0, 3, 10))):
            world.at(world.now + random.randrange(span), self._change_mind)
        kinds = random.sample(list(self._faults), random.randint(1, 4))
        for _ in range(random.randint(1, 6)):
            world.at(world.now + random.randrange(span), self._fault, random.choice(kinds))
        step = span // 4
        for _ in range(4):
            world.run(world.now + step)
            check_bounds(world, self.promises)

    def _settle(self) -> None:
        """Heal, and demand that the network becomes quiet, complete and right."""
        world = self.world
        self._say("every fault is taken back")
        world.heal()
        for client in self.clients.clients.values():
            if not client.online:
                self.clients.come_back(client.id)
        healed = world.now
        while not (self._quiet() and self.promises.outstanding() == 0):
            if world.now - healed >= LIVENESS_US:
                break
            world.run(world.now + 100_000)
        if not self._quiet():
            self.promises.violate("liveness", f"not quiet {LIVENESS_US // SECOND_US} s after the last fault")
        else:
            self.life.quiet_after_us = max(self.life.quiet_after_us, world.now - healed)
            self.agreement.check(self.promises)
        self.promises.check_all_delivered()
        check_bounds(world, self.promises)
        self.promises.settle(self.clients)

    def _quiet(self) -> bool:
        return self.agreement.quiet()

    # -- what clients do ---------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        random = self.random
        client = random.choice(list(self.clients.clients))
        attributes: dict[str, Value] = {}
        if random.random() < 0.7:
            attributes["v"] = random.randrange(10)
        if random.random() < 0.5:
            attributes["k"] = random.choice(KEYS)
        topic = random.choice(TOPICS)
        for _ in range(random.choice((1, 1, 1, 2, 10))):
            self.clients.publish(client, topic, attributes=attributes, reliable=random.random() < 0.9)

    def _change_mind(self) -> None:
        random = self.random
        client = self.clients.clients[random.choice(list(self.clients.clients))]
        dice = random.random()
        if dice < 0.35:
            self.clients.subscribe(client.id, self._filter())
        elif dice < 0.7 and client.subscriptions:
            self.clients.unsubscribe(client.id, random.choice(list(client.subscriptions)))
        elif dice < 0.8:
            self._advertise_or_not(client.id)
        elif client.online:
            self.clients.leave(client.id)
        else:
            self.clients.come_back(client.id)

    def _advertise_or_not(self, client: ClientId) -> None:
        if not self.world.settings.routing.advertisements:
            return
        known = self.clients.clients[client].advertisements
        if known and self.random.random() < 0.5:
            self.clients.unadvertise(client, self.random.choice(list(known)))
        else:
            announced = self._filter()
            self.clients.advertise(client, announced)
            self._publish_while_news_travels(client, announced)

    def _publish_while_news_travels(self, client: ClientId, announced: Filter) -> None:
        """Publish what was just announced: when nobody has heard of it, when some have, when all should have."""
        topic = next(topic for topic in TOPICS if topic_matches(announced.topic, topic))
        hop_us = self.world.topology.links[0].latency_us
        for hops in (0, 1, 2, 3, 4, 6, 8, 12, 20):
            attributes: dict[str, Value] = {"v": 2, "k": "xy"}
            publish = partial(self.clients.publish, client, topic, attributes=attributes)
            self.world.at(self.world.now + hops * hop_us, publish)

    def _filter(self) -> Filter:
        return parse_filter(self.random.choice(FILTERS))

    def _expire(self) -> None:
        """A link that comes back the moment it counts as down, while somebody publishes before, during and after."""
        a, b = self._link()
        gap = self.world.settings.hold_us + self.random.choice((1_000, 20_000, 200_000))
        self._say(f"fault: {a} - {b} expires and is back after {gap} us")
        self.world.break_wire(a, b, gap)
        client, topic = self.random.choice(list(self.clients.clients)), self.random.choice(TOPICS)
        attributes: dict[str, Value] = {"v": 2, "k": "xy"}
        publish = partial(self.clients.publish, client, topic, attributes=attributes)
        for offset in (gap // 4, gap // 2, *range(gap, gap + 60_000, 4_000), gap + 300_000):
            self.world.at(self.world.now + offset, publish)


def draw_topology(random: Random) -> Topology:
    size = random.choice((3, 4, 5, 6, 8, 10, 12)) if random.random() < 0.9 else random.randint(13, 30)
    kind = random.randrange(6)
    latency_us = random.choice((100, 1_000, 10_000))
    if kind == 0:
        return generators.line(size, latency_us=latency_us)
    if kind == 1:
        return generators.ring(size, latency_us=latency_us)
    if kind == 2:
        return generators.random_tree(size, random, latency_us=latency_us)
    if kind == 3:
        return generators.barabasi_albert(size, 2, random, latency_us=latency_us)
    if kind == 4:
        return generators.grid(max(2, size // 3), 3, latency_us=latency_us)
    extra = random.randint(1, max(1, min(size, size * (size - 1) // 2 - size + 1)))
    return generators.random_connected(size, extra, random, latency_us=latency_us)


def draw_settings(random: Random, topology: Topology) -> BrokerSettings:
    strategy = random.choice((Forwarding, Hierarchy))
    root = random.choice((None, random.choice(topology.ids())))
    routing: Routing = strategy(covering=random.random() < 0.7, advertisements=random.random() < 0.4, root=root)
    settle_us = random.choice((5_000, 20_000, 20_000, 200_000))
    if random.random() < 0.2:
        return BrokerSettings(
            routing=routing,
            settle_us=settle_us,
            link_max=8 * len(topology.nodes),
            outbox_max=16,
            mailbox_max=24,
            routes_max=2,
        )
    return BrokerSettings(routing=routing, settle_us=settle_us)
