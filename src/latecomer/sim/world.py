"""Brokers in virtual time: the simulator's driver.

One heap of (instant, order, what, with what). Everything that happens, happens here, in an order that follows from
the seed alone. The driver performs the core's effects exactly as its contract says; faults are methods; observers are
told what happened and cannot change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from latecomer.core.broker import Broker
from latecomer.core.effects import (
    Accept,
    Answer,
    Attach,
    Close,
    Deliver,
    Disconnect,
    Effect,
    Lookup,
    Note,
    Persist,
    Read,
    Refuse,
    Send,
    Survey,
    Transmit,
    Write,
)
from latecomer.core.inputs import (
    Found,
    Input,
    LinkConnected,
    LinkDisconnected,
    LinkReceived,
    Started,
    StoreAssigned,
    StoreTrimmed,
    Surveyed,
    Woken,
)
from latecomer.core.session.limits import SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import LinkMessage, SessionFrame
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Record
from latecomer.model.topology import Topology
from latecomer.sim.disk import Disk
from latecomer.sim.network import JitterShape, Way, Wire, draw_jitter
from latecomer.sim.node import Node
from latecomer.sim.sides import ClientSide, Observer, Sockets, answer_socket, has_its_own
from latecomer.sim.store import SimStore

if TYPE_CHECKING:
    from random import Random

LAZY_US = 50_000
"""How long writes that nothing waits for may wait for others."""
RECONNECT_US = 100_000
"""How long an end waits before it tries a broken connection again."""

STARTED, WOKEN = Started(), Woken()


class World:
    """A network of brokers and the time they live in."""

    def __init__(
        self,
        topology: Topology,
        settings: BrokerSettings,
        random: Random,
        *,
        jitter_us: int = 0,
        jitter_shape: JitterShape = "uniform",
        disk_us: int = 0,
        read_us: int = 0,
        limits: SessionLimits | None = None,
        new_store: Callable[[], SimStore] = SimStore,
        transport: Callable[[Sequence[LinkMessage]], list[LinkMessage]] | None = None,
    ) -> None:
        self.now: Instant = 0
        self.random = random
        self.settings = settings
        self.topology = topology
        self.transport = transport
        self.disk_us = disk_us
        self.read_us = read_us
        """How long a look into a store takes at most."""
        self.limits = limits
        self.new_store = new_store
        self._on_noted: list[Callable[[Record], None]] = []
        self._on_sent: list[Callable[[Instant, BrokerId, BrokerId, Sequence[LinkMessage]], None]] = []
        self._on_crashed: list[Callable[[BrokerId, Disk, bool], None]] = []
        self.clients: ClientSide | None = None
        self.sockets: Sockets | None = None
        self.on_heal: Callable[[], None] = lambda: None
        self.on_lookup: Callable[[BrokerId, Query], None] | None = None
        self.counts: Counter[type] = Counter()
        self.steps = 0
        self._heap: list[tuple[Instant, int, Callable[..., object], Any]] = []
        self._order = 0
        self._boots = 0
        neighbours: dict[BrokerId, dict[BrokerId, int]] = {node.id: {} for node in topology.nodes}
        self.wires: dict[tuple[BrokerId, BrokerId], Wire] = {}
        for link in topology.links:
            neighbours[link.a][link.b] = neighbours[link.b][link.a] = link.latency_us
            wire = Wire(link.a, link.b, link.latency_us, jitter_us, jitter_shape)
            self.wires[link.a, link.b] = self.wires[link.b, link.a] = wire
        self.nodes = {
            id: Node(id, peers, disk_us=disk_us, disk=Disk(store=new_store())) for id, peers in neighbours.items()
        }

    def observe(self, *observers: Observer) -> None:
        """From now on these are told what happens, in this order."""
        for observer in observers:
            if has_its_own(observer, "noted"):
                self._on_noted.append(observer.noted)
            if has_its_own(observer, "sent"):
                self._on_sent.append(observer.sent)
            if has_its_own(observer, "crashed"):
                self._on_crashed.append(observer.crashed)

    # -- time --------------------------------------------------------------------------------------------------------

    def at(self, instant: Instant, what: Callable[..., object], *arguments: object) -> None:
        """Let something happen at an instant."""
        self._order += 1
        heappush(self._heap, (instant, self._order, what, arguments))

    def run(self, until: Instant) -> None:
        """Let time pass."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, what, arguments = heappop(heap)
            what(*arguments)
        self.now = max(self.now, until)

    # -- brokers -----------------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        for node in self.nodes.values():
            self.start(node.id)

    def start(self, id: BrokerId) -> None:
        """Start a broker from whatever its disk holds, as soon as it may."""
        node = self.nodes.get(id)
        if node is None or node.core is not None or node.starting:
            return
        self._boots += 1
        node.boot = self._boots
        core = Broker(id, self.settings, node.neighbours, node.boot, node.disk.tables, limits=self.limits)
        start_at = core.start_at(self.now)
        if start_at > self.now:
            node.starting = True
            self.at(start_at, self._start_now, node, node.boot, core)
        else:
            self._start(node, core)

    def _start_now(self, node: Node, boot: int, core: Broker) -> None:
        if node.starting and node.boot == boot:
            node.starting = False
            self._start(node, core)

    def _start(self, node: Node, core: Broker) -> None:
        id, kept = node.id, bool(node.disk.tables)
        node.core = core
        node.timer = None
        self._step(node, STARTED)
        if node.topics or "store" in node.disk.tables:
            self.tell(id, StoreAssigned(node.topics, node.disk.store.kept_from_us, starting=True))
        for peer in node.neighbours:
            self.attempt_soon(self.wires[id, peer], 0)
        if self.clients is not None:
            self.clients.broker_started(id, kept)

    def crash(self, id: BrokerId, *, keeps_disk: bool = True, silently: bool = False) -> None:
        """Kill a broker. What it had not made safe is gone; with its disk, everything is."""
        if (node := self.nodes.get(id)) is None:
            return  # it has left the network
        node.starting = False
        if node.core is None:
            return
        for crashed in self._on_crashed:
            crashed(id, node.disk, keeps_disk)
        node.core = None
        if node.writing:
            node.tear(self.random)
        node.held.clear()
        node.lazy = []
        node.inbox.clear()
        node.writing = False
        node.reads = 0
        node.paused_until = 0
        node.step_us = 0
        node.disk.store.crashed(self.random)
        if not keeps_disk:
            node.disk = Disk(store=self.new_store())
        for (end, peer), wire in self.wires.items():  # also what is hung up in a moment
            if end == id:
                self._close(wire, told=() if silently else (peer,))

    def assign(self, id: BrokerId, topics: Sequence[str]) -> None:
        """From now on, and after every start, the broker keeps these topics; none: it has no store."""
        node = self.nodes[id]
        node.topics = tuple(topics)
        self.tell(id, StoreAssigned(node.topics, node.disk.store.kept_from_us))

    def trim(self, id: BrokerId, before_us: Instant) -> None:
        """The broker's store lets go of what was published before an instant."""
        store = self.nodes[id].disk.store
        store.trim(before_us)
        self.tell(id, StoreTrimmed(store.kept_from_us))

    def pause(self, id: BrokerId, duration_us: int) -> None:
        """Stop a broker without killing it: what comes in waits."""
        node = self.nodes.get(id)
        if node is None or node.core is None:
            return
        node.paused_until = max(node.paused_until, self.now + duration_us)
        self.at(node.paused_until, self._resume, node, node.boot)

    def slow_down(self, id: BrokerId, step_us: int) -> None:
        """From now on the broker takes this long over each step; 0 is as fast as thought."""
        self.nodes[id].step_us = step_us

    def _resume(self, node: Node, boot: int) -> None:
        while node.core is not None and node.boot == boot and node.inbox and self.now >= node.paused_until:
            self._step(node, node.inbox.popleft())

    def tell(self, id: BrokerId, fact: Input) -> bool:
        """Hand a fact to a broker; False if it is dead, or has left the network."""
        node = self.nodes.get(id)
        if node is None or node.core is None:
            return False
        if node.paused_until > self.now or node.inbox:  # what came first is first
            node.inbox.append(fact)
        else:
            self._step(node, fact)
        return True

    def _step(self, node: Node, fact: Input) -> None:
        core = node.core
        assert core is not None
        self.steps += 1
        effects = core.step(self.now, fact)
        if effects:
            if node.writing:
                node.held.extend(effects)
            elif len(effects) == 1 and type(effect := effects[0]) is Send:
                self._send(node.id, effect.peer, effect.connection, effect.frames)
            else:
                self._perform(node, effects)
        due = core.deadline()
        if due is not None and (node.timer is None or due < node.timer) and node.core is core:
            due = max(due, self.now)  # what fell due while it was dead is due at once
            node.timer = due
            self.at(due, self._wake, node, node.boot, due)
        if node.step_us and node.core is core:
            self.pause(node.id, node.step_us)

    def _wake(self, node: Node, boot: int, due: Instant) -> None:
        if node.core is None or node.boot != boot or node.timer != due:
            return
        if node.paused_until > self.now:
            node.timer = node.paused_until
            self.at(node.paused_until, self._wake, node, boot, node.paused_until)
            return
        node.timer = None
        self._step(node, WOKEN)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _perform(self, node: Node, effects: Sequence[Effect]) -> None:
        for position, effect in enumerate(effects):
            kind = type(effect)
            if kind is Note:
                for noted in self._on_noted:
                    noted(effect.record)  # type: ignore[union-attr]
            elif kind is Send:
                self._send(node.id, effect.peer, effect.connection, effect.frames)  # type: ignore[union-attr]
            elif kind is Transmit:
                if self.sockets is not None:
                    self.sockets.transmitted(effect.connection, effect.packets)  # type: ignore[union-attr]
            elif kind is Persist:
                writes = effect.writes  # type: ignore[union-attr]
                if not effect.urgent:  # type: ignore[union-attr]
                    if not node.lazy:
                        self.at(self.now + LAZY_US, self._write_lazy, node, node.boot)
                    node.lazy += writes
                    continue
                writes = node.with_lazy(writes)
                if node.disk_us == 0:
                    node.disk.apply(writes)
                    continue
                node.writing = True
                node.under_way = writes
                node.held.extend(effects[position + 1 :])
                self.at(self.now + node.disk_us, self._written, node, node.boot, writes)
                return
            elif kind is Disconnect:
                wire = self.wires[node.id, effect.peer]  # type: ignore[union-attr]
                if wire.connection == effect.connection:  # type: ignore[union-attr]
                    self._close(wire, told=(effect.peer,))  # type: ignore[union-attr]
            elif kind is Close or kind is Attach or kind is Read:
                answer_socket(self.sockets, effect)
            elif kind is Lookup or kind is Survey:
                self._look(node, effect)
            elif self.clients is not None:
                self._answer_client(effect)

    def _look(self, node: Node, effect: Effect) -> None:
        """The store is asked at some moment from now on, and answers some time after that."""
        node.reads += 1
        wait_us = self.random.randint(0, self.read_us) if self.read_us else 0
        self.at(self.now + wait_us, self._look_now, node, node.boot, effect)

    def _look_now(self, node: Node, boot: int, effect: Effect) -> None:
        if node.core is None or node.boot != boot:
            return
        store = node.disk.store
        fact: Found | Surveyed
        if type(effect) is Lookup:
            if self.on_lookup is not None:
                self.on_lookup(node.id, effect.query)
            now = 0 if effect.expired else self.now
            fact = Found(effect.token, store.read(effect.query, now, effect.events_max, effect.bytes_max))
        else:
            assert type(effect) is Survey
            slices = store.survey(effect.topics, effect.since_us, effect.until_us, effect.width_us)
            fact = Surveyed(effect.token, slices)
        wait_us = self.random.randint(0, self.read_us) if self.read_us else 0
        self.at(self.now + wait_us, self._tell_found, node, boot, fact)

    def _tell_found(self, node: Node, boot: int, fact: Found | Surveyed) -> None:
        if node.core is not None and node.boot == boot:
            node.reads -= 1
            self.tell(node.id, fact)

    def _answer_client(self, effect: Effect) -> None:
        assert self.clients is not None
        if type(effect) is Deliver:
            self.clients.delivered(effect.client, effect.connection, effect.number, effect.event)
        elif type(effect) is Accept:
            self.clients.accepted(effect.client, effect.token, effect.event)
        elif type(effect) is Refuse:
            self.clients.refused(effect.client, effect.token, effect.reason)
        elif type(effect) is Answer:
            self.clients.answered(effect.client, effect.token, effect.events, effect.outcome)

    def _write_lazy(self, node: Node, boot: int) -> None:
        """Nothing has taken them along."""
        if node.core is None or node.boot != boot or not node.lazy:
            return
        if node.writing:
            self.at(self.now + LAZY_US, self._write_lazy, node, boot)
            return
        node.disk.apply(node.with_lazy([]))

    def _written(self, node: Node, boot: int, writes: list[Write]) -> None:
        if node.core is None or node.boot != boot:
            return
        node.disk.apply(writes)
        node.writing = False
        self._perform(node, node.group_commit())

    # -- wires -------------------------------------------------------------------------------------------------------

    def _send(self, sender: BrokerId, receiver: BrokerId, connection: int, frames: list[LinkMessage]) -> None:
        wire = self.wires[sender, receiver]
        if not wire.open or wire.connection != connection:
            return
        for sent in self._on_sent:
            sent(self.now, sender, receiver, frames)
        counts = self.counts
        for frame in frames:
            counts[type(frame)] += 1
        way = wire.ways[sender]
        if way.doomed == wire.connection:
            return
        at = self.now + wire.latency_us
        if wire.jitter_us:
            at += draw_jitter(self.random, wire.jitter_shape, wire.jitter_us)
        if at < way.stalled_until:
            at = way.stalled_until
        if at <= way.last_arrival:  # links keep order: it arrives together with what was sent before
            at = way.last_arrival
            if way.under_way and way.under_way[-1][0] == wire.connection:
                way.under_way[-1][1].extend(frames)
                return
        way.last_arrival = at
        way.under_way.append((wire.connection, frames))
        self._order += 1
        heappush(self._heap, (at, self._order, self._arrive, (wire, way)))

    def _arrive(self, wire: Wire, way: Way) -> None:
        connection, frames = way.under_way.popleft()
        if not wire.open or connection != wire.connection or way.doomed == connection:
            return
        if self.transport is not None:
            frames = self.transport(frames)
        node = self.nodes[way.receiver]
        if node.core is None:
            return
        if node.paused_until > self.now or node.inbox:
            node.inbox.append(LinkReceived(way.sender, frames))
        else:
            self._step(node, LinkReceived(way.sender, frames))

    def _close(self, wire: Wire, *, told: Sequence[BrokerId]) -> None:
        """End a connection; `told` are the ends that learn of it, if word still gets through to them."""
        if not wire.open:
            return
        wire.open = False
        for end in told:
            if wire.ways[wire.other(end)].doomed != wire.connection:
                self.at(self.now, self.tell, end, LinkDisconnected(wire.other(end), wire.connection))
        self.attempt_soon(wire, RECONNECT_US)

    def attempt_soon(self, wire: Wire, wait_us: int) -> None:
        at = self.now + wait_us
        if wire.attempt_at is None or wire.attempt_at > at:
            wire.attempt_at = at
            self.at(at, self._attempt, wire, at)

    def _attempt(self, wire: Wire, at: Instant) -> None:
        if wire.attempt_at != at:
            return
        wire.attempt_at = None
        if wire.open:
            return
        a, b = self.nodes[wire.a], self.nodes[wire.b]
        if a.core is None or b.core is None or b.id not in a.neighbours or a.id not in b.neighbours:
            return  # a broker that starts makes its own attempts
        if wire.blocked_until > self.now:
            self.attempt_soon(wire, wire.blocked_until - self.now)
            return
        wire.connection += 1
        wire.open = True
        self.tell(wire.a, LinkConnected(wire.b, wire.connection))
        if wire.open:
            self.tell(wire.b, LinkConnected(wire.a, wire.connection))

    # -- faults on wires ---------------------------------------------------------------------------------------------

    def break_wire(self, a: BrokerId, b: BrokerId, duration_us: int, *, silently: bool = False) -> None:
        """No connection between two brokers for a while. Silently: neither is told that the present one is dead."""
        wire = self.wires[a, b]
        wire.blocked_until = max(wire.blocked_until, self.now + duration_us)
        self._close(wire, told=() if silently else (a, b))

    def deafen(self, sender: BrokerId, receiver: BrokerId) -> None:
        """The present connection silently loses everything in one direction."""
        wire = self.wires[sender, receiver]
        wire.ways[sender].doomed = wire.connection

    def stall(self, sender: BrokerId, receiver: BrokerId, duration_us: int) -> None:
        """What is sent from now on arrives after the stall, in order."""
        wire = self.wires[sender, receiver]
        wire.ways[sender].stalled_until = max(wire.ways[sender].stalled_until, self.now + duration_us)

    def forge(self, sender: BrokerId, receiver: BrokerId, frame: SessionFrame) -> None:
        """A broker says something to a neighbour that it would not say by itself."""
        node = self.nodes[sender]
        if node.core is not None:
            node.core.neighbours.send(receiver, frame)
            self._perform(node, node.core.orders.finish())

    def partition(self, side: Sequence[BrokerId], duration_us: int, *, silently: bool = False) -> None:
        """Cut every wire between one side and the rest."""
        inside = dict.fromkeys(side)
        for link in self.topology.links:
            if (link.a in inside) != (link.b in inside):
                self.break_wire(link.a, link.b, duration_us, silently=silently)

    def heal(self, dead: Sequence[BrokerId] = ()) -> None:
        """Take back every fault: brokers run, except those that stay dead, and wires work."""
        self.on_heal()
        for wire in self.wires.values():
            wire.blocked_until = 0
            for way in wire.ways.values():
                way.stalled_until = 0
        for node in self.nodes.values():
            node.paused_until = min(node.paused_until, self.now)
            node.disk_us = self.disk_us
            node.step_us = 0
            if node.core is not None:
                self._resume(node, node.boot)
            elif node.id not in dead:
                self.start(node.id)
        for link in self.topology.links:
            wire = self.wires[link.a, link.b]
            if not wire.open:
                self.attempt_soon(wire, 0)
