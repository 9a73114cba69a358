"""Clients that come and go, and turn up at their broker or at another one; brokers may be killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from bench.handover.client import Publisher, Subscriber, payload
from bench.handover.paho_clients import Got, Process
from latecomer.runtime.supervisor import Supervisor

AWAY_S = (1.5, 3.0)
DOWN_S = (1.0, 4.0)
BEGIN_AT_ONCE = 50
TICK_S = 0.01
SETTLE_S = 120.0


@dataclass(slots=True, frozen=True)
class Terms:
    """What is asked of a run."""

    clients: int
    rate: float
    seed: int
    stay_s: tuple[float, float]
    kill_every_s: float
    pahos: int


@dataclass(slots=True)
class Outcome:
    clients: int
    sent: int = 0
    seconds: float = 0.0
    lost: int = 0
    repeated: list[int] = field(default_factory=lambda: [0, 0, 0])
    """By QoS."""
    disordered: int = 0
    sessions_lost: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    """CONNACKs by reason."""
    refused_publications: int = 0
    kills: int = 0
    moved: list[float] = field(default_factory=list)
    """Seconds from the first attempt to connect to the first missed message, at another broker."""
    told: list[float] = field(default_factory=list)
    """The same if the client says in its CONNECT where it was."""
    returned: list[float] = field(default_factory=list)
    """The same at the same broker."""
    moves: int = 0
    returns: int = 0
    pahos: list[Got] = field(default_factory=list)
    generator_cpu: float = 0.0
    """Of one core, while messages are published."""
    brokers_cpu: float = 0.0
    load: float = 0.0
    """The machine's load average of the last minute, at the end."""
    story: list[str] = field(default_factory=list)
    """Kills, sessions and messages that were lost, as they happened; with the time of day, as in the brokers' logs."""

    def tell(self, line: str) -> None:
        self.story.append(f"{datetime.now():%H:%M:%S.%f} {line}")


