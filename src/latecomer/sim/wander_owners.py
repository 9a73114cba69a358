"""Who has a session, read from the disks after every write: one broker at most, and somebody as long as it lives.

A row of the table `session` is *owned* unless the broker has marked it: `arriving` (the client is coming here, the
session still belongs to another broker) or `promised` (the session goes to another broker as soon as that one has taken
it). Only sessions that outlive their connections count. A client that wants a new session gets it at once; what another
broker still has of the last one is *left over*, may not be served any more, and must be gone when all is quiet. The
same holds if a broker was away when the session began: the one that began it is *unsure* of it, and says so on its
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latecomer.core.effects import Drop, Put, Write
from latecomer.core.session.state import SessionRow
from latecomer.messages.mqtt import Will
from latecomer.model.ids import BrokerId, ClientId
from latecomer.sim.disk import Disk
from latecomer.sim.store import SimStore
from latecomer.sim.wander_late import LateLedger
from latecomer.sim.wander_pipes import WanderPipe, WanderPipes
from latecomer.sim.wander_stays import WanderStays
from latecomer.sim.world import World

SESSION, ARRIVING, PROMISED, UNSURE, TAKEN = "session", "arriving", "promised", "unsure", "taken"
EVERYBODY = "*"
"""In the table `unsure`: any broker may have an older session."""
THERE = "."
"""In the table `unsure`: any broker that was there, and has not been heard yet."""
TABLES = (SESSION, ARRIVING, PROMISED)


@dataclass(slots=True)
class WatchedDisk(Disk):
    """A disk that says what was written."""

    written: Callable[[Sequence[Write]], None] = lambda writes: None

    def apply(self, writes: Sequence[Write]) -> None:
        Disk.apply(self, writes)
        self.written(writes)


@dataclass(slots=True)
class Owners:
    """The sessions on all disks."""

    world: World
    violate: Callable[[str, str], None]
    pipes: WanderPipes
    stays: WanderStays
    late: LateLedger
    left_over: dict[tuple[ClientId, BrokerId], None] = field(default_factory=dict)
    unanswered: dict[tuple[ClientId, BrokerId], None] = field(default_factory=dict)
    """What is left over at a broker that had not answered yet when the new session ended: nobody asks it any more."""
    _promised_wills: dict[tuple[ClientId, BrokerId], Will] = field(default_factory=dict)
    """The wills of sessions that a broker has promised."""
    _taken: dict[tuple[ClientId, BrokerId], None] = field(default_factory=dict)
    """Promised sessions that another broker has taken, which the one that promised them may not know yet."""
    _doubts: dict[tuple[ClientId, BrokerId], tuple[BrokerId, ...]] = field(default_factory=dict)
    """Because of whom a broker doubts a session, as its disk said last."""

    _born: dict[tuple[ClientId, BrokerId], int] = field(default_factory=dict)
    """The connections for which brokers began new sessions."""

    def watch(self) -> None:
        """From now on, look at every write."""
        for id, node in self.world.nodes.items():
            store: SimStore = node.disk.store
            node.disk = WatchedDisk(node.disk.tables, store, self._watcher(id))

    def _watcher(self, broker: BrokerId) -> Callable[[Sequence[Write]], None]:
        return lambda writes: self._written(broker, writes)

    def _rows(self, broker: BrokerId, table: str) -> dict[int | str, object]:
        return self.world.nodes[broker].disk.tables.get(table, {}).get("", {})

    def standing(self, client: ClientId) -> tuple[list[BrokerId], list[BrokerId]]:
        """The brokers that own a session, and those that have promised it."""
        owned: list[BrokerId] = []
        promised: list[BrokerId] = []
        for broker in self.world.nodes:
            row = self._rows(broker, SESSION).get(client)
            if row is None or client in self._rows(broker, ARRIVING):
                continue
            assert isinstance(row, SessionRow)
            if row.expiry_s:
                (promised if client in self._rows(broker, PROMISED) else owned).append(broker)
        return owned, promised

    def _written(self, broker: BrokerId, writes: Sequence[Write]) -> None:
        self.late.written(broker, writes)
        touched: dict[ClientId, None] = {}
        for write in writes:
            if isinstance(write, (Put, Drop)) and write.table in TABLES:
                touched[str(write.key)] = None
            if isinstance(write, (Put, Drop)) and write.table == PROMISED:
                self._promise_changed(broker, str(write.key), made=isinstance(write, Put))
            if isinstance(write, Put) and write.table == TAKEN:
                self._takes(broker, write.value)
            if isinstance(write, (Put, Drop)) and write.table == UNSURE:
                self._doubts_changed(str(write.key), broker)
        for client in touched:
            self._check(client, broker)

    def _doubts_changed(self, client: ClientId, broker: BrokerId) -> None:
        before, names = self._doubts.get((client, broker), ()), self._rows(broker, UNSURE).get(client, ())
        assert isinstance(names, tuple)
        self._doubts[client, broker] = names
        if not names and client not in self._rows(broker, SESSION):
            for other in [other for id, other in self.left_over if id == client and _names(before, other)]:
                self.unanswered[client, other] = None

    def _takes(self, broker: BrokerId, taken: object) -> None:
        """A broker has taken a session from another one: if it was left over there, it is here."""
        assert isinstance(taken, tuple)
        owner, client = taken
        self._taken[client, owner] = None
        if (client, owner) in self.left_over:
            self.left_over[client, broker] = None

    def _promise_changed(self, broker: BrokerId, client: ClientId, *, made: bool) -> None:
        """A broker promises a session, or a promise is over. If that is because the client began anew, and the broker
        did not hear that another one has taken the session, both have ended it, or will, and may publish its will."""
        will, taken = self._promised_wills.pop((client, broker), None), (client, broker) in self._taken
        self._taken.pop((client, broker), None)
        row = self._rows(broker, SESSION).get(client)
        if made and isinstance(row, SessionRow) and row.will is not None:
            self._promised_wills[client, broker] = row.will
        elif not made and taken and will is not None:
            number = int(will.topic.rpartition("/")[2])
            if self.pipes.waits_for_new(client, broker, number):
                self.stays.ends_promised(broker, will.topic)

    def _check(self, client: ClientId, broker: BrokerId) -> None:
        owned, promised = self.standing(client)
        if broker in owned:
            self._find_left_over(client, broker, [*owned, *promised])
        elif broker not in promised:
            self.left_over.pop((client, broker), None)
            self.unanswered.pop((client, broker), None)
        right = self._right(client, owned)
        if len(right) > 1 and client not in self.stays.split:
            self.violate("owner", f"{' and '.join(right)} own the session of {client}")
        if not owned and not promised:
            self.world.at(self.world.now, self._check_end, client)  # once everything is noted that was written

    def _right(self, client: ClientId, owned: list[BrokerId]) -> list[BrokerId]:
        """Without what is left over, and without those of which another is unsure."""
        right = [id for id in owned if (client, id) not in self.left_over]
        for id in list(right):
            if any(other != id and self.unsure_of(client, other, id) for other in right):
                self.stays.part(client)
                right.remove(id)
        return right

    def _find_left_over(self, client: ClientId, broker: BrokerId, having: list[BrokerId]) -> None:
        """If a session was begun by a client that wanted a new one, or by a broker that says it is unsure, whatever
        others have is left over."""
        pipe = self.pipes.newest_at(client, broker)
        anew = pipe is not None and pipe.answered_at is None and pipe.connect.clean_start
        for other in having:
            if other == broker:
                continue
            unsure = self.unsure_of(client, broker, other)
            if anew or unsure:
                self.left_over[client, other] = None
            away = unsure and not (anew and self._awaits(client, broker))
            if away or (anew and not self._reaches(broker, other)):
                self.stays.part(client)

    def unsure_of(self, client: ClientId, broker: BrokerId, other: BrokerId) -> bool:
        """Whether a broker says that another may have an older session."""
        names = self._rows(broker, UNSURE).get(client, ())
        assert isinstance(names, tuple)
        return _names(names, other)

    def _awaits(self, client: ClientId, broker: BrokerId) -> bool:
        """Whether a broker says that it waits for the answers of all who are there."""
        names = self._rows(broker, UNSURE).get(client, ())
        assert isinstance(names, tuple)
        return THERE in names

    def _reaches(self, broker: BrokerId, other: BrokerId) -> bool:
        core, far = self.world.nodes[broker].core, self.world.nodes[other].core
        if core is None or far is None or core.interest.tree is None:
            return False
        return core.interest.ready and other in core.interest.tree.parent

    def _check_end(self, client: ClientId) -> None:
        owned, promised = self.standing(client)
        if not owned and not promised and not self.stays.may_be_over(client):
            self.violate("owner", f"no broker has the session of {client}, which is not over")

    def superseded(self, pipe: WanderPipe) -> bool:
        """Whether the session of a client at this broker began for an older connection than one that it has elsewhere,
        and the two have not been compared."""
        owned, _ = self.standing(pipe.client)
        since = self._born.get((pipe.client, pipe.host), 0)
        return any(self._born.get((pipe.client, other), 0) > since for other in owned if other != pipe.host)

    def began(self, pipe: WanderPipe, present: bool) -> None:
        """A broker welcomes a client: not with what is left over."""
        if not present:
            self._born[pipe.client, pipe.host] = pipe.number
        if present and (pipe.client, pipe.host) in self.left_over:
            if any(self.unsure_of(pipe.client, other, pipe.host) for other in self.world.nodes):
                self.stays.part(pipe.client)  # the new session's broker waits for an answer
            if (pipe.client, pipe.host) in self.unanswered:
                self.stays.part(pipe.client)  # it did until the client ended that session, and was cut off from here
            if pipe.client not in self.stays.split:
                self.violate("left over", f"{pipe.host} gave {pipe.client} a session that ended elsewhere")
        self.left_over.pop((pipe.client, pipe.host), None)
        self.unanswered.pop((pipe.client, pipe.host), None)

    def check_quiet(self) -> None:
        """Nothing is under way, and nothing is left over."""
        for broker in self.world.nodes:
            for table in (ARRIVING, PROMISED):
                if rows := sorted(map(str, self._rows(broker, table))):
                    self.violate("remains", f"{broker} has {', '.join(rows)} in {table!r}")
        for client in self.stays.by_client:
            owned, _ = self.standing(client)
            if len(owned) > 1:
                self.violate("owner", f"{' and '.join(owned)} own the session of {client}, and all is quiet")
        self.left_over.clear()
        self.unanswered.clear()


def _names(unsure: tuple[BrokerId, ...], broker: BrokerId) -> bool:
    """Whether a broker is one of those that may have an older session."""
    return broker in unsure or EVERYBODY in unsure or THERE in unsure
