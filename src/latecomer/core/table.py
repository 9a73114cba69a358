"""Who wants what: filters with the sources that hold them, and what each neighbour has to be told of it.

The same table serves subscriptions and publisher advertisements. What a neighbour is told is a *function* of the
table (the filters held elsewhere, permitted towards it, not covered by another such filter), never of the order in
which things happened: unsubscribing therefore brings every table back to exactly what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latecomer.core.index import FilterIndex
from latecomer.model.filters import Filter, filter_satisfiable
from latecomer.model.ids import BrokerId

SELF = ""
"""The source that stands for this broker's own clients."""

Change = tuple[tuple[Filter, ...], tuple[Filter, ...]]
"""Filters to add, filters to take back."""


@dataclass(slots=True)
class FilterTable:
    """Filters, each with the sources that hold it: neighbours by id, own clients as `SELF`."""

    covering: bool
    permits: Callable[[Filter, BrokerId], bool]
    """Whether the routing strategy lets a filter go to a neighbour."""
    holders: dict[Filter, tuple[BrokerId, ...]] = field(default_factory=dict)
    index: FilterIndex = field(default_factory=FilterIndex)

    def add(self, source: BrokerId, filter: Filter) -> bool:
        """Whether this is news."""
        held = self.holders.get(filter)
        if held is None:
            self.index.add(filter)
            self.holders[filter] = (source,)
            return True
        if source in held:
            return False
        self.holders[filter] = (*held, source)
        return True

    def remove(self, source: BrokerId, filter: Filter) -> bool:
        """Whether it was there."""
        held = self.holders.get(filter, ())
        if source not in held:
            return False
        rest = tuple(other for other in held if other != source)
        if rest:
            self.holders[filter] = rest
        else:
            del self.holders[filter]
            self.index.remove(filter)
        return True

    def keep_only_self(self) -> None:
        """Forget every neighbour: a new tree begins."""
        for filter, held in list(self.holders.items()):
            if held == (SELF,):
                continue
            if SELF in held:
                self.holders[filter] = (SELF,)
            else:
                del self.holders[filter]
                self.index.remove(filter)

    def of(self, source: BrokerId) -> list[Filter]:
        """What one source holds."""
        return [filter for filter, held in self.holders.items() if source in held]

    def affected(self, filters: Iterable[Filter]) -> dict[Filter, None]:
        """Filters whose telling may change because the holders of these changed."""
        found: dict[Filter, None] = {}
        for filter in filters:
            found[filter] = None
            if self.covering:
                for other in self.index.covered(filter):
                    found[other] = None
        return found

    def wanted(self, filter: Filter, peer: BrokerId) -> bool:
        """Whether the neighbour has to be told of this filter."""
        if not self._offered(filter, peer):
            return False
        if self.covering:
            return not any(self._offered(other, peer) for other in self.index.covering(filter))
        return True

    def change(self, told: dict[Filter, None], peer: BrokerId, filters: Iterable[Filter]) -> Change:
        """Bring `told`, what the neighbour was told, up to date for these filters; returns what to say."""
        add, drop = [], []
        for filter in filters:
            if self.wanted(filter, peer):
                if filter not in told:
                    told[filter] = None
                    add.append(filter)
            elif filter in told:
                del told[filter]
                drop.append(filter)
        return tuple(add), tuple(drop)

    def additions(self, told: dict[Filter, None], peer: BrokerId, filters: Iterable[Filter]) -> tuple[Filter, ...]:
        """As `change`, but nothing is taken back."""
        add = tuple(filter for filter in filters if filter not in told and self.wanted(filter, peer))
        told.update(dict.fromkeys(add))
        return add

    def resync(self, told: dict[Filter, None], peer: BrokerId) -> Change:
        """As `change`, for everything."""
        return self.change(told, peer, [*self.holders, *(f for f in told if f not in self.holders)])

    def _offered(self, filter: Filter, peer: BrokerId) -> bool:
        held = self.holders.get(filter)
        if held is None or held == (peer,) or not filter_satisfiable(filter):
            return False  # not held elsewhere; or nobody could ever be sent anything because of it
        return self.permits(filter, peer)
