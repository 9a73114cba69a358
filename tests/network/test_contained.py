"""Sending to a neighbour fails inside one broker: nothing that was acknowledged is lost, and nobody else notices."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from latecomer.messages.link import LinkMessage, Publication
from latecomer.runtime.link_connection import LinkConnection
from tests.network.link_net import Seat, clients, ready, running, until
from tests.network.raw import Got, Publisher, Subscriber

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
