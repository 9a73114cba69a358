"""Interest: the subscription and advertisement tables, kept complete along the agreed tree.

Theory of operation.
1. A broker *adopts* a tree and says so on every link. From then on it ignores what belongs to another tree.
2. Towards each tree neighbour it first completes its advertisements (if the routing uses them), then its
   subscriptions. It can do so when all its *other* tree neighbours have completed theirs: the wave runs from the leaves
   inwards and back out, and ends because a tree has no cycle.
3. When all its tree neighbours have completed, the broker is *ready*: its tables say exactly what is wanted behind each
   link. An event is forwarded, and its completion is reported, only by ready brokers. By the order of frames on a
   link, a neighbour of a ready broker is ready when the first event arrives.
4. A neighbour that leaves our tree, or a link session of it that is lost, *spoils* the tree: events may be lost on
   the way, so it must not become ready again. The neighbour's tree will reach us, or we are cut off from it and will
   hear of that: either way we adopt another tree too, and origins send again what is not done.

Within a link session both ends remember what was told, so every change, also that to another tree, is told as a
difference. Additions go before removals, so no event falls between a filter and the one that covers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from latecomer.core.confirmations import Confirmations
from latecomer.core.ring.family import Family
from latecomer.core.routing import Routing
from latecomer.core.table import SELF, FilterTable
from latecomer.core.tree import Tree
from latecomer.messages.link import (
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Complete,
    Confirm,
    SessionFrame,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Version,
)
from latecomer.model.filters import Filter, filter_overlaps
from latecomer.model.ids import BrokerId

BATCH_MAX = 262_144
"""Characters of filters in one frame: a large table must not become a frame that no link carries."""


def batched(filters: tuple[Filter, ...]) -> Iterator[tuple[Filter, ...]]:
    batch: list[Filter] = []
    size = 0
    for filter in filters:
        batch.append(filter)
        size += 64 + len(str(filter))
        if size > BATCH_MAX:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


@dataclass(slots=True)
class PeerTables:
    """What a neighbour and we have told one another in this link session."""

    adopted: Version = ""
    advertisements_complete: bool = False
    complete: bool = False
    subscriptions: dict[Filter, None] = field(default_factory=dict)
    """Theirs, as told to us; in the subscription table only while `complete` for our tree."""
    advertisements: dict[Filter, None] = field(default_factory=dict)
    advertisement_number: int = 0
    told_subscriptions: dict[Filter, None] = field(default_factory=dict)
    """Ours, as told to them."""
    told_advertisements: dict[Filter, None] = field(default_factory=dict)
    told_advertisements_complete: bool = False
    told_complete: bool = False
    rounds: int = 0
    """How many rounds of the tree that they use have been heard from them (`ring/interest`)."""


@dataclass(slots=True)
class Interest:
    """The tables of one broker and the protocol that keeps them complete."""

    broker: BrokerId
    routing: Routing
    send: Callable[[BrokerId, SessionFrame], None]
    changed: Callable[[], None]
    """Called when a table changed: routes computed from it are void."""
    became_ready: Callable[[], None]
    became_unready: Callable[[], None]
    reject: Callable[[BrokerId, str], None]
    """Called when a neighbour says what it may not."""
    filters_max: int
    completing: Callable[[BrokerId], None]
    """Called before a neighbour is told that it knows everything for this tree: the last chance to tell it more."""
    completed: Callable[[BrokerId], None]
    """Called when a neighbour has told everything for this tree."""
    tree: Tree | None = None
    family: Family | None = None
    """Where brokers route by rendezvous: the trees along which events travel."""
    peers: list[BrokerId] = field(default_factory=list)
    """Neighbours in the tree."""
    ready: bool = False
    spoiled: bool = False
    """Something of this tree was lost: it cannot become ready (again), another one is on its way."""
    links: dict[BrokerId, PeerTables] = field(default_factory=dict)
    """Every neighbour with a link session, in the tree or not."""
    confirmations: Confirmations = field(default_factory=Confirmations)
    subscriptions: FilterTable = field(init=False)
    advertisements: FilterTable = field(init=False)

    def __post_init__(self) -> None:
        self.subscriptions = FilterTable(self.routing.covering, self._permits_subscription)
        self.advertisements = FilterTable(self.routing.covering, self._permits_advertisement)

    # -- links and trees -----------------------------------------------------------------------------------------

    def link_fresh(self, peer: BrokerId) -> None:
        """A link session began: nothing has been told in it."""
        self.links[peer] = PeerTables()
        if self.tree is not None:
            self.send(peer, Adopted(self.tree.version))
        self._spoil_if_peer(peer)

    def link_down(self, peer: BrokerId) -> None:
        self.links.pop(peer, None)
        self._spoil_if_peer(peer)

    def adopt(self, tree: Tree, family: Family | None = None) -> None:
        """Use another tree from now on."""
        self._spoil()
        self.spoiled = False
        self._use(tree, family)
        self.confirmations.clear()
        self.subscriptions.keep_only_self()
        self.advertisements.keep_only_self()
        for peer, told in self.links.items():
            told.told_advertisements_complete = told.told_complete = False
            self.send(peer, Adopted(tree.version))
        self._load_all(tree)
        self.changed()
        self._progress()

    def _use(self, tree: Tree, family: Family | None) -> None:
        self.tree, self.family = tree, family
        self.peers = tree.peers(self.broker)

    def tree_of(self, topic: str) -> Tree:
        """The tree along which events of a topic travel."""
        assert self.tree is not None
        return self.tree

    def _load_all(self, tree: Tree) -> None:
        """Enter what those neighbours have told that use this tree already."""
        for peer in self.peers:
            theirs = self.links.get(peer)
            if theirs is not None and theirs.adopted == tree.version:
                self._load(peer, theirs)

    def _load(self, peer: BrokerId, theirs: PeerTables) -> None:
        if theirs.advertisements_complete:
            self._load_advertisements(peer, theirs)
        if theirs.complete:
            self._load_subscriptions(peer, theirs)

    def _load_advertisements(self, peer: BrokerId, theirs: PeerTables) -> None:
        for filter in theirs.advertisements:
            self.advertisements.add(peer, filter)
        if theirs.advertisement_number:
            self.confirmations.hear(peer, theirs.advertisement_number)

    def _load_subscriptions(self, peer: BrokerId, theirs: PeerTables) -> None:
        for filter in theirs.subscriptions:
            self.subscriptions.add(peer, filter)
        self.completed(peer)

    def _spoil_if_peer(self, peer: BrokerId) -> None:
        if peer in self.peers:
            self._spoil()

    def _spoil(self) -> None:
        """Give this tree up: what was under way in it may be lost, and its origins will not know before the next."""
        self.spoiled = True
        if self.ready:
            self.ready = False
            self.became_unready()

    # -- completing the tables of a tree ---------------------------------------------------------------------------

    def _speaks_for_tree(self, peer: BrokerId) -> PeerTables | None:
        """The neighbour's tables, if it is our neighbour in the tree that both of us use."""
        theirs = self.links.get(peer)
        if theirs is None or self.tree is None or theirs.adopted != self.tree.version or peer not in self.peers:
            return None
        return theirs

    def _progress(self) -> None:
        """Complete what can be completed; get ready when everything is."""
        if not self.ready and not self.spoiled and self._completed():
            self.ready = True
            self._confirm()
            self.became_ready()

    def _completed(self) -> bool:
        """Go on with the wave of this tree; whether it is over."""
        assert self.tree is not None
        tables = [self._speaks_for_tree(peer) for peer in self.peers]
        uses_advertisements = self.routing.advertisements
        no_advertisements = sum(1 for t in tables if uses_advertisements and not (t and t.advertisements_complete))
        incomplete = sum(1 for t in tables if not (t and t.complete))
        for peer, theirs in zip(self.peers, tables, strict=True):
            if theirs is None:
                continue
            announced = theirs.advertisements_complete or not uses_advertisements
            if (
                uses_advertisements
                and not theirs.told_advertisements_complete
                and no_advertisements == int(not announced)
            ):
                theirs.told_advertisements_complete = True
                self._tell_advertisements(peer, None)
                self.send(peer, AdvertisementsComplete(self.tree.version))
            if not theirs.told_complete and announced and incomplete == int(not theirs.complete):
                theirs.told_complete = True
                self._tell_subscriptions(peer, None)
                self.completing(peer)
                self.send(peer, Complete(self.tree.version))
        return incomplete == 0 and no_advertisements == 0

    def on_adopted(self, peer: BrokerId, frame: Adopted) -> None:
        theirs = self.links[peer]
        if self._speaks_for_tree(peer) is not None:
            self._spoil()  # it leaves our tree; a name never comes back
        theirs.adopted = frame.version
        theirs.advertisements_complete = theirs.complete = False
        if self._speaks_for_tree(peer) is not None:
            self._progress()

    def on_advertisements_complete(self, peer: BrokerId, frame: AdvertisementsComplete) -> None:
        theirs = self.links[peer]
        if frame.version != theirs.adopted or theirs.advertisements_complete:
            return
        theirs.advertisements_complete = True
        if self._speaks_for_tree(peer) is not None:
            self._load_advertisements(peer, theirs)
            self._progress()

    def on_complete(self, peer: BrokerId, frame: Complete) -> None:
        theirs = self.links[peer]
        if frame.version != theirs.adopted or theirs.complete:
            return
        theirs.complete = True
        if self._speaks_for_tree(peer) is not None:
            self._load_subscriptions(peer, theirs)
            self.changed()
            self._progress()

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter) -> None:
        """The first own client asked for it."""
        if self.subscriptions.add(SELF, filter):
            self._subscriptions_changed([filter])

    def unsubscribe(self, filter: Filter) -> None:
        """The last own client stopped asking for it."""
        if self.subscriptions.remove(SELF, filter):
            self._subscriptions_changed([filter])

    def on_subscribe(self, peer: BrokerId, frame: Subscribe) -> None:
        theirs = self.links[peer]
        if not self._has_room(peer, theirs.subscriptions, frame.filters):
            return
        theirs.subscriptions.update(dict.fromkeys(frame.filters))
        if theirs.complete and self._speaks_for_tree(peer) is not None:
            news = [filter for filter in frame.filters if self.subscriptions.add(peer, filter)]
            self._subscriptions_changed(news)

    def _has_room(self, peer: BrokerId, told: dict[Filter, None], filters: tuple[Filter, ...]) -> bool:
        if len(told) + len(filters) <= self.filters_max:
            return True
        self.reject(peer, f"it tells of more than {self.filters_max} filters, which core.filters_max allows")
        return False

    def on_unsubscribe(self, peer: BrokerId, frame: Unsubscribe) -> None:
        theirs = self.links[peer]
        for filter in frame.filters:
            theirs.subscriptions.pop(filter, None)
        if theirs.complete and self._speaks_for_tree(peer) is not None:
            news = [filter for filter in frame.filters if self.subscriptions.remove(peer, filter)]
            self._subscriptions_changed(news)

    def _subscriptions_changed(self, filters: list[Filter]) -> None:
        if not filters:
            return
        self.changed()
        told = [peer for peer in self.peers if (theirs := self.links.get(peer)) is not None and theirs.told_complete]
        if told:  # otherwise nobody asks which filters stand for which
            affected = self.subscriptions.affected(filters)
            for peer in told:
                self._tell_subscriptions(peer, affected)

    def _tell_subscriptions(self, peer: BrokerId, filters: Iterable[Filter] | None) -> None:
        told, table = self.links[peer].told_subscriptions, self.subscriptions
        add, drop = table.resync(told, peer) if filters is None else table.change(told, peer, filters)
        for some in batched(add):
            self.send(peer, Subscribe(some))
        for some in batched(drop):
            self.send(peer, Unsubscribe(some))

    def _permits_subscription(self, filter: Filter, peer: BrokerId) -> bool:
        assert self.tree is not None
        advertised = self.routing.advertisements and any(
            filter_overlaps(filter, other) for other in self.links[peer].advertisements
        )
        to_parent = self.tree.parent[self.broker] == peer
        return self.routing.tells_subscription(to_parent=to_parent, advertised=advertised)

    # -- publisher advertisements ----------------------------------------------------------------------------------

    def advertise(self, filter: Filter) -> None:
        """The first own client announced it."""
        if self.advertisements.add(SELF, filter):
            self._advertisements_changed([filter])

    def unadvertise(self, filter: Filter) -> None:
        """The last own client withdrew it."""
        if self.advertisements.remove(SELF, filter):
            self._advertisements_changed([filter])

    def on_advertise(self, peer: BrokerId, frame: Advertise) -> None:
        theirs = self.links[peer]
        if not self._has_room(peer, theirs.advertisements, frame.filters):
            return
        theirs.advertisements.update(dict.fromkeys(frame.filters))
        self._peer_advertised(peer, frame.number, [f for f in frame.filters if self._heeds(peer, f, add=True)])

    def on_unadvertise(self, peer: BrokerId, frame: Unadvertise) -> None:
        theirs = self.links[peer]
        for filter in frame.filters:
            theirs.advertisements.pop(filter, None)
        self._peer_advertised(peer, frame.number, [f for f in frame.filters if self._heeds(peer, f, add=False)])

    def _heeds(self, peer: BrokerId, filter: Filter, *, add: bool) -> bool:
        """Enter a neighbour's advertisement in the table, if the neighbour speaks for our tree."""
        theirs = self._speaks_for_tree(peer)
        if theirs is None or not theirs.advertisements_complete:
            return False
        table = self.advertisements
        return table.add(peer, filter) if add else table.remove(peer, filter)

    def _peer_advertised(self, peer: BrokerId, number: int, news: list[Filter]) -> None:
        self.links[peer].advertisement_number = number
        theirs = self._speaks_for_tree(peer)
        if theirs is None or not theirs.advertisements_complete:
            return  # heard of when its advertisements are complete for our tree
        self._advertisements_changed(news)
        if theirs.told_complete:  # what they advertise decides what they must be told
            concerned = [f for f in self.subscriptions.holders if any(filter_overlaps(f, new) for new in news)]
            self._tell_subscriptions(peer, self.subscriptions.affected(concerned))
        self.confirmations.hear(peer, number)
        self._confirm()

    def on_confirm(self, peer: BrokerId, frame: Confirm) -> None:
        self.confirmations.confirmed(peer, frame.number)
        self._confirm()

    def _advertisements_changed(self, filters: list[Filter]) -> None:
        if not filters:
            return
        affected = self.advertisements.affected(filters)
        for peer in self.peers:
            theirs = self.links.get(peer)
            if theirs is not None and theirs.told_advertisements_complete:
                self._tell_advertisements(peer, affected)

    def _tell_advertisements(self, peer: BrokerId, filters: Iterable[Filter] | None) -> None:
        told, table = self.links[peer].told_advertisements, self.advertisements
        add, drop = table.resync(told, peer) if filters is None else table.change(told, peer, filters)
        for some in batched(add):
            self.send(peer, Advertise(some, self.confirmations.tell(peer)))
        for some in batched(drop):
            self.send(peer, Unadvertise(some, self.confirmations.tell(peer)))

    def _permits_advertisement(self, filter: Filter, peer: BrokerId) -> bool:
        assert self.tree is not None
        return self.routing.tells_advertisement(to_parent=self.tree.parent[self.broker] == peer)

    def _confirm(self) -> None:
        if self.ready:
            for peer, number in self.confirmations.due():
                self.send(peer, Confirm(number))

    @property
    def advertisements_settled(self) -> bool:
        """Whether every broker knows our advertisements and we know every subscription they call for."""
        return self.ready and self.confirmations.settled
