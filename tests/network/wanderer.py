"""A client by hand that moves between brokers with one session, and counts what it gets on the way."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from itertools import pairwise

from tests.network.raw import AGAIN_SECONDS, Publisher, Subscriber

SETTLE_SECONDS = 90.0


class Wanderer(Subscriber):
    """It retries until it is admitted, wherever it is told to be."""

    task: asyncio.Task[None] | None = None

    def come(self, port: int) -> None:
        """Connect, and stay connected."""
        self.port = port
        self.stopping = False
        self.task = asyncio.create_task(self.run())

    async def leave(self) -> None:
        """Say goodbye if it is connected; if it waits for its CONNACK, hang up."""
        self.stop()
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.task = self.writer = None

    def move(self, port: int) -> None:
        """Hang up without a word, and connect elsewhere."""
        self.port = port
        if self.writer is not None:
            self.writer.transport.abort()

    async def admitted(self, connections: int) -> None:
        """Wait for the CONNACK of its so-manieth connection."""
        until = time.monotonic() + SETTLE_SECONDS
        while self.connections < connections:
            assert time.monotonic() < until, f"{self.name} is not admitted"
            await asyncio.sleep(AGAIN_SECONDS / 5)

    async def has(self, topic: str, wanted: dict[bytes, None]) -> None:
        """Wait until it has all of these; if they do not come, say how many are missing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self.lacks(topic, wanted):
                    await asyncio.sleep(AGAIN_SECONDS)
        lost = self.lacks(topic, wanted)
        assert not lost, f"{len(lost)} of {len(wanted)} are missing, the first {lost[:3]}"

    def lacks(self, topic: str, wanted: dict[bytes, None]) -> list[bytes]:
        got = self.got.get(topic)
        return [payload for payload in wanted if got is None or payload not in got.count]

    def flaws(self, topic: str) -> tuple[int, int]:
        """Repetitions, and pairs of neighbours in the wrong order."""
        got = self.got[topic]
        numbers = [int(payload.rpartition(b":")[2]) for payload in got.order]
        disordered = sum(later < earlier for earlier, later in pairwise(numbers))
        return sum(got.count.values()) - len(got.count), disordered


async def publish_all(publisher: Publisher, count: int) -> None:
    """So many messages, all of them acknowledged."""
    until = time.monotonic() + SETTLE_SECONDS
    goal = publisher.sent + count
    while publisher.sent < goal or publisher.pending:
        assert time.monotonic() < until, f"{len(publisher.acknowledged)} of {goal} are acknowledged"
        while publisher.sent < goal and publisher.publish():
            pass
        await asyncio.sleep(0.005)
