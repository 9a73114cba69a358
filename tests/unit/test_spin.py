"""Waiting awake: as long as it pays, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from latecomer.runtime import spin
from latecomer.runtime.spin import SKIP_MAX, Spinner


class Loop:
    """An event loop that turns when it is told to, on a clock that goes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.ready: list[Callable[[], None]] = []
        monkeypatch.setattr(spin, "perf_counter", lambda: self.now)

    def call_soon(self, what: Callable[[], None]) -> None:
        self.ready.append(what)

    def turn(self, seconds: float) -> None:
        self.now += seconds
        ready, self.ready = self.ready, []
        for what in ready:
            what()

    @property
    def awake(self) -> bool:
        return bool(self.ready)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def spinner(loop: Loop, seconds: float = 1.0) -> Spinner:
    return Spinner(cast(Any, loop), seconds)


def test_it_stays_awake_as_long_as_something_comes_in_time(loop: Loop) -> None:
    found = spinner(loop)
    for _ in range(5):
        found.heard()
        loop.turn(0.9)
        assert loop.awake
    loop.turn(0.2)
    assert loop.awake, "a look that found something begins the time anew"
    loop.turn(0.9)
    assert not loop.awake


def test_what_does_not_pay_is_tried_less_and_less(loop: Loop) -> None:
    found = spinner(loop)
    waits = []
    for _ in range(5):
        left_out = 0
        found.heard()
        while not loop.awake:
            left_out += 1
            found.heard()
        waits.append(left_out)
        loop.turn(1.1)
        assert not loop.awake
    assert waits == [0, 1, 2, 4, 8]
    found.skip = 0
    found.heard()
    found.heard()
    loop.turn(0.1)
    loop.turn(1.1)
    assert found.skip == 1, "one success, and it is keen again"


def test_it_never_gives_up_for_good(loop: Loop) -> None:
    found = spinner(loop)
    for _ in range(20):
        found.skip = 0
        found.heard()
        loop.turn(2.0)
    assert found.skip == SKIP_MAX


def test_zero_is_never(loop: Loop) -> None:
    found = spinner(loop, 0.0)
    for _ in range(100):
        found.heard()
    assert not loop.awake


def test_on_a_real_loop_it_comes_to_rest() -> None:
    async def story() -> int:
        found = Spinner(asyncio.get_running_loop(), 0.001)
        found.heard()
        while not found.misses:
            await asyncio.sleep(0.001)
        return found.misses

    assert asyncio.run(story()) == 1
