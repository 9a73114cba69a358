"""Links in the runtime: what a neighbour with a socket of its own can do to a broker, and what it cannot."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from latecomer.core.inputs import Input, LinkReceived
from latecomer.messages.link import (
    PROTOCOL,
    Adopted,
    Alive,
    Hello,
    LinkMessage,
    Publication,
    Sharing,
    Void,
)
from latecomer.model.errors import ProtocolError
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime import link_connection, links
from latecomer.runtime.link_challenge import LinkChallenge, Role
from latecomer.runtime.node import Node, steady_clock
from latecomer.wire.link import Reader, encode
from tests.network.link_net import SECRET, Seat, running, until
from tests.network.net import HOST


def play(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


class Rogue:
    """A neighbour that proves who it is and then says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.frames = Reader()

    def say(self, *frames: LinkMessage) -> None:
        self.writer.write(b"".join(map(encode, frames)))

    def hello(self, **changed: Any) -> None:
        fields = {"network": "latecomer", "broker": "b", "protocol": PROTOCOL, "boot": 1, "number": 1}
        self.say(Hello(**{**fields, "routing": "forwarding", **changed}))

    async def hear(self) -> list[LinkMessage]:
        data = await self.reader.read(65_536)
        return self.frames.feed(data)

    async def until_closed(self) -> None:
        while await self.reader.read(65_536):
            pass


async def call(node: Node, secret: str = SECRET) -> Rogue:
    assert node.links.port is not None
    reader, writer = await asyncio.open_connection(HOST, node.links.port)
    mine = LinkChallenge(Role.CALLER, "b", "latecomer", ("a",), secret.encode())
    writer.write(mine.begin())
    while True:
        progress = mine.feed(await reader.read(65_536))
        writer.write(progress.send)
        assert progress.refused is None
        if progress.peer is not None:
            rogue = Rogue(reader, writer)
            rogue.frames.feed(progress.rest)  # perhaps its hello
            return rogue


@asynccontextmanager
async def visited(folder: Path, more: str = "") -> AsyncIterator[tuple[Node, Rogue]]:
    """A broker `a` whose neighbour `b` is a rogue that has said hello."""
    async with running(folder, Seat("a", {"b": None}, f'secret = "{SECRET}"\n{more}')) as (node,):
        rogue = await call(node)
        rogue.hello(routing=str(node.core.settings.routing))
        await until(lambda: node.core.neighbours.links["b"].greeted, "greeted")
        yield node, rogue
        rogue.writer.close()


def test_a_flood_of_frames_gets_its_turns(tmp_path: Path) -> None:
    """No step takes more than its share, the connection is not read from meanwhile, and the order stays."""
    turns: list[list[LinkMessage]] = []

    async def story() -> None:
        async with visited(tmp_path, "receive_frames = 10") as (node, rogue):
            told = node.driver.tell

            def noting(fact: Input) -> None:
                if isinstance(fact, LinkReceived):
                    turns.append(list(fact.frames))
                told(fact)

            node.driver.tell = noting  # type: ignore[method-assign]
            flood = [Adopted(f"tree {number}") for number in range(1000)]
            rogue.say(*flood)
            await until(lambda: sum(map(len, turns)) >= 1000, "all of it came")
            assert [frame for turn in turns for frame in turn] == flood
            assert max(map(len, turns)) <= 10
            connection = node.links.current["b"]
            assert connection.transport.is_reading()
            rogue.say(Void())
            await until(lambda: turns[-1] == [Void()], "and it is read from again")

    play(story())


def test_others_get_their_turn_between(tmp_path: Path) -> None:
    """While a flood waits, whatever else the loop has to do is done."""

    async def story() -> None:
        async with visited(tmp_path, "receive_frames = 1") as (node, rogue):
            ticks, seen = 0, []
            told = node.driver.tell

            def noting(fact: Input) -> None:
                if isinstance(fact, LinkReceived):
                    seen.append(ticks)
                told(fact)

            node.driver.tell = noting  # type: ignore[method-assign]
            rogue.say(*[Void()] * 500)
            while len(seen) < 500:
                ticks += 1
                await asyncio.sleep(0)
            assert len(set(seen)) == 500, "each turn has another of ours behind it"

    play(story())


def test_a_frame_longer_than_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with visited(tmp_path, "receive_bytes = 3_000_000") as (node, rogue):
            rogue.writer.write((3_000_001).to_bytes(4))
            await rogue.until_closed()
            await until(lambda: "exceeds the limit of 3000000" in caplog.text, "the log says so")
            assert not node.links.current

    play(story())


def test_a_reader_with_a_limit() -> None:
    frame = encode(Publication(Event(EventId("b", 1, 1), "t", payload=bytes(1000))))
    assert Reader(len(frame) - 4).feed(frame)
    with pytest.raises(ProtocolError, match=f"exceeds the limit of {len(frame) - 5}"):
        Reader(len(frame) - 5).feed(frame)


