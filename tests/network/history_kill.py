"""Late subscribers at full rate while stores are killed: each gets everything once, in order, and hears of the end.

    .venv/bin/python tests/network/history_kill.py --kills 50

Four brokers in a ring, two of them with a store of the same topics, and two publishers of QoS 2 at each. In every round
a late subscriber of QoS 2 comes to each broker and asks for the last seconds; while it is being answered one of the
stores is killed with SIGKILL, and started anew on its data. Whoever was late must in the end have what was acknowledged
in that time, whatever of it was past and whatever present.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    # gmqtt installs a package `tests` of its own, which would be found before this folder.
    sys.modules["tests"] = ModuleType("tests")
    sys.modules["tests"].__path__ = [str(Path(__file__).parents[1])]

from latecomer.cli.doors import ask, found_doors
from latecomer.model.topology_generators import ring
from latecomer.runtime.network_file import with_stores
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import HOST, answers, network_of, running
from tests.network.raw import CONNECT, KEEP_ALIVE_SECONDS, Publisher, Subscriber, packet, read_packet, text

SETTLE_SECONDS = 90.0
BACK_SECONDS = 5.0
"""How far back a late subscriber asks."""
EDGE_SECONDS = 1.0
"""Around that instant it depends on when exactly the broker took an event."""
BEGIN_SECONDS = 5.0
"""From its first start a store needs so long to be certain that nothing passes it by."""
STORES = ("b2", "b4")
END = "$history/end"


@dataclass(slots=True)
class Tally:
    """What became of one late subscriber."""

    broker: str
    wanted: int
    lost: int
    repeats: int
    disordered: int
    markers: int
    problem: str

    @property
    def good(self) -> bool:
        return not (self.lost or self.repeats or self.disordered or self.problem) and self.markers == 1


@dataclass(slots=True)
class Outcome:
    kills: int = 0
    tallies: list[Tally] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return bool(self.tallies) and all(tally.good for tally in self.tallies)

    def lines(self) -> Iterator[str]:
        for tally in self.tallies:
            if not tally.good:
                yield f"BROKEN: {tally}"
        sums = {
            name: sum(getattr(t, name) for t in self.tallies) for name in ("wanted", "lost", "repeats", "disordered")
        }
        counts = ", ".join(f"{count} {name}" for name, count in sums.items())
        yield f"{self.kills} kills, {len(self.tallies)} late subscribers: {counts}: {'good' if self.good else 'BROKEN'}"


class Timed(Publisher):
    """Remembers when each message was sent."""

    def __init__(self, port: int, name: str, topic: str) -> None:
        super().__init__(port, name, topic, qos=2, window=50)
        self.sent_at: dict[bytes, float] = {}

    def publish(self) -> bool:
        number = self.sent
        if not super().publish():
            return False
        self.sent_at[f"{self.name}:{number}".encode()] = time.time()
        return True

    def acknowledged_since(self, instant: float) -> list[bytes]:
        return [payload for payload in self.acknowledged if self.sent_at[payload] >= instant]


class Trial:
    """The clients of one run."""

    def __init__(self, supervisor: Supervisor, rate: float, late_at: tuple[str, ...]) -> None:
        self.supervisor = supervisor
        self.rate = rate
        self.late_at = late_at
        self.ports = {seat.id: seat.port for seat in supervisor.network.brokers}
        self.publishers = [
            Timed(port, f"p-{broker}-{number}", f"kill/{broker}/{number}")
            for broker, port in self.ports.items()
            for number in (1, 2)
        ]
        self.producing = True
        self.outcome = Outcome()

    async def run(self, kills: int, seed: int) -> Outcome:
        chance = random.Random(seed)
        tasks = [asyncio.create_task(publisher.run()) for publisher in self.publishers]
        producers = [asyncio.create_task(self._produce(publisher)) for publisher in self.publishers]
        try:
            await asyncio.sleep(BEGIN_SECONDS + BACK_SECONDS)
            for number in range(kills):
                await self._round(number, chance)
                if number % 10 == 9 or not self.outcome.good:
                    print(*self.outcome.lines(), sep="\n", file=sys.stderr, flush=True)
        finally:
            self.producing = False
            await asyncio.gather(*producers)
            for publisher in self.publishers:
                publisher.stop()
            await asyncio.gather(*tasks)
        return self.outcome

    async def _produce(self, publisher: Timed) -> None:
        while self.producing:
            publisher.publish()
            await asyncio.sleep(1 / self.rate)

    async def _round(self, number: int, chance: random.Random) -> None:
        if not self.outcome.kills:
            await self._both_answer()
        since = time.time() - BACK_SECONDS
        late = {
            broker: Subscriber(self.ports[broker], f"late-{number}-{broker}", {f"$history/since={since:.6f}/kill/#": 2})
            for broker in self.late_at
        }
        tasks = [asyncio.create_task(subscriber.run()) for subscriber in late.values()]
        victim = chance.choice(STORES)
        for subscriber in late.values():  # what is not acknowledged was not promised
            await asyncio.wait_for(subscriber.subscribed.wait(), SETTLE_SECONDS)
        await asyncio.sleep(chance.uniform(0.0, 0.2))
        self.supervisor.kill(victim)
        self.outcome.kills += 1
        await asyncio.sleep(chance.uniform(0.05, 1.5))
        self.supervisor.revive(victim, wait=False)
        await answers(self.supervisor, victim)
        until = time.time()
        wanted = [p for each in self.publishers for p in each.acknowledged_since(since + EDGE_SECONDS)]
        wanted = [payload for payload in wanted if self._sent_at(payload) <= until]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settle(late, wanted), SETTLE_SECONDS)
        self.outcome.tallies += [tally(broker, subscriber, wanted) for broker, subscriber in late.items()]
        for subscriber in late.values():
            subscriber.stop()
        await asyncio.gather(*tasks)
        for broker, subscriber in late.items():
            await forget(self.ports[broker], subscriber.name)

    async def _both_answer(self) -> None:
        """The stores have begun; from here on any of them may die, also while the other is still being filled."""
        doors = found_doors(self.supervisor.folder, [], [], None)
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            views = [await asyncio.to_thread(ask, door) for door in doors]
            if all(each.answering for view in views if view.store for each in view.store.classes):
                return
            assert time.monotonic() < until, f"a store does not answer: {views}"
            await asyncio.sleep(0.1)

    def _sent_at(self, payload: bytes) -> float:
        name = payload.partition(b":")[0].decode()
        return next(each.sent_at[payload] for each in self.publishers if each.name == name)

    async def _settle(self, late: dict[str, Subscriber], wanted: list[bytes]) -> None:
        while any(lacks(subscriber, wanted) for subscriber in late.values()):
            await asyncio.sleep(0.1)


def received(subscriber: Subscriber) -> Iterator[tuple[bytes, int]]:
    """Payloads of the topics that were published to, and how often each came."""
    for topic, got in subscriber.got.items():
        if topic != END:
            yield from got.count.items()


def lacks(subscriber: Subscriber, wanted: list[bytes]) -> bool:
    have = dict(received(subscriber))
    return END not in subscriber.got or any(payload not in have for payload in wanted)


def tally(broker: str, subscriber: Subscriber, wanted: list[bytes]) -> Tally:
    have = dict(received(subscriber))
    disordered = 0
    for topic, got in subscriber.got.items():
        if topic != END:
            numbers = [int(payload.rpartition(b":")[2]) for payload in got.order]
            disordered += sum(later < earlier for earlier, later in pairwise(numbers))
    ends = subscriber.got.get(END)
    said = [json.loads(payload) for payload in ends.order] if ends else []
    return Tally(
        broker,
        len(wanted),
        lost=sum(payload not in have for payload in wanted),
        repeats=sum(have.values()) - len(have),
        disordered=disordered,
        markers=sum(ends.count.values()) if ends else 0,
        problem="; ".join(each["problem"] or "incomplete" for each in said if not each["complete"]),
    )


async def forget(port: int, name: str) -> None:
    """End the session of a client that will not come back."""
    reader, writer = await asyncio.open_connection(HOST, port)
    body = text("MQTT") + bytes([4, 2]) + KEEP_ALIVE_SECONDS.to_bytes(2) + text(name)
    writer.write(packet(CONNECT, body))
    await asyncio.wait_for(read_packet(reader), SETTLE_SECONDS)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def trial(
    folder: Path, *, kills: int, seed: int, rate: float = 100, late_at: tuple[str, ...] = ("b1", "b2", "b3", "b4")
) -> Outcome:
    """One run on a network of its own; late subscribers come to the brokers `late_at`."""
    network = network_of(ring(4), {"event_log": {"enabled": False}})
    network = with_stores(network, [f"{broker}=kill/#" for broker in STORES], {"keep": "1h"})
    with running(network, folder, restart=False) as supervisor:
        return asyncio.run(Trial(supervisor, rate, late_at).run(kills, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="which store dies when")
    parser.add_argument("--rate", type=float, default=100, help="messages per second of each publisher")
    parser.add_argument("--at", default="b1,b2,b3,b4", help="where late subscribers come to")
    parser.add_argument("--keep", type=Path, help="keep data and logs here")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="latecomer-history-") as folder:
        place = told.keep or Path(folder)
        late_at = tuple(told.at.split(","))
        outcome = trial(place, kills=told.kills, seed=told.seed, rate=told.rate, late_at=late_at)
    print(*outcome.lines(), sep="\n")
    sys.exit(0 if outcome.good else 1)


if __name__ == "__main__":
    main()
