"""What one hand-over costs, what a large one does to others, and what clients pay that never move."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from bench.handover.client import Client, Publisher, Subscriber, payload
from bench.handover.giant import Arrived, in_a_process
from bench.handover.network import Traffic, carried, idle
from latecomer.runtime.supervisor import Supervisor


def quantile(values: list[float], part: float) -> float:
    """In milliseconds."""
    return 1000 * sorted(values)[int(part * (len(values) - 1))] if values else float("nan")


# -- one hand-over


async def moves(supervisor: Supervisor, count: int, queued: int, *, announced: bool) -> Traffic:
    """What the links carry for one client that goes from b1 to b2, from its goodbye on: `queued` messages are published
    at b3 while it is away. `announced`: it says where it goes."""
    ports = [seat.port for seat in supervisor.network.brokers]
    publisher = Publisher("filler")
    task = asyncio.create_task(publisher.stay(ports[2]))
    subscribers = [Subscriber(f"m{queued}-{at}", f"m/{queued}/{at}", 1) for at in range(count)]
    for subscriber in subscribers:
        await subscriber.connect(ports[0])
        await subscriber.subscribe(subscriber.topic, 1)
    await asyncio.sleep(2)
    rest = await asyncio.to_thread(idle, supervisor, 5.0)
    before = carried(supervisor)
    for subscriber in subscribers:
        subscriber.leave(supervisor.network.brokers[1].id if announced else "")
        await subscriber.gone.wait()
    await asyncio.sleep(1)  # a session that goes ahead is there
    for subscriber in subscribers:
        for number in range(queued):
            while not publisher.publish(subscriber.topic, payload(number), 1):
                await asyncio.sleep(0.01)
    while publisher.pending:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    for subscriber in subscribers:
        answer = await subscriber.connect(ports[1])
        assert answer is not None
        assert answer.session_present, answer
        while len(subscriber.count) < queued:
            await asyncio.sleep(0.001)
        subscriber.leave()
    await asyncio.sleep(2)
    found = carried(supervisor).since(before, rest)
    publisher.stopping = True
    publisher.leave()
    task.cancel()
    for subscriber in subscribers:  # leave no sessions behind
        await subscriber.connect(ports[1], clean=True, keep_s=0)
        subscriber.leave()
    return Traffic(found.frames / count, found.octets / count, found.at)


# -- a large one


@dataclass(slots=True)
class Big:
    queued: int
    fill_s: float = 0.0
    moved: Arrived = field(default_factory=Arrived)
    same: Arrived = field(default_factory=Arrived)
    """A session of the same size, whose client returns to its broker."""
    before: list[float] = field(default_factory=list)
    returning: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    """Seconds from publisher to subscriber, of others."""


async def big(supervisor: Supervisor, queued: int, rate: float = 60.0) -> Big:
    ports = [seat.port for seat in supervisor.network.brokers]
    out = Big(queued)
    filler = Publisher("big-filler", window=1000)
    tasks = [asyncio.create_task(filler.stay(ports[2]))]
    giants = [Subscriber(name, "big/x", 1) for name in ("giant-same", "giant-moves")]
    for giant in giants:
        await giant.connect(ports[0])
        await giant.subscribe(giant.topic, 1)
        giant.leave()
        await giant.gone.wait()
    await asyncio.sleep(1)
    began = time.perf_counter()
    for number in range(queued):
        while not filler.publish("big/x", payload(number), 1):
            await asyncio.sleep(0.002)
    while filler.pending:
        await asyncio.sleep(0.01)
    await _through(filler, ports[0])
    out.fill_s = time.perf_counter() - began
    others = [Subscriber(f"other{at}", f"o/{at}", 1) for at in range(len(ports))]
    for at, other in enumerate(others):
        await other.connect(ports[at], clean=True, keep_s=0)
        await other.subscribe(other.topic, 1)
    talkers = [Publisher(f"talker{at}") for at in range(len(ports))]
    tasks += [asyncio.create_task(talker.stay(port)) for talker, port in zip(talkers, ports, strict=True)]
    await asyncio.sleep(2)
    tasks.append(asyncio.create_task(_talk(talkers, others, rate)))
    for latencies in (out.before, out.returning, out.during):
        for other in others:
            other.latency = latencies
        if latencies is out.before:
            await asyncio.sleep(15)
        elif latencies is out.returning:
            out.same = await in_a_process(giants[0].name, ports[0], queued)
        else:
            out.moved = await in_a_process(giants[1].name, ports[1], queued)
        for other in others:
            other.latency = None
        await asyncio.sleep(3)
    for publisher in (filler, *talkers):
        publisher.stopping = True
    for task in tasks:
        task.cancel()
    for client in (filler, *talkers, *giants, *others):
        client.abort()
    return out


async def _through(publisher: Publisher, port: int) -> None:
    """Wait until everything that this publisher has sent has reached a broker: what it sends now comes behind it."""
    fence = Subscriber("fence", "fence/x", 1)
    await fence.connect(port, clean=True, keep_s=0)
    await fence.subscribe(fence.topic, 1)
    while not fence.count:
        publisher.publish(fence.topic, payload(0), 1)
        await asyncio.sleep(0.2)
    fence.leave()


async def _talk(talkers: list[Publisher], others: list[Subscriber], rate: float) -> None:
    """Each to a subscriber two brokers further."""
    began, number = time.perf_counter(), 0
    while True:
        while number < (time.perf_counter() - began) * rate:
            at = number % len(talkers)
            talkers[at].publish(others[(at + 2) % len(others)].topic, payload(number), 1)
            number += 1
        await asyncio.sleep(0.004)


# -- connections


@dataclass(slots=True)
class Burst:
    count: int
    seconds: float = 0.0
    refused: int = 0
    traffic: Traffic | None = None
    waits: list[float] = field(default_factory=list)


async def burst(
    supervisor: Supervisor, count: int, prefix: str, *, clean: bool, at_once: int = 100, measure: bool = True
) -> Burst:
    """So many new clients connect, spread over all brokers; `clean`: they keep no session."""
    ports = [seat.port for seat in supervisor.network.brokers]
    out = Burst(count)
    rest = await asyncio.to_thread(idle, supervisor, 5.0) if measure else None
    before = carried(supervisor) if measure else None
    numbers = iter(range(count))
    began = time.perf_counter()

    async def one_after_the_other() -> None:
        for number in numbers:
            client = Client(f"{prefix}{number}")
            answer = await client.connect(ports[number % len(ports)], clean=clean, keep_s=0 if clean else 600)
            out.waits.append(time.perf_counter() - client.connect_sent)
            out.refused += answer is None or answer.reason != 0
            client.leave()

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    out.seconds = time.perf_counter() - began
    if before is not None:
        await asyncio.sleep(2)
        out.traffic = carried(supervisor).since(before, rest)
    return out
