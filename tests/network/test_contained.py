"""Something fails inside one running broker: nothing that was acknowledged is lost, and nobody else notices."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from latecomer.core.effects import CarryOut
from latecomer.core.inputs import CarriedOut, MqttFailed
from latecomer.messages.link import LinkMessage, Publication, Void
from latecomer.messages.mqtt import Reason
from latecomer.runtime.link_connection import LinkConnection
from tests.network.link_net import Seat, clients, ready, running, until
from tests.network.raw import Got, Publisher, Subscriber
from tests.unit.test_runtime_links import visited

MESSAGES = 60
QUICK = "heartbeat_s = 0.05\nhold_s = 0.3\nreconnect_min_s = 0.02\n"


@pytest.mark.parametrize("failures", [1, 4])
def test_frames_that_cannot_be_sent_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Once: the session goes on with the next connection. Again and again: it ends, and the next one has everything."""
    send, broken = LinkConnection.send, 0

    def breaks(self: LinkConnection, frames: list[LinkMessage]) -> None:
        nonlocal broken
        if self.links.broker == "b" and broken < failures and any(isinstance(frame, Publication) for frame in frames):
            broken += 1
            raise ZeroDivisionError("a bug")
        send(self, frames)

    async def story() -> None:
        middle: dict[str, Any] = {"a": None, "c": None}
        b = Seat("b", middle)
        a, c = Seat("a", {"b": b.link_port}), Seat("c", {"b": b.link_port})
        for seat in (a, b, c):
            seat.link += "\n" + QUICK
        async with running(tmp_path, a, b, c) as nodes:
            await until(lambda: ready(nodes), "one tree")
            publisher = Publisher(a.port, "publisher", "t", 1)
            subscriber, beside = Subscriber(c.port, "subscriber", {"t": 1}), Subscriber(b.port, "beside", {"t": 1})
            async with clients(publisher, subscriber, beside):
                await subscriber.subscribed.wait()
                await beside.subscribed.wait()
                await until(lambda: nodes[0].core.interest.ready, "told")
                monkeypatch.setattr(LinkConnection, "send", breaks)
                while publisher.sent < MESSAGES:
                    publisher.publish()
                    await asyncio.sleep(0.005)
                await until(lambda: len(publisher.acknowledged) == MESSAGES, "acknowledged")
                for one in (subscriber, beside):
                    await until(lambda one=one: len(one.got.get("t", Got()).count) == MESSAGES, "all of it came")  # type: ignore[misc]
            assert broken == failures
            assert nodes[1].counters.internal_errors == {"send": failures}
            assert nodes[1].views.health().status == "degraded"
            assert nodes[0].views.health().status == "ok"

    asyncio.run(asyncio.wait_for(story(), 60))


def test_frames_that_waited_and_cannot_be_sent(tmp_path: Path) -> None:
    """The neighbour did not read for a while; what waited for it is not lost with the connection."""

    async def story() -> None:
        async with visited(tmp_path) as (node, rogue):
            connection = node.links.current["b"]
            connection.pause_writing()
            node.links.send("b", connection.number, [Void()])
            monkey = cast(Any, connection)
            monkey._write = _breaks
            connection.resume_writing()
            await rogue.until_closed()
            assert "b" not in node.links.current
            assert node.counters.internal_errors == {"send": 1}
            assert node.core.neighbours.links["b"].up, "the session waits for the next connection"

    asyncio.run(asyncio.wait_for(story(), 60))


def _breaks(*_: object) -> None:
    raise ZeroDivisionError("a bug")


def test_what_nobody_looked_out_for_is_an_alarm(tmp_path: Path) -> None:
    """Once for each error, however many places it passes."""

    async def story() -> None:
        async with running(tmp_path, Seat("a")) as (node,):
            assert node.views.health().status == "ok"
            asyncio.get_running_loop().call_soon(_breaks)
            await until(lambda: node.counters.internal_errors == {"callback": 1}, "an alarm")
            assert node.views.health().status == "degraded"
            assert b'latecomer_internal_errors_total{what="callback"} 1.0' in node.views.metrics()
            cast(Any, node.core)._on_input[MqttFailed] = _breaks
            asyncio.get_running_loop().call_soon(node.driver.tell, MqttFailed(1, Reason.UNSPECIFIED_ERROR, ""))
            await until(lambda: node.counters.internal_errors == {"callback": 1, "step": 1}, "counted once")

    asyncio.run(asyncio.wait_for(story(), 60))


def test_an_operator_elsewhere_is_told_of_a_bug(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, Seat("a")) as (node,):
            told: list[object] = []
            cast(Any, node.driver).tell = told.append
            cast(Any, node.errands)._carry_out = _breaks
            node.errands.carry_out(CarryOut("c", 3, b"{}"))
            await until(lambda: told, "an answer")
            (answer,) = told
            assert isinstance(answer, CarriedOut)
            assert (answer.broker, answer.number, "internal error" in answer.problem) == ("c", 3, True)
            assert node.counters.internal_errors == {"carryout": 1}

    asyncio.run(asyncio.wait_for(story(), 60))