class Wander:
    """One run."""

    def __init__(self, supervisor: Supervisor, terms: Terms) -> None:
        clients, rate, seed = terms.clients, terms.rate, terms.seed
        self.supervisor = supervisor
        self.terms = terms
        self.rate = rate
        self.chance = random.Random(seed)
        self.ports = [seat.port for seat in supervisor.network.brokers]
        self.brokers = [seat.id for seat in supervisor.network.brokers]
        self.subscribers = [Subscriber(f"w{at}", f"w/{at}", 1 + at % 2) for at in range(clients)]
        self.topics = [*(each.topic for each in self.subscribers), *(f"paho/{at}" for at in range(terms.pahos))]
        self.sent: list[int] = [0] * len(self.topics)
        """By topic: how many messages were published to it, all acknowledged in the end."""
        self.pahos = Process(terms.pahos, seed, terms.stay_s, self.ports)
        self.publishers = [Publisher(f"p{at}") for at in range(len(self.ports))]
        self.out = Outcome(clients)
        self.cpu_of_the_dead = 0.0
        self.wandering = True
        self.producing = True

    async def run(self, seconds: float, *, kill: bool) -> Outcome:
        staying = [
            asyncio.create_task(publisher.stay(port))
            for publisher, port in zip(self.publishers, self.ports, strict=True)
        ]
        for first in range(0, len(self.subscribers), BEGIN_AT_ONCE):
            some = range(first, min(first + BEGIN_AT_ONCE, len(self.subscribers)))
            await asyncio.gather(*(self._begin(at) for at in some))
        if self.terms.pahos:
            await self.pahos.start()
        await asyncio.sleep(3)
        began, used = time.perf_counter(), (time.process_time(), self._cpu_of_brokers())
        talking = asyncio.create_task(self._publish())
        going = [asyncio.create_task(self._wander(at)) for at in range(len(self.subscribers))]
        if kill:
            await self._kill(seconds)
        else:
            await asyncio.sleep(seconds)
        out = self.out
        out.seconds = time.perf_counter() - began
        out.generator_cpu = (time.process_time() - used[0]) / out.seconds
        out.brokers_cpu = (self._cpu_of_brokers() - used[1]) / out.seconds
        out.load = os.getloadavg()[0]
        self.wandering = self.producing = False
        if self.terms.pahos:
            self.pahos.settle()
        await talking
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while any(publisher.pending for publisher in self.publishers) or self._lost():
                    await asyncio.sleep(0.1)
        await asyncio.sleep(5.0 if self.terms.pahos else 0.5)
        if self.terms.pahos:
            out.pahos = await self.pahos.stop()
        for publisher in self.publishers:
            publisher.stopping = True
            publisher.leave()
        for subscriber in self.subscribers:
            subscriber.leave()
        left = {*staying, *going}
        while left:  # `wait_for` may miss that it is cancelled if what it waits for comes in the same moment
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)
        return self._judge()

    async def _begin(self, at: int) -> None:
        subscriber = self.subscribers[at]
        answer = await subscriber.connect(self.ports[at % len(self.ports)])
        assert answer is not None
        assert answer.reason == 0, answer
        await subscriber.subscribe(subscriber.topic, subscriber.qos)

    async def _publish(self) -> None:
        """In turn to each subscriber, each from one publisher: so order is a promise."""
        began, number = time.perf_counter(), 0
        waiting: dict[int, None] = {}
        while self.producing or waiting:
            due = int((time.perf_counter() - began) * self.rate)
            while self.producing and number < due:
                waiting[number % len(self.topics)] = None
                number += 1
            for at in list(waiting):
                publisher = self.publishers[at % len(self.publishers)]
                if publisher.publish(self.topics[at], payload(self.sent[at]), 1 + at % 2, at_once=False):
                    self.sent[at] += 1
                    del waiting[at]
            for publisher in self.publishers:
                if publisher.wire is not None:
                    publisher.wire.flush()
            await asyncio.sleep(TICK_S)

    async def _wander(self, at: int) -> None:
        subscriber, here = self.subscribers[at], at % len(self.ports)
        while True:
            stay = self.chance.uniform(*self.terms.stay_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(subscriber.gone.wait(), stay if self.wandering else None)
            if not subscriber.gone.is_set():
                (subscriber.leave if self.chance.random() < 0.5 else subscriber.abort)()
                await subscriber.gone.wait()
            await asyncio.sleep(self.chance.uniform(*AWAY_S))
            there = here
            if self.chance.random() < 0.5:
                there = self.chance.choice([each for each in range(len(self.ports)) if each != here])
            moves = there != here
            word = self.brokers[here] if moves and self.chance.random() < 0.5 else ""
            here = await self._come(subscriber, there, moves=moves, word=word)

    async def _come(self, subscriber: Subscriber, there: int, *, moves: bool, word: str) -> int:
        """Connect there, again and again; a client that moves tries another broker if it finds nobody."""
        began: float | None = None
        subscriber.first = self.out.told if word else self.out.moved if moves else self.out.returned
        while True:
            try:
                began = began or time.perf_counter()
                subscriber.waiting_since = began
                answer = await subscriber.connect(self.ports[there], previous=word)
            except OSError:
                if moves:
                    there = self.chance.randrange(len(self.ports))
                await asyncio.sleep(0.1)
                continue
            if answer is not None and answer.reason == 0:
                self.out.sessions_lost += not answer.session_present
                if not answer.session_present:
                    self.out.tell(f"{subscriber.name}: new session at {self.brokers[there]}, {answer.properties.user}")
                    subscriber.held.clear()
                    await subscriber.subscribe(subscriber.topic, subscriber.qos)
                self.out.moves += moves
                self.out.returns += not moves
                return there
            reason = -1 if answer is None else int(answer.reason)
            self.out.refused[reason] = self.out.refused.get(reason, 0) + 1
            await asyncio.sleep(0.1)

    async def _kill(self, seconds: float) -> None:
        """One broker at a time is killed, and started again on its data."""
        until = time.perf_counter() + seconds
        while True:
            await asyncio.sleep(self.chance.uniform(0.75, 1.25) * self.terms.kill_every_s)
            if time.perf_counter() > until:
                return
            victim = self.chance.choice(self.brokers)
            self.cpu_of_the_dead += self._cpu_of(victim)
            self.supervisor.kill(victim)
            self.out.tell(f"{victim} is killed")
            self.out.kills += 1
            await asyncio.sleep(self.chance.uniform(*DOWN_S))
            self.supervisor.revive(victim, wait=False)
            self.out.tell(f"{victim} is started")

    def _lost(self) -> int:
        """Numbers are given without gaps, so counting is enough."""
        return sum(self.sent[at] - len(subscriber.count) for at, subscriber in enumerate(self.subscribers))

    def _judge(self) -> Outcome:
        out = self.out
        out.sent = sum(self.sent)
        out.lost = self._lost()
        for sent, subscriber in zip(self.sent, self.subscribers, strict=False):
            out.repeated[subscriber.qos] += subscriber.repeated
            out.disordered += subscriber.disordered
            missing = [number for number in range(sent) if number not in subscriber.count]
            if missing:
                out.tell(f"{subscriber.name}: QoS {subscriber.qos}, numbers {missing} of {sent} did not come")
        for sent, got in zip(self.sent[len(self.subscribers) :], out.pahos, strict=True):
            out.lost += sent - got.numbers
            out.repeated[got.qos] += got.repeated
            out.disordered += got.disordered
        out.refused_publications = sum(publisher.refused for publisher in self.publishers)
        return out

    def _cpu_of_brokers(self) -> float:
        """Seconds that all brokers have used."""
        return self.cpu_of_the_dead + sum(map(self._cpu_of, self.brokers))

    def _cpu_of(self, broker: str) -> float:
        process = self.supervisor.children[broker].process
        if process is not None:
            with suppress(OSError), open(f"/proc/{process.pid}/stat") as stat:
                return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        return 0.0
