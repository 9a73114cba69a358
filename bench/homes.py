"""What re-homing does in a network of real brokers with real clients of `latecomer.client`, which follow references.

Clients have interests: each draws some topics of its group, and connects to any broker. While brokers send them to
better homes, numbered messages are published on all topics; none may be missing. Counted are the clients that were
sent and that came, the subscriptions that brokers hold for them, how many changes of clients' subscriptions brokers
pass on (the same changes played on the homes before and after), and how evenly clients are spread.

    python -m bench.homes [--clients 500] [--groups 50] [--topics 20] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from latecomer.cli.doors import Door, call, found_doors
from latecomer.client import Message, Patience, Profile
from latecomer.client.aio import Client
from latecomer.model.topology_generators import line
from latecomer.runtime.admin_views import Page, SubscriptionView
from latecomer.runtime.homes_views import HomesView
from latecomer.runtime.network_file import Network, Seat
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.supervisor import Supervisor

PORT = 27_400
HOMES = {"mode": "move", "update_s": 3, "settle_s": 0.5, "share_max": 0.1, "rest_s": 3600, "away_s": 30}
PER_CLIENT = 5
QUIET_UPDATES = 6
"""When nobody was sent for so many updates, it is over."""
PATIENCE = Patience(pause_s=0.2, pause_max_s=1.0, attempts_max=200)


@dataclass(slots=True)
class One:
    """A client, and what it heard: numbers by topic."""

    name: str
    group: int
    topics: list[str]
    broker: str
    heard: dict[str, list[int]] = field(default_factory=dict)
    ready: bool = False


def network_of(brokers: int) -> Network:
    topology = line(brokers)
    ports = [PORT + 10 * at for at in range(brokers)]
    seats = tuple(
        Seat(id=node.id, port=port, link_port=port + 1, admin_port=port + 2, websocket_port=port + 3)
        for node, port in zip(topology.nodes, ports, strict=True)
    )
    settings = {"homes": HOMES, "event_log": {"enabled": False}, "broker": {"durability": "process"}}
    return Network(name="homes", brokers=seats, links=topology.links, settings=settings)


def people(count: int, groups: int, topics: int, brokers: list[str], random: Random) -> list[One]:
    """Everybody wants some topics of one group, and begins anywhere."""
    found = []
    for number in range(count):
        group = random.randrange(groups)
        chosen = [f"g{group}/t{topic}" for topic in random.sample(range(topics), PER_CLIENT)]
        found.append(One(f"c{number}", group, chosen, random.choice(brokers)))
    return found


async def live(one: One, ports: dict[str, int], over: asyncio.Event) -> None:
    async with Client([f"127.0.0.1:{ports[one.broker]}"], Profile(client_id=one.name, patience=PATIENCE)) as client:
        for topic in one.topics:
            await client.subscribe(topic, qos=1)
        one.ready = True

        async def listen() -> None:
            async for heard in client.messages:
                if isinstance(heard, Message):
                    one.heard.setdefault(heard.topic, []).append(int(heard.payload))

        task = asyncio.create_task(listen())
        await over.wait()
        task.cancel()


async def publish(port: int, topics: list[str], sent: Counter[str], over: asyncio.Event) -> None:
    """Number after number on topic after topic."""
    async with Client([f"127.0.0.1:{port}"], Profile(client_id="writer", patience=PATIENCE)) as client:
        while True:
            for topic in topics:
                if over.is_set():
                    return
                sent[topic] += 1
                await client.publish(topic, str(sent[topic]), qos=1)
                await asyncio.sleep(0.005)


def homes_of(doors: dict[str, Door], people: dict[str, One]) -> dict[str, str]:
    """Where each client's subscriptions are."""
    found: dict[str, str] = {}
    for broker, door in doors.items():
        after = ""
        while True:
            page = call(door, "subscriptions", Page[SubscriptionView], {"after": after, "limit": "1000"})
            found |= {one.client: broker for one in page.items if one.client in people}
            after = page.next
            if not after:
                break
    return found


def broker_subscriptions(people: dict[str, One], homes: dict[str, str]) -> int:
    return len({(homes[one.name], topic) for one in people.values() for topic in one.topics})


def flips(people: dict[str, One], homes: dict[str, str], topics: int, count: int, seed: int) -> int:
    """How many of so many changes of clients a broker passes on, as the first or the last of its clients."""
    random = Random(seed)
    wanted = {name: list(one.topics) for name, one in people.items()}
    held = Counter((homes[name], topic) for name, chosen in wanted.items() for topic in chosen)
    found = 0
    for _ in range(count):
        name = random.choice(list(wanted))
        chosen, group = wanted[name], people[name].group
        left = chosen.pop(random.randrange(len(chosen)))
        held[homes[name], left] -= 1
        found += held[homes[name], left] == 0
        entered = random.choice([t for t in (f"g{group}/t{at}" for at in range(topics)) if t not in chosen])
        chosen.append(entered)
        held[homes[name], entered] += 1
        found += held[homes[name], entered] == 1
    return found


