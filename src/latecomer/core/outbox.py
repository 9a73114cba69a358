"""The outbox: what this broker's publishers entrusted to it, kept until everybody who wants it has it.

The origin alone is answerable for an event. Brokers on the way keep nothing on disk: when the tree changes, or one of
them dies, the origin sends again what is not reported done, in order, and receivers drop what they have seen.

An entry is *queued* (to be sent in this tree), *under way* (sent, not yet done) or *parked*: done in a tree that lacked
some known brokers (`needs` names them, and the event goes out again, to them only, when they are back), or in one where
nobody knew who else belongs to the network (then it goes out to everybody when that is known).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from latecomer.model.event import Event
from latecomer.model.ids import BrokerId

RESERVE = 1 << 20
"""Sequence numbers taken per write, long before they are used: a store may know of an event before the disk knows of
its number, and a restart must not give it to another. It skips the unused ones."""
CLOCK_US = 1_000_000
"""Stamps are reserved on disk this far ahead; a restarted broker stamps later than all it may have given out."""


@dataclass(slots=True)
class Entry:
    """One event that is not finished."""

    event: Event
    needs: tuple[BrokerId, ...] | None = None
    """Brokers that still lack it; None: nobody is known to have it."""
    only: tuple[BrokerId, ...] = ()
    """Those of them that this tree reaches; empty: everybody."""
    waiting: list[BrokerId] = field(default_factory=list)
    """Tree neighbours that have not reported it done."""
    sent: bool = True
    """Whether anybody may have got it."""


@dataclass(slots=True)
class Outbox:
    """Unfinished events by sequence number, in order."""

    next_seq: int = 1
    reserved: int = 0
    """Numbers up to here are safe to use: the disk knows of them."""
    entries: dict[int, Entry] = field(default_factory=dict)
    queue: deque[int] = field(default_factory=deque)
    under_way: dict[int, None] = field(default_factory=dict)
    parked: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def take_seq(self) -> int:
        seq = self.next_seq
        self.next_seq = seq + 1
        return seq

    @property
    def sent(self) -> int:
        """Everything up to this number that somebody here may lack is on its way."""
        return self.queue[0] - 1 if self.queue else self.next_seq - 1

    def add(self, event: Event, needs: tuple[BrokerId, ...] | None = None) -> None:
        self.entries[event.id.seq] = Entry(event, needs)
        self.queue.append(event.id.seq)

    def add_for(self, event: Event, needs: tuple[BrokerId, ...], reachable: Container[BrokerId]) -> None:
        """An event for some brokers alone, which nobody has got yet."""
        only = tuple(broker for broker in needs if broker in reachable)
        self.entries[event.id.seq] = Entry(event, needs, only, sent=False)
        if only:
            self.queue.append(event.id.seq)
        else:
            self.parked[event.id.seq] = None

    def restart(self, reachable: Container[BrokerId]) -> None:
        """Another tree is ready: queue everything that somebody in it may lack, oldest first."""
        self.halt()
        self.parked.clear()
        for seq, entry in self.entries.items():
            entry.waiting = []
            entry.only = ()
            if entry.needs is not None:
                entry.only = tuple(broker for broker in entry.needs if broker in reachable)
                if not entry.only:
                    self.parked[seq] = None
                    continue
            self.queue.append(seq)

    def halt(self) -> None:
        """No tree is ready: what was under way is nowhere."""
        self.under_way.clear()
        self.queue.clear()

    def done(self, seq: int, peer: BrokerId) -> Entry | None:
        """A neighbour reports that its side has the event; the entry, if it was the last one asked."""
        if seq not in self.under_way:
            return None
        entry = self.entries[seq]
        if peer not in entry.waiting:
            return None
        entry.waiting.remove(peer)
        if entry.waiting:
            return None
        del self.under_way[seq]
        return entry

    def finish(self, entry: Entry, absent: Iterable[BrokerId]) -> bool:
        """Everybody reachable has it: forget it (True), or park it for those who are away (False)."""
        if entry.needs is None:
            entry.needs = tuple(absent)
        else:
            entry.needs = tuple(broker for broker in entry.needs if broker not in entry.only)
        entry.only = ()
        if entry.needs:
            self.parked[entry.event.id.seq] = None
            return False
        del self.entries[entry.event.id.seq]
        return True

    def keep_for_all(self, entry: Entry) -> None:
        """Everybody reachable has it, and who else there is is not known."""
        self.parked[entry.event.id.seq] = None

    def give_up_oldest_parked(self) -> Entry | None:
        """Let go of the oldest event that only absent brokers still lack; None if there is none."""
        if not self.parked:
            return None
        seq, _ = self.parked.popitem(last=False)
        return self.entries.pop(seq)

    def forget(self, brokers: Container[BrokerId]) -> list[int]:
        """These will not come back; returns the entries nobody else needs."""
        gone = []
        for seq, entry in self.entries.items():
            if entry.needs is not None:
                entry.needs = tuple(broker for broker in entry.needs if broker not in brokers)
                if not entry.needs and not entry.only:
                    gone.append(seq)
        for seq in gone:
            del self.entries[seq]
            self.parked.pop(seq, None)
        return gone
