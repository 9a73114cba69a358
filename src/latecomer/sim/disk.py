"""A broker's disk in the simulator: what was written and made safe survives a crash, what was on its way does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latecomer.core.effects import Append, Drop, Put, TakeBack, Trim, Write
from latecomer.sim.store import SimStore

Key = int | str


@dataclass(slots=True)
class Disk:
    """Tables of groups of keys, as the core's writes name them."""

    tables: dict[str, dict[str, dict[Key, object]]] = field(default_factory=dict)
    store: SimStore = field(default_factory=SimStore)
    """What the broker keeps of the past."""

    def apply(self, writes: Sequence[Write]) -> None:
        """All of it: what is appended first, as the contract says."""
        self.append(writes)
        self.put(writes)

    def append(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if type(write) is Append:
                self.store.append(write.event)
            elif type(write) is TakeBack:
                self.store.take_back(write.origin, write.epoch, write.after, write.since_us)

    def put(self, writes: Sequence[Write]) -> None:
        tables = self.tables
        for write in writes:
            if isinstance(write, (Append, TakeBack)):
                continue
            table = tables.get(write.table)
            if table is None:
                table = tables[write.table] = {}
            group = table.get(write.group)
            if type(write) is Put:
                if group is None:
                    group = table[write.group] = {}
                group[write.key] = write.value
            elif group is not None:
                if type(write) is Drop:
                    group.pop(write.key, None)
                else:
                    assert type(write) is Trim
                    _trim(group, write.below)
                if not group:
                    del table[write.group]

    def rows(self) -> int:
        return sum(len(group) for table in self.tables.values() for group in table.values())


def _trim(group: dict[Key, object], below: int) -> None:
    for key in [key for key in group if isinstance(key, int) and key < below]:
        del group[key]
