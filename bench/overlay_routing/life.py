"""One network from its start on: events under both kinds of wishes, subscriptions that change, links that fail."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from statistics import fmean

from bench.book import BenchError
from bench.overlay_routing.count import FILTERS, NEWS, TREES, Stops, Ways, bytes_of, frames_of
from bench.overlay_routing.networks import Places, Subject, Wishes
from latecomer.core.broker import Broker
from latecomer.core.inputs import RepositionWanted
from latecomer.core.settings import BrokerSettings
from latecomer.model.filters import parse_filter
from latecomer.model.ids import BrokerId
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World

SECOND_US = 1_000_000
GAP_US = 2_000
"""Between two events."""
HOLD_US = 10 * SECOND_US
"""Heartbeats are as long, so that idle time costs nothing here; no figure depends on it."""
AWAY_US = 60 * SECOND_US
"""How long a link that fails stays away."""
WATCHED_US = 5 * SECOND_US
Figures = dict[str, float]


@dataclass(slots=True)
class Work:
    """How much is done in every network."""

    events: int
    changes: int
    failures: int


class Life:
    """A network of brokers, one client at each."""

    def __init__(self, subject: Subject, topics: list[str], work: Work) -> None:
        self.subject, self.topics, self.work = subject, topics, work
        self.random = Random(1)
        settings = BrokerSettings(routing=subject.routing, heartbeat_us=HOLD_US, hold_us=HOLD_US)
        self.world = World(subject.topology, settings, self.random)
        self.ways, self.stops = Ways(), Stops(self.world)
        self.clients = SimClients(self.world, [self.ways])
        self.world.observe(self.ways, self.stops)
        self.brokers: list[BrokerId] = list(subject.topology.ids())
        self.wishes: dict[BrokerId, set[str]] = {broker: set() for broker in self.brokers}
        self.away = 0
        """Until then a link may be away."""

    def start(self) -> None:
        self.world.start_all()
        self._rest(3)
        for broker in self.brokers:
            self.clients.join(_client(broker), broker)
        self._check_one_tree()
        if self.subject.places:
            self.move(self.subject.places)

    def move(self, places: Places) -> None:
        """Brokers take other positions."""
        self.world.tell(self.brokers[0], RepositionWanted(tuple(places.items())))
        self._rest(5)
        self._check_one_tree()
        if not (family := self.cores()[0].interest.family) or not family.ring:
            raise BenchError("there is no ring")
        if {broker: family.points[at] for at, broker in enumerate(family.order)} != places:
            raise BenchError("brokers stand elsewhere")

    def cores(self) -> list[Broker]:
        return [node.core for node in self.world.nodes.values() if node.core is not None]

    def _rest(self, seconds: int) -> None:
        self.world.run(self.world.now + seconds * SECOND_US)

    def _check_one_tree(self) -> None:
        cores = self.cores()
        if not all(core.interest.ready for core in cores):
            raise BenchError("brokers have no tree that is ready")
        if len({core.interest.tree.version for core in cores if core.interest.tree is not None}) != 1:
            raise BenchError("brokers have several trees")

    # -- what is wanted ------------------------------------------------------------------------------------------------

    def want(self, wishes: Wishes) -> None:
        """From now on clients want this and nothing else."""
        for broker, wanted in wishes.items():
            for topic in sorted(self.wishes[broker].difference(wanted)):
                self._turn(broker, topic)
            for topic in wanted:
                if topic not in self.wishes[broker]:
                    self._turn(broker, topic)
        self._rest(2)

    def _turn(self, broker: BrokerId, topic: str) -> None:
        """Subscribe, or stop it."""
        wanted = self.wishes[broker]
        if topic in wanted:
            wanted.remove(topic)
            self.clients.unsubscribe(_client(broker), parse_filter(topic))
        else:
            wanted.add(topic)
            self.clients.subscribe(_client(broker), parse_filter(topic))

    # -- what is measured ----------------------------------------------------------------------------------------------

    def publish(self) -> Figures:
        """Reliable events from everywhere, and the way of each; everything must arrive once."""
        self.ways.clear()
        chance = Random(2)
        for number in range(self.work.events):
            publisher, topic = chance.choice(self.brokers), self.topics[number % len(self.topics)]
            self.clients.publish(_client(publisher), topic)
            self.world.run(self.world.now + GAP_US)
        self._rest(2)
        return self._judged()

    def _judged(self) -> Figures:
        ways = self.ways
        owed = Counter(
            (id, _client(broker))
            for id, topic in ways.events.items()
            for broker in self.brokers
            if topic in self.wishes[broker]
        )
        if len(ways.events) != self.work.events or owed != ways.got:
            raise BenchError("not everything was delivered once")
        if left := sum(len(core.events.outbox.entries) for core in self.cores()):
            raise BenchError(f"{left} events are not done")
        hops, relays = list[int](), 0
        for id, topic in ways.events.items():
            way = ways.hops.get(id, {})
            for broker, far in way.items():
                if topic in self.wishes[broker]:
                    hops.append(far)
                elif far:
                    relays += 1
        frames, events = sum(ways.sends.values()), self.work.events
        return {
            "messages": frames / events,
            "wanted": len(ways.got) / events,
            "hops": fmean(hops),
            "relays": relays / events,
            "load": max(ways.sends.values()) / events,
            "busiest": max(ways.sends.values()) / frames,
        }

    def change_minds(self) -> Figures:
        """One subscription begins or ends, again and again; then one that crosses keys."""
        chance, before = Random(3), self.world.counts.copy()
        for _ in range(self.work.changes):
            broker, topic = chance.choice(self.brokers), chance.choice(self.topics)
            for _ in range(2):  # there and back, so that wishes stay what they are
                self._turn(broker, topic)
                self.world.run(self.world.now + 100_000)
        frames = frames_of(self.world.counts, before, FILTERS) / (2 * self.work.changes)
        before, crossing = self.world.counts.copy(), parse_filter("+/none")
        for broker in (some := self.brokers[:: len(self.brokers) // 4]):
            self.clients.subscribe(_client(broker), crossing)
            self.world.run(self.world.now + 100_000)
            self.clients.unsubscribe(_client(broker), crossing)
            self.world.run(self.world.now + 100_000)
        return {"frames": frames, "crossing": frames_of(self.world.counts, before, FILTERS) / (2 * len(some))}

    def lose_links(self, links: Iterable[tuple[BrokerId, BrokerId]]) -> Figures:
        """One link fails, and comes back when everything has been counted; the mean of some."""
        found: list[Figures] = []
        for a, b in links:
            self._wait_for_links()
            before = self.world.counts.copy()
            self.stops.watch(self.world.now + 2 * HOLD_US + WATCHED_US)
            self.world.break_wire(a, b, AWAY_US)
            self.world.run(self.world.now + 2 * HOLD_US + WATCHED_US)
            self._check_one_tree()
            if self.stops.began is None:
                raise BenchError("the link did not fail")
            counts = self.world.counts
            found.append({
                "tables": frames_of(counts, before, FILTERS),
                "trees": frames_of(counts, before, TREES),
                "news": frames_of(counts, before, NEWS),
                "stop": self.stops.last - self.stops.began,
                "each": self.stops.total / len(self.brokers),
            })  # fmt: skip
            self.stops.watch(0)
            self.away = self.world.now + AWAY_US
        return {key: fmean(one[key] for one in found) for key in found[0]} if found else {}

    def _wait_for_links(self) -> None:
        """Until what failed before has come back."""
        if self.world.now < self.away:
            self.world.run(self.away)
            self._check_one_tree()

    def links(self) -> tuple[list[tuple[BrokerId, BrokerId]], list[tuple[BrokerId, BrokerId]]]:
        """Some links that may fail: of the tree or to fingers; and on a ring, some to successors."""
        core = self.cores()[0]
        family, tree, chance = core.interest.family, core.interest.tree, Random(4)
        assert tree is not None
        if family is None or not family.ring:
            pairs = [(broker, above) for broker, above in tree.parent.items() if above is not None]
            return chance.sample(sorted(pairs), self.work.failures), []
        successors = list(zip(family.order, family.order[1:], strict=False))
        beside = {frozenset(pair) for pair in successors} | {frozenset((family.order[-1], family.order[0]))}
        pairs = [(a, b) for a, others in family.beside.items() for b in others if a < b]
        fingers = sorted(pair for pair in pairs if frozenset(pair) not in beside)
        return chance.sample(fingers, self.work.failures), chance.sample(successors, self.work.failures)

    def memory(self) -> Figures:
        """Of a broker: the mean of some."""
        gc.collect()
        cores = self.cores()
        some = cores[:: max(1, len(cores) // 5)]
        found: Figures = {"core": fmean(bytes_of(core) for core in some) / 1000}
        families = [core.interest.family for core in some if core.interest.family is not None]
        if families:
            found["family"] = fmean(bytes_of(family) for family in families) / 1000
        return found


def _client(broker: BrokerId) -> str:
    return f"c-{broker}"
