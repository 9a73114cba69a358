"""A broker without I/O: facts in, orders out.

`step(now, input)` changes the broker's state and returns what its driver must do, in order. `deadline()` says when the
broker wants to be woken. The broker owns no clock, no socket, no disk and no chance: the same inputs give the same
effects, in any process.

This file only wires the parts: `neighbours` (link sessions), `membership` (who is there, which tree), `interest`
(what is wanted behind each link), `events` (publications), `clients` (mailboxes of clients inside the process),
`session` (MQTT clients), `retained`, `shares`, `history` (stores and what is asked of them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from latecomer.core.advertisements import Advertisements
from latecomer.core.clients import Clients, Disk
from latecomer.core.dispatch import frame_handlers, input_handlers
from latecomer.core.effects import Effect, Put
from latecomer.core.events import Events
from latecomer.core.history import History
from latecomer.core.homes.addresses import AddressBook
from latecomer.core.homes.homes import Homes
from latecomer.core.homes.profiles import Profiles
from latecomer.core.inputs import (
    Input,
    LinkReceived,
    NeighbourAdded,
    Started,
    Woken,
)
from latecomer.core.interest import Interest
from latecomer.core.links import ACK_EVERY, Link
from latecomer.core.linkstate import LinkStateDatabase
from latecomer.core.losses import Losses
from latecomer.core.membership import Membership
from latecomer.core.mobility.mobility import Mobility
from latecomer.core.mobility.wiring import make_mobility
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.outbox import CLOCK_US
from latecomer.core.passage import Passage
from latecomer.core.reposition.reposition import Reposition
from latecomer.core.reposition.word import PositionsWord
from latecomer.core.retained import RetainedMessages
from latecomer.core.ring.early import EarlyFrames
from latecomer.core.ring.family import Family
from latecomer.core.ring.interest import RingInterest
from latecomer.core.ring.slots_kept import check_slots, slots_of
from latecomer.core.ring.traffic import Traffic
from latecomer.core.ring.ways import RingWays
from latecomer.core.ring.wiring import make_fences, make_flushes, make_interest, make_settling
from latecomer.core.routes import Routes
from latecomer.core.routing import Rendezvous
from latecomer.core.session.limits import Access, Anything, SessionLimits
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.wiring import make_sessions
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.core.shares import Shares
from latecomer.core.tree import Tree
from latecomer.messages.link import Alive, Hello, LinkMessage, Publication, SessionFrame
from latecomer.messages.mqtt import Packet
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind


class Broker:
    """One broker. `boot` must be larger than at any earlier start; `disk` is what it left behind, if anything."""

    def __init__(
        self,
        id: BrokerId,
        settings: BrokerSettings,
        neighbours: Mapping[BrokerId, int],
        boot: int,
        disk: Disk | None = None,
        *,
        limits: SessionLimits | None = None,
        access: Access | None = None,
        durability: str = "none",
        measure: Callable[[Packet, int], int] = lambda packet, version: 0,
    ) -> None:
        disk = disk or {}
        check_slots(disk, settings.routing)
        epoch = disk.get("meta", {}).get("", {}).get("epoch", boot)
        assert isinstance(epoch, int)
        self.id = id
        self.settings = settings
        self.orders = Orders(id, boot)
        self.neighbours = Neighbours(id, settings, self.orders, self._link_up, self._link_down)
        for peer, cost_us in neighbours.items():
            self.neighbours.add(peer, cost_us)
        self.advertisements = self._make_advertisements()
        self.interest = self._make_interest()
        self.membership = self._make_membership(disk)
        self.neighbours.changed = self.membership.links_changed
        self.clients = Clients(self.orders, self.interest, settings.mailbox_max)
        self.routes = Routes(self.interest.subscriptions, self.clients.subscribers, settings.routes_max)
        self.flushes = make_flushes(id, self.interest, self.neighbours)
        limits, access = limits or SessionLimits(), access or Anything()
        self.retained = self._make_retained(limits)
        self.shares = self._make_shares()
        self.shares_due: Instant | None = None
        most = settings.brokers_max
        self.fences = make_fences(self.interest, self.neighbours, most, self._fence_passed, self.flushes)
        self.losses = Losses(
            id,
            self.orders,
            self.neighbours,
            self.interest,
            lambda since, until: self.history.store.missed(since, until),
        )
        settling = make_settling(self.interest, self.neighbours, self._settled)
        self.events = Events(
            id,
            epoch,
            settings,
            self.orders,
            self.interest,
            self.routes,
            self.clients,
            self.membership,
            self.neighbours,
            self.retained,
            self.shares,
            settling,
            self.losses,
            self._pumped,
        )
        self._route_by_ring()
        self.history = self._make_history(settling, access)
        self.sessions = self._make_sessions(limits, access, durability, measure)
        self.mobility = self.sessions.mobility = self._make_mobility()
        self.addresses = self._make_addresses()
        self.homes = self._make_homes()
        self.reposition = self._make_reposition()
        self._on_input = input_handlers(self)
        self._on_frame = frame_handlers(self)
        self._disk = disk

    def _route_by_ring(self) -> None:
        """If the settings say so."""
        interest = self.interest
        self.early: EarlyFrames | None = None
        if isinstance(interest, RingInterest):
            self.routes.ways, self.early = RingWays(interest), EarlyFrames(interest, self.neighbours)
            self.events.seen.slot = interest.keys.slot
            self.events.traffic = Traffic(interest.keys.slot)

    def _make_advertisements(self) -> Advertisements:
        neighbours = self.neighbours
        return Advertisements(
            self.orders, neighbours.send, neighbours.reject, self._stores_changed, self.settings.filters_max
        )

    def _make_membership(self, disk: Disk) -> Membership:
        forgotten = {str(k): v for k, v in disk.get("forgotten", {}).get("", {}).items() if isinstance(v, int)}
        meta = disk.get("meta", {}).get("", {})
        return Membership(
            self.id,
            self.settings,
            self.orders,
            self.neighbours,
            self._adopted,
            lambda: self.reposition.word.known if isinstance(self.interest, RingInterest) else None,
            self._forgot,
            LinkStateDatabase(self.id, self.orders.boot, forgotten=forgotten),
            dict.fromkeys(str(member) for member in disk.get("member", {}).get("", {})),
            bool(meta.get("uncharted", False)),
            bool(meta.get("past", "epoch" in meta)),  # disks of earlier versions do not say
        )

    def _make_interest(self) -> Interest:
        told = (self._tables_changed, self._tree_ready, self._tree_lost)
        completing = (self.advertisements.complete, self.advertisements.completed)
        return make_interest(self.id, self.settings, self.orders, self.neighbours, *told, *completing)

    def _make_history(self, settling: Settling, access: Access) -> History:
        return History(
            self.id,
            self.settings,
            self.orders,
            self.neighbours,
            self.interest,
            self.membership,
            self.clients,
            lambda: self.events.outbox,
            lambda: self.events.seen,
            self.advertisements,
            settling,
            access,
            self.fences,
            self.flushes,
        )

    def _make_retained(self, limits: SessionLimits) -> RetainedMessages:
        return RetainedMessages(
            self.orders,
            self.neighbours.send,
            self.neighbours.up,
            self.neighbours.reject,
            2 * limits.retained_messages,
            2 * limits.retained_bytes,
        )

    def _make_shares(self) -> Shares:
        return Shares(
            self.id,
            self.orders,
            self.neighbours.send,
            self.neighbours.up,
            self._shares_changed,
            self.routes.clear,
            self.neighbours.reject,
            self.settings.brokers_max,
        )

    def _make_sessions(
        self, limits: SessionLimits, access: Access, durability: str, measure: Callable[[Packet, int], int]
    ) -> Sessions:
        parts = (self.orders, self.clients, self.events, self.history.retrieval, self.fences)
        return make_sessions(self.settings, *parts, limits, access, durability, measure)

    def _make_mobility(self) -> Mobility:
        parts = (self.neighbours, self.interest, self.membership, self.events, self.fences, self.sessions)
        return make_mobility(self.id, self.settings, self.orders, *parts, self.flushes)

    def _make_addresses(self) -> AddressBook:
        addresses = AddressBook(self.id, self.orders, self.neighbours, self.settings.brokers_max)
        self.mobility.wishes.reference = addresses.reference
        return addresses

    def _make_homes(self) -> Homes:
        settings, passage = self.settings.homes, Passage(self.id, self.neighbours, self.interest)
        connected, speaks = self.sessions.by_connection.__len__, settings.mode != "off"
        parts = (self.clients.subscribers, settings.filters_max, settings.update_us, connected, speaks)
        profiles = Profiles(self.id, self.orders, passage, *parts)
        served = (self.sessions, self.mobility, self.addresses, self.interest, self.membership)
        return Homes(self.id, self.orders, settings, profiles, *served)

    def _make_reposition(self) -> Reposition:
        parts = (self.orders, self.neighbours)
        word = PositionsWord(self.id, *parts, self.settings.brokers_max, self._positions_changed)
        passage = Passage(self.id, self.neighbours, self.interest)
        return Reposition(self.id, *parts, self.interest, self.membership, passage, self.settings.reposition_us, word)

    # -- the contract ----------------------------------------------------------------------------------------------

    def step(self, now: Instant, input: Input) -> list[Effect]:
        """Take one fact; returns the orders that follow from it."""
        orders = self.orders
        orders.now = now
        orders.step += 1
        if type(input) is LinkReceived:  # the hot path, before the table
            self._link_received(input)
        else:
            self._on_input[type(input)](input)
        if self.mobility.remote.last:
            self.mobility.remote.flush()
        return orders.finish()

    def start_at(self, now: Instant) -> Instant:
        """When a driver may tell `Started`, at the latest `CLOCK_US` from now.

        Stamps up to the reserved one may have been given out. A broker that started before that instant would stamp
        ahead of its clock, and a retained message stamped so would win against one that another broker accepts later.
        A reservation further ahead than `CLOCK_US` means that the clock was set back: waiting would take too long.
        """
        reserved = self._disk.get("meta", {}).get("", {}).get("stamp", 0)
        assert isinstance(reserved, int)
        return reserved if now < reserved <= now + CLOCK_US else now

    def deadline(self) -> Instant | None:
        """When the broker wants a `Woken` at the latest."""
        return self.orders.wake_at

    # -- inputs ------------------------------------------------------------------------------------------------------

    def started(self, _: Started) -> None:
        disk, self._disk = self._disk, {}
        self.orders.note(Kind.STARTED, count=self.events.epoch)
        self.orders.writes.append(Put("meta", "", "epoch", self.events.epoch))
        if isinstance(routing := self.settings.routing, Rendezvous) or disk.get("meta", {}).get("", {}).get("slots"):
            self.orders.writes.append(Put("meta", "", "slots", slots_of(routing)))
        self.reposition.word.recover(disk)
        self.membership.start()
        self.clients.recover(disk)
        self.events.recover(disk)
        self.losses.recover(disk)
        self.retained.recover(disk)
        self.shares.recover(disk)
        self.history.recover(disk)
        self.sessions.recover(disk)
        self.homes.start()
        self.events.tree_ready()

    def woken(self, _: Woken) -> None:
        now = self.orders.now
        self.orders.wake_at = None
        if self.events.reports.due is not None and self.events.reports.due <= now:
            self.events.reports.flush()
        if self.neighbours.tick_due is not None and self.neighbours.tick_due <= now:
            self.neighbours.tick()
        if self.shares_due is not None and self.shares_due <= now:
            self.shares_due = None
            self.shares.flush()
        self.membership.woken()
        self.sessions.woken()
        self.mobility.woken()
        self.history.woken()
        self.reposition.woken()
        self.homes.woken()
        dues: tuple[Instant | None, ...] = (
            self.neighbours.tick_due,
            self.events.reports.due,
            self.shares_due,
            self.sessions.due(),
            self.mobility.due(),
        )
        dues = (*dues, *self.membership.dues(), *self.history.dues(), *self.reposition.dues(), *self.homes.dues())
        every = [due for due in dues if due is not None]
        if every:
            self.orders.wake(min(every))

    def neighbour_added(self, fact: NeighbourAdded) -> None:
        self.neighbours.add(fact.peer, fact.cost_us)
        self.mobility.met_somebody()

    def _link_received(self, fact: LinkReceived) -> None:
        peer = fact.peer
        link = self.neighbours.links[peer]
        if not link.connected:
            return
        link.heard_at = self.orders.now
        handlers = self._on_frame
        on_publication = self.events.on_publication
        if self.early is not None:
            self._received_by_ring(peer, link, fact.frames, self.early)
            return
        for frame in fact.frames:
            if type(frame) is Publication and link.greeted:
                link.received += 1
                on_publication(peer, frame)
            elif (handler := handlers.get(type(frame))) is not None and link.greeted:
                link.received += 1
                handler(peer, frame)
            elif not self._connection_frame(peer, frame):
                return  # rejected: what follows is not looked at
        if link.received - link.told >= ACK_EVERY:
            self.neighbours.acknowledge(link)

    def _received_by_ring(self, peer: BrokerId, link: Link, frames: Sequence[LinkMessage], early: EarlyFrames) -> None:
        """As above, where a neighbour may be ready before this broker is."""
        for frame in frames:
            if not link.greeted or isinstance(frame, (Hello, Alive)):
                if not self._connection_frame(peer, frame):
                    return
                continue
            link.received += 1
            if not early.keep(peer, frame):
                self._take(peer, frame)
                early.release(self._take)
        if link.received - link.told >= ACK_EVERY:
            self.neighbours.acknowledge(link)

    def _take(self, peer: BrokerId, frame: SessionFrame) -> None:
        if type(frame) is Publication:
            self.events.on_publication(peer, frame)
        else:
            self._on_frame[type(frame)](peer, frame)

    def _connection_frame(self, peer: BrokerId, frame: LinkMessage) -> bool:
        """Whether the connection still stands after this frame."""
        neighbours = self.neighbours
        if not neighbours.links[peer].connected:
            return False  # the frame before this one was the last straw
        if not neighbours.links[peer].greeted:
            neighbours.greeted(peer, frame)
        elif type(frame) is Alive:
            neighbours.on_alive(peer, frame)
        else:
            neighbours.reject(peer, "a second hello on one connection")
        return neighbours.links[peer].connected

    # -- what one part tells the others ------------------------------------------------------------------------------

    def _link_up(self, peer: BrokerId) -> None:
        if isinstance(self.interest, RingInterest):
            self.interest.words.greet(peer)  # before anything that may change our own
        self.advertisements.link_fresh(peer)
        self.membership.link_up(peer)
        self.interest.link_fresh(peer)
        self.retained.greet(peer)
        self.shares.greet(peer)
        self.history.directory.greet(peer)
        self.addresses.greet(peer)
        self.reposition.word.greet(peer)
        self.reposition.look_at_links()

    def _link_down(self, peer: BrokerId) -> None:
        self.interest.link_down(peer)
        self.advertisements.link_down(peer)
        if self.neighbours.links[peer].wanted:
            self.membership.announce()

    def _adopted(self, tree: Tree, family: Family | None) -> None:
        self.neighbours.void_events()
        if self.early is not None:
            self.early.clear()
        self.advertisements.adopt(tree.peers(self.id), len(tree.parent))
        apart_since, self.membership.link_states.apart_since = self.membership.link_states.apart_since, None
        if apart_since is not None and self.orders.now - apart_since >= self.settings.forget_us // 2:
            self.history.store.missed(apart_since, self.orders.now)
        self.fences.adopted()
        self.mobility.seeking.adopted()
        self.interest.adopt(tree, family)
        self.reposition.adopted(tree)
        self.neighbours.hang_up()

    def _tree_ready(self) -> None:
        tree = self.interest.tree
        assert tree is not None
        parent = None if isinstance(self.interest, RingInterest) else tree.parent[self.id]
        self.routes.always = (parent,) if self.settings.routing.climbs and parent is not None else ()
        self.routes.clear()
        self.orders.note(Kind.TREE_READY, detail=tree.version, count=len(tree.parent))
        self.history.settling.tree_ready(tree.version, self.interest.peers, self.membership.past)
        self.losses.tree_ready()
        self.events.tree_ready()
        self.history.tree_ready(self.membership.link_states.states)
        self.mobility.tree_ready()
        self.addresses.tree_ready(self.membership.link_states.states)
        self.fences.tree_ready()
        self.sessions.subscribing.subacks.tree_ready()
        self.reposition.tree_ready()

    def _forgot(self, brokers: list[BrokerId]) -> None:
        kept = [entry.event.published_us for entry in self.events.outbox.entries.values()]
        for broker in brokers:
            since = self.membership.link_states.lost_since.get(broker)
            if since is not None and self.orders.now - since < self.settings.forget_us:  # sooner than it can know
                self.losses.note_all(broker, min((since, *kept)))
        self.events.forget(brokers)
        self.history.directory.forget(brokers)
        self.addresses.forget(brokers)
        self.mobility.forgot(brokers)

    def _tree_lost(self) -> None:
        if self.early is not None:
            self.early.clear()
        self.flushes.tree_lost()
        self.mobility.apart.tree_lost(self.events.transit)
        self.events.tree_lost()
        self.losses.tree_lost()
        self.history.tree_lost()
        self.mobility.tree_lost()

    def _settled(self) -> None:
        self.history.settled()
        self.mobility.settled()

    def _pumped(self) -> None:
        self.history.retrieval.pumped()
        self.mobility.pumped()

    def _fence_passed(self, wave: int) -> None:
        self.history.fence_passed(wave)
        self.sessions.subscribing.subacks.passed(wave)
        self.mobility.passed(wave)

    def stored(self, topic: str) -> bool:
        """Whether some store in the network keeps a topic: then each of its events needs an identity."""
        return self.advertisements.stored(topic)

    def _positions_changed(self) -> None:
        self.reposition.positions_changed()
        self.membership.positions_changed()

    def _tables_changed(self) -> None:
        self.routes.clear()

    def _stores_changed(self) -> None:
        self.routes.clear()
        self.history.retrieval.tables_changed()

    def _shares_changed(self) -> None:
        self.shares_due = self.orders.wake(self.orders.now + self.settings.flood_us)
