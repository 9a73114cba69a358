"""Which brokers may keep events for a store that was away, as far as this broker can tell.

An origin is done with an event when everybody in its tree has it, and keeps it for those who are away. If a store comes
back when the origin is away, its answers lack such an event; and the origin will send it to the store alone. A client
that asks the store through a broker that was in the origin's tree gets it neither from the store nor later.
So each broker remembers with whom it was together while others were away (`retrieval` tells who asks).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, Instant

EARLIER_US = 60_000_000
"""How long before a tree an event may have been published that was still under way in it; clocks differ, too."""


@dataclass(slots=True)
class Debts:
    """Which brokers may owe events to which stores."""

    debtors: dict[BrokerId, dict[BrokerId, Instant]] = field(default_factory=dict)
    """For each store that was away: with whom this broker was in a tree without it, and since when. Less those who have
    been in a settled tree with it since."""

    def tree_ready(self, members: Mapping[BrokerId, object], absent: Sequence[BrokerId], now: Instant) -> None:
        """A tree is ready; of the stores, these are away."""
        for store in [store for store in self.debtors if store not in members and store not in absent]:
            del self.debtors[store]  # it was forgotten
        for store in absent:
            self.debtors[store] = dict.fromkeys(members, now) | self.debtors.get(store, {})

    def settled(self, members: Mapping[BrokerId, object]) -> None:
        """What the brokers of this tree owed one another has been sent."""
        for store in [store for store in members if store in self.debtors]:
            debtors = self.debtors[store]
            for member in members:
                debtors.pop(member, None)

    def debtor(
        self, store: BrokerId, replicas: Sequence[BrokerId], absent: Container[BrokerId], query: Query
    ) -> BrokerId | None:
        """A broker that is away, and may owe the store what a query asks for, and also its replicas: otherwise the
        store has got it from them before it answered."""
        for broker, since_us in self.debtors.get(store, {}).items():
            asked = not query.until_us or query.until_us >= since_us - EARLIER_US
            if asked and broker in absent and all(broker in self.debtors.get(other, ()) for other in replicas):
                return broker
        return None
