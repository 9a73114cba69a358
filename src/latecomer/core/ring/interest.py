"""Interest where brokers route by rendezvous: tables that are complete along every tree of a family.

Theory of operation.
1. A filter inside one slot climbs the tree of that slot's root: each broker tells its parent in that tree. So a table
   says what is wanted below its broker, in the one tree in which events of that slot come. A filter that crosses slots
   is told to everybody (`words`).
2. The links of all these trees have cycles, so no wave runs through them. Tables are completed in *rounds*: a broker
   tells its neighbours `round` k when it has heard round k - 1 from all of them and told them what it learned by it. By
   induction it knows after k rounds what is wanted within k links. With as many rounds as the longest route has links,
   it knows everything: it is complete. Additions go before each round, what is taken back goes with the last.
3. It is *ready* when it is complete and the wave of the agreed tree (`core/interest`) is over as well, which carries
   everything but subscriptions. A neighbour may be ready earlier, so what comes from it waits (`early`).
4. A neighbour in any of the trees that leaves them, or whose link session is lost, spoils the family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latecomer.core.interest import Interest, PeerTables, batched
from latecomer.core.ring.family import Family
from latecomer.core.ring.keys import Keys
from latecomer.core.ring.words import Words
from latecomer.core.table import SELF
from latecomer.core.tree import Tree
from latecomer.messages.link import Adopted, Subscribe, Unsubscribe
from latecomer.messages.ring import Round
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId


@dataclass(slots=True, kw_only=True)
class RingInterest(Interest):
    """The tables of one broker, and the rounds that complete them."""

    keys: Keys
    words: Words
    beside: list[BrokerId] = field(default_factory=list)
    """Neighbours in the trees of the family."""
    told_rounds: int = 0
    unproven: dict[int, int] = field(default_factory=dict)
    """Slots of own filters of which it is not known whether their roots have heard of them (`prove`)."""
    told_slots: int = 0
    _news: dict[Filter, None] = field(default_factory=dict)
    """Filters whose holders changed since the last round was told."""

    # -- links and trees -----------------------------------------------------------------------------------------

    def _use(self, tree: Tree, family: Family | None) -> None:
        assert family is not None
        self.tree, self.family = tree, family
        self.peers = tree.peers(self.broker)
        self.beside = family.beside[self.broker]
        self.told_rounds = 0
        self._news.clear()

    def _load_all(self, tree: Tree) -> None:
        for peer in self.beside:
            self._load_ring(peer)
        Interest._load_all(self, tree)

    def _load_subscriptions(self, peer: BrokerId, theirs: PeerTables) -> None:
        self.completed(peer)  # the agreed tree carries no subscriptions

    def tree_of(self, topic: str) -> Tree:
        family = self.family
        assert family is not None
        return family.tree(family.root_of(self.keys.slot(topic)))

    def _in_family(self, peer: BrokerId) -> PeerTables | None:
        """A neighbour's tables, if it is one in the family that both of us use."""
        theirs = self.links.get(peer)
        if theirs is None or self.tree is None or theirs.adopted != self.tree.version or peer not in self.beside:
            return None
        return theirs

    def _spoil_if_peer(self, peer: BrokerId) -> None:
        if peer in self.peers or peer in self.beside:
            self._spoil()

    def on_adopted(self, peer: BrokerId, frame: Adopted) -> None:
        theirs = self.links[peer]
        if self._in_family(peer) is not None:
            self._spoil()  # it leaves our family; a name never comes back
        theirs.rounds = 0
        Interest.on_adopted(self, peer, frame)
        if self._in_family(peer) is not None:
            self._subscriptions_changed(self._load_ring(peer))
            self._progress()

    # -- rounds --------------------------------------------------------------------------------------------------

    def _completed(self) -> bool:
        waved = Interest._completed(self)
        return self._rounds_heard() and waved

    def _rounds_heard(self) -> bool:
        """Tell the rounds that can be told; whether all have been told and heard."""
        assert self.tree is not None
        assert self.family is not None
        tables = [self._in_family(peer) for peer in self.beside]
        heard = min((-1 if theirs is None else theirs.rounds for theirs in tables), default=self.family.longest)
        while heard >= self.told_rounds < self.family.longest:
            self.told_rounds += 1
            self._tell_round()
        return self.told_rounds == self.family.longest and heard >= self.told_rounds

    def _tell_round(self) -> None:
        assert self.tree is not None
        first, last = self.told_rounds == 1, self._all_told
        news: Iterable[Filter] = self.subscriptions.holders if first else self.subscriptions.affected(self._news)
        for peer, filters in self._by_parent(news).items():
            if peer in self.links:
                add = self.subscriptions.additions(self.links[peer].told_subscriptions, peer, filters)
                self._say(peer, add, ())
        self._news.clear()
        if last:
            for peer in self.beside:
                if peer in self.links:
                    told = self.links[peer].told_subscriptions
                    self._say(peer, *self.subscriptions.change(told, peer, list(told)))
        for peer in self.beside:
            if peer in self.links:
                self.send(peer, Round(self.tree.version, self.told_rounds))

    @property
    def _all_told(self) -> bool:
        """Whether the last round has been told: from here on changes are told at once."""
        return self.family is not None and self.told_rounds == self.family.longest

    def on_round(self, peer: BrokerId, frame: Round) -> None:
        theirs = self.links[peer]
        if frame.version == theirs.adopted:
            theirs.rounds = max(theirs.rounds, frame.number)
            if self._in_family(peer) is not None:
                self._progress()

    def prove(self, climb: Callable[[Iterable[int], Callable[[], None]], None], then: Callable[[], None]) -> None:
        """Call back when the roots of all own filters know of them."""
        slots = dict(self.unproven)

        def proven() -> None:
            for slot, number in slots.items():
                if self.unproven.get(slot) == number:  # nothing was subscribed to in it meanwhile
                    del self.unproven[slot]
            then()

        climb(slots, proven)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter) -> None:
        slot = self.keys.slot_of_filter(filter.topic)
        if self.subscriptions.add(SELF, filter):
            if slot is None:
                self.words.add(filter)
                self.changed()
            else:
                self.told_slots += 1
                self.unproven[slot] = self.told_slots
                self._subscriptions_changed([filter])

    def unsubscribe(self, filter: Filter) -> None:
        if self.subscriptions.remove(SELF, filter):
            if self.keys.slot_of_filter(filter.topic) is None:
                self.words.drop(filter)
                self.changed()
            else:
                self._subscriptions_changed([filter])

    def on_subscribe(self, peer: BrokerId, frame: Subscribe) -> None:
        theirs = self.links[peer]
        if self._has_room(peer, theirs.subscriptions, frame.filters):
            theirs.subscriptions.update(dict.fromkeys(frame.filters))
            if self._in_family(peer) is not None:
                self._subscriptions_changed(self._enter(peer, frame.filters))

    def on_unsubscribe(self, peer: BrokerId, frame: Unsubscribe) -> None:
        theirs = self.links[peer]
        for filter in frame.filters:
            theirs.subscriptions.pop(filter, None)
        if self._in_family(peer) is not None:
            self._subscriptions_changed([f for f in frame.filters if self.subscriptions.remove(peer, f)])

    def _load_ring(self, peer: BrokerId) -> list[Filter]:
        """Enter what a neighbour of the family has told, as far as it is below us."""
        theirs = self._in_family(peer)
        return [] if theirs is None else self._enter(peer, theirs.subscriptions)

    def _enter(self, peer: BrokerId, filters: Iterable[Filter]) -> list[Filter]:
        """Of a neighbour's filters those count that are inside a slot in whose tree it is our child."""
        return [f for f in filters if self._parent_of(f, peer) == self.broker and self.subscriptions.add(peer, f)]

    def _parent_of(self, filter: Filter, broker: BrokerId) -> BrokerId | None:
        """To whom a broker tells a filter."""
        slot, family = self.keys.slot_of_filter(filter.topic), self.family
        return None if slot is None or family is None else family.tree(family.root_of(slot)).parent[broker]

    def _subscriptions_changed(self, filters: list[Filter]) -> None:
        if not filters:
            return
        self.changed()
        if not self._all_told:
            self._news.update(dict.fromkeys(filters))
            return
        for peer, some in self._by_parent(self.subscriptions.affected(filters)).items():
            if peer in self.links:
                self._say(peer, *self.subscriptions.change(self.links[peer].told_subscriptions, peer, some))

    def _by_parent(self, filters: Iterable[Filter]) -> dict[BrokerId, list[Filter]]:
        found: dict[BrokerId, list[Filter]] = {}
        for filter in filters:
            parent = self._parent_of(filter, self.broker)
            if parent is not None:
                found.setdefault(parent, []).append(filter)
        return found

    def _say(self, peer: BrokerId, add: tuple[Filter, ...], drop: tuple[Filter, ...]) -> None:
        for some in batched(add):
            self.send(peer, Subscribe(some))
        for some in batched(drop):
            self.send(peer, Unsubscribe(some))

    def _tell_subscriptions(self, peer: BrokerId, filters: Iterable[Filter] | None) -> None:
        """The agreed tree carries no subscriptions."""

    def _permits_subscription(self, filter: Filter, peer: BrokerId) -> bool:
        return self._parent_of(filter, self.broker) == peer
