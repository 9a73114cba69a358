"""The driver: tells the core facts, performs its orders on sockets and disk, and keeps its time.

Theory of operation. Effects are performed at once, in order, until a `Persist`: its writes go to the disk's own thread,
and every effect after it, of this step and of later ones, is *held* until they are safe. Whatever gathers meanwhile is
written as one: that is the group commit. Events for the store (`Append`) are part of it: the store's engine makes them
safe first, then the disk the rest, so that a crash in between repeats them and loses none. A connection knows how many
of its own steps are held (`held`), so that the fast path does not overtake them, and stops being read from when they
become many.

Failures. An effect that cannot be performed concerns nobody but the client or neighbour it was for (`containment`), and
is an alarm (`alarms`). Writes that cannot be made safe stop the broker.

Time. The core's clock is the wall clock of the start plus what the monotonic clock says since: setting the wall clock
expires, reorders and loses nothing (P9).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from latecomer.core.broker import Broker
from latecomer.core.effects import (
    Append,
    Attach,
    CarryOut,
    Close,
    Disconnect,
    Effect,
    Lookup,
    Note,
    Persist,
    Read,
    Report,
    Send,
    Spread,
    Survey,
    TakeBack,
    Transmit,
)
from latecomer.core.inputs import Input, RunOpened, Started, StoreAssigned, StoreBlocked, Woken
from latecomer.messages.link import Publication
from latecomer.model.event import Event
from latecomer.model.ids import EventId, Instant
from latecomer.runtime.alarms import Alarms
from latecomer.runtime.connection import Connection
from latecomer.runtime.containment import Containment
from latecomer.runtime.disk import Disk, DiskFull, Durability
from latecomer.runtime.fastpath import TURNS_HELD_MAX, FastPath
from latecomer.runtime.lazy import LazyWrites
from latecomer.runtime.metrics import Counters
from latecomer.runtime.sparing import Sparing
from latecomer.runtime.spin import Spinner
from latecomer.runtime.telling import tell, told_kinds

if TYPE_CHECKING:
    from latecomer.runtime.errands import Errands
    from latecomer.runtime.journal import Journal
    from latecomer.runtime.links import Links
    from latecomer.runtime.store import Keeper

HELD_MAX = 64
"""Steps of one connection that may wait for the disk before it is no longer read from."""
FULL_RETRY_S = 0.25
WAKE_AGAIN_S = 1.0
"""When the core could not do what was due, it is asked again after this."""

log = logging.getLogger("latecomer")


@dataclass(slots=True)
class Group:
    """What becomes safe together, and what waits for it."""

    writes: list[Any] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """For the store."""
    ghosts: TakeBack | None = None
    """What the store is to take back."""
    ready: list[Effect | Connection] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.events or self.ghosts)


class Driver:
    """Owns a core, and everything the core must not know of."""

    def __init__(
        self,
        core: Broker,
        disk: Disk,
        counters: Counters,
        journal: Journal | None,
        clock: Callable[[], Instant],
        packet_max: int,
        failed: Callable[[Exception], None],
        spin_s: float = 0.0,
        keeper: Keeper | None = None,
    ) -> None:
        self.core = core
        self.disk = disk
        self.keeper = keeper
        self.counters = counters
        self.journal = journal
        self.now = clock
        self.packet_max = packet_max
        self.failed = failed
        """Called when the disk cannot be trusted any more."""
        self.loop = asyncio.get_running_loop()
        self.alarms = Alarms(counters, self.loop.time)
        self.containment = Containment(self)
        self.refusals = Sparing("refusals", self.loop.time)
        self.goodbyes = Sparing("closed connections of clients", self.loop.time)
        self.connections: dict[int, Connection] = {}
        self.links: Links | None = None
        self.errands: Errands | None = None
        self.fastpath = FastPath(self)
        self.spinner = Spinner(self.loop, spin_s)
        self.generation = 0
        """Grows whenever something changed that plans are made from."""
        self.choked = 0
        """Connections that hold as many bytes as they may."""
        self.durable = disk.durability is not Durability.NONE
        self.full = False
        """The disk has no room: nothing new is taken that would need some."""
        self.writing = False
        self.performing = False
        """Effects are being performed. A fact that one of them leads to (`Relayed`) has its own effects after them all:
        the core numbers what it sends to a neighbour, and the order on the wire must be the same."""
        self.held: deque[Effect | Connection] = deque()
        """Effects that wait for the disk; a connection marks the end of one of its steps."""
        self.lazy = LazyWrites(self.loop, self._write_lazy)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Instant = 0
        self._telling = told_kinds()
        self._perform_table: dict[type, Callable[[Any], None]] = {
            Attach: self._attach,
            Transmit: self._transmit,
            Close: self._close,
            Read: self._read,
            Send: self._send,
            Disconnect: self._disconnect,
            Spread: self._spread,
            Note: self._note,
            CarryOut: self._carry_out,
            Report: self._report,
            Connection: self._stepped,
        }
        self._ghosts: TakeBack | None = None
        """What the store is to take back when there is one."""
        disk.deliver = self.loop.call_soon_threadsafe
        if keeper is not None:
            self._hire(keeper)

    def _hire(self, keeper: Keeper) -> None:
        self.keeper = keeper
        keeper.tell, keeper.failed = self.tell, self.failed
        self._perform_table |= {Lookup: keeper.lookup, Survey: keeper.survey}

    def start(self) -> None:
        self.tell(Started())
        if self.keeper is not None:
            self.tell(StoreAssigned(self.keeper.topics, *self.keeper.reach(), starting=True))
            self.keeper.start()

    def employ(self, keeper: Keeper) -> None:
        """A running broker gets a store."""
        assert self.keeper is None
        self._hire(keeper)
        if self._ghosts is not None:
            ghosts, self._ghosts = self._ghosts, None
            keeper.append((), ghosts, lambda full: None)  # ahead of everything that is kept from now on
        self.tell(StoreAssigned(keeper.topics, *keeper.reach()))
        keeper.start()

    def stop(self) -> None:
        if self.keeper is not None:
            self.keeper.stop()
        if self._timer is not None:
            self._timer.cancel()
        if left := self.lazy.stop():
            self.disk.submit(left, lambda error: None)

    # -- facts -------------------------------------------------------------------------------------------------------

    def tell(self, fact: Input) -> None:
        """Tell the core a fact, and do what follows from it."""
        effects = self._step(fact)
        if self.writing or self.performing:
            self.held.extend(effects)
        elif effects:
            self._perform(effects)
        self._keep_time()

    def tell_from(self, connection: Connection, fact: Input) -> None:
        """The same for a fact from a client, whose later facts must not overtake it."""
        effects = self._step(fact)
        if self.writing or self.performing:
            self.held.extend(effects)
        else:
            self._perform(effects)
        if self.writing:
            self.held.append(connection)
            connection.held += 1
            if connection.held == HELD_MAX:
                connection.pause()
        self._keep_time()

    def _step(self, fact: Input) -> list[Effect]:
        """A fact that the core cannot take is a bug, and an alarm; whoever told it ends the connection it came from.
        What the core had ordered until then is not lost: it comes with the orders of the next step."""
        try:
            return self.core.step(self.now(), fact)
        except Exception as error:
            self.alarms.ring("step", error, f"with {type(fact).__name__}")
            raise

    def changed(self) -> None:
        """Plans are void."""
        self.generation += 1

    def _keep_time(self) -> None:
        due = self.core.deadline()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self.loop.call_later(max(0.0, (due - self.now()) / 1_000_000), self._wake)

    def _wake(self) -> None:
        self._timer = None
        try:
            self.tell(Woken())
        except Exception:  # an alarm already; without heartbeats and time-outs nothing would go on
            if self._timer is None:
                self._timer_at = self.now() + round(WAKE_AGAIN_S * 1_000_000)
                self._timer = self.loop.call_later(WAKE_AGAIN_S, self._wake)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        if not effects:
            return
        first = effects[0]
        if type(first) is Persist:
            if not first.urgent:
                self._put_off(first)
            elif self.durable or (self.keeper is not None and any(type(write) is Append for write in first.writes)):
                self.held.extend(effects)
                self._commit()
                return
            effects = effects[1:]
        self._perform_each(effects)
        if self.held and not self.writing:
            self._commit()

    def _commit(self) -> None:
        """Write everything that waits as one, then perform what waited for it."""
        group = Group()
        held, self.held = self.held, deque()
        before: list[Effect | Connection] = []
        for effect in held:
            if type(effect) is Persist:
                if effect.urgent or group:
                    self._add(group, effect)
                else:
                    self._put_off(effect)
            elif group:
                group.ready.append(effect)
            else:
                before.append(effect)
        self._perform_each(before)
        if group:
            self._begin(group)
        elif self.held:
            self._commit()

    def _begin(self, group: Group) -> None:
        group.writes[:0] = self.lazy.take()
        self.writing = True
        try:
            self._keep(group)
        except Exception as error:
            self._cannot_keep(error)

    def _put_off(self, persist: Persist) -> None:
        if self.durable:
            self.lazy.add(persist.writes)

    def _write_lazy(self) -> None:
        """They have waited long enough for another commit."""
        if self.writing or self.performing:
            self.lazy.remind()
        else:
            self._begin(Group())

    def _add(self, group: Group, persist: Persist) -> None:
        for write in persist.writes:
            if type(write) is Append:
                group.events.append(write.event)
            elif type(write) is TakeBack:
                group.ghosts = write
            elif self.durable:
                group.writes.append(write)

    def _keep(self, group: Group) -> None:
        """First what belongs into the store, then the rest."""
        if self.keeper is None or not (group.events or group.ghosts):
            self._ghosts = group.ghosts or self._ghosts
            self._submit(group)
            return

        def kept(full: Exception | None) -> None:
            try:
                if full is not None:
                    self._not_kept(group)
                self._submit(group)
            except Exception as error:
                self._cannot_keep(error)

        self.keeper.append(group.events, group.ghosts, kept)

    def _cannot_keep(self, error: Exception) -> None:
        """What must be safe before anything goes on cannot be made safe: stop, as when the disk fails. Nothing of the
        group is acknowledged, and what was acknowledged before is found at the next start."""
        self.alarms.ring("persist", error)
        self.failed(error)

    def _not_kept(self, group: Group) -> None:
        """The store had no room. That something is missing becomes safe together with the events that are: so whatever
        gathered meanwhile joins the group."""
        held, self.held = self.held, deque()
        events = group.events
        group.events = []
        for effect in held:
            if type(effect) is Persist:
                self._add(group, effect)
            else:
                group.ready.append(effect)
        since_us = min(event.published_us for event in (*events, *group.events))
        if self.keeper is not None:
            self.keeper.refused += len(group.events)
        for effect in self.core.step(self.now(), StoreBlocked(True, since_us)):
            if type(effect) is Persist:
                self._add(group, effect)
            else:
                group.ready.append(effect)
        self._keep_time()

    def _submit(self, group: Group) -> None:
        begun = time.perf_counter()

        def done(error: Exception | None) -> None:
            if error is None:
                self.counters.commits.observe(time.perf_counter() - begun)
                self.counters.committed_rows += len(group.writes)
                self.look_at_space()
                self.writing = False
                self._perform_each(group.ready)
                if self.held and not self.writing:
                    self._commit()
            elif isinstance(error, DiskFull):
                if not self.full:
                    log.error("%s: publications that must be kept are refused until there is room", error)
                self.full = True
                self.loop.call_later(FULL_RETRY_S, self._submit_again, group)
            else:
                self.failed(error)

        if group.writes:
            self.disk.submit(group.writes, done)
        else:
            done(None)

    def _submit_again(self, group: Group) -> None:
        try:
            self._submit(group)
        except Exception as error:
            self._cannot_keep(error)

    def look_at_space(self) -> None:
        """Stop taking what must be kept before the disk is full, so that what is under way can be finished."""
        try:
            full = self.disk.space() <= 0
        except OSError as error:
            self.alarms.ring("space", error)
            return
        if full != self.full:
            self.full = full
            if full:
                log.error("the disk is nearly full: publications that must be kept are refused; make room")
            else:
                log.warning("there is room on the disk again")

    def _perform_each(self, effects: Iterable[Effect | Connection]) -> None:
        """In order; one that fails does not take along the others."""
        table = self._perform_table
        self.performing = True
        try:
            for effect in effects:
                try:
                    table[type(effect)](effect)
                except Exception as error:
                    self.containment.failed(effect, error)
        finally:
            self.performing = False

    @staticmethod
    def _stepped(connection: Connection) -> None:
        connection.held -= 1
        if connection.held == HELD_MAX - 1:
            connection.unpause()
        if connection.held == TURNS_HELD_MAX - 1 and connection.waits_for is connection:
            connection.let_go()

    def _attach(self, effect: Attach) -> None:
        connection = self.connections.get(effect.connection)
        if connection is not None and connection.seeking:
            connection.attach()

    def _transmit(self, effect: Transmit) -> None:
        connection = self.connections.get(effect.connection)
        if connection is not None:
            connection.send(effect.packets)

    def _close(self, effect: Close) -> None:
        connection = self.connections.get(effect.connection)
        if connection is not None:
            connection.say_goodbye(effect.problem)

    def _read(self, effect: Read) -> None:
        connection = self.connections.get(effect.connection)
        if connection is not None and not connection.closing:
            (connection.unpause if effect.go_on else connection.pause)()

    def _send(self, effect: Send) -> None:
        if self.links is not None:
            self.links.send(effect.peer, effect.connection, effect.frames)

    def _disconnect(self, effect: Disconnect) -> None:
        if self.links is not None:
            self.links.disconnect(effect.peer, effect.connection, effect.reason)

    def _carry_out(self, effect: CarryOut) -> None:
        if self.errands is not None:
            self.errands.carry_out(effect)

    def _report(self, effect: Report) -> None:
        if self.errands is not None:
            self.errands.report(effect)

    def _spread(self, effect: Spread) -> None:
        odd = self.fastpath.spread(effect.peer, effect.run)
        if odd:
            id, now = EventId(effect.run.origin, 0, 0), self.now()
            publications = [
                Publication(Event(id, packet.topic, effect.run.publisher, now, False, {}, packet.payload, 0))
                for packet in odd
            ]
            self.tell(RunOpened(effect.peer, publications))

    def _note(self, effect: Note) -> None:
        record = effect.record
        kind = record.kind
        if kind in self._telling:
            tell(record, self)
        if self.journal is not None:
            self.journal.note(record)
