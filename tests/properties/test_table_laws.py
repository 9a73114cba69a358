"""Filter tables and their index against definitions that anybody can check, whatever happened before."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.index import FilterIndex, strictly_covers
from latecomer.core.table import SELF, FilterTable
from latecomer.model.filters import Filter, filter_matches, filter_satisfiable, parse_filter
from latecomer.model.topics import topic_matches

PEERS: Final = ("b", "c", "d")
SOURCES: Final = (SELF, *PEERS)
LEVELS: Final = ("a", "b", "", "$s")
WHERES: Final = ("", "", " ? v > 3", " ? v > 5", " ? v = 4", " ? v in (4, 5)", ' ? k prefix "x"')

NOTHING: Final = " ? v > 3 and v < 3"


def joined(parts: list[str], end: list[str], where: str) -> Filter:
    return parse_filter(("/".join(parts + end) or "a") + where)


filters: Final = st.builds(
    joined,
    st.lists(st.sampled_from((*LEVELS, "+")), min_size=1, max_size=3),
    st.sampled_from(([], [], ["#"])),
    st.sampled_from(WHERES),
)
nothing: Final = st.builds(joined, st.lists(st.sampled_from(LEVELS), min_size=1), st.just([]), st.just(NOTHING))
few_filters: Final = st.lists(filters | nothing, min_size=1, max_size=8, unique=True)
topics: Final = st.lists(st.sampled_from((*LEVELS, "z")), min_size=1, max_size=4).map(
    lambda parts: "/".join(parts) or "a"
)
moves: Final = st.lists(st.tuples(st.booleans(), st.sampled_from(SOURCES), st.integers(0, 7)), max_size=25)


def texts(some: object) -> list[str]:
    assert isinstance(some, list | tuple | dict)
    return sorted(map(str, some))


class Model:
    """What the table should hold and tell, from the definition alone."""

    def __init__(self, covering: bool, forbidden: dict[str, Filter | None]) -> None:
        self.covering = covering
        self.forbidden = forbidden
        self.held: dict[tuple[str, Filter], None] = {}

    def permits(self, filter: Filter, peer: str) -> bool:
        return self.forbidden.get(peer) != filter

    def told(self, peer: str) -> list[str]:
        """The filters held elsewhere that can match and are permitted towards the neighbour, without those that another
        such filter covers."""
        elsewhere = {filter for source, filter in self.held if source != peer}
        offered = {f for f in elsewhere if filter_satisfiable(f) and self.permits(f, peer)}
        if self.covering:
            offered = {f for f in offered if not any(strictly_covers(other, f) for other in offered)}
        return sorted(map(str, offered))


@given(few_filters, moves, st.booleans(), st.sampled_from(PEERS), st.booleans())
@settings(max_examples=250)
def test_what_is_told_is_the_definition_after_every_step(
    pool: list[Filter], moves: list[tuple[bool, str, int]], covering: bool, choosy: str, forbids: bool
) -> None:
    model = Model(covering, {choosy: pool[0] if forbids else None})
    table = FilterTable(covering, model.permits)
    told: dict[str, dict[Filter, None]] = {peer: {} for peer in PEERS}
    for add, source, pick in moves:
        filter = pool[pick % len(pool)]
        known = (source, filter) in model.held
        if add:
            assert table.add(source, filter) != known
            model.held[source, filter] = None
        else:
            assert table.remove(source, filter) == known
            model.held.pop((source, filter), None)
        affected = table.affected([filter])
        for peer in PEERS:
            before = dict(told[peer])
            added, dropped = table.change(told[peer], peer, affected)
            assert texts(told[peer]) == model.told(peer)
            assert not set(added) & before.keys()
            assert set(dropped) <= before.keys()
            assert {*before, *added} - set(dropped) == told[peer].keys()
            assert table.resync(told[peer], peer) == ((), ()), "there is nothing more to say"
            afresh: dict[Filter, None] = {}
            table.resync(afresh, peer)
            assert texts(afresh) == model.told(peer)
        for other in SOURCES:
            assert texts(table.of(other)) == sorted(str(f) for s, f in model.held if s == other)
    take_everything_back(table, model, told)


def take_everything_back(table: FilterTable, model: Model, told: dict[str, dict[Filter, None]]) -> None:
    for source, filter in model.held:
        table.remove(source, filter)
        for peer in PEERS:
            table.change(told[peer], peer, table.affected([filter]))
    assert table == FilterTable(model.covering, model.permits)
    assert all(not said for said in told.values())


@given(few_filters, moves, st.booleans())
@settings(max_examples=100)
def test_a_new_tree_is_told_as_a_difference(
    pool: list[Filter], moves: list[tuple[bool, str, int]], covering: bool
) -> None:
    model = Model(covering, {})
    table = FilterTable(covering, model.permits)
    told: dict[Filter, None] = {}
    for position, (add, source, pick) in enumerate(moves):
        filter = pool[pick % len(pool)]
        (table.add if add else table.remove)(source, filter)
        if add:
            model.held[source, filter] = None
        else:
            model.held.pop((source, filter), None)
        if position % 5 == 4:
            table.keep_only_self()
            model.held = {(s, f): None for s, f in model.held if s == SELF}
        if position % 2:
            table.resync(told, "b")
            assert texts(told) == model.told("b")


@pytest.mark.parametrize("pair", [("a ? v > 3 and v < 3", "b"), ("$s/b ? v > 3 and v < 3", "+/b")], ids=str)
def test_what_matches_nothing_is_told_to_nobody(pair: tuple[str, str]) -> None:
    nothing, other = map(parse_filter, pair)
    table = FilterTable(True, lambda filter, peer: True)
    told: dict[Filter, None] = {}
    for filter in (nothing, other):
        table.add(SELF, filter)
        table.change(told, "b", table.affected([filter]))
    assert list(told) == [other]
    assert table.resync(told, "b") == ((), ())


# -- the index (filters that can match: the others are told to nobody) -------------------------------------------------

changes: Final = st.lists(st.tuples(st.booleans(), filters), max_size=20)


def filled(changes: list[tuple[bool, Filter]]) -> tuple[FilterIndex, dict[Filter, None]]:
    """An index with a history, and what is in it now."""
    index, present = FilterIndex(), dict[Filter, None]()
    for add, filter in changes:
        if add and filter not in present:
            present[filter] = None
            index.add(filter)
        elif not add and filter in present:
            del present[filter]
            index.remove(filter)
    return index, present


@given(changes, topics, st.fixed_dictionaries({}, optional={"v": st.integers(2, 7), "k": st.sampled_from(["x", "y"])}))
@settings(max_examples=400)
def test_matches_are_those_of_the_definition(
    changes: list[tuple[bool, Filter]], topic: str, attributes: dict[str, int | str]
) -> None:
    index, present = filled(changes)
    found = index.match(topic)
    assert texts(found) == texts([f for f in present if topic_matches(f.topic, topic)])
    wanted = [f for f in found if f.where is None or f.where.matches(attributes)]
    assert texts(wanted) == texts([f for f in present if filter_matches(f, topic, attributes)])


@given(changes, filters)
@settings(max_examples=400)
def test_covering_and_covered_are_those_of_the_definition(changes: list[tuple[bool, Filter]], asked: Filter) -> None:
    index, present = filled(changes)
    for filter in (asked, *present):
        assert texts(index.covering(filter)) == texts([f for f in present if strictly_covers(f, filter)])
        assert texts(index.covered(filter)) == texts([f for f in present if strictly_covers(filter, f)])


@given(st.lists(filters, max_size=8))
@settings(max_examples=200)
def test_covering_is_a_strict_order(pool: list[Filter]) -> None:
    """No circle of filters that stand for one another: then none of them would be told."""
    for a in pool:
        assert not strictly_covers(a, a)
        for b in pool:
            assert not (strictly_covers(a, b) and strictly_covers(b, a))
            for c in pool:
                assert strictly_covers(a, c) or not (strictly_covers(a, b) and strictly_covers(b, c))


@given(changes)
@settings(max_examples=100)
def test_an_emptied_index_is_empty(changes: list[tuple[bool, Filter]]) -> None:
    index, present = filled(changes)
    for filter in present:
        index.remove(filter)
    assert index == FilterIndex()
