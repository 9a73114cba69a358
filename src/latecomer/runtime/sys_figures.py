"""The broker's own figures under `$SYS/broker`, with the names that Mosquitto gives them.

They are measured every `broker.sys_interval_s` seconds and told to the core, which hands them to the clients of this
broker that subscribe to them (`core.session.figures`).
"""

from __future__ import annotations

import asyncio
from math import exp
from typing import TYPE_CHECKING

from latecomer import __version__
from latecomer.core.inputs import Measured

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

ROOT = "$SYS/broker"
MINUTES = (1, 5, 15)


class SysFigures:
    """Measures one broker."""

    def __init__(self, driver: Driver, interval_s: float) -> None:
        self.driver = driver
        self.interval_s = interval_s
        self._started_us = driver.now()
        self._maximum = 0
        self._before: dict[str, int] = {}
        self._loads: dict[tuple[str, int], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self.interval_s:
            self._turn()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._timer = self.driver.loop.call_later(self.interval_s, self._turn)
        figures = self.figures()
        self.driver.tell(Measured(tuple((f"{ROOT}/{name}", value.encode()) for name, value in figures.items())))

    def figures(self) -> dict[str, str]:
        """All of them by name; the averages go on by one interval."""
        core = self.driver.core
        sessions = core.sessions.by_client
        connected, total = len(core.sessions.by_connection), len(sessions)
        self._maximum = max(self._maximum, connected)
        subscriptions = queued = queued_bytes = 0
        for session in sessions.values():
            subscriptions += len(session.subscriptions)
            queued += len(session.queue)
            queued_bytes += session.queue_bytes
        retained = core.retained
        sums = self._sums()
        found = {
            "version": f"latecomer version {__version__}",
            "uptime": f"{(self.driver.now() - self._started_us) // 1_000_000} seconds",
            "clients/connected": str(connected),
            "clients/disconnected": str(total - connected),
            "clients/maximum": str(self._maximum),
            "clients/total": str(total),
            "subscriptions/count": str(subscriptions),
            "retained messages/count": str(len(retained.events)),
            "store/messages/count": str(len(retained.events) + queued),
            "store/messages/bytes": str(retained.size + queued_bytes),
        }
        found |= {name: str(value) for name, value in sums.items() if name not in ("sockets", "connections")}
        return found | self._averages(sums)

    def _sums(self) -> dict[str, int]:
        """What only grows."""
        counters = self.driver.counters
        received, sent = sum(counters.publish_received), sum(counters.publish_delivered)
        return {
            "messages/received": received + counters.connects + counters.others_in,
            "messages/sent": sent + counters.others_out,
            "publish/messages/received": received,
            "publish/messages/sent": sent,
            "publish/messages/dropped": sum(counters.dropped.values()),
            "bytes/received": counters.bytes_in,
            "bytes/sent": counters.bytes_out,
            "sockets": counters.connections_opened,
            "connections": counters.connects,
        }

    def _averages(self, sums: dict[str, int]) -> dict[str, str]:
        """Moving averages per minute, as Mosquitto computes them: an interval of age t counts with exp(-t/minutes)."""
        found = {}
        for name, value in sums.items():
            rate = (value - self._before.get(name, 0)) * 60 / self.interval_s
            for minutes in MINUTES:
                before = self._loads.get((name, minutes), 0.0)
                load = rate + exp(-self.interval_s / (60 * minutes)) * (before - rate)
                self._loads[name, minutes] = load
                found[f"load/{name.replace('publish/messages', 'publish')}/{minutes}min"] = f"{load:.2f}"
        self._before = sums
        return found
