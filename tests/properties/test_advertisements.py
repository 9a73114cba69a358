"""Advertisement Tables of a whole network, whatever the order in which words arrive.

Real tables and the real wave that completes them (`interest`), joined by queues that keep order and nothing else:
stores open and close, trees change, links begin anew, each broker hears of it when it does. When all is quiet each
table says how far the nearest stores are and behind which neighbours, and nothing of what was closed is left.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.advertisements import Advertisements, Nearest
from latecomer.core.interest import Interest
from latecomer.core.orders import Orders
from latecomer.core.routing import Forwarding
from latecomer.core.table import SELF
from latecomer.core.tree import Tree
from latecomer.messages.link import Adopted, Complete, SessionFrame, StoreAdvertise, StoreWithdraw
from latecomer.model.topics import topic_covers, topic_matches

NAMES: Final = "abcdefg"
CLASSES: Final = ("s/#", "t/#")


def grow(version: str, members: list[str], parents: list[int]) -> Tree:
    """A tree over these members, in which each hangs below one that was there before it."""
    parent: dict[str, str | None] = {members[0]: None}
    depth = {members[0]: 0}
    children: dict[str, list[str]] = {member: [] for member in members}
    for place, member in enumerate(members[1:], 1):
        above = members[parents[place] % place]
        parent[member], depth[member] = above, depth[above] + 1
        children[above].append(member)
    return Tree(version, members[0], parent, children, depth)


@dataclass
class Node:
    ads: Advertisements
    interest: Interest
    tree: Tree | None = None


@dataclass
class Network:
    """Every broker is linked with every other; which links a tree uses is the test's choice."""

    size: int
    nodes: dict[str, Node] = field(default_factory=dict)
    queues: dict[tuple[str, str], deque[SessionFrame]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    """The newest one of each broker."""
    count: int = 0

    def __post_init__(self) -> None:
        names = NAMES[: self.size]
        self.queues = {(a, b): deque() for a in names for b in names if a != b}
        for name in names:
            self.nodes[name] = self.make(name)
        for a, b in product(names, names):
            if a != b:
                self.nodes[a].ads.link_fresh(b)
                self.nodes[a].interest.link_fresh(b)

    def make(self, name: str) -> Node:
        def send(peer: str, frame: SessionFrame) -> None:
            self.queues[name, peer].append(frame)

        def reject(peer: str, why: str) -> None:
            raise AssertionError(f"{name} rejects {peer}, who is honest: {why}")

        ads = Advertisements(Orders(name, 1), send, reject, lambda: None, 1000)
        interest = Interest(
            name, Forwarding(), send, lambda: None, lambda: None, lambda: None, reject, 1000,
            ads.complete, ads.completed,
        )  # fmt: skip
        return Node(ads, interest)

    # -- deeds ---------------------------------------------------------------------------------------------------------

    def change(self, order: list[int], parents: list[int], cut: int) -> None:
        """Other trees, one of the first `cut` brokers and one of the rest; nobody has heard of them yet."""
        self.count += 1
        names = sorted(self.nodes, key=lambda name: (order[NAMES.index(name)], name))
        for number, members in enumerate((names[:cut], names[cut:])):
            if members:
                tree = grow(f"{self.count}.{number}", members, parents)
                self.trees |= dict.fromkeys(members, tree)

    def adopt(self, name: str) -> None:
        node, tree = self.nodes[name], self.trees.get(name)
        if tree is not None and node.tree is not tree:
            node.tree = tree
            node.ads.adopt(tree.peers(name), len(tree.parent))
            node.interest.adopt(tree)

    def renew(self, a: str, b: str) -> None:
        """A link session ends and another begins; both ends lose what was on its way, and need another tree."""
        if a == b:
            return
        for one, other in ((a, b), (b, a)):
            self.queues[one, other].clear()
            self.nodes[one].interest.link_down(other)
            self.nodes[one].ads.link_down(other)
        for one, other in ((a, b), (b, a)):
            self.nodes[one].ads.link_fresh(other)
            self.nodes[one].interest.link_fresh(other)

    def deliver(self, choice: int) -> bool:
        """One frame, of one of the queues that hold any."""
        busy = [way for way, queue in self.queues.items() if queue]
        if not busy:
            return False
        sender, receiver = busy[choice % len(busy)]
        frame, node = self.queues[sender, receiver].popleft(), self.nodes[receiver]
        if isinstance(frame, StoreAdvertise):
            node.ads.on_advertise(sender, frame)
        elif isinstance(frame, StoreWithdraw):
            node.ads.on_withdraw(sender, frame)
        elif isinstance(frame, Adopted):
            node.interest.on_adopted(sender, frame)
        else:
            assert isinstance(frame, Complete)
            node.interest.on_complete(sender, frame)
        return True

    def quiet(self, choices: list[int]) -> None:
        for name in self.nodes:
            self.adopt(name)
        step = 0
        while self.deliver(choices[step % len(choices)] + step):
            step += 1
            assert step < 20_000, "news that runs in circles"

    # -- what is true --------------------------------------------------------------------------------------------------

    def nearest(self, name: str, topics: str) -> tuple[int, set[str]] | None:
        tree = self.trees[name]
        stores = [other for other in tree.parent if topics in self.nodes[other].ads.own]
        if not stores:
            return None
        hops = min(tree.hops(name, store) for store in stores)
        near = [store for store in stores if tree.hops(name, store) == hops]
        return hops, {SELF if store == name else tree.next_hop(name, store) for store in near}


indices: Final = st.integers(0, 6)
lists: Final = st.lists(st.integers(0, 50), min_size=7, max_size=7)
Deed = tuple[str, int, int, list[int], list[int]]
deeds: Final[st.SearchStrategy[list[Deed]]] = st.lists(
    st.tuples(
        st.sampled_from(("open", "open", "close", "deliver", "deliver", "change", "adopt", "spread", "quiet", "renew")),
        indices, st.integers(0, 50), lists, lists,
    ),
    max_size=25,
)  # fmt: skip


def play(size: int, story: list[Deed]) -> Network:
    network = Network(size)
    network.change([0] * 7, list(range(7)), size)
    network.quiet([0])
    for deed, who, number, order, parents in story:
        name = NAMES[who % size]
        if deed == "open":
            network.nodes[name].ads.open([CLASSES[number % 2]])
        elif deed == "close":
            network.nodes[name].ads.close([CLASSES[number % 2]])
        elif deed == "deliver":
            for step in range(number):
                network.deliver(number + step)
        elif deed == "change":
            network.change(order, parents, size if number % 3 else 1 + number % size)
        elif deed == "adopt":
            network.adopt(name)
        elif deed == "spread":
            for other in network.nodes:
                network.adopt(other)
        elif deed == "quiet":
            network.quiet(order)
        else:
            network.renew(name, NAMES[number % size])
            network.change(order, parents, size)
    return network


@given(st.integers(1, 7), deeds, lists)
@settings(max_examples=120)
def test_tables_say_what_is_true_when_all_is_quiet(size: int, story: list[Deed], choices: list[int]) -> None:
    network = play(size, story)
    network.quiet(choices)
    for name, node in network.nodes.items():
        assert node.interest.ready
        true = {topics: near for topics in CLASSES if (near := network.nearest(name, topics)) is not None}
        assert {topics: (entry.hops, set(entry.ways)) for topics, entry in node.ads.table.items()} == true
        for entry in node.ads.table.values():
            assert len(set(entry.ways)) == len(entry.ways)


@given(st.integers(1, 7), deeds, lists)
@settings(max_examples=60)
def test_nothing_is_left_when_all_stores_have_closed(size: int, story: list[Deed], choices: list[int]) -> None:
    network = play(size, story)
    for name, node in network.nodes.items():
        network.adopt(name)
        node.ads.close(CLASSES)
    network.quiet(choices)
    for node in network.nodes.values():
        assert node.ads.table == {}
        peers = node.interest.peers
        assert [node.ads.heard[peer] for peer in peers] == [node.ads.told[peer] for peer in peers] == [{}] * len(peers)


@given(st.integers(2, 7), deeds, lists, st.data())
@settings(max_examples=40)
def test_every_request_finds_a_nearest_store(
    size: int, story: list[Deed], choices: list[int], data: st.DataObject
) -> None:
    """Hop by hop, each broker asking its own table, as many hops as the first one said."""
    network = play(size, story)
    network.quiet(choices)
    for name, node in network.nodes.items():
        for topics, entry in node.ads.table.items():
            at, came_from, hops = name, None, 0
            while (way := network.nodes[at].ads.way(topics, came_from)) != SELF:
                assert way is not None
                at, came_from, hops = way, at, hops + 1
            assert hops == entry.hops
            assert topics in network.nodes[at].ads.own


# -- which classes to ask ----------------------------------------------------------------------------------------------

LEVELS: Final = ("x", "y", "$z")
TOPICS: Final = [
    "/".join(parts) for length in (1, 2, 3) for parts in product(LEVELS, repeat=length)
]  # fmt: skip
some_filters: Final = (
    st.lists(st.sampled_from((*LEVELS, "+")), max_size=2)
    .flatmap(lambda levels: st.sampled_from(([*levels, "#"], levels or ["+"])))
    .map("/".join)
)


@given(st.dictionaries(some_filters, st.integers(0, 3), max_size=5), some_filters)
@settings(max_examples=300)
def test_the_classes_asked_hold_all_that_is_stored(stored: dict[str, int], asked: str) -> None:
    ads = Advertisements(Orders("a", 1), lambda peer, frame: None, lambda peer, why: None, lambda: None, 100)
    ads.table = {name: Nearest(hops, ("b",)) for name, hops in stored.items()}
    classes = ads.classes_for(asked)
    covering = [name for name in stored if topic_covers(name, asked)]
    if covering:
        assert len(classes) == 1
        assert classes[0] in covering
        assert stored[classes[0]] == min(stored[name] for name in covering)
        return
    for topic in TOPICS:
        wanted = topic_matches(asked, topic) and any(topic_matches(name, topic) for name in stored)
        assert not wanted or any(topic_matches(name, topic) for name in classes), topic
        assert ads.stored(topic) == any(topic_matches(name, topic) for name in stored)
    for name in classes:
        assert any(topic_matches(name, topic) and topic_matches(asked, topic) for topic in TOPICS)
        assert not any(topic_covers(other, name) for other in classes if other != name), "asked for twice"
