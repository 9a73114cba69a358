"""A network as it is now: the tree that requests take, who keeps what, and how each broker is asked.

`read_live` takes the address of one broker's admin interface, the data folder of `latecomer up`, or any file or words
that name a network. The last is no running network: its tree is the one that its brokers would agree on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from latecomer.cli.doors import ADMIN, NETWORK_FILE, Door, Silent, call, checked, door_in, door_of
from latecomer.cli.plan_files import read_network_words
from latecomer.core.tree import Tree, name_of, reachable, spanning_tree
from latecomer.messages.link import LinkState, Neighbour
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import Link, Node, Topology, quoted
from latecomer.runtime.network_file import read_network
from latecomer.runtime.network_views import KeptView, NetworkView
from latecomer.runtime.private_files import read_secret
from latecomer.runtime.security import ADDRESS_FILE, TOKEN_FILE
from latecomer.runtime.settings import load
from latecomer.runtime.store_views import StoresView

KEY = "--network"
DATA = Path("latecomer-data")
"""Where `latecomer up` keeps everything if nobody says otherwise."""
SIZES_MAX = 20
"""Topic filters in one question: they are part of an address."""
ASSIGN_SECONDS = 30.0
"""Opening a store that holds much may take a while."""


@dataclass(slots=True)
class Live:
    """A network, running or only described."""

    words: str
    """As the operator named it."""
    name: str
    topology: Topology
    """The tree in force: the ways that events and requests take."""
    absent: tuple[BrokerId, ...] = ()
    """Brokers that the others know of and cannot reach."""
    doors: dict[BrokerId, Door] = field(default_factory=dict)
    """Empty: it does not run, or nobody says where."""
    kept: tuple[KeptView, ...] = ()
    """Who keeps what, when it was last looked at."""

    @property
    def running(self) -> bool:
        return bool(self.doors)

    def look(self) -> NetworkView:
        """What the network says now; the first broker that answers speaks for it."""
        view = _first(list(self.doors.values()))
        self.kept = view.kept
        self.absent = tuple(member.id for member in view.brokers if not member.present)
        return view

    def stores(self, broker: BrokerId, sizes: Sequence[str] = ()) -> StoresView:
        """What one broker says about its store, and how much of some topic filters it holds."""
        door, query = self._way(broker)
        view = call(door, "stores", StoresView, query)
        counted: dict[str, tuple[int, int]] = {}
        for start in range(0, len(sizes), SIZES_MAX):
            some = sizes[start : start + SIZES_MAX]
            counted |= call(door, "stores", StoresView, {**query, "size": some}).sizes
        return msgspec.structs.replace(view, sizes=counted)

    def assign(self, broker: BrokerId, topics: Sequence[str], plan: str = "") -> StoresView:
        """Let a broker keep these topics and no others."""
        door, query = self._way(broker)
        body = {"topics": list(topics), "plan": plan, **query}
        return call(door, "store", StoresView, body=body, seconds=ASSIGN_SECONDS)

    def _way(self, broker: BrokerId) -> tuple[Door, dict[str, str]]:
        """A broker's own door, or that of another which hands it on."""
        if broker in self.doors:
            return self.doors[broker], {}
        return next(iter(self.doors.values())), {"broker": broker}


def read_live(words: str, token_file: Path | None = None) -> Live:
    """The network that is meant. Raises a `LatecomerError` when nobody there answers."""
    if words.startswith(("http://", "https://")):
        door = Door(checked(words, KEY), read_secret(token_file or DATA / TOKEN_FILE, "--token-file"))
        view = call(door, "network", NetworkView)
        return _of_view(words, view, {view.broker: door})
    if token_file is not None:
        raise SettingsError("--token-file", f"opens an address as in {ADMIN}; the network is named otherwise")
    folder = Path(words)
    if words.endswith(f"{NETWORK_FILE}") and _runs(folder.parent):
        folder = folder.parent
    if _runs(folder):
        doors = _doors_of(folder)
        return _of_view(words, _first(list(doors.values())), doors)
    if (folder / ADDRESS_FILE).is_file():
        door = door_in(folder)
        view = call(door, "network", NetworkView)
        return _of_view(words, view, {view.broker: door})
    if folder.is_dir():
        raise SettingsError(
            KEY, f"{words} is not the data folder of a broker or of 'latecomer up'; name it, or an address"
        )
    return _described(words)


