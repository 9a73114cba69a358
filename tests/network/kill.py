"""Publishers and subscribers while brokers are killed: what was acknowledged arrives, and QoS 2 arrives once.

    .venv/bin/python tests/network/kill.py --kills 200

Four brokers in a ring, each with a publisher of QoS 1 and of QoS 2 and a subscriber to everything. Again and again
one broker is killed with SIGKILL and started anew on its data. In the end everything must have come everywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    # gmqtt installs a package `tests` of its own, which would be found before this folder.
    sys.modules["tests"] = ModuleType("tests")
    sys.modules["tests"].__path__ = [str(Path(__file__).parents[1])]

from latecomer.model.topology_generators import line, ring
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import answers, network_of, running
from tests.network.raw import Publisher, Subscriber

SETTLE_SECONDS = 120.0
PAUSE_SECONDS = (0.05, 1.0)
"""Between two kills, and between a kill and the new start: sometimes the links outlive it, sometimes not."""


@dataclass(slots=True)
class Row:
    """One publisher, as one subscriber saw it."""

    publisher: str
    subscriber: str
    qos: int
    acknowledged: int
    lost: int
    repeats: int
    disordered: int


@dataclass(slots=True)
class Outcome:
    kills: int
    rows: list[Row]
    sessions_lost: int

    @property
    def good(self) -> bool:
        broken = any(row.lost or (row.repeats and row.qos == 2) for row in self.rows)
        return not broken and not self.sessions_lost

    def lines(self) -> Iterator[str]:
        yield f"{'publisher':<10} {'subscriber':<10} QoS  acknowledged    lost  repeats  out of order"
        for row in self.rows:
            yield (
                f"{row.publisher:<10} {row.subscriber:<10} {row.qos:>3}  {row.acknowledged:>12}  {row.lost:>6}  "
                f"{row.repeats:>7}  {row.disordered:>12}"
            )
        promised = sum(row.acknowledged for row in self.rows)
        lost = sum(row.lost for row in self.rows)
        twice = sum(row.repeats for row in self.rows if row.qos == 2)
        yield (
            f"{self.kills} kills, {promised} deliveries promised, {lost} lost, {twice} QoS 2 repeats, "
            f"{self.sessions_lost} sessions lost: {'good' if self.good else 'BROKEN'}"
        )


class Trial:
    """The clients of one run."""

    def __init__(self, supervisor: Supervisor, rate: float) -> None:
        self.supervisor = supervisor
        self.rate = rate
        ports = {seat.id: seat.port for seat in supervisor.network.brokers}
        self.publishers = [
            Publisher(port, f"p{qos}-{broker}", f"kill/{qos}/{broker}", qos)
            for broker, port in ports.items()
            for qos in (1, 2)
        ]
        self.subscribers = [
            Subscriber(port, f"s-{broker}", {"kill/1/+": 1, "kill/2/+": 2, "probe/#": 0})
            for broker, port in ports.items()
        ]  # fmt: skip
        self.producing = True

    async def run(self, kills: int, seed: int) -> Outcome:
        clients = [*self.publishers, *self.subscribers]
        tasks = [asyncio.create_task(client.run()) for client in clients]
        try:
            await asyncio.wait_for(self._prepare(), SETTLE_SECONDS)
            producers = [asyncio.create_task(self._produce(publisher)) for publisher in self.publishers]
            await self._strike(kills, random.Random(seed))
            self.producing = False
            await asyncio.gather(*producers)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settle(), SETTLE_SECONDS)
        finally:
            for client in clients:
                client.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._outcome(kills)

    async def _prepare(self) -> None:
        """Every subscription is known to every broker that has a publisher."""
        for subscriber in self.subscribers:
            await subscriber.subscribed.wait()
        seen: dict[tuple[str, bytes], None] = {}
        for subscriber in self.subscribers:
            name = subscriber.name
            subscriber.news = lambda topic, payload, name=name: seen.setdefault((name, payload))  # type: ignore[misc]
        while len(seen) < len(self.publishers) * len(self.subscribers):
            for publisher in self.publishers:
                publisher.probe("probe/x", publisher.name.encode())
            await asyncio.sleep(0.05)

    async def _produce(self, publisher: Publisher) -> None:
        while self.producing:
            publisher.publish()
            await asyncio.sleep(1 / self.rate)

    async def _strike(self, kills: int, rng: random.Random) -> None:
        brokers = list(self.supervisor.children)
        for number in range(kills):
            await asyncio.sleep(rng.uniform(*PAUSE_SECONDS))
            broker = rng.choice(brokers)
            self.supervisor.kill(broker)
            await asyncio.sleep(rng.uniform(*PAUSE_SECONDS))
            self.supervisor.revive(broker, wait=False)
            await answers(self.supervisor, broker)
            if number % 10 == 9:
                taken = sum(len(publisher.acknowledged) for publisher in self.publishers)
                print(f"{number + 1} kills, {taken} acknowledged", file=sys.stderr, flush=True)

    async def _settle(self) -> None:
        while any(publisher.pending for publisher in self.publishers) or any(row.lost for row in self._rows()):
            await asyncio.sleep(0.2)

    def _rows(self) -> Iterator[Row]:
        for publisher in self.publishers:
            for subscriber in self.subscribers:
                got = subscriber.got.get(publisher.topic)
                count, order = (got.count, got.order) if got else ({}, [])
                numbers = [int(payload.rpartition(b":")[2]) for payload in order]
                yield Row(
                    publisher.name,
                    subscriber.name,
                    publisher.qos,
                    len(publisher.acknowledged),
                    lost=sum(payload not in count for payload in publisher.acknowledged),
                    repeats=sum(count.values()) - len(count),
                    disordered=sum(later < earlier for earlier, later in pairwise(numbers)),
                )

    def _outcome(self, kills: int) -> Outcome:
        lost = sum(client.sessions_lost for client in (*self.publishers, *self.subscribers))
        return Outcome(kills, list(self._rows()), lost)


def trial(folder: Path, *, kills: int, seed: int, brokers: int = 4, rate: float = 20) -> Outcome:
    """One run on a network of its own."""
    topology = ring(brokers) if brokers > 2 else line(brokers)
    network = network_of(topology, {"event_log": {"enabled": False}})
    with running(network, folder, restart=False) as supervisor:
        return asyncio.run(Trial(supervisor, rate).run(kills, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="which broker dies when")
    parser.add_argument("--brokers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=20, help="messages per second of each publisher")
    parser.add_argument("--keep", type=Path, help="keep data and logs here")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="latecomer-kill-") as folder:
        outcome = trial(
            told.keep or Path(folder), kills=told.kills, seed=told.seed, brokers=told.brokers, rate=told.rate
        )  # fmt: skip
    print(*outcome.lines(), sep="\n")
    sys.exit(0 if outcome.good else 1)


if __name__ == "__main__":
    main()
