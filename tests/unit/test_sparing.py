"""Lines that strangers can cause are bounded, and what is left out is counted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from latecomer.messages.mqtt import V5
from latecomer.runtime.sparing import KINDS_MAX, LINES, SECONDS, Sparing
from tests.unit.fastpath_hand import Caller, House


def test_so_many_lines_and_then_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    sparing = Sparing("refusals", lambda: now, lines=3, seconds=10.0)
    caplog.set_level(logging.INFO)
    for number in range(5):
        sparing.line(logging.INFO, "slow", "%s is slow", number)
    sparing.line(logging.INFO, "large", "large")
    sparing.look()
    assert caplog.messages == ["0 is slow", "1 is slow", "2 is slow"]
    now += 10
    sparing.look()
    sparing.look()
    assert caplog.messages[3:] == ["refusals: 3 more in 10 s, not logged: slow 2, large 1"]
    sparing.line(logging.INFO, "slow", "again")
    assert caplog.messages[4:] == ["again"], "the next while has lines of its own"
    now += 10
    sparing.look()
    assert len(caplog.messages) == 5, "nothing was left out"


def test_kinds_that_are_told_apart_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    sparing = Sparing("refusals", lambda: now, lines=1, seconds=10.0)
    for number in range(1000):
        sparing.line(logging.WARNING, str(number), "line")
    now += 10
    sparing.look()
    assert caplog.messages[-1].count(",") == KINDS_MAX + 1
    assert caplog.messages[-1].endswith(f"other {999 - KINDS_MAX}")


def test_a_flood_of_refused_connections_is_no_flood_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    """All are counted. Clients that were let in have lines of their own."""
    caplog.set_level(logging.INFO)

    async def story() -> None:
        house = House()
        welcome = house.caller("welcome", V5)
        for _ in range(5 * LINES):
            Caller(house, "", V5).say_bytes(b"GET / HTTP/1.1\r\n")
        lines = [text for text in caplog.messages if "closing" in text]
        assert len(lines) == LINES
        assert house.driver.counters.refused["no connect"] == 5 * LINES
        welcome.say_bytes(b"\xf0\x7f")  # AUTH, which does not go on
        welcome.say_bytes(b"x" * 127)
        assert len([text for text in caplog.messages if "closing" in text]) == LINES + 1
        house.driver.refusals.clock = lambda: house.door.loop.time() + SECONDS
        house.door._go_round()
        assert f"refusals: {4 * LINES} more in 10 s" in caplog.messages[-1]
        house.stop()

    asyncio.run(story())
