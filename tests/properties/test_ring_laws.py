"""Laws of the ring: routes from one broker form a tree, and every subtree is an arc; against a literal walk."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.errors import SettingsError
from latecomer.model.ring import (
    Fingers,
    Ring,
    arc,
    children,
    depth,
    downward,
    evenly,
    hashed,
    next_step,
    parent,
    point_of,
    route,
)

law = settings(deadline=None)
BITS = 16


def rings(seed: int, most: int = 40) -> Ring:
    """Evenly spaced, hashed or in clusters."""
    chance = random.Random(seed)
    count = chance.randint(2, most)
    kind = chance.choice(("even", "hashed", "clustered"))
    if kind == "even":
        return evenly(count, BITS)
    if kind == "hashed":
        return Ring(tuple(sorted(hashed([f"{seed} {number}" for number in range(count)], 32).values())))
    centres = [chance.randrange(1 << BITS) for _ in range(chance.randint(1, 4))]
    found: set[int] = set()
    while len(found) < count:
        found.add((chance.choice(centres) + chance.randrange(-80, 80)) % (1 << BITS))
    return Ring(tuple(sorted(found)), BITS)


def thinned(ring: Ring, seed: int) -> Fingers:
    """A third of the fingers are missing; successors stay."""
    chance = random.Random(seed)
    return [[step for step in steps if step == 1 or chance.random() > 0.3] for steps in ring.all_fingers()]


# --- the same in the words of Chord, with points on the circle only ---


def successor(ring: Ring, point: int) -> int:
    """The position of the first broker at or after a point."""
    size = 1 << ring.bits
    return min(ring.positions, key=lambda position: (position - point) % size)


def literal_route(ring: Ring, start: int, target: int) -> list[int]:
    """Positions from start to target; each stop looks through its own finger table."""
    size = 1 << ring.bits
    stops = [start]
    while stops[-1] != target:
        here = stops[-1]
        table = [successor(ring, (here + (1 << bit)) % size) for bit in range(ring.bits)]
        within = [finger for finger in table if 0 < (finger - here) % size <= (target - here) % size]
        stops.append(max(within, key=lambda finger: (finger - here) % size))
    return stops


def literal_trees(ring: Ring) -> list[dict[int, list[int]]]:
    """Per root the route to every broker, as numbers."""
    number = {position: at for at, position in enumerate(ring.positions)}
    return [
        {number[target]: [number[stop] for stop in literal_route(ring, root, target)] for target in ring.positions}
        for root in ring.positions
    ]


def same_as_the_walk(ring: Ring) -> None:
    fingers = ring.all_fingers()
    count = len(ring.positions)
    for root, routes in enumerate(literal_trees(ring)):
        for at, stops in routes.items():
            assert list(route(fingers, root, at)) == stops
            assert parent(fingers, root, at) == (stops[-2] if len(stops) > 1 else None)
            assert depth(fingers, root, at) == len(stops) - 1
            below = [other for other, others in routes.items() if at in others]
            span = [(at + step) % count for step in range(arc(fingers, root, at))]
            assert sorted(below) == sorted(span), "a subtree is the arc that begins at its top"
            direct = [other for other in below if routes[other][-2:-1] == [at]]
            assert sorted(children(fingers, root, at)) == sorted(direct)


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_routes_trees_and_arcs_are_those_of_the_walk(seed: int) -> None:
    same_as_the_walk(rings(seed, 14))


@pytest.mark.long
def test_routes_trees_and_arcs_are_those_of_the_walk_on_thousands_of_rings() -> None:
    for seed in range(3000):
        same_as_the_walk(rings(seed, 14))


@given(seed=st.integers(0, 2**32), thin=st.booleans())
@settings(deadline=None, max_examples=200)
def test_routes_from_one_broker_form_a_tree_of_arcs(seed: int, thin: bool) -> None:
    """Also with fingers missing: whoever is on a route has one broker above it, whatever the target."""
    ring = rings(seed, 60)
    fingers = thinned(ring, seed) if thin else ring.all_fingers()
    count = len(fingers)
    root = seed % count
    above: dict[int, int] = {}
    below = dict.fromkeys(range(count), 0)
    for target in range(count):
        stops = list(route(fingers, root, target))
        for here, following in pairwise(stops):
            assert above.setdefault(following, here) == here
        for stop in stops:
            below[stop] += 1
            assert (target - stop) % count < arc(fingers, root, stop)
    assert all(arc(fingers, root, at) == number for at, number in below.items())


@given(seed=st.integers(0, 2**32))
@law
def test_the_child_towards_a_target_is_on_the_route(seed: int) -> None:
    ring = rings(seed, 20)
    fingers = ring.all_fingers()
    count = len(fingers)
    root = seed % count
    for target in range(count):
        stops = list(route(fingers, root, target))
        for at in range(count):
            expected = stops[stops.index(at) + 1] if at in stops[:-1] else None
            assert downward(fingers, root, at, target) == expected


@given(seed=st.integers(0, 2**32))
@law
def test_a_point_belongs_to_the_first_broker_at_or_after_it(seed: int) -> None:
    ring = rings(seed)
    for point in (0, (1 << ring.bits) - 1, seed % (1 << ring.bits), *ring.positions):
        assert ring.positions[ring.owner(point)] == successor(ring, point)


def test_closest_preceding_fingers_form_no_tree() -> None:
    """Why the rule is written down: with Chord's own wording the last hop comes from the predecessor."""
    ring = evenly(8, 3)
    fingers = ring.all_fingers()
    above: dict[int, set[int]] = {}
    for target in range(1, 8):
        here = 0
        while here != target:
            steps = (target - here) % 8
            step = 1 if steps == 1 else next_step(fingers[here], steps - 1)
            following = (here + step) % 8
            above.setdefault(following, set()).add(here)
            here = following
    assert any(len(parents) > 1 for parents in above.values())


def test_positions_of_names_do_not_change() -> None:
    """Stored positions and running brokers must agree on them for good."""
    assert point_of("b1") == 2569968254
    assert point_of("b1", 8) == point_of("b1") >> 24
    assert hashed(["b1", "b2"]) == {"b1": point_of("b1"), "b2": point_of("b2")}


@pytest.mark.parametrize(
    ("ring", "told"),
    [
        (Ring(()), "a ring of 0"),
        (Ring((5,)), "a ring of 1"),
        (Ring((1, 1)), "1 comes after 1"),
        (Ring((2, 1)), "1 comes after 2"),
        (Ring((1, 9), 3), "9 is not on a ring of 3 bits"),
        (Ring((-1, 3), 3), "-1 is not on a ring"),
        (Ring((1, 2), 63), "63 bits"),
        (Ring((1, 2), 0), "0 bits"),
    ],
)
def test_a_ring_that_is_none(ring: Ring, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        ring.check()


def test_names_with_the_same_hash() -> None:
    with pytest.raises(SettingsError, match="same hash on a ring of 1 bits; use more bits"):
        hashed(["a", "b", "c"], 1)
