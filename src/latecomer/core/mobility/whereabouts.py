"""Where sessions are, remembered by other brokers than their owner.

Everybody in the tree is asked for a session (`seek`), so this is not needed to find one whose owner is there. It tells
a client that is new to the network from one whose broker is away: the first gets a new session at once, the second has
to wait for its broker. For each session some members of the network are its *keepers*, chosen by a hash of both names:
a crash changes nothing in the choice. The owner tells them, in batches that they confirm; what is not confirmed is told
again in the next tree, and everything after a restart.

With it stands what is needed to begin a new session in its place (`particulars`), told again when it changes. An owner
that is forgotten, or comes back with another disk, has *lost* the session: then its particulars stay until the client
has come, or the session would have expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import nlargest

from msgspec.structs import replace

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.membership import Membership
from latecomer.core.mobility.particulars import ParticularsRow, decode_particulars, kept
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.messages.hand_over import Whereabouts, WhereaboutsKept
from latecomer.model.ids import BrokerId, ClientId, Instant

SECOND_US = 1_000_000
ENTRIES_MAX = 2_000_000
"""Sessions of others that a broker remembers."""
BATCH = 1000
BATCH_BYTES = 65_536
"""Of particulars in one batch, about."""


class Change(IntEnum):
    """What has changed about a session."""

    GONE = 0
    PRESENCE = 1
    """Its client has come or left."""
    ALL = 2


@dataclass(slots=True)
class _Told:
    """What one keeper is to be told."""

    changes: dict[ClientId, Change] = field(default_factory=dict)
    whole: bool = True
    """It may remember something of an earlier life of this broker: the next batch begins anew."""
    number: int = 0
    """Of the batch under way; 0: none is."""
    batch: dict[ClientId, Change] = field(default_factory=dict)
    began: bool = False
    """The batch under way begins anew."""

    def add(self, client: ClientId, change: Change) -> None:
        """What was to be told of the same session before is part of it."""
        if change is not Change.GONE:
            change = max(change, self.changes.get(client, change))
        self.changes[client] = change


@dataclass(slots=True)
class Directory:
    """Where sessions are, as far as this broker is told, and what it tells of its own."""

    broker: BrokerId
    orders: Orders
    membership: Membership
    passage: Passage
    copies: int
    flood_us: int
    owned: Callable[[], Iterable[ClientId]]
    """The clients whose durable sessions this broker has."""
    describe: Callable[[ClientId, bool, bool], tuple[bytes, bool]]
    """The particulars of a session here, with its subscriptions or without, promised or not; and whether that is all
    there is."""
    leaves: Callable[[ClientId], bool] = field(init=False)
    """Whether a session was promised to another broker in this tree, and that broker tells of it: what this one says
    could come later."""
    promised: Callable[[ClientId], bool] = field(init=False)
    """Whether a session was promised to another broker, in this tree or before."""
    disk: int = 0
    """Tells this broker's disk from one that it has lost."""
    owners: dict[ClientId, BrokerId] = field(default_factory=dict)
    particulars: dict[ClientId, ParticularsRow] = field(default_factory=dict)
    """Of sessions in `owners`, and of those that their owners have lost."""
    untold: int = 0
    """How often the subscriptions of a session were too large to be told."""
    told: dict[BrokerId, _Told] = field(default_factory=dict)
    members: tuple[BrokerId, ...] = ()
    """Among whom keepers were chosen."""
    numbers: int = 0
    due: Instant | None = None

    # -- what is told ------------------------------------------------------------------------------------------------

    def keepers(self, client: ClientId) -> list[BrokerId]:
        others = [member for member in self.members if member != self.broker]
        if len(others) <= self.copies:
            return others
        return nlargest(self.copies, others, key=lambda member: _weight(client, member))

    def would_know(self, client: ClientId, can_tell: Callable[[BrokerId], bool]) -> bool:
        """Whether somebody who is there would know of a session of the client at any broker that is away."""
        first = nlargest(self.copies + 1, self.membership.members, key=lambda member: _weight(client, member))
        return all(
            any(can_tell(keeper) for keeper in [member for member in first if member != owner][: self.copies])
            for owner in self.membership.link_states.absent_since
        )

    def tell(self, client: ClientId, change: Change) -> None:
        """A session is here, or no longer, or has changed."""
        for keeper in self.keepers(client):
            self.told.setdefault(keeper, _Told()).add(client, change)
        if self.due is None:
            self.due = self.orders.wake(self.orders.now + self.flood_us)

    def tree_ready(self) -> None:
        """Tell again what was not confirmed; to new members, all that they are to keep."""
        members = tuple(sorted(self.membership.members))
        if members != self.members:
            self.members = members
            self.told = {}
            for member in members:
                if member != self.broker:
                    self.told[member] = _Told()
            for client in self.owned():
                for keeper in self.keepers(client):
                    self.told[keeper].changes[client] = Change.ALL
        for told in self.told.values():
            if told.number:
                changes, told.changes = told.changes, dict(told.batch)
                for client, change in changes.items():
                    told.add(client, change)
                told.whole, told.number = told.whole or told.began, 0
        self.flush()

    def flush(self) -> None:
        self.due = None
        for keeper, told in self.told.items():
            if told.number:
                continue
            changes = told.changes.items()
            for client in [client for client, change in changes if change is not Change.GONE and self.leaves(client)]:
                del told.changes[client]
            if not (told.changes or told.whole):
                continue
            batch, particulars = self._batch(told)
            entries = tuple((client, change is not Change.GONE) for client, change in batch.items())
            self.numbers += 1
            frame = Whereabouts(self.broker, keeper, self.numbers, entries, told.whole, particulars, self.disk)
            if self.passage.send(keeper, frame):
                told.batch, told.number, told.began, told.whole = batch, self.numbers, told.whole, False
                for client in batch:
                    del told.changes[client]

    def _batch(self, told: _Told) -> tuple[dict[ClientId, Change], tuple[tuple[ClientId, bytes], ...]]:
        """The next changes that a keeper is told, bounded in number and in bytes."""
        batch: dict[ClientId, Change] = {}
        particulars: list[tuple[ClientId, bytes]] = []
        size = 0
        for client, change in told.changes.items():
            if len(batch) >= BATCH or size >= BATCH_BYTES:
                break
            batch[client] = change
            if change is not Change.GONE:
                encoded, whole = self.describe(client, change is Change.ALL, self.promised(client))
                particulars.append((client, encoded))
                self.untold += not whole
                size += len(encoded)
        return batch, tuple(particulars)

    def on_kept(self, frame: WhereaboutsKept) -> None:
        told = self.told.get(frame.from_broker)
        if told is not None and told.number == frame.number:
            told.number, told.batch = 0, {}
            if told.changes:
                self.flush()

    def woken(self) -> None:
        if self.due is not None and self.due <= self.orders.now:
            self.flush()

    @property
    def idle(self) -> bool:
        """Whether everybody who is there has been told everything."""
        return self.due is None and all(
            not (told.changes or told.number or told.whole) or keeper in self.membership.link_states.absent_since
            for keeper, told in self.told.items()
        )

    # -- what is remembered for others -------------------------------------------------------------------------------

    def on_whereabouts(self, frame: Whereabouts) -> None:
        owner = frame.from_broker
        if frame.whole:
            self._begins_anew(owner, frame.disk)
        described = [(client, decode_particulars(encoded)) for client, encoded in frame.particulars]
        promised = {client for client, told in described if told is not None and told.promised}
        for client, here in frame.entries:
            known = self.owners.get(client)
            if here:
                # A broker that promised a session may have been down while the session moved on, perhaps twice. The
                # broker that is known to have it told so later.
                passed_on = client in promised and known not in (None, owner)
                if not passed_on and (known is not None or len(self.owners) < ENTRIES_MAX):
                    self._put(client, owner)
            elif known == owner:
                self.drop(client)
        for client, told in described:
            before = self.particulars.get(client)
            room = before is not None or len(self.particulars) < ENTRIES_MAX
            if told is not None and room and self.owners.get(client) == owner:
                self._keep(client, kept(told, before, owner, frame.disk, self.orders.now))
        self.passage.send(owner, WhereaboutsKept(self.broker, owner, frame.number))

    def _put(self, client: ClientId, owner: BrokerId) -> None:
        if self.owners.get(client) != owner:
            self.owners[client] = owner
            self.orders.writes.append(Put("whereabouts", "", client, owner))

    def _keep(self, client: ClientId, row: ParticularsRow) -> None:
        self.particulars[client] = row
        self.orders.writes.append(Put("particulars", "", client, row))

    def drop(self, client: ClientId) -> None:
        self._disown(client)
        if self.particulars.pop(client, None) is not None:
            self.orders.writes.append(Drop("particulars", "", client))

    def _disown(self, client: ClientId) -> None:
        if self.owners.pop(client, None) is not None:
            self.orders.writes.append(Drop("whereabouts", "", client))

    def _begins_anew(self, owner: BrokerId, disk: int) -> None:
        """A broker tells everything again. What it does not tell with the same disk has ended; what it had on another
        disk is lost."""
        for client in [client for client, other in self.owners.items() if other == owner]:
            row = self.particulars.get(client)
            if row is None or row.disk == disk:
                self.drop(client)
            else:
                self._lose(client, row)

    def _lose(self, client: ClientId, row: ParticularsRow) -> None:
        self._disown(client)
        self._keep(client, replace(row, lost_at=self.orders.now or 1))

    def forget(self, brokers: list[BrokerId]) -> None:
        """These brokers will not come back."""
        for client in [client for client, owner in self.owners.items() if owner in brokers]:
            row = self.particulars.get(client)
            if row is None:
                self.drop(client)
            else:
                self._lose(client, row)
        for client in [client for client, row in self.particulars.items() if self._is_over(row)]:
            self.drop(client)

    def found(self, client: ClientId) -> ParticularsRow | None:
        """What is remembered of a session whose owner is away, or has lost it."""
        row = self.particulars.get(client)
        if row is None or self._is_over(row):
            return None
        return row if row.lost_at or row.owner in self.membership.link_states.absent_since else None

    def _is_over(self, row: ParticularsRow) -> bool:
        """Whether a session that was lost would have expired by now."""
        return bool(row.lost_at) and self.orders.now >= (row.left_at or row.lost_at) + row.expiry_s * SECOND_US

    def recover(self, disk: Disk) -> None:
        """Find what is remembered for others; what this broker has itself is told again, to everybody."""
        self.members, self.told = (), {}  # the sessions were not there yet when this broker was alone
        for client, owner in disk.get("whereabouts", {}).get("", {}).items():
            self.owners[str(client)] = str(owner)
        for client, row in disk.get("particulars", {}).get("", {}).items():
            assert isinstance(row, ParticularsRow)
            self.particulars[str(client)] = row


def _weight(client: ClientId, member: BrokerId) -> bytes:
    return hashlib.blake2b(f"{member}\0{client}".encode(), digest_size=8).digest()
