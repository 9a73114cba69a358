"""Running a scenario: the network settles, clients join, time 0 begins, everything happens, faults end, and the
checkers have the last word.

The same scenario and seed give the same run, byte for byte, in any process and whichever way messages pass.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

from latecomer.messages.link import LinkMessage
from latecomer.model.filters import parse_filter
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.checkers import Agreement, Promises, check_bounds
from latecomer.sim.clients import SimClients, SimRequest
from latecomer.sim.durations import show_duration
from latecomer.sim.report import Result, Tally, by_name, events_kept, table_sizes
from latecomer.sim.scenario import Ask, Crash, Fault, Publish, Step
from latecomer.sim.scenario_check import Prepared, workload_clients
from latecomer.sim.sides import Observer
from latecomer.sim.storing import Asking, asker, retrieved
from latecomer.sim.transcript import Digest, Transcript
from latecomer.sim.workload import Drawn
from latecomer.sim.world import World
from latecomer.wire.link import Reader, encode

Passing = Literal["objects", "frames", "bytes"]
Progress = Callable[[str, Instant, Instant], None]
"""Told what is going on, how far it is and where it ends, in virtual microseconds."""

SETTLE_US = 10_000_000
"""The network has this long to become quiet before the scenario begins."""
CHUNK_US = 100_000
"""Checkers look this often."""


class Run:
    """One run of a scenario, from the outside: `begin`, then time and deeds, then `finish`."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        passing: Passing = "objects",
        transcript: Transcript | None = None,
        digest: bool = False,
        progress: Progress | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.prepared = prepared
        self.scenario = scenario = prepared.scenario
        self.progress = progress or (lambda what, now, end: None)
        self.started = time.perf_counter()
        self.world = World(
            prepared.topology,
            prepared.settings,
            Random(f"{scenario.seed}/world"),
            jitter_us=int(scenario.topology.jitter),
            jitter_shape=scenario.topology.jitter_shape,
            disk_us=int(scenario.disk_latency),
            transport=transport(passing),
        )
        self.promises = Promises(self.world)
        self.clients = SimClients(self.world, [self.promises])
        self.agreement = Agreement(self.world, self.clients)
        self.tally = Tally(self.world)
        self.digest = Digest() if digest else None
        self.transcripts = [teller for teller in (transcript, self.digest) if teller is not None]
        self.world.observe(self.promises, self.tally, *self.transcripts, *observers)
        self.zero: Instant = 0
        """When the scenario's time begins."""
        self.in_vain = 0
        self.quiet_after_us = -1
        self.interrupted = False
        self._unsettled = False
        self._before: Counter[type] = Counter()
        self._longest: dict[str, int] = {}
        self._drawn: list[Drawn] = []
        self._demands: list[Asking] = []

    # -- the whole story ---------------------------------------------------------------------------------------------

    def play(self) -> Result:
        """Everything the scenario says, from start to verdict."""
        self.begin()
        self.set_going()
        self.advance(self.scenario.duration)
        self.heal()
        return self.result()

    def set_going(self) -> None:
        """From now on everything happens when the scenario says so."""
        scenario, world = self.scenario, self.world
        for drawn in self._drawn:
            drawn.begin(world, scenario.duration, self.publish)
        for number, demand in enumerate(scenario.demand):
            self._demands.append(Asking(demand, Random(f"{scenario.seed}/demand {number}")))
            self._demands[-1].begin(world, scenario.duration, self.clients)
        for store in scenario.store:
            if store.begin:
                world.at(self.zero + store.begin, self.store, store.broker, store.topics)
            if store.until is not None:
                world.at(self.zero + store.until, self.store, store.broker, ())
        for step in scenario.step:
            world.at(self.zero + step.at, self.do, step)
        for fault in scenario.fault:
            world.at(self.zero + fault.at, self.strike, fault)

    def begin(self) -> None:
        """Start the brokers, let clients join, and wait until everybody knows everything."""
        world, scenario = self.world, self.scenario
        self._mute(True)
        world.start_all()
        self._settle("brokers meet")
        self._mute(False)
        self._set_zero()
        self.say("the brokers know one another; clients join, and time counts from here until all is quiet")
        for store in scenario.store:
            if not store.begin:
                self.store(store.broker, store.topics)
        for client in scenario.client:
            self.clients.join(client.id, client.broker)
            for text in client.advertise:
                self.clients.advertise(client.id, parse_filter(text))
            for text in client.subscribe:
                self.clients.subscribe(client.id, parse_filter(text))
        self._join_workloads()
        for broker in dict.fromkeys(demand.broker for demand in scenario.demand):
            self.clients.join(asker(broker), broker)
        if self.clients.clients or scenario.store:
            self._settle("clients subscribe")
        self.promises.settle(self.clients)
        self._set_zero()
        self.say("the scenario begins")
        self._before = Counter(world.counts)
        self.tally.publications.clear()

    def _mute(self, silent: bool) -> None:
        for teller in self.transcripts:
            teller.silent = silent and not teller.chatter

    def _set_zero(self) -> None:
        self.zero = self.world.now
        for teller in self.transcripts:
            teller.begin_us = self.zero

    def _join_workloads(self) -> None:
        brokers = list(self.world.nodes)
        for number, (publishers, subscribers) in enumerate(workload_clients(self.scenario), start=1):
            workload = self.scenario.workload[number - 1]
            random = Random(f"{self.scenario.seed}/workload {number}")
            named = workload.publishers
            drawn = Drawn(number, workload, publishers if isinstance(named, int) else list(named), random)
            self._drawn.append(drawn)
            for client in publishers:
                self.clients.join(client, random.choice(brokers))
                if self.prepared.settings.routing.advertisements:
                    for topic in drawn.topics:
                        self.clients.advertise(client, parse_filter(topic))
            for client in subscribers:
                self.clients.join(client, random.choice(brokers))
                self.clients.subscribe(client, parse_filter(drawn.topic()))

    def _settle(self, what: str) -> None:
        world = self.world
        end = world.now + SETTLE_US
        while not self.agreement.quiet():
            if world.now >= end:
                self.promises.violate("liveness", f"{what}: not quiet after {show_duration(SETTLE_US)}")
                return
            self.progress(what, 0, SETTLE_US)
            world.run(world.now + CHUNK_US)

    # -- time and deeds ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        """Time of the scenario."""
        return self.world.now - self.zero

    def advance(self, until: Instant) -> None:
        """Let time pass until an instant of the scenario."""
        while self.now < until:
            self.world.run(min(self.world.now + CHUNK_US, self.zero + until))
            self._look()
            self.progress("running", self.now, self.scenario.duration)

    def _look(self) -> None:
        for node in self.world.nodes.values():
            node.disk.store.remove_expired(self.world.now)
        for name, size in check_bounds(self.world, self.promises).items():
            self._longest[name] = max(size, self._longest.get(name, 0))
        if self._unsettled and self.agreement.quiet():
            self._unsettled = False
            self.promises.settle(self.clients)

    def say(self, text: str) -> None:
        for teller in self.transcripts:
            teller.say(self.world.now, text)

    def do(self, step: Step) -> None:
        """One step of one client, now."""
        clients, id = self.clients, step.client
        action = step.actions()[0]
        value = getattr(step, action)
        if action == "publish":
            what = Publish(topic=value) if isinstance(value, str) else value
            for _ in range(what.count):
                self.publish(id, what)
            return
        if action == "request":
            self.request(id, Ask(filter=value) if isinstance(value, str) else value)
            return
        broker = value if action == "join" else clients.clients[id].broker
        if not self._answers(broker):
            self._vain(f"{id} cannot {action.replace('_', ' ')}: broker {broker} does not answer")
        elif action == "join":
            clients.join(id, value)
        elif action == "leave":
            clients.leave(id)
        elif action == "come_back":
            clients.come_back(id)
        else:
            getattr(clients, action)(id, parse_filter(value))
            self._unsettled = True

    def publish(self, client: ClientId, what: Publish) -> None:
        """One publication, now."""
        publisher = self.clients.clients.get(client)
        if publisher is None:
            self._vain(f"{client} cannot publish: it has not joined")
        elif not publisher.online:
            self._vain(f"{client} cannot publish: it is away")
        elif not self._answers(publisher.broker):
            self._vain(f"{client} cannot publish: broker {publisher.broker} does not answer")
        else:
            self.clients.publish(
                client,
                what.topic,
                reliable=what.reliable,
                attributes=dict(what.attributes),
                payload=what.payload.encode(),
                lifetime_us=what.lifetime or 0,
            )

    def request(self, client: ClientId, what: Ask) -> SimRequest | None:
        """One question about the past, now."""
        request = self.clients.request(client, what.query(self.zero))
        if request is None:
            broker = self.clients.clients[client].broker
            self._vain(f"{client} cannot request: broker {broker} does not answer")
        return request

    def store(self, broker: BrokerId, topics: Sequence[str]) -> None:
        """From now on a broker keeps these topics; none: it has no store."""
        self.say(f"{broker} shall keep {', '.join(topics)}" if topics else f"{broker} shall keep nothing")
        self.world.assign(broker, topics)
        self._unsettled = True

    def strike(self, fault: Fault) -> None:
        """One fault, now."""
        self.say(fault_text(fault))
        fault.happen(self.world)

    def _answers(self, broker: BrokerId) -> bool:
        node = self.world.nodes[broker]
        return node.core is not None and node.paused_until <= self.world.now

    def _vain(self, why: str) -> None:
        self.in_vain += 1
        self.say(why)

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End every fault, let everybody come back, and demand that what was promised comes true."""
        world, promises = self.world, self.promises
        dead = self.prepared.dead_at_the_end()
        self.say("every fault is over" + (f"; {', '.join(dead)} will not come back" if dead else ""))
        world.heal(dead)
        for broker in dead:
            self._bury(broker)
        for client in self.clients.clients.values():
            if not client.online and client.broker not in dead:
                self.clients.come_back(client.id)
        healed = world.now
        limit = self.scenario.limit
        while not (self.agreement.quiet() and promises.outstanding() == 0) and world.now - healed < limit:
            self.progress("healing", world.now - healed, limit)
            world.run(world.now + CHUNK_US)
            self._look()
        if self.agreement.quiet():
            self.quiet_after_us = world.now - healed
            self.agreement.check(promises)
        else:
            promises.violate("liveness", f"not quiet {show_duration(limit)} after the last fault")
        promises.check_all_delivered()
        self._look()

    def _bury(self, broker: BrokerId) -> None:
        """Nothing is promised to the clients of a broker that stays dead, nor from what only its disk has."""
        self.promises.crashed(broker, self.world.nodes[broker].disk, False)
        for client in self.clients.clients.values():
            if client.broker == broker:
                self.promises.forgotten(client.id)

    def result(self) -> Result:
        """What has happened so far, counted."""
        promises, world, topology = self.promises, self.world, self.prepared.topology
        return Result(
            scenario=self.scenario.name,
            seed=self.scenario.seed,
            brokers=len(topology.nodes),
            links=len(topology.links),
            accepted=promises.accepted_count,
            delivered=promises.deliveries,
            lost=sum(1 for violation in promises.violations if violation.promise == "lost"),
            duplicates=promises.duplicates,
            repeats=promises.repeats,
            refused=self.clients.refusals,
            dropped=promises.dropped,
            excused=promises.excused,
            in_vain=self.in_vain,
            violations=tuple(promises.violations),
            messages=by_name(world.counts, self._before),
            messages_before=by_name(self._before),
            publications_by_hop=dict(sorted(self.tally.publications.items())),
            deliveries_by_hops=dict(sorted(self.tally.deliveries.items())),
            tables=table_sizes(world),
            longest_queues=dict(self._longest),
            events_kept=events_kept(world),
            retrieved=retrieved(self.clients.requests.values()),
            virtual_us=self.now,
            quiet_after_us=self.quiet_after_us,
            real_seconds=time.perf_counter() - self.started,
            steps=world.steps,
            digest=self.digest.value() if self.digest is not None else "",
            interrupted=self.interrupted,
        )


def transport(passing: Passing) -> Callable[[Sequence[LinkMessage]], list[LinkMessage]] | None:
    """How messages get from one broker to the next."""
    if passing == "objects":
        return None

    def frames(messages: Sequence[LinkMessage]) -> list[LinkMessage]:
        return Reader().feed(b"".join(map(encode, messages)))

    def single_bytes(messages: Sequence[LinkMessage]) -> list[LinkMessage]:
        reader = Reader()
        data = b"".join(map(encode, messages))
        return [message for at in range(len(data)) for message in reader.feed(data[at : at + 1])]

    return frames if passing == "frames" else single_bytes


def fault_text(fault: Fault) -> str:
    """A fault in words."""
    kind = type(fault).__name__.lower()
    where = " - ".join(getattr(fault, "link", ())) or ", ".join(getattr(fault, "side", ()))
    where = where or f"broker {getattr(fault, 'broker', '')}"
    duration = getattr(fault, "duration", None)
    parts = [f"fault: {kind} {where}"]
    if duration:
        parts.append(f"for {show_duration(duration)}")
    if isinstance(fault, Crash):
        parts.append("with its disk" if fault.keeps_disk else "and its disk is lost")
    if getattr(fault, "silently", False):
        parts.append("silently")
    return " ".join(parts)
