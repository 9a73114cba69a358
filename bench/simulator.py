"""How fast the simulator is: broker message-hops per second on one core, next to SimPy, in one run.

The same publications travel the same tree along the same routes, in our simulator with everything a broker does
(tables, link sessions, reports, mailboxes), and as plain messages between SimPy processes, written as SimPy's manual
writes it (the "Cable" of its latency example: one process per message under way) and doing no brokering at all. A hop
is a message crossing a link. With reliable events half of the messages are reports that go back; "publications" counts
without them, "messages" with them. Rounds are interleaved, medians are shown.

    python bench/simulator.py [--rounds N] [--big]

With `--big`: a network of 1,000 brokers and 100,000 subscriptions settles and routes; time and memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import simpy
from rich.console import Console
from rich.table import Table

from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import Publication
from latecomer.model import topology_generators as generators
from latecomer.model.filters import parse_filter
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World

BROKERS = 40
TOPICS = 40
SUBSCRIPTIONS = 5
PUBLICATIONS = 4_000
GAP_US = 200
LATENCY_US = 1_000


@dataclass(slots=True, frozen=True)
class Work:
    """What is published: (instant, client number, topic number), in bursts."""

    burst: int

    def publications(self) -> list[tuple[int, int, int]]:
        random = Random(7)
        return [
            (start * GAP_US, random.randrange(BROKERS), random.randrange(TOPICS))
            for start in range(0, PUBLICATIONS, self.burst)
        ]


def settled_world() -> tuple[World, SimClients]:
    random = Random(1)
    world = World(generators.random_tree(BROKERS, random, latency_us=LATENCY_US), BrokerSettings(), random)
    clients = SimClients(world, [])
    world.start_all()
    for number in range(BROKERS):
        clients.join(f"c{number}", f"b{number + 1}")
    world.run(1_000_000)
    for number in range(BROKERS):
        for _ in range(SUBSCRIPTIONS):
            clients.subscribe(f"c{number}", parse_filter(f"t/{random.randrange(TOPICS)}"))
    world.run(2_000_000)
    return world, clients


def ours(work: Work, *, reliable: bool) -> tuple[int, int, float]:
    """Publications and messages that crossed a link, and seconds."""
    world, clients = settled_world()
    start = world.now

    def publish(client: str, topic: str) -> None:
        for _ in range(work.burst):
            clients.publish(client, topic, reliable=reliable)

    for at, client, topic in work.publications():
        world.at(start + at, publish, f"c{client}", f"t/{topic}")
    before, all_before = world.counts[Publication], sum(world.counts.values())
    began = time.perf_counter()
    world.run(start + PUBLICATIONS * GAP_US + 200_000)
    seconds = time.perf_counter() - began
    return world.counts[Publication] - before, sum(world.counts.values()) - all_before, seconds


def simpy_peer(work: Work) -> tuple[int, int, float]:
    """The same hops, and nothing but the hops."""
    world, _ = settled_world()
    routes: dict[str, list[tuple[str, ...]]] = {}
    for id, node in world.nodes.items():
        assert node.core is not None
        routes[id] = [node.core.routes.of(f"t/{topic}").peers for topic in range(TOPICS)]
    env = simpy.Environment()
    inboxes = {id: simpy.Store(env) for id in routes}
    hops = 0

    def cable(receiver: str, message: tuple[str, int]) -> Generator[Any, Any, None]:
        yield env.timeout(LATENCY_US)
        inboxes[receiver].put(message)

    def broker(id: str) -> Generator[Any, Any, None]:
        nonlocal hops
        while True:
            came_from, topic = yield inboxes[id].get()
            for peer in routes[id][topic]:
                if peer != came_from:
                    hops += 1
                    env.process(cable(peer, (id, topic)))

    def publisher() -> Generator[Any, Any, None]:
        for at, client, topic in work.publications():
            yield env.timeout(at - env.now)
            for _ in range(work.burst):
                inboxes[f"b{client + 1}"].put(("", topic))

    for id in routes:
        env.process(broker(id))
    env.process(publisher())
    began = time.perf_counter()
    env.run(until=PUBLICATIONS * GAP_US + 200_000)
    return hops, hops, time.perf_counter() - began


def compare(console: Console, rounds: int) -> None:
    table = Table(title=f"hops per second on one core, median of {rounds} interleaved rounds")
    for column in ("", "publications/s", "messages/s", "ratio to SimPy"):
        table.add_column(column, justify="right" if column else "left")
    for burst, name in ((1, "one at a time"), (20, "in bursts of 20")):
        work = Work(burst)
        contenders: dict[str, Callable[[], tuple[int, int, float]]] = {
            "unreliable": partial(ours, work, reliable=False),
            "reliable": partial(ours, work, reliable=True),
            "SimPy": partial(simpy_peer, work),
        }
        speeds: dict[str, list[tuple[float, float]]] = {contender: [] for contender in contenders}
        counted: dict[str, int] = {}
        for number in range(rounds):
            for contender, run in contenders.items():
                if console.is_terminal:
                    console.print(f"{name}: round {number + 1} of {rounds}, {contender}          ", end="\r")
                counted[contender], messages, seconds = run()
                speeds[contender].append((counted[contender] / seconds, messages / seconds))
        assert len(set(counted.values())) == 1, f"not the same hops: {counted}"
        peer = statistics.median(hops for hops, _ in speeds["SimPy"])
        for contender, measured in speeds.items():
            hops, messages_per_s = (statistics.median(column) for column in zip(*measured, strict=True))
            row = f"{contender}, {name} ({counted[contender]:,})"
            table.add_row(
                row, f"{hops:,.0f}", f"{messages_per_s:,.0f}", f"{hops / peer:.1f} / {messages_per_s / peer:.1f}"
            )
    console.print(table)


def big(console: Console, brokers: int = 1_000, subscriptions: int = 100_000) -> None:
    """A network of 1,000 brokers (Barabási–Albert, two links each) with 100,000 subscriptions to 1,070 filters."""
    random = Random(1)
    began = time.perf_counter()
    table = Table(title=f"{brokers:,} brokers, {subscriptions:,} subscriptions")
    for column in ("phase", "seconds", "frames", "peak memory"):
        table.add_column(column, justify="left" if column == "phase" else "right")

    def row(phase: str) -> None:
        nonlocal began
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds, began = time.perf_counter() - began, time.perf_counter()
        table.add_row(phase, f"{seconds:.1f}", f"{sum(world.counts.values()):,}", f"{memory_mb:,.0f} MB")

    world = World(generators.barabasi_albert(brokers, 2, random), BrokerSettings(), random)
    clients = SimClients(world, [])
    world.start_all()
    world.run(5_000_000)
    trees = {node.core.interest.tree.version for node in world.nodes.values() if node.core and node.core.interest.tree}
    assert len(trees) == 1, f"{len(trees)} trees"
    row("one tree, tables ready")
    for number in range(brokers * 10):
        clients.join(f"c{number}", f"b{number % brokers + 1}")
    filters = [parse_filter(f"t/{number}/{number % 7}") for number in range(1_000)]
    filters += [parse_filter(f"t/{number}/+") for number in range(50)]
    filters += [parse_filter(f"t/{number}/#") for number in range(20)]
    for number in range(subscriptions):
        clients.subscribe(f"c{number % (brokers * 10)}", random.choice(filters))
    world.run(world.now + 2_000_000)
    row("subscriptions known everywhere")
    for _ in range(1_000):
        topic = random.randrange(1_000)
        clients.publish(f"c{random.randrange(brokers * 10)}", f"t/{topic}/{topic % 7}")
    world.run(world.now + 3_000_000)
    left = sum(len(node.core.events.outbox.entries) for node in world.nodes.values() if node.core)
    assert left == 0, f"{left} events are not done"
    row("1,000 reliable events with everybody who wants them")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--big", action="store_true", help="also the network of 1,000 brokers (minutes)")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    console = Console()
    compare(console, arguments.rounds)
    if arguments.big:
        big(console)


if __name__ == "__main__":
    main()
