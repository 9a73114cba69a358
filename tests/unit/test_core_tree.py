"""Trees: a pure function of link state, the same for everybody who knows the same."""

from __future__ import annotations

import pytest

from latecomer.core.linkstate import LinkStateDatabase
from latecomer.core.tree import Tree, name_of, reachable, spanning_tree
from latecomer.messages.link import LinkState, Neighbour, Summary


def states(*links: tuple[str, str, int], boots: dict[str, int] | None = None, seq: int = 1) -> dict[str, LinkState]:
    """Link state of a network in which everybody names the present life of everybody."""
    boot = boots or {}
    neighbours: dict[str, list[Neighbour]] = {}
    for a, b, cost_us in links:
        neighbours.setdefault(a, []).append(Neighbour(b, boot.get(b, 1), cost_us))
        neighbours.setdefault(b, []).append(Neighbour(a, boot.get(a, 1), cost_us))
    return {id: LinkState(id, boot.get(id, 1), seq, tuple(found)) for id, found in neighbours.items()}


def tree_of(known: dict[str, LinkState], root: str | None = None, start: str = "a") -> Tree:
    return spanning_tree(name_of(known.values()), reachable(known, start), root)


BASE = [("1", "2", 10), ("2", "3", 10), ("3", "4", 10), ("3", "5", 10), ("5", "6", 10)]
"""The papers' base network."""
RING = [("a", "b", 10), ("b", "c", 10), ("c", "d", 10), ("d", "a", 10)]


# -- who is reachable --------------------------------------------------------------------------------------------------


def reached(known: dict[str, LinkState], start: str = "a") -> list[str]:
    return [state.broker for state in reachable(known, start)]


def test_everybody_with_a_path_is_reachable() -> None:
    assert reached(states(*RING)) == ["a", "b", "c", "d"]
    assert reached(states(("a", "b", 1), ("c", "d", 1))) == ["a", "b"]


@pytest.mark.parametrize(
    "neighbours", [(), (Neighbour("a", 0, 1),), (Neighbour("a", 2, 1),)], ids=["unsaid", "missing", "another life"]
)
def test_a_link_counts_when_both_ends_name_the_present_life_of_the_other(neighbours: tuple[Neighbour, ...]) -> None:
    known = states(("a", "b", 1), ("b", "c", 1))
    known["b"] = LinkState("b", 1, 2, neighbours)
    assert reached(known) == ["a"]


def test_a_broker_in_a_new_life_is_reached_by_those_who_know_of_it() -> None:
    known = states(*RING)
    known["c"] = LinkState("c", 2, 1, known["c"].neighbours)  # started again, b and d have not noticed
    assert reached(known) == ["a", "b", "d"]
    renewed = states(*RING, boots={"c": 2})
    assert reached(renewed) == ["a", "b", "c", "d"]


# -- which tree --------------------------------------------------------------------------------------------------------


def test_the_broker_with_the_most_links_is_the_root() -> None:
    assert tree_of(states(*BASE), start="1").root == "3"
    assert tree_of(states(*RING)).root == "a", "the smallest name among equals"


def test_a_wanted_root_is_the_root_where_it_can_be_reached() -> None:
    assert tree_of(states(*BASE), root="6", start="1").root == "6"
    assert tree_of(states(*BASE), root="absent", start="1").root == "3"