def agreed_tree(topology: Topology, root: BrokerId | None = None) -> Tree:
    """The tree that the brokers of a network agree on when all of them and all links are up."""
    beside = topology.neighbours()
    states = {
        broker: LinkState(broker, 1, 1, tuple(Neighbour(other, 1, cost_us) for other, cost_us in others))
        for broker, others in beside.items()
    }
    view = reachable(states, topology.nodes[0].id)
    return spanning_tree(name_of(states.values()), view, root)


# -- networks that run


def _runs(folder: Path) -> bool:
    return (folder / NETWORK_FILE).is_file() and (folder / "secret").exists()


def _doors_of(folder: Path) -> dict[BrokerId, Door]:
    seats = read_network(folder / NETWORK_FILE).brokers
    files = {seat.id: folder / seat.id / "settings.toml" for seat in seats}
    return {broker: door_of(load(file, checked=False), file) for broker, file in files.items()}


def _first(doors: list[Door]) -> NetworkView:
    """What the first says that answers."""
    problem: LatecomerError | None = None
    for door in doors:
        try:
            return call(door, "network", NetworkView)
        except Silent as error:
            problem = problem or error
    assert problem is not None
    more = f"; nor do the {len(doors) - 1} others of this network" if len(doors) > 1 else ""
    raise Silent(f"{problem}{more}; is the network running?")


def _of_view(words: str, view: NetworkView, doors: dict[BrokerId, Door]) -> Live:
    present = [member for member in view.brokers if member.present]
    nodes = tuple(Node(member.id) for member in present)
    links = tuple(Link(wire.a, wire.b, max(1, wire.cost_us)) for wire in view.links if wire.in_tree)
    topology = Topology(view.network, nodes, links, view.root)
    absent = tuple(member.id for member in view.brokers if not member.present)
    return Live(words, view.network, topology, absent, doors, view.kept)


# -- networks that are described


def _described(words: str) -> Live:
    try:
        topology = read_network_words(words)
    except SettingsError as error:
        raise error.at(KEY) if error.key == "--topology" else error from None
    root, kept = topology.root, []
    if words.endswith(".toml"):
        network = read_network(Path(words))
        root = _root(network.settings)
        kept = [KeptView(seat.id, topics, 0, True) for seat in network.brokers for topics in seat.store]
    return Live(words, topology.name, _tree_of(topology, root), kept=tuple(kept))


def _tree_of(topology: Topology, root: BrokerId | None) -> Topology:
    tree = agreed_tree(topology, root)
    costs = {frozenset((link.a, link.b)): link.latency_us for link in reversed(topology.links)}
    links = tuple(
        Link(above, broker, costs[frozenset((above, broker))])
        for broker, above in tree.parent.items()
        if above is not None
    )
    if len(tree.parent) < len(topology.nodes):
        far = next(broker for broker in topology.ids() if broker not in tree.parent)
        raise SettingsError(KEY, f"{quoted(far)} cannot be reached from {quoted(topology.nodes[0].id)}")
    return Topology(topology.name, topology.nodes, links, tree.root)


def _root(settings: Mapping[str, object]) -> BrokerId | None:
    """The root that the brokers of a network are told to use."""
    core = settings.get("core")
    routing = core.get("routing") if isinstance(core, Mapping) else None
    root = routing.get("root") if isinstance(routing, Mapping) else None
    return root if isinstance(root, str) else None
