"""A neighbour that knows the secret, keeps to the rules of connections, and says whatever it likes in them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from latecomer.core.inputs import Woken
from latecomer.messages.link import Request, RequestId, Response, ResponseEnd, SessionFrame
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.runtime.node import Node
from latecomer.runtime.settings import loads
from tests.abuse.house import settled, toml
from tests.conformance.raw import PATIENCE_S

T = TypeVar("T")


class Rogue:
    """The broker `name`, which calls the broker `victim`. An honest core does what is needed to be let in: `say` puts
    words into its mouth."""

    def __init__(self, folder: Path, name: str, victim: str, port: int, secret: str) -> None:
        settings = {
            "broker": {"id": name, "network": "ours", "data": folder / name, "durability": "none"},
            "listeners": [{"kind": "tcp", "port": 0}],
            "admin": {"enabled": False},
            "event_log": {"enabled": False},
            "link": {"port": 0, "secret": secret, "reconnect_max_s": 0.1},
            "link.neighbours": [{"id": victim, "host": "127.0.0.1", "port": port}],
        }
        self.name, self.victim = name, victim
        self.answers: list[Response] = []
        self.ends: list[ResponseEnd] = []
        self.numbers = 1_000_000
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._live, args=(toml(settings),), daemon=True)
        self.begun = threading.Event()
        self.node: Node
        self.thread.start()
        assert self.begun.wait(PATIENCE_S), "the rogue does not start"

    def _live(self, text: str) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._start(text))
        self.begun.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.node.stop())
        self.loop.close()

    async def _start(self, text: str) -> None:
        self.node = Node(loads(text))
        await self.node.start()
        carriage = self.node.core.history.carriage
        carriage.taken = lambda frame, _: self.answers.append(frame)
        carriage.ended = lambda frame, _: self.ends.append(frame)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE_S)

    def do(self, call: Callable[[], T]) -> T:
        """Do something inside of it."""

        async def done() -> T:
            result = call()
            self.node.driver.tell(Woken())  # what was put among the orders leaves with those of this step
            return result

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(PATIENCE_S)

    def say(self, *frames: SessionFrame) -> None:
        def send() -> None:
            for frame in frames:
                self.node.core.neighbours.send(self.victim, frame)

        self.do(send)

    def repent(self) -> None:
        """Begin a new session: what was said is not said again."""
        self.do(lambda: self.node.core.neighbours.reject(self.victim, "it was all lies"))

    def join(self, brokers: int) -> None:
        """Wait until it is a member of a tree of so many."""
        interest = self.node.core.interest

        def member() -> bool:
            return interest.ready and interest.tree is not None and len(interest.tree.parent) == brokers

        settled(lambda: self.do(member), f"{self.name} is one of {brokers}")

        def heard() -> bool:  # what is said before the other end has that tree is said in vain
            self.say(self.request("nobody/keeps/this"))
            return bool(self.ends)

        settled(heard, f"{self.victim} listens to {self.name}")

    def request(self, topics: str, path: tuple[str, ...] | None = None, *, asker: str = "", credit: int = 1) -> Request:
        """A request of its own, or one that looks like somebody else's."""
        self.numbers += 1
        asker = asker or self.name
        id = RequestId(asker, self.node.core.orders.boot, self.numbers)
        return Request(id, (asker,) if path is None else path, topics, Query(Filter(topics)), credit=credit)
