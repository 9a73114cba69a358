"""Sessions found on disk, or sent by another broker: how they become what they were, and are erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop
from latecomer.core.orders import Orders
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.erasing import Erasing, Rows
from latecomer.core.session.recall import Recalls
from latecomer.core.session.state import Session, SessionRow
from latecomer.model.event import Event

RESTORED = ("queue", "incoming", "recall", "held", "given", "late")
"""Tables with rows of one session, beside its subscriptions."""


@dataclass(slots=True)
class Restoring:
    """Restores sessions from their rows, and erases them."""

    orders: Orders
    deliveries: Deliveries
    recalls: Recalls
    erasing: Erasing

    def restore(self, session: Session, row: SessionRow, tables: Mapping[str, Mapping[int | str, object]]) -> None:
        """Give a session what belongs to it, from this broker's disk or as another one sent it. The deliveries of one
        that another broker sent are there already."""
        queue = tables.get("queue", {})
        for number in sorted(map(int, queue)):
            self.deliveries.recover_one(session, number, queue[number])
        self.deliveries.recovered(session, row)
        session.incoming = {int(id): None for id in tables.get("incoming", {})}
        session.inherited = dict(session.incoming)  # no connection of it has named them here
        self.recalls.recover(session, tables.get("recall", {}), tables.get("held", {}))
        session.hand_over, session.owner_away = row.hand_over, row.owner_away
        memory = self.deliveries.memory
        memory.recover(session, row.memory, tables.get("given", {}), tables.get("late", {}))

    def erase_arriving(self, disk: Disk, queues: dict[str, Rows]) -> None:
        """Sessions that were on their way here when this broker died: the other broker still has all of them."""
        writes = self.orders.writes
        for name in disk.get("arriving", {}).get("", {}):
            client = str(name)
            for table in ("subscriptions", *RESTORED):
                if table != "queue":
                    writes += [Drop(table, client, key) for key in disk.get(table, {}).get(client, {})]
            self.erasing.erase(client, dict.fromkeys(sorted(map(int, queues.pop(client, {})))))
            writes.append(Drop("arriving", "", client))

    def give(self, session: Session, event: Event, hops: int) -> None:
        """A live event, behind the history that it may be getting."""
        if session.past is None:
            self.deliveries.take(session, event, hops)
        else:
            self.recalls.holding.take(session, event, hops)

    def erase(self, session: Session) -> None:
        """Leave nothing of it on disk."""
        writes, client = self.orders.writes, session.client
        session.stored = False
        writes.append(Drop("session", "", client))
        if session.durable:
            writes += [Drop("subscriptions", client, text) for text in session.subscriptions]
            writes += [Drop("incoming", client, id) for id in session.incoming]
            self.recalls.erase(session)
            self.deliveries.memory.end(session)
