"""What operators are told about the whole network, as one broker knows it: who is there, the links between them, the
tree that events and requests take, and who keeps what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from latecomer.core.directory import classes_of
from latecomer.messages.link import Keeping
from latecomer.model.ids import BrokerId
from latecomer.runtime.store_views import ended

if TYPE_CHECKING:
    from latecomer.core.broker import Broker


class MemberView(msgspec.Struct, frozen=True):
    """A broker that this one has heard of."""

    id: BrokerId
    present: bool
    """It can be reached now."""
    parent: BrokerId = ""
    """The next broker on the way to the root of the tree."""


class WireView(msgspec.Struct, frozen=True):
    """A link that is up, as both ends say."""

    a: BrokerId
    b: BrokerId
    cost_us: int
    in_tree: bool


class KeptView(msgspec.Struct, frozen=True):
    """A topic class that a broker keeps, by its own word."""

    broker: BrokerId
    topics: str
    since_us: int
    """From then on it has everything of it; 0: something is missing up to now."""
    answering: bool


class NetworkView(msgspec.Struct, frozen=True):
    broker: BrokerId
    """Who says so."""
    network: str
    tree: str
    """Its version; brokers with the same have the same."""
    ready: bool
    """False: this broker does not use the tree yet."""
    root: BrokerId
    brokers: tuple[MemberView, ...]
    links: tuple[WireView, ...]
    kept: tuple[KeptView, ...]


def network_view(core: Broker) -> NetworkView:
    tree = core.interest.tree
    parents = {} if tree is None else tree.parent
    states = core.membership.link_states.states
    forgotten = core.membership.link_states.forgotten
    brokers = tuple(
        MemberView(broker, broker in parents, parents.get(broker) or "")
        for broker in sorted(states)
        if broker in parents or broker not in forgotten
    )
    links = tuple(
        WireView(broker, link.broker, link.cost_us, parents[link.broker] == broker or parents[broker] == link.broker)
        for broker in sorted(parents)
        for link in states[broker].neighbours
        if broker < link.broker
        and link.broker in parents
        and any(n.broker == broker for n in states[link.broker].neighbours)
    )
    directory = core.history.directory
    words = [directory.words[id] for id in directory.words] + ([directory.said] if directory.said is not None else [])
    kept = tuple(view for word in sorted(words, key=lambda word: word.broker) for view in _kept(word))
    version, root = ("", "") if tree is None else (tree.version, tree.root)
    return NetworkView(core.id, core.settings.network, version, core.interest.ready, root, brokers, links, kept)


def _kept(word: Keeping) -> list[KeptView]:
    return [KeptView(word.broker, name, ended(since_us), not filling) for name, since_us, filling in classes_of(word)]
