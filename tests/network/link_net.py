"""Brokers on one event loop, with a wire between them that can be cut, held up and slowed down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.runtime.node import Node
from latecomer.runtime.settings import loads
from tests.network.net import HOST, free_port
from tests.network.raw import Client

LIMIT_S = 45.0
SECRET = "a secret of some length"


async def until(true: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait until it is so."""
    try:
        async with asyncio.timeout(limit_s):
            while not true():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


class Wire:
    """A TCP connection's way through the test: `Wire.port` leads to `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.delay_s = 0.0
        self.connections = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self.closed = False
        """Whoever calls is turned away."""
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._called, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self.closed:
            writer.close()
            return
        try:
            there, back = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.close()
            return
        self.connections += 1
        self._writers.append(back)
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError, RuntimeError):  # the latter from uvloop, when a closed transport is used
            while data := await source.read(65_536):
                await self.flows.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                sink.write(data)
                await sink.drain()
        sink.close()

    def cut(self) -> None:
        """Break every connection at once, whatever is under way."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self.flows.set()
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(slots=True)
class Seat:
    """A broker to be."""

    id: str
    calls: dict[str, int | None] = field(default_factory=dict)
    """Its neighbours, and the port to call them on; None: they call."""
    link: str = f'secret = "{SECRET}"'
    costs: dict[str, int] = field(default_factory=dict)
    more: str = ""
    link_port: int = field(default_factory=free_port)
    port: int = field(default_factory=free_port)

    def text(self, folder: Path) -> str:
        lines = [
            f'[broker]\nid = "{self.id}"\ndata = "{folder / self.id}"\ndurability = "process"',
            f"[[listeners]]\nport = {self.port}",
            "[admin]\nenabled = false\n[event_log]\nenabled = false",
            f"{self.more}",
            f"[link]\nport = {self.link_port}\n{self.link}",
        ]
        for peer, port in self.calls.items():
            lines.append(f'[[link.neighbours]]\nid = "{peer}"\ncost_us = {self.costs.get(peer, 1000)}')
            if port is not None:
                lines.append(f'host = "{HOST}"\nport = {port}')
        return "\n".join(lines)


@asynccontextmanager
async def running(folder: Path, *seats: Seat) -> AsyncIterator[list[Node]]:
    """The brokers, started from the last to the first; stopped at the end whatever happens."""
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for seat in reversed(seats):
            node = Node(loads(seat.text(folder)))
            stack.push_async_callback(node.stop)
            nodes.insert(0, node)
            await node.start()
        yield nodes


@asynccontextmanager
async def wires(*targets: int) -> AsyncIterator[list[Wire]]:
    async with AsyncExitStack() as stack:
        found = [Wire(target) for target in targets]
        for wire in found:
            stack.push_async_callback(wire.close)
            await wire.open()
        yield found


@asynccontextmanager
async def clients(*found: Client) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(client.run()) for client in found]
    try:
        yield
    finally:
        for client in found:
            client.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def ready(nodes: Sequence[Node], brokers: int | None = None) -> bool:
    """Whether all forward events in one tree with so many members."""
    count = brokers or len(nodes)
    return all(
        node.core.interest.ready and node.core.interest.tree and len(node.core.interest.tree.parent) == count
        for node in nodes
    )


def linked(node: Node, peer: str) -> bool:
    return peer in node.links.current and node.core.neighbours.links[peer].greeted
