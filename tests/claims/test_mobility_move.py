"""The messages and hops of one move, worked by hand (mobility §3).

    0            the root
    ├── 1
    │   ├── 3
    │   └── 4
    └── 2
        ├── 5
        └── 6
            └── 7

From 3 to 4 it is 2 hops, to 5 and 6 it is 4, to 7 it is 5; the depths of 3, 4, 5 and 6 are 2, that of 7 is 3.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.algorithms.home_broker import HomeBroker
from latecomer.experiments.mobility.algorithms.logging import Logging
from latecomer.experiments.mobility.algorithms.prefetching import Prefetching
from latecomer.experiments.mobility.algorithms.registry import ALGORITHMS
from latecomer.experiments.mobility.algorithms.standard import Standard
from latecomer.experiments.mobility.move import Absence, Leg, arrival, departure, move, summed
from latecomer.experiments.mobility.tree import city, rooted, tree_of
from latecomer.model.topology_generators import hierarchy

TREE = rooted([0, 0, 0, 1, 1, 2, 2, 6])
AWAY = Absence(old=3, new=7, subscriptions=2, early=1, stored=10, logged=4)


def legs(algorithm: Algorithm, absence: Absence = AWAY) -> list[tuple[str, int, int]]:
    """Those that are not empty."""
    return [(leg.kind, leg.messages, leg.hops) for leg in move(TREE, algorithm, absence) if leg.messages]


def test_the_tree_is_as_drawn() -> None:
    assert TREE.hops[3].tolist() == [2, 1, 3, 0, 2, 4, 4, 5]
    assert TREE.depths == (0, 1, 1, 2, 2, 2, 2, 3)
    assert TREE.leaves == (3, 4, 5, 7)
    assert TREE.way(3, 5) == [2 * 3, 2 * 1, 2 * 2 + 1, 2 * 5 + 1]
    assert TREE.way(3, 3) == []
    assert len(TREE.way(4, 7)) == 5


def test_the_papers_tree_has_its_leaves_last_and_from_west_to_east() -> None:
    tree = city()
    assert tree.leaves == tuple(range(21, 85))
    assert [int(tree.hops[21, leaf]) for leaf in (21, 22, 24, 25, 36, 37, 84)] == [0, 2, 2, 4, 4, 6, 6]
    assert {tree.depths[leaf] for leaf in tree.leaves} == {3}
    assert tree_of(hierarchy()).parents == tree.parents


def test_standard_fetches_everything_on_arrival() -> None:
    assert departure(TREE, Standard(), AWAY) == []
    assert legs(Standard()) == [
        ("ask", 1, 5),
        ("row", 2, 10),
        ("subscribe", 2, 6),
        ("release", 1, 5),
        ("event", 10, 50),
        ("unsubscribe", 2, 4),
    ]
    assert summed(move(TREE, Standard(), AWAY)) == (18, 80, 20, 10, 50, 10)


def test_a_device_that_brings_its_subscriptions_saves_the_question_and_the_rows() -> None:
    assert legs(Standard(on_device=True)) == [leg for leg in legs(Standard()) if leg[0] not in ("ask", "row")]


def test_who_comes_back_needs_nothing() -> None:
    back = msgspec.structs.replace(AWAY, new=3, guesses=(3,))
    for name, algorithm in ALGORITHMS.items():
        assert legs(algorithm, back) == [], name


def test_logging_sends_what_the_log_has_not() -> None:
    found = legs(Logging())
    assert ("outline", 1, 5) in found
    assert ("known", 1, 5) in found
    assert ("event", 6, 30) in found
    nothing = msgspec.structs.replace(AWAY, stored=0, logged=0)
    assert legs(Logging(), nothing) == legs(Standard(), nothing), "nobody asks about nothing"


def test_prefetching_sends_all_when_the_client_leaves() -> None:
    right = msgspec.structs.replace(AWAY, guesses=(7, 5))
    assert arrival(TREE, Prefetching(), right) == []
    assert legs(Prefetching(), right) == [
        ("ask", 1, 5),
        ("row", 2, 10),
        ("subscribe", 2, 6),
        ("release", 1, 5),
        ("unsubscribe", 2, 4),
        ("event", 1, 5),
    ]


def test_a_wrong_guess_costs_both_ways() -> None:
    """From 3 to 5, which is 4 hops, and from there to 7, which is 3."""
    wrong = msgspec.structs.replace(AWAY, guesses=(5,))
    assert legs(Prefetching(), wrong) == [
        ("ask", 1, 4),
        ("row", 2, 8),
        ("subscribe", 2, 4),
        ("release", 1, 4),
        ("unsubscribe", 2, 4),
        ("event", 1, 4),
        ("ask", 1, 3),
        ("row", 2, 6),
        ("subscribe", 2, 6),
        ("release", 1, 3),
        ("event", 10, 30),
        ("unsubscribe", 2, 4),
    ]


def test_a_guess_that_the_client_will_be_back_sends_nothing_ahead() -> None:
    assert legs(Prefetching(), msgspec.structs.replace(AWAY, guesses=(3,))) == legs(Standard())


def test_of_several_places_one_is_right_and_the_others_discard() -> None:
    several = Prefetching(destinations=2)
    right = msgspec.structs.replace(AWAY, guesses=(4, 7))
    assert [tuple(leg) for leg in departure(TREE, several, right)] == [
        ("ask", 1, 2),
        ("row", 2, 4),
        ("subscribe", 2, 4),
        ("release", 1, 2),
        ("event", 1, 2),
        ("ask", 1, 5),
        ("row", 2, 10),
        ("subscribe", 2, 6),
        ("release", 1, 5),
        ("event", 1, 5),
    ], "the old broker stays subscribed: it is the owner"
    assert [tuple(leg) for leg in arrival(TREE, several, right)] == [
        ("ask", 1, 5),
        ("grant", 1, 5),
        ("unsubscribe", 2, 4),
        ("discard", 1, 2),
        ("unsubscribe", 2, 4),
    ]


def test_if_none_of_several_is_right_the_nearest_sends() -> None:
    several = Prefetching(destinations=2)
    wrong = msgspec.structs.replace(AWAY, guesses=(4, 5))
    found = [tuple(leg) for leg in arrival(TREE, several, wrong)]
    assert ("event", 10, 30) in found, "from 5, which is 3 hops from 7"
    assert [leg for leg in found if leg[0] == "unsubscribe"] == [("unsubscribe", 2, 4)] * 3
    back = msgspec.structs.replace(wrong, new=3)
    assert {leg.kind for leg in arrival(TREE, several, back)} == {"discard", "unsubscribe"}


def test_home_broker_moves_no_subscription() -> None:
    assert legs(HomeBroker()) == [("attach", 1, 5), ("event", 10, 50)]


def test_who_asks_how_far_the_network_hears_is_asked_in_order() -> None:
    """The new broker begins before the old one ends, so that no event is lost between them."""
    asked: list[tuple[int, bool]] = []

    def reach(broker: int, begins: bool) -> int:
        asked.append((broker, begins))
        return 1

    found = move(TREE, Standard(), AWAY, reach)
    assert asked == [(7, True), (3, False)]
    assert Leg("subscribe", 2, 1) in found
    asked.clear()
    move(TREE, Prefetching(), msgspec.structs.replace(AWAY, guesses=(5,)), reach)
    assert asked == [(5, True), (3, False), (7, True), (5, False)]


BROKERS = st.integers(0, len(TREE.parents) - 1)


@st.composite
def absences(draw: st.DrawFn) -> Absence:
    stored = draw(st.integers(0, 50))
    return Absence(
        old=draw(BROKERS),
        new=draw(BROKERS),
        subscriptions=draw(st.integers(1, 4)),
        guesses=tuple(draw(st.lists(BROKERS, min_size=1, max_size=3, unique=True))),
        early=draw(st.integers(0, stored)),
        stored=stored,
        logged=draw(st.integers(0, stored)),
    )


@given(absences())
def test_subscriptions_begin_and_end_alike_often(absence: Absence) -> None:
    """However a client moves, its subscriptions end everywhere but where it is."""
    for name, algorithm in ALGORITHMS.items():
        held = {absence.old: 1}

        def reach(broker: int, begins: bool, held: dict[int, int] = held) -> int:
            held[broker] = held.get(broker, 0) + (1 if begins else -1)
            return 0

        move(TREE, algorithm, absence, reach)
        at_home = algorithm.arrival() == "attach"
        where = absence.old if at_home else absence.new
        assert {broker: count for broker, count in held.items() if count} == {where: 1}, name


@given(absences())
def test_the_costs_of_the_algorithms_follow_from_standards(absence: Absence) -> None:
    standard = summed(move(TREE, Standard(), absence))
    logging = summed(move(TREE, Logging(), absence))
    far = int(TREE.hops[absence.old, absence.new])
    asked = 2 * far if absence.stored else 0
    assert logging.hops == standard.hops + asked - far * absence.logged
    right = msgspec.structs.replace(absence, guesses=(absence.new,))
    perfect = summed(move(TREE, Prefetching(), right))
    assert perfect.hops == standard.hops - far * (absence.stored - absence.early)
    assert perfect.migration_hops == standard.migration_hops
    on_device = summed(move(TREE, Standard(on_device=True), absence))
    assert on_device.hops == standard.hops - far * (1 + absence.subscriptions)


def test_an_unrooted_ring_is_no_tree() -> None:
    with pytest.raises(AssertionError, match="a cycle"):
        rooted([1, 0])
