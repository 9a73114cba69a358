"""Deliveries that are no longer owed leave the disk page by page, so that a large session does not stop the others.

A session that ends, leaves for another broker, or did not come after all may have a hundred thousand deliveries on
disk. Erasing them in one write would hold up everything that waits for the disk behind it. So one small write says up
to which number they are to go (`erasing`), together with whatever makes them void, and they go in the background. After
a restart the rest is erased. A new session of the same client numbers its deliveries behind them; one that comes from
another broker, with numbers of its own, waits until they are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put, Trim
from latecomer.core.orders import Orders
from latecomer.model.ids import ClientId, Instant

PAGE_ROWS = 500
"""Rows that one write erases."""
PAUSE_US = 10_000
"""Between two pages, so that the disk has time for others."""

Rows = Mapping[int | str, object]


@dataclass(slots=True)
class Erasing:
    """Erases deliveries of sessions that are not here any more."""

    orders: Orders
    rests: dict[ClientId, dict[int, Any]] = field(default_factory=dict)
    """What is still to be erased, by number. The values go with it: letting go of all at once takes long, too."""
    marks: dict[ClientId, int] = field(default_factory=dict)
    """Up to which number the deliveries of these clients are void."""
    due: Instant | None = None

    def upto(self, client: ClientId) -> int:
        """Up to this number deliveries of a client are being erased; 0: none are."""
        return self.marks.get(client, 0)

    def erase(self, client: ClientId, rows: dict[int, Any]) -> None:
        """Erase deliveries of a client, in ascending order, which nobody else uses any more: at once if they are few,
        else in the background."""
        if not rows:
            return
        if client in self.rests:  # of a second session, which has ended before the first was erased
            self.rests[client].update(rows)
        elif len(rows) <= PAGE_ROWS:
            self.orders.writes += [Drop("queue", client, number) for number in rows]
            return
        else:
            self.rests[client] = rows
        self.marks[client] = next(reversed(self.rests[client]))
        self.orders.writes.append(Put("erasing", "", client, self.marks[client]))
        self._wait()

    def _wait(self) -> None:
        if self.due is None:
            self.due = self.orders.wake(self.orders.now + PAUSE_US)

    def woken(self) -> bool:
        """Erase the next page; True: all deliveries of some client are gone."""
        if self.due is None or self.due > self.orders.now:
            return False
        self.due = None
        client, rest = next(iter(self.rests.items()))
        page = list(islice(rest, PAGE_ROWS))
        for number in page:
            del rest[number]
        self.orders.writes.append(Trim("queue", client, page[-1] + 1))
        done = not rest
        if done:
            del self.rests[client], self.marks[client]
            self.orders.writes.append(Drop("erasing", "", client))
        if self.rests:
            self._wait()
        return done

    def recover(self, disk: Disk) -> dict[str, Rows]:
        """Go on where the last life stopped; returns the deliveries that are still owed."""
        queues: dict[str, Rows] = dict(disk.get("queue", {}))
        for name, upto in disk.get("erasing", {}).get("", {}).items():
            assert isinstance(upto, int)
            client, queue = str(name), queues.pop(str(name), {})
            void = sorted(number for number in map(int, queue) if number <= upto)
            owed = {number: parcel for number, parcel in queue.items() if int(number) > upto}
            if owed:
                queues[client] = owed
            if not void:
                self.orders.writes.append(Drop("erasing", "", client))
                continue
            self.rests[client], self.marks[client] = dict.fromkeys(void), upto
            self._wait()
        return queues