def spread(homes: dict[str, str], brokers: list[str]) -> str:
    counts = Counter(homes.values())
    return f"{min(counts[b] for b in brokers)} to {max(counts[b] for b in brokers)} clients per broker"


def views(doors: dict[str, Door]) -> list[HomesView]:
    return [call(door, "homes", HomesView) for door in doors.values()]


async def until_moved(doors: dict[str, Door]) -> float:
    """Until nobody has been sent for a while; how long it took."""
    began, last, since = time.monotonic(), -1, time.monotonic()
    while time.monotonic() - since < QUIET_UPDATES * HOMES["update_s"]:  # type: ignore[operator]
        await asyncio.sleep(0.5)
        sent = sum(view.sent for view in await asyncio.to_thread(views, doors))
        if sent != last:
            last, since = sent, time.monotonic()
    return since - began


async def play(given: argparse.Namespace, folder: Path) -> None:
    network = network_of(given.brokers)
    ports = {seat.id: seat.port for seat in network.brokers}
    doors = dict(zip(ports, found_doors(folder, [], [], None), strict=True))
    while not all(len(call(door, "network", NetworkView).links) == len(network.links) for door in doors.values()):
        await asyncio.sleep(0.1)
    known = {
        one.name: one for one in people(given.clients, given.groups, given.topics, list(ports), Random(given.seed))
    }
    over, still = asyncio.Event(), asyncio.Event()
    tasks = []
    for one in known.values():
        tasks.append(asyncio.create_task(live(one, ports, over)))
        await asyncio.sleep(0.005)
    while not all(one.ready for one in known.values()):
        await asyncio.sleep(0.1)
    before = {one.name: one.broker for one in known.values()}
    await asyncio.sleep(2)  # the subscriptions are known everywhere
    sent: Counter[str] = Counter()
    topics = sorted({topic for one in known.values() for topic in one.topics})
    writer = asyncio.create_task(publish(ports["b1"], topics, sent, still))
    took_s = await until_moved(doors)
    still.set()
    await writer
    await asyncio.sleep(5)
    after, told = homes_of(doors, known), views(doors)
    over.set()
    await asyncio.gather(*tasks)
    report(given, known, before, after, told, took_s, sent)


def report(
    given: argparse.Namespace,
    known: dict[str, One],
    before: dict[str, str],
    after: dict[str, str],
    told: list[HomesView],
    took_s: float,
    sent: Counter[str],
) -> None:
    brokers = [view.broker for view in told]
    count, returned = sum(view.sent for view in told), sum(view.returned for view in told)
    moved = sum(before[name] != after.get(name) for name in known)
    print(f"{given.clients} clients with {PER_CLIENT} topics each, at {given.brokers} brokers")
    print(f"sent {count}, of which {returned} came back; {moved} are elsewhere now, the last one after {took_s:.0f} s")
    missing = [name for name in known if name not in after]
    print(f"sessions lost: {len(missing)}")
    gaps = repeats = delivered = 0
    for one in known.values():
        for topic in one.topics:
            heard = one.heard.get(topic, [])
            delivered += len(set(heard))
            repeats += len(heard) - len(set(heard))
            gaps += sent[topic] - len(set(heard))
    print(f"messages: {sum(sent.values())} published meanwhile, {delivered} delivered, {gaps} lost, {repeats} repeated")
    for name, homes in (("before", before), ("after", after)):
        held, changes = broker_subscriptions(known, homes), flips(known, homes, given.topics, 5_000, given.seed)
        words = f"{held} subscriptions of brokers, {changes} of 10000 changes of clients are passed on"
        print(f"{name}: {words}, {spread(homes, brokers)}")
    print("similarity now: " + ", ".join(f"{view.broker} {view.similarity or 0:.2f}" for view in told))
    print("load now: " + ", ".join(f"{view.broker} {view.load:.2f}" for view in told))


def main() -> None:
    words = argparse.ArgumentParser(description="What re-homing does with real clients.")
    words.add_argument("--clients", type=int, default=500)
    words.add_argument("--brokers", type=int, default=5)
    words.add_argument("--groups", type=int, default=50)
    words.add_argument("--topics", type=int, default=20, help="of one group")
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        supervisor = Supervisor(network_of(given.brokers), Path(folder))
        supervisor.start()
        try:
            asyncio.run(play(given, Path(folder)))
        finally:
            supervisor.stop()


if __name__ == "__main__":
    main()