def test_everybody_is_reached_by_the_cheapest_path() -> None:
    tree = tree_of(states(("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("d", "a", 9)), root="a")
    assert tree.parent == {"a": None, "b": "a", "c": "b", "d": "c"}
    assert tree.depth == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert tree.children == {"a": ["b"], "b": ["c"], "c": ["d"], "d": []}


def test_among_equal_paths_the_one_with_fewer_links_wins() -> None:
    tree = tree_of(states(("a", "b", 1), ("b", "c", 1), ("a", "c", 2)), root="a")
    assert tree.parent["c"] == "a"


def test_equal_knowledge_has_an_equal_name_wherever_it_is() -> None:
    versions = {tree_of(states(*RING), start=start).version for start in "abcd"}
    backwards = dict(reversed(states(*RING).items()))
    assert versions == {tree_of(backwards).version}


@pytest.mark.parametrize(
    "changed", [states(*RING, seq=2), states(*RING, boots={"b": 2}), states(*RING[:2])], ids=["seq", "boot", "links"]
)
def test_other_knowledge_has_another_name(changed: dict[str, LinkState]) -> None:
    assert tree_of(changed).version != tree_of(states(*RING)).version


def test_a_name_does_not_come_back_when_somebody_came_and_went() -> None:
    """The same brokers can be reached as before, over the same links: and yet it is another tree."""
    known = states(*RING)
    since = {**known, "z": LinkState("z", 1, 5, ())}
    assert tree_of(since).parent == tree_of(known).parent
    assert tree_of(since).version != tree_of(known).version


# -- ways in a tree ----------------------------------------------------------------------------------------------------


def test_neighbours_next_hops_and_distances() -> None:
    tree = tree_of(states(*BASE), start="1")
    assert tree.peers("3") == ["2", "4", "5"]
    assert tree.peers("5") == ["3", "6"]
    assert [tree.next_hop("3", towards) for towards in "12456"] == ["2", "2", "4", "5", "5"]
    assert [tree.next_hop("1", towards) for towards in "23456"] == ["2"] * 5
    assert [tree.hops("1", other) for other in "123456"] == [0, 1, 2, 3, 3, 4]
    assert tree.hops("6", "1") == 4
    assert tree.hops("1", "stranger") == tree.hops("stranger", "1") == -1


# -- the database ------------------------------------------------------------------------------------------------------


def test_newer_is_the_larger_boot_then_the_larger_number() -> None:
    database = LinkStateDatabase("a", 1)
    old, new, reborn = LinkState("b", 1, 1, ()), LinkState("b", 1, 2, ()), LinkState("b", 2, 1, ())
    assert database.merge([old, old]) == [old]
    assert database.merge([new]) == [new]
    assert database.merge([old]) == []
    assert database.merge([reborn, new]) == [reborn]
    assert database.states["b"] is reborn


def test_nobody_knows_our_links_better_than_we_do() -> None:
    database = LinkStateDatabase("a", 1)
    own = database.originate([])
    assert database.merge([LinkState("a", 9, 9, ())]) == []
    assert database.states["a"] is own
    assert database.originate([]).seq == own.seq + 1


def test_a_summary_is_answered_with_what_is_newer() -> None:
    database = LinkStateDatabase("a", 1)
    own = database.originate([])
    database.merge([LinkState("b", 1, 2, ()), LinkState("c", 2, 1, ())])
    assert database.newer_than(database.summary()) == ()
    assert database.newer_than(Summary(())) == tuple(database.states.values())
    assert database.newer_than(Summary((("b", 1, 2), ("c", 1, 9), ("z", 1, 1)))) == (own, database.states["c"])


def test_a_neighbour_nobody_heard_of_means_that_the_map_has_a_hole() -> None:
    database = LinkStateDatabase("a", 1)
    database.originate([Neighbour("b", 0, 1)])
    assert database.unheard()
    database.merge([LinkState("b", 1, 1, (Neighbour("c", 0, 1),))])
    assert database.unheard()
    database.merge([LinkState("c", 1, 1, ())])
    assert not database.unheard()


def test_a_broker_remembered_from_before_a_restart_is_known_by_name_only() -> None:
    database = LinkStateDatabase("a", 2)
    database.remember("b", now=5)
    assert database.absent_since == {"b": 5}
    assert database.remembered_only()
    database.merge([LinkState("b", 1, 1, ())])
    assert not database.remembered_only()


def test_who_is_forgotten_is_not_waited_for_until_it_returns() -> None:
    database = LinkStateDatabase("a", 1)
    database.originate([])
    database.merge([LinkState("b", 1, 1, ()), LinkState("c", 1, 1, ())])
    database.mark_absent({"a": None}, now=10)
    database.mark_absent({"a": None, "c": None}, now=15)
    assert database.forget(now=19, after_us=10) == []
    assert database.forget(now=20, after_us=10) == ["b"]
    database.mark_absent({"a": None}, now=30)
    assert database.absent_since == {"c": 30}
    database.mark_absent({"a": None, "b": None}, now=40)
    database.mark_absent({"a": None}, now=50)
    assert database.absent_since == {"c": 30, "b": 50}
