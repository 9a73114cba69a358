"""Advertisement Tables: for each topic class, behind which neighbours the nearest store is, and how far.

Theory of operation (*storing* §III). A neighbour's *offer* for a class is the distance, from here, to the nearest store
on its side of the agreed tree. The table holds the nearest offers: a closer one takes the place of the others, an equal
one stands beside them, a further one is left out. What this broker offers a neighbour follows from the offers of its
*other* neighbours and from its own store alone, so on a tree no news runs in circles and no distance counts up to
infinity.

Decision: the papers forward an advertisement when it is closer, and never withdraw one. Here every offer that was told
stays true or is taken back; and an offer is not *begun* towards a neighbour that is itself among the nearest, since it
has something nearer anyway. That is the papers' rule where nothing ever leaves: closer is forwarded, equal and further
are not. A further offer is not in the table, but it is remembered: when the nearest store goes, the next one is known.

Offers of a tree are completed with its subscriptions (`interest`), so a broker that is ready knows the nearest stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from latecomer.core.orders import Orders
from latecomer.core.table import SELF
from latecomer.messages.link import SessionFrame, StoreAdvertise, StoreWithdraw
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind
from latecomer.model.topics import topic_covers, topic_matches, topic_overlaps

BATCH_MAX = 4096
"""Topic classes in one frame."""


@dataclass(slots=True, frozen=True)
class Nearest:
    """An entry of the table: "for this class go to one of these neighbours, the nearest store is so many hops away"."""

    hops: int
    ways: tuple[BrokerId, ...]
    """Neighbours; or `SELF` alone: the store is here."""


@dataclass(slots=True)
class Advertisements:
    """The Advertisement Table of one broker, and what it and its neighbours told each other for it."""

    orders: Orders
    send: Callable[[BrokerId, SessionFrame], None]
    reject: Callable[[BrokerId, str], None]
    changed: Callable[[], None]
    """Called when other topics are stored than before: whatever was made of that is void."""
    filters_max: int
    table: dict[str, Nearest] = field(default_factory=dict)
    own: dict[str, None] = field(default_factory=dict)
    """Classes that the store of this broker answers for."""
    peers: list[BrokerId] = field(default_factory=list)
    """Neighbours in the tree."""
    size: int = 1
    """Brokers in the tree: nothing is farther away."""
    heard: dict[BrokerId, dict[str, int]] = field(default_factory=dict)
    """By neighbour with a link session, whatever its tree."""
    told: dict[BrokerId, dict[str, int]] = field(default_factory=dict)
    speaking: dict[BrokerId, None] = field(default_factory=dict)
    """Tree neighbours whose offers are complete for this tree."""
    listening: dict[BrokerId, None] = field(default_factory=dict)
    """Tree neighbours whom we have told everything for this tree."""
    _turns: dict[str, int] = field(default_factory=dict)

    # -- links and trees -------------------------------------------------------------------------------------------

    def link_fresh(self, peer: BrokerId) -> None:
        """A link session began: nothing has been told in it."""
        self.heard[peer], self.told[peer] = {}, {}
        self._silence(peer)

    def link_down(self, peer: BrokerId) -> None:
        self.heard.pop(peer, None)
        self.told.pop(peer, None)
        self._silence(peer)

    def _silence(self, peer: BrokerId) -> None:
        if self.speaking.pop(peer, peer) is None:
            self._refresh(list(self.table))
        self.listening.pop(peer, None)

    def adopt(self, peers: list[BrokerId], size: int) -> None:
        """Another tree: until its neighbours have spoken, only the own store is known."""
        self.peers, self.size = peers, size
        self.speaking.clear()
        self.listening.clear()
        self._refresh(list(self.table))

    def complete(self, peer: BrokerId) -> None:
        """Tell a neighbour everything for this tree: all the others have spoken."""
        self.listening[peer] = None
        self._tell(peer, dict.fromkeys((*self.table, *self.told[peer])))

    def completed(self, peer: BrokerId) -> None:
        """A neighbour has told us everything for this tree."""
        if self._too_far(peer, self.heard[peer].values()):
            return
        self.speaking[peer] = None
        self._heard(peer, list(self.heard[peer]))

    # -- stores ----------------------------------------------------------------------------------------------------

    def open(self, topics: Iterable[str]) -> None:
        """The store of this broker answers for these as well."""
        news = [name for name in topics if name not in self.own]
        self.own.update(dict.fromkeys(news))
        self._spread(self._refresh(news))

    def close(self, topics: Iterable[str]) -> None:
        """It no longer answers for these."""
        gone = [name for name in topics if name in self.own]
        for name in gone:
            del self.own[name]
        self._spread(self._refresh(gone))

    def on_advertise(self, peer: BrokerId, frame: StoreAdvertise) -> None:
        heard = self.heard[peer]
        if len(heard) + len(frame.entries) > self.filters_max:
            self.reject(peer, f"it tells of more than {self.filters_max} topic classes, which core.filters_max allows")
            return
        heard.update(frame.entries)
        if peer in self.speaking and not self._too_far(peer, [hops for _, hops in frame.entries]):
            self._heard(peer, [name for name, _ in frame.entries])

    def _too_far(self, peer: BrokerId, distances: Iterable[int]) -> bool:
        """Bad input 25: what cannot be is not believed."""
        farthest = max(distances, default=0)
        if farthest >= self.size > 1:
            self.reject(peer, f"it tells of a store {farthest} hops away among {self.size} brokers")
        return farthest >= self.size > 1

    def on_withdraw(self, peer: BrokerId, frame: StoreWithdraw) -> None:
        heard = self.heard[peer]
        known = [name for name in frame.topics if heard.pop(name, None) is not None]
        if peer in self.speaking:
            for name in known:
                self.orders.note(Kind.TABLED, peer=peer, filter=name, detail="withdrawn")
            self._spread(self._refresh(known))

    def _heard(self, peer: BrokerId, topics: list[str]) -> None:
        for name in topics:
            hops, entry = self.heard[peer][name], self.table.get(name)
            before = self.size if entry is None else entry.hops
            verdict = "closer" if hops < before else "equal" if hops == before else "further"
            self.orders.note(Kind.TABLED, peer=peer, filter=name, hops=hops, detail=verdict)
        self._spread(self._refresh(topics))

    # -- the table -------------------------------------------------------------------------------------------------

    def _offers(self, name: str) -> dict[BrokerId, int]:
        offers = {SELF: 0} if name in self.own else {}
        for peer in self.peers:
            if peer in self.speaking and (hops := self.heard[peer].get(name)) is not None:
                offers[peer] = hops
        return offers

    def _refresh(self, topics: list[str]) -> list[str]:
        """Bring entries up to date; returns the classes concerned."""
        before = len(self.table)
        changed = False
        for name in topics:
            offers = self._offers(name)
            if not offers:
                changed |= self.table.pop(name, None) is not None
                self._turns.pop(name, None)
                continue
            nearest = min(offers.values())
            self.table[name] = Nearest(nearest, tuple(way for way, hops in offers.items() if hops == nearest))
        if changed or len(self.table) != before:
            self.changed()
        return topics

    def _spread(self, topics: list[str]) -> None:
        for peer in self.listening:
            self._tell(peer, dict.fromkeys(topics))

    def _tell(self, peer: BrokerId, topics: Iterable[str]) -> None:
        told = self.told[peer]
        add: list[tuple[str, int]] = []
        drop: list[str] = []
        for name in topics:
            others = [hops for way, hops in self._offers(name).items() if way != peer]
            offer = min(others) + 1 if others else None
            if offer == told.get(name):
                continue
            entry = self.table.get(name)
            if offer is not None and not (entry is not None and peer in entry.ways):
                add.append((name, offer))
                told[name] = offer
            elif told.pop(name, None) is not None:
                drop.append(name)
        for start in range(0, len(add), BATCH_MAX):
            self.send(peer, StoreAdvertise(tuple(add[start : start + BATCH_MAX])))
        for start in range(0, len(drop), BATCH_MAX):
            self.send(peer, StoreWithdraw(tuple(drop[start : start + BATCH_MAX])))

    # -- questions -------------------------------------------------------------------------------------------------

    def way(
        self, name: str, came_from: BrokerId | None = None, failed: Sequence[BrokerId | None] = ()
    ) -> BrokerId | None:
        """Where a request for a class goes next: equal entries in turn. When all of them have failed, or the only one
        is who sent it here, any other offer will do, best who failed least (bad input 25)."""
        entry = self.table.get(name)
        if entry is None:
            return None
        ways = [way for way in entry.ways if way != came_from and way not in failed]
        if not ways:
            offers = self._offers(name)
            ways = [way for way in offers if way != came_from]
            return min(ways, key=lambda way: (failed.count(way), offers[way]), default=None)
        turn = self._turns[name] = self._turns.get(name, -1) + 1
        return ways[turn % len(ways)]

    def classes_for(self, topic_filter: str) -> list[str]:
        """The classes that together hold what matches a topic filter: the nearest one that holds all of it; else all
        that hold some of it."""
        all_of_it = [name for name in self.table if topic_covers(name, topic_filter)]
        if all_of_it:
            return [min(all_of_it, key=lambda name: (self.table[name].hops, name))]
        some = [name for name in self.table if topic_overlaps(name, topic_filter)]
        return sorted(
            name
            for name in some
            if not any(
                topic_covers(other, name) and not (topic_covers(name, other) and name <= other) for other in some
            )
        )

    def whole(self, topic_filter: str) -> bool:
        """Whether there is a class that holds all of what matches a topic filter."""
        return any(topic_covers(name, topic_filter) for name in self.table)

    def stored(self, topic: str) -> bool:
        """Whether some store in the network keeps a topic."""
        return any(topic_matches(name, topic) for name in self.table)