def test_a_bug_of_ours_costs_the_link_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The session has to end before the neighbour is let in again: who knows what became of its frame."""

    async def story() -> None:
        async with visited(tmp_path, "heartbeat_s = 0.05\nhold_s = 0.1") as (node, rogue):

            def broken(peer: str, frame: LinkMessage) -> None:
                raise ZeroDivisionError("a bug")

            handlers = node.core._on_frame
            handlers[Sharing], works = broken, handlers[Sharing]
            rogue.say(Sharing("b", 1, 1, ()))
            await rogue.until_closed()
            assert "this is a bug" in caplog.text
            assert "ZeroDivisionError" in caplog.text
            assert node.driver.core.neighbours.links["b"].up, "the session waits"
            early = await call(node)
            await early.until_closed()
            early.writer.close()
            handlers[Sharing] = works
            await until(lambda: not node.core.neighbours.links["b"].up, "the session is over")
            await until(lambda: not node.links._is_barred("b"), "it may come back")
            again = await call(node)
            again.hello(number=2, routing=str(node.core.settings.routing))
            await until(lambda: node.core.neighbours.links["b"].greeted, "a new session")
            again.writer.close()

    play(story())


def test_a_frame_that_cannot_be_written_costs_the_link_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            number = node.links.current["b"].number
            node.links.send("b", number, [Adopted("\ud800")])
            await rogue.until_closed()
            assert "cannot be sent" in caplog.text
            assert not node.links.current

    play(story())


def test_frames_wait_for_a_transport_that_is_full(tmp_path: Path) -> None:
    """As frames, and in order; whatever the core sends meanwhile goes behind them."""

    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            connection = node.links.current["b"]
            seen: list[LinkMessage] = []
            while not seen:
                seen = [frame for frame in await rogue.hear() if isinstance(frame, Adopted)]
            connection.pause_writing()
            said = [Adopted(str(number)) for number in range(700)]
            for frame in said[:600]:
                connection.send([frame])
            assert connection.transport.get_write_buffer_size() == 0
            connection.resume_writing()
            connection.send(list(said[600:]))
            heard: list[LinkMessage] = []
            while len(heard) < 700:
                heard += [frame for frame in await rogue.hear() if isinstance(frame, Adopted)]
            assert heard == said

    play(story())


def test_too_many_frames_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_connection, "CONTROL_MAX", 10)

    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            connection = node.links.current["b"]
            connection.pause_writing()
            most = 2 * node.core.settings.link_max + 10
            connection.send([Alive(0)] * most)
            assert node.links.current
            connection.send([Alive(0)])
            assert not node.links.current
            assert f"{most + 1} frames wait" in node.links.problems["b"]
            await rogue.until_closed()

    play(story())


def test_who_takes_a_little_is_kept_and_who_takes_nothing_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with visited(tmp_path, "hold_s = 60.0") as (node, rogue):
            connection = node.links.current["b"]
            sizes = iter((100, 60, 60, 60))
            connection.transport.get_write_buffer_size = lambda: next(sizes)  # type: ignore[method-assign]
            connection.pause_writing()
            connection._look(100)
            assert node.links.current, "it took 40 bytes"
            connection._look(60)
            assert not node.links.current
            assert "it takes nothing" in node.links.problems["b"]
            await rogue.until_closed()

    play(story())


def test_a_second_call_of_the_same_neighbour_replaces_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            first = node.links.current["b"]
            again = await call(node)
            await rogue.until_closed()
            assert node.links.current["b"] is not first
            again.writer.close()

    play(story())


def test_a_call_that_comes_long_after_is_no_collision(tmp_path: Path) -> None:
    """We called `b` and think that the connection stands; `b` would not call if it thought so too."""

    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            first = node.links.current["b"]
            first.role = Role.CALLER  # as if `a`, who has the smaller id, had called
            refused = await call(node)
            await refused.until_closed()
            refused.writer.close()
            assert node.links.current["b"] is first
            first._stands_since -= 2 * node.links.settings.challenge_s
            taken = await call(node)
            await rogue.until_closed()
            assert node.links.current["b"] is not first
            taken.writer.close()

    play(story())


def test_strangers_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "STRANGERS_LOGGED", 5)

    async def story() -> None:
        async with running(tmp_path, Seat("a", {"b": None})) as (node,):
            assert node.links.port is not None
            for _ in range(20):
                reader, writer = await asyncio.open_connection(HOST, node.links.port)
                writer.write(b"GET / HTTP/1.1\r\n")
                await reader.read(1000)
                writer.close()
            assert node.counters.refused["link"] == 20
            assert caplog.text.count("does not speak the link protocol") == 5
            assert caplog.text.count("they are counted only") == 1

    play(story())


# -- P9: the clock -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-86_400, 3600 * 24 * 365])
def test_setting_the_wall_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch, jump_s: int) -> None:
    wall = time.time_ns()
    steady = 10**9
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady)
    now = steady_clock()
    assert now() == wall // 1000
    wall += jump_s * 10**9
    steady += 5_000
    assert now() == (wall - jump_s * 10**9) // 1000 + 5


def test_a_broker_does_not_notice_a_new_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its links stand, although every deadline of them lies in the past of the new clock."""
    real: Callable[[], int] = time.time_ns

    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            number, before = node.links.current["b"].number, node.clock()
            monkeypatch.setattr(time, "time_ns", lambda: real() + 10**9 * 86_400)
            rogue.say(Alive(0))
            received = node.core.orders.step
            await until(lambda: node.core.orders.step > received, "it was heard")
            assert node.core.orders.now - before < 60 * 10**6
            assert node.links.current["b"].number == number

    play(story())


def test_a_name_that_is_not_found_is_told_as_such() -> None:
    """The numbers of the resolver are no error numbers of the system: -2 was "unknown error -2"."""
    assert link_connection.explain(socket.gaierror(socket.EAI_NONAME, "whatever")) == "there is no host of this name"
    assert link_connection.explain(socket.gaierror(socket.EAI_AGAIN, "try again later")) == "try again later"
    assert link_connection.explain(ConnectionRefusedError(111, "x")) == "connection refused"
