"""Routes: who gets a topic. Computed once per topic and kept until a table changes (architecture §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from latecomer.core.table import SELF, FilterTable
from latecomer.model.content import Conjunction
from latecomer.model.event import Value
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId

Conditions = tuple[Conjunction, ...]
"""Content filters of which one must match; empty: the topic decides alone."""


@dataclass(slots=True, frozen=True)
class Route:
    """The audience of a topic. `clients` and `peers` are those that need no look at the content."""

    clients: tuple[ClientId, ...]
    peers: tuple[BrokerId, ...]
    picky_clients: tuple[tuple[ClientId, Conditions], ...] = ()
    picky_peers: tuple[tuple[BrokerId, Conditions], ...] = ()
    root: BrokerId = ""
    """Of the tree along which the topic travels, where brokers route by rendezvous."""
    _onward: dict[BrokerId, tuple[BrokerId, ...]] = field(default_factory=dict, compare=False)

    @property
    def wanted(self) -> bool:
        """Whether anybody is known to want the topic, whatever the content."""
        return bool(self.clients or self.peers or self.picky_clients or self.picky_peers)

    def clients_for(self, attributes: Mapping[str, Value]) -> tuple[ClientId, ...]:
        if not self.picky_clients:
            return self.clients
        return self.clients + _content(self.picky_clients, attributes)

    def peers_for(self, attributes: Mapping[str, Value]) -> tuple[BrokerId, ...]:
        if not self.picky_peers:
            return self.peers
        return self.peers + _content(self.picky_peers, attributes)

    def onward(self, came_from: BrokerId, attributes: Mapping[str, Value]) -> tuple[BrokerId, ...]:
        """The neighbours, without the one the event came from."""
        if self.picky_peers:
            return tuple(peer for peer in self.peers_for(attributes) if peer != came_from)
        peers = self._onward.get(came_from)
        if peers is None:
            peers = self._onward[came_from] = tuple(peer for peer in self.peers if peer != came_from)
        return peers


def _content(picky: Iterable[tuple[str, Conditions]], attributes: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(who for who, any_of in picky if any(where.matches(attributes) for where in any_of))


class Ways(Protocol):
    """Where every topic has a tree of its own."""

    def root(self, topic: str) -> BrokerId:
        """Of its tree; empty: there is none yet."""

    def parent(self, root: BrokerId) -> BrokerId | None:
        """Above this broker in the tree of a root: it gets everything."""

    def others(self, topic: str, root: BrokerId) -> Iterator[tuple[BrokerId, Conjunction | None]]:
        """Neighbours behind which somebody wants the topic by a filter that is not in the table."""


@dataclass(slots=True)
class Routes:
    """The routes in use. Equal audiences share one object, so drivers can compare routes by identity."""

    table: FilterTable
    subscribers: Mapping[Filter, Iterable[ClientId]]
    limit: int
    always: tuple[BrokerId, ...] = ()
    """Neighbours that get everything: the parent, where events climb always."""
    ways: Ways | None = None
    by_topic: dict[str, Route] = field(default_factory=dict)
    cleared: Callable[[], None] = lambda: None
    """For drivers that keep something made from routes."""
    _shared: dict[Route, Route] = field(default_factory=dict)

    def clear(self) -> None:
        self.by_topic.clear()
        self._shared.clear()
        self.cleared()

    def of(self, topic: str) -> Route:
        route = self.by_topic.get(topic)
        if route is None:
            if len(self.by_topic) >= self.limit:
                self.clear()
            route = self._compute(topic)
            route = self.by_topic[topic] = self._shared.setdefault(route, route)
        return route

    def __contains__(self, topic: str) -> bool:
        return topic in self.by_topic

    def _compute(self, topic: str) -> Route:
        clients: dict[ClientId, list[Conjunction] | None] = {}
        peers: dict[BrokerId, list[Conjunction] | None] = dict.fromkeys(self.always)
        root = ""
        if self.ways is not None and (root := self.ways.root(topic)):
            if (parent := self.ways.parent(root)) is not None:
                peers[parent] = None
            for peer, where in self.ways.others(topic, root):
                _add_condition(peers, peer, where)
        for filter in self.table.index.match(topic):
            for source in self.table.holders[filter]:
                if source != SELF:
                    _add_condition(peers, source, filter.where)
                    continue
                for client in self.subscribers.get(filter, ()):  # none: only groups share it
                    _add_condition(clients, client, filter.where)
        return Route(
            tuple(who for who, any_of in clients.items() if any_of is None),
            tuple(who for who, any_of in peers.items() if any_of is None),
            tuple((who, tuple(any_of)) for who, any_of in clients.items() if any_of is not None),
            tuple((who, tuple(any_of)) for who, any_of in peers.items() if any_of is not None),
            root,
        )


def _add_condition(audience: dict[str, list[Conjunction] | None], who: str, where: Conjunction | None) -> None:
    """One filter without a condition is enough; otherwise the conditions add up."""
    if where is None:
        audience[who] = None
    elif who not in audience:
        audience[who] = [where]
    else:
        known = audience[who]
        if known is not None:
            known.append(where)
