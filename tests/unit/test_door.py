"""The door's rounds."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from latecomer.runtime.door import ROUNDS_S, Door
from latecomer.runtime.metrics import Counters
from latecomer.runtime.settings import Limits


def test_a_round_that_comes_late_is_lag() -> None:
    async def story() -> None:
        driver: Any = SimpleNamespace(counters=Counters(), connections={}, look_at_space=lambda: None)
        driver.refusals = driver.goodbyes = driver.alarms = SimpleNamespace(look=lambda: None)
        gate: Any = None
        door = Door(driver, gate, Limits(), 10)
        lag = driver.counters.loop_lag
        door._go_round()
        assert lag.sum_s == 0, "it came early"
        door._round_at -= ROUNDS_S + 3
        door._go_round()
        assert lag.sum_s >= 3
        assert sum(lag.counts) == 2
        door.stop()

    asyncio.run(story())
