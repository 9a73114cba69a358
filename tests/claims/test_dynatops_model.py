"""The counted model of dynatops, against the same written out literally; and what must always be true of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latecomer.experiments.dynatops import notify_kernels as sums_of
from latecomer.experiments.dynatops.changes_kernels import Tables
from latecomer.experiments.dynatops.homes import POLICIES, SIMILARITIES, Homes, Policy, Similarity, even_clusters
from latecomer.experiments.dynatops.model import System, begin, play
from latecomer.experiments.dynatops.overlay import chord, random_points, random_ring
from latecomer.experiments.dynatops.reposition import Repositioning
from latecomer.experiments.dynatops.workload import Workload
from tests.claims.dynatops_oracle import Oracle, small_workload

COUNTED = ("joins", "leaves", "changes", "hand_overs", "tree_messages", "core_tree_messages")


def small(seed: int, homes: Homes, *, measured: bool = False, placed: bool = False) -> tuple[Workload, System]:
    random = np.random.default_rng(seed)
    brokers, topics = int(random.integers(4, 10)), int(random.integers(3, 8))
    workload = small_workload(random, brokers, topics, 12, 4)
    overlay = chord(random_ring(brokers, random), random_points(topics, random))
    clusters = even_clusters(brokers, int(random.integers(2, 5)))
    system = System(overlay, random.permutation(brokers), homes, clusters)
    if measured:
        delay = random.uniform(1, 5, (brokers, brokers))
        system = replace(system, delay=delay + delay.T)  # there and back are as long
    if homes.policy == "place" or placed:
        system = replace(system, home_at=random.integers(0, brokers, brokers))
    if placed:
        system = replace(system, cluster_at=clusters[system.home_at])
    return workload, system


def check(workload: Workload, system: System, seed: int) -> None:
    tables, _ = begin(workload, system, seed)
    expected = Oracle(workload, system, tables.home.tolist()).play()
    tally = play(workload, system, seed)
    assert {name: getattr(tally, name) for name in COUNTED} == {name: int(expected[name]) for name in COUNTED}
    sums = {
        "events": sums_of.EVENTS,
        "climb": sums_of.CLIMB,
        "internal": sums_of.INTERNAL,
        "external": sums_of.EXTERNAL,
        "delay_users": sums_of.DELAY_USERS,
        "core_messages": sums_of.CORE_MESSAGES,
        "core_delay_users": sums_of.CORE_DELAY_USERS,
    }
    for name, number in sums.items():
        assert tally.sums[number] == pytest.approx(expected[name]), name
    sizes = np.bincount(system.clusters)
    assert tally.exchange == expected["exchanges"] * int((sizes * (sizes - 1)).sum())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(8))
def test_both_walks_as_written_out(policy: Policy, seed: int) -> None:
    check(*small(seed, Homes(policy, load_weight=0.5, exchange=0.4)), seed)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("seed", range(6))
def test_every_similarity_decides_as_written_out(similarity: Similarity, seed: int) -> None:
    check(*small(seed + 100, Homes("selection", similarity, 0.3, 1.0)), seed)


@pytest.mark.parametrize("seed", range(6))
def test_measured_delays_and_clusters_by_place(seed: int) -> None:
    homes = Homes("selection", load_weight=1.0, exchange=2.0)
    check(*small(seed + 200, homes, measured=True, placed=True), seed)


@pytest.mark.parametrize("seed", range(4))
def test_tables_stay_what_users_and_places_make_them_across_reconfigurations(seed: int) -> None:
    """Flips are the changes of the table, and `below` is what the trees of the present places say."""
    workload, system = small(seed + 300, Homes("selection", load_weight=0.5, exchange=1.0))
    workload = replace(workload, published=np.full_like(workload.published, 10_000))
    system = replace(system, repositioning=Repositioning(every=1))
    flips = [0]
    places: list[tuple[int, ...]] = []
    before = begin(workload, system, seed)[0].counts > 0

    def watch(step: int, tables: Tables) -> None:
        nonlocal before
        counts = np.zeros_like(tables.counts)
        for user, slots in enumerate(tables.slots.tolist()):
            for topic in set(slots) - {-1}:
                counts[tables.home[user], topic] += 1
        assert (counts == tables.counts).all()
        assert (tables.load == counts.sum(axis=1)).all()
        flips[0] += int(((counts > 0) != before).sum())
        before = counts > 0
        places.append(tuple(tables.place.tolist()))
        assert sorted(places[-1]) == list(range(workload.brokers))
        trees = system.overlay.trees
        for topic in range(workload.topics):
            row = trees.row[topic]
            below = np.zeros(workload.brokers, np.int64)
            for broker in np.flatnonzero(counts[:, topic]).tolist():
                at = int(tables.place[broker])
                while at != -1:
                    below[at] += 1
                    at = int(trees.parent[row, at])
            assert (below == tables.below[topic]).all()

    tally = play(workload, system, seed, watch=watch)
    assert tally.broker_changes >= flips[0]
    assert (tally.broker_changes - flips[0]) % 2 == 0
    assert tally.reconfigurations > 0
    assert len(set(places)) > 1
    assert tally.reconfiguration_counted > 0
    assert tally.benefit > tally.reconfiguration_formula


def test_messages_of_a_tree_are_its_edges() -> None:
    """Internal and external together: every broker in the tree but the rendezvous point is sent one."""
    workload, system = small(7, Homes())
    edges = [0]

    def watch(step: int, tables: Tables) -> None:
        trees = system.overlay.trees
        for topic, events in enumerate(workload.published[step].tolist()):
            inside = tables.below[topic] > 0
            inside[trees.root[trees.row[topic]]] = False
            edges[0] += events * int(inside.sum())

    tally = play(workload, system, 7, watch=watch)
    assert tally.sums[sums_of.INTERNAL] + tally.sums[sums_of.EXTERNAL] == edges[0]
    assert tally.sent.sum() == edges[0]


def test_users_arrive_where_others_want_the_same() -> None:
    """Two modes, two brokers of one cluster: each broker has a mode of its own."""
    random = np.random.default_rng(0)
    slots = np.array([[0, 1], [2, 3]] * 10)
    workload = small_workload(random, 2, 4, 20, 1)
    workload = replace(workload, slots=slots)
    overlay = chord(random_ring(2, random), random_points(4, random))
    system = System(overlay, np.arange(2), Homes("selection", load_weight=0.2), np.zeros(2, np.int64))
    tables, _ = begin(workload, system, 0)
    assert len(set(tables.home[0::2].tolist())) == 1
    assert len(set(tables.home[1::2].tolist())) == 1
    assert tables.home[0] != tables.home[1]
    assert tables.load.tolist() == [20, 20]
