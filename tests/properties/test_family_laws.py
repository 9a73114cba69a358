"""Laws of the family of trees along which events travel, against routes that are walked (`model/ring`)."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from latecomer.core.ring import family as module
from latecomer.core.ring.family import Family, family_of
from latecomer.core.ring.places import fingers_of, position_in
from latecomer.core.tree import reachable
from latecomer.messages.link import LinkState, Neighbour
from latecomer.messages.reposition import Positions, Stamp
from latecomer.messages.ring import BROKERS_MAX
from latecomer.model import ring as model
from latecomer.model.ids import BrokerId
from latecomer.model.ring import BITS, Ring
from latecomer.model.slots import SLOTS, point_of_slot

STAMP = Stamp(1, "a", 1)
States = dict[BrokerId, LinkState]
seeds = st.integers(0, 2**32)


def linked(brokers: list[BrokerId], pairs: list[tuple[BrokerId, BrokerId]]) -> States:
    """What brokers tell of their links."""
    beside: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in brokers}
    for a, b in pairs:
        beside[a].append(b)
        beside[b].append(a)
    return {
        broker: LinkState(broker, 1, 1, tuple(Neighbour(other, 1, 1000) for other in sorted(others)))
        for broker, others in beside.items()
    }


def places_of(chance: random.Random, brokers: list[BrokerId]) -> dict[BrokerId, int]:
    """Positions for some; the rest stand at their hash."""
    placed = [broker for broker in brokers if chance.random() < chance.choice((0.0, 0.5, 1.0))]
    near = chance.choice((1 << BITS, 10_000, 2 * len(brokers) + 2))  # all over the ring, or close together
    return dict(zip(placed, chance.sample(range(near), len(placed)), strict=True))


def successors(places: dict[BrokerId, int], brokers: list[BrokerId]) -> list[tuple[BrokerId, BrokerId]]:
    """Every broker with the next one on the ring."""
    order = sorted(brokers, key=lambda broker: (position_in(places, broker), broker))
    return [(a, b) for a, b in pairwise([*order, order[0]])]


def drawn(seed: int, missing: float, *, ring: bool, most: int = 14) -> tuple[States, Positions]:
    """Brokers, links of which some are missing, and positions; with `ring`, every link to a successor is up."""
    chance = random.Random(seed)
    brokers = [f"b{number}" for number in range(chance.randint(3, most))]
    places = places_of(chance, brokers)
    needed = {frozenset(pair) for pair in successors(places, brokers)} if ring else set()
    lacking = chance.random() * missing
    pairs = [pair for pair in combinations(brokers, 2) if frozenset(pair) in needed or chance.random() >= lacking]
    return linked(brokers, pairs), Positions(STAMP, tuple(places.items()))


def family(states: States, word: Positions, at: BrokerId = "b0", version: str = "") -> Family:
    view = reachable(states, at)
    return family_of(version or f"{hash((view, word))}", view, None, word)


def linked_fingers(states: States, word: Positions, order: list[BrokerId]) -> list[list[int]]:
    """By place on the ring, the steps to each finger whose link is up: in the words of the model."""
    ring = Ring(tuple(position_in(dict(word.places), broker) for broker in order))
    found = []
    for at, broker in enumerate(order):
        linked_to = [neighbour.broker for neighbour in states[broker].neighbours]
        steps = sorted({1, *ring.fingers(at)})
        found.append([step for step in steps if order[(at + step) % len(order)] in linked_to])
    return found


@given(seeds)
@settings(deadline=None, max_examples=150)
def test_the_trees_are_the_routes_of_the_model(seed: int) -> None:
    """Also with links missing, as long as all have one to their successor."""
    states, word = drawn(seed, 0.9, ring=True)
    found = family(states, word)
    order, count = found.order, len(found.order)
    assert found.ring
    assert order == sorted(states, key=lambda broker: (position_in(dict(word.places), broker), broker))
    fingers = linked_fingers(states, word, order)
    depths = []
    for root in range(count):
        tree = found.tree(order[root])
        assert sorted(tree.parent) == sorted(states), "everybody is reached"
        for at, broker in enumerate(order):
            above = model.parent(fingers, root, at)
            assert tree.parent[broker] == (None if above is None else order[above])
            below = [other for other in tree.peers(broker) if other != tree.parent[broker]]
            assert sorted(below) == sorted(order[c] for c in model.children(fingers, root, at))
            assert tree.depth[broker] == model.depth(fingers, root, at)
        depths.append(max(tree.depth.values()))
    assert found.longest == max(depths)


@given(seeds, st.booleans())
@settings(deadline=None, max_examples=100)
def test_every_tree_is_one(seed: int, ring: bool) -> None:
    """One way between two brokers, the same in both directions, along links that are up; and the family says how long
    it may be and which neighbours it takes. With a ring or without."""
    states, word = drawn(seed, 0.9, ring=ring)
    found = family(states, word)
    brokers = list(found.agreed.parent)
    beside: dict[BrokerId, dict[BrokerId, None]] = {broker: {} for broker in brokers}
    longest = 0
    for root in brokers:
        tree = found.tree(root)
        assert (tree.root, tree.version) == (root, found.agreed.version)
        for a in brokers:
            longest = max(longest, tree.depth[a])
            beside[a] |= dict.fromkeys(tree.peers(a))
            for b in brokers:
                way = tree.path(a, b)
                assert way == tree.path(b, a)[::-1]
                assert len(dict.fromkeys(way)) == len(way) == tree.hops(a, b) + 1
                for here, following in pairwise(way):
                    assert tree.next_hop(here, b) == following
                    assert following in [neighbour.broker for neighbour in states[here].neighbours]
    assert found.longest == longest
    assert {broker: sorted(others) for broker, others in found.beside.items()} == {
        broker: sorted(others) for broker, others in beside.items()
    }


@given(seeds)
@settings(deadline=None, max_examples=100)
def test_without_a_link_to_a_successor_every_tree_is_the_agreed_one(seed: int) -> None:
    states, word = drawn(seed, 0.9, ring=False)
    found = family(states, word)
    brokers = [state.broker for state in reachable(states, "b0")]
    assume(len(brokers) > 2)
    around = {frozenset(pair) for pair in successors(dict(word.places), brokers)}
    up = {frozenset((broker, other.broker)) for broker in brokers for other in states[broker].neighbours}
    assert found.ring == (around <= up)
    if not found.ring:
        links = {frozenset((a, b)) for a, b in found.agreed.parent.items() if b is not None}
        for root in brokers:
            above = found.tree(root).parent
            assert {frozenset((a, b)) for a, b in above.items() if b is not None} == links
            assert above[root] is None


@given(seeds)
@settings(deadline=None, max_examples=50)
def test_two_brokers_compute_the_same(seed: int) -> None:
    """Whoever begins, and in whatever order it heard of the others."""
    states, word = drawn(seed, 0.4, ring=True)
    mine = family(states, word, version="v")
    last = list(states)[-1]
    family_of.cache_clear()
    backwards = {broker: states[broker] for broker in reversed(states)}
    theirs = family(backwards, Positions(STAMP, word.places[::-1]), last, version="v")
    assert mine is not theirs
    for name in ("order", "points", "fingers", "longest", "beside", "agreed"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert [mine.root_of(slot) for slot in range(SLOTS)] == [theirs.root_of(slot) for slot in range(SLOTS)]
    assert all(mine.tree(root) == theirs.tree(root) for root in mine.order)


@given(seeds)
@settings(deadline=None, max_examples=50)
def test_a_slot_belongs_to_the_first_broker_at_or_after_its_point(seed: int) -> None:
    states, word = drawn(seed, 0.4, ring=True)
    found = family(states, word)
    ring = Ring(tuple(found.points))
    assert [found.root_of(slot) for slot in range(SLOTS)] == [
        found.order[ring.owner(point_of_slot(slot))] for slot in range(SLOTS)
    ]
    assert sorted(found.roots()) == sorted({found.root_of(slot) for slot in range(SLOTS)})


@given(seeds)
@settings(deadline=None, max_examples=50)
def test_neighbours_are_linked_by_a_finger(seed: int) -> None:
    """The links that a proposal asks for (`places`) are those that trees take."""
    states, word = drawn(seed, 0.0, ring=True)
    found = family(states, word)
    places = dict(word.places)
    for broker in found.order:
        theirs = [other for other in found.order if broker in fingers_of(places, found.order, other)]
        assert sorted(found.beside[broker]) == sorted({*fingers_of(places, found.order, broker), *theirs})


def test_one_broker_and_two_need_no_ring() -> None:
    word = Positions(STAMP, ())
    alone = family(linked(["b0"], []), word)
    assert (alone.ring, alone.longest, alone.beside, alone.roots()) == (False, 0, {"b0": []}, ("b0",))
    two = family(linked(["b0", "b1"], [("b0", "b1")]), word)
    assert (two.ring, two.longest, two.beside) == (False, 1, {"b0": ["b1"], "b1": ["b0"]})
    assert two.tree("b1").parent == {"b1": None, "b0": "b1"}
    assert sorted(two.roots()) == ["b0", "b1"]


def test_brokers_at_one_place_stand_by_name() -> None:
    """Hashes may collide; positions that were told never do."""
    brokers = ["b0", "b1", "b2"]
    word = Positions(STAMP, (("b0", 7), ("b1", 7), ("b2", 9)))
    found = family(linked(brokers, list(combinations(brokers, 2))), word)
    assert found.ring
    assert found.order == brokers
    assert found.longest <= 2
    assert all(sorted(found.tree(root).parent) == brokers for root in brokers)


def test_too_many_brokers_are_no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BROKERS_MAX", 4)
    family_of.cache_clear()
    for count in (4, 5):
        brokers = [f"b{number}" for number in range(count)]
        found = family(linked(brokers, list(combinations(brokers, 2))), Positions(STAMP, ()))
        assert found.ring == (count == 4)
        assert found.longest == max(max(found.tree(root).depth.values()) for root in brokers)


def test_networks_larger_than_that_use_the_agreed_tree() -> None:
    brokers = [f"b{number}" for number in range(BROKERS_MAX + 1)]
    pairs = list(pairwise([*sorted(brokers, key=model.point_of), min(brokers, key=model.point_of)]))
    found = family(linked(brokers, pairs), Positions(STAMP, ()))
    assert not found.ring
    assert found.longest == BROKERS_MAX  # a circle that is cut open at one place
    assert len(family(linked(brokers[1:], pairs_of(brokers[1:])), Positions(STAMP, ()), "b1").fingers) == BROKERS_MAX


def pairs_of(brokers: list[BrokerId]) -> list[tuple[BrokerId, BrokerId]]:
    return successors({}, brokers)
