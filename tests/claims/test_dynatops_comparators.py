"""The systems that dynatops is compared with, on cases small enough for a hand."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest

from latecomer.experiments.dynatops.changes_kernels import Tables
from latecomer.experiments.dynatops.comparators.bayeux import next_stops, random_ids, surrogate, tapestry
from latecomer.experiments.dynatops.comparators.bayeux_on_chord import bayeux_on_chord
from latecomer.experiments.dynatops.comparators.consistent_hashing import consistent_hashing
from latecomer.experiments.dynatops.comparators.tco import Tco, random_parts
from latecomer.experiments.dynatops.comparators.tco_kernels import connected, greedy_merge, spread_events
from latecomer.experiments.dynatops.model import play
from latecomer.experiments.dynatops.overlay import chord, random_points, random_ring
from tests.claims.dynatops_oracle import small_workload

Flags = npt.NDArray[np.bool_]


# -- Bayeux


def test_a_route_resolves_a_digit_at_a_time() -> None:
    ids = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    prefer = np.array([[0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], float)
    table = next_stops(ids, prefer)
    assert table[0].tolist() == [0, 1, 2, 2]  # 00 prefers 10 for the first digit, and goes on to 11 by it
    assert table[1].tolist() == [0, 1, 3, 3]
    assert table[2].tolist() == [1, 1, 2, 3]


def test_a_key_belongs_to_the_next_digit_that_anybody_has() -> None:
    ids = np.array([[1, 5], [1, 9], [4, 0]])
    assert surrogate(ids, np.array([1, 9])) == 1
    assert surrogate(ids, np.array([1, 6])) == 1
    assert surrogate(ids, np.array([1, 10])) == 0  # after the highest comes the lowest
    assert surrogate(ids, np.array([2, 3])) == 2
    assert surrogate(ids, np.array([5, 0])) == 0


@pytest.mark.parametrize("base", [2, 4, 16])
def test_routes_from_one_place_form_a_tree(base: int) -> None:
    random = np.random.default_rng(base)
    ids = random_ids(40, random, base)
    overlay = tapestry(ids, random_ids(60, random, base), random.random((40, 40)), base)
    for start in range(40):
        above: dict[int, int] = {}
        for target in range(40):
            at, shared = start, -1
            while at != target:
                after = int(overlay.next_stop[at, target])
                same = int(np.argmin(np.append(ids[after] == ids[target], False)))
                assert same > shared
                assert above.setdefault(after, at) == at
                at, shared = after, same
    assert overlay.trees.depth.max() <= ids.shape[1]


def test_on_chord_nobody_moves() -> None:
    random = np.random.default_rng(3)
    ring = chord(random_ring(6, random), random_points(4, random))
    start = consistent_hashing(6, random)
    assert sorted(start.tolist()) == list(range(6))
    system = bayeux_on_chord(ring, start)
    tally = play(small_workload(random, 6, 4, 10, 3), system, 0)
    assert (tally.hand_overs, tally.reconfigurations, tally.exchange) == (0, 0, 0)


# -- TCO


def merged_naively(wants: Flags, groups: list[int]) -> set[tuple[int, int]]:
    """Greedy merge as its authors tell it: over and over the link that joins most topics."""
    brokers, topics = wants.shape
    piece = {(broker, topic): broker for broker in range(brokers) for topic in range(topics)}
    links: set[tuple[int, int]] = set()

    def joined(pair: tuple[int, int]) -> list[int]:
        one, other = pair
        both = [topic for topic in range(topics) if wants[one, topic] and wants[other, topic]]
        return [topic for topic in both if piece[one, topic] != piece[other, topic]]

    while True:
        pairs = [pair for pair in combinations(range(brokers), 2) if groups[pair[0]] == groups[pair[1]]]
        best = max(pairs, key=lambda pair: (len(joined(pair)), -pair[0], -pair[1]), default=None)
        if best is None or not joined(best):
            return links
        for topic in joined(best):
            old, new = piece[best[1], topic], piece[best[0], topic]
            for broker in range(brokers):
                if piece[broker, topic] == old:
                    piece[broker, topic] = new
        links.add(best)


@pytest.mark.parametrize("seed", range(10))
def test_greedy_merge_as_its_authors_tell_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    wants = random.random((9, 6)) < 0.5
    groups = random.integers(0, 2, 9)
    links = np.zeros((9, 9), np.bool_)
    greedy_merge(wants, links, groups, False)
    assert {pair for pair in combinations(range(9), 2) if links[pair]} == merged_naively(wants, groups.tolist())
    greedy_merge(wants, links, groups, True)
    assert connected(np.ascontiguousarray(wants.T), links)


def test_a_line_of_three_by_hand() -> None:
    """0 and 1 share two topics, 1 and 2 one: two links, and broker 0 reaches 2 by 1."""
    wants = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], np.bool_)
    links = np.zeros((3, 3), np.bool_)
    greedy_merge(wants, links, np.zeros(3, np.int64), False)
    assert np.argwhere(np.triu(links)).tolist() == [[0, 1], [1, 2]]
    assert connected(np.ascontiguousarray(wants.T), links)
    sums = np.zeros(6)
    counts = np.array([[1, 1, 0], [1, 1, 2], [0, 0, 3]], np.int32)
    users = np.array([0.5, 0.25, 0.25])
    spread_events(np.ascontiguousarray(wants.T), links, counts, np.array([0, 0, 1]), users, sums)
    # Topic 2 is wanted by 1 and 2; who is at 0 sends to 1 first. One message between 1 and 2, half the time one more.
    assert sums[0] == 1
    assert sums[1] == pytest.approx(1.5)
    # From 0 (½): 1 after one hop, 2 after two; from 1 (¼): 0 and 1; from 2 (¼): 1 and 0.
    assert sums[3] == pytest.approx(0.5 * (1 + 2) + 0.25 * 1 + 0.25 * 1)
    assert sums[5] == pytest.approx(0.5 * (2 * 1 + 3 * 2) + 0.25 * 3 * 1 + 0.25 * 2 * 1)


def test_every_topic_stays_connected_and_changed_links_are_counted() -> None:
    random = np.random.default_rng(5)
    workload = small_workload(random, 8, 5, 20, 6)
    ring = chord(random_ring(8, random), random_points(5, random))
    tco = Tco(workload, random_parts(8, 3, random))
    links: list[Flags] = []

    def watch(step: int, tables: Tables) -> None:
        tco(step, tables)
        assert connected(np.ascontiguousarray((tables.counts > 0).T), tco.links)
        links.append(tco.links.copy())

    play(workload, bayeux_on_chord(ring, np.arange(8)), 0, watch=watch)
    changed = sum(int((a != b).sum()) // 2 for a, b in pairwise(links))
    assert tco.changed == changed > 0
    assert 0 < tco.reconfigurations < 6
