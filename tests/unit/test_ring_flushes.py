"""Flushes: what goes behind all that was sent on the ways of events, on a ring of four (`ring_hand`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latecomer.core.passage import Passage
from latecomer.core.ring.family import Family
from latecomer.core.ring.flushes import Flushes
from latecomer.core.ring.keys import Keys
from latecomer.messages.link import SessionFrame
from latecomer.messages.ring import Flush, Flushed, FlushWanted
from latecomer.model.ids import BrokerId
from tests.unit.ring_hand import PINS, family_on

RING = family_on("abcd", "b")
"""Trees: a to b and c, c to d; b to c and d, d to a; c to d and a, a to b; d to a and b, b to c. The agreed one: b to
all."""
OPEN = family_on("abcd", "b", without=[("c", "d")])


class Station:
    """The flushes of one broker."""

    def __init__(self, broker: BrokerId, family: Family | None = RING, *, keys: bool = True) -> None:
        self.sent: list[tuple[BrokerId, SessionFrame]] = []
        self.rejected: list[tuple[BrokerId, str]] = []
        self.done: list[str] = []
        tree = None if family is None else family.agreed
        peers = [] if tree is None else tree.peers(broker)
        self.interest = SimpleNamespace(family=family, tree=tree, peers=peers, ready=True)
        neighbours = SimpleNamespace(
            send=lambda peer, frame: self.sent.append((peer, frame)),
            reject=lambda peer, reason: self.rejected.append((peer, reason)),
        )
        parts = (cast(Any, neighbours), cast(Any, self.interest))
        self.flushes = Flushes(broker, *parts, Passage(broker, *parts), Keys(1, PINS) if keys else None)

    def told(self) -> list[tuple[BrokerId, SessionFrame]]:
        sent, self.sent = self.sent, []
        return sent

    def behind(self, broker: BrokerId, *topics: str) -> None:
        self.flushes.behind(broker, lambda: self.done.append(broker), *topics)

    def climb(self, *slots: int) -> None:
        self.flushes.climb(slots, lambda: self.done.append("roots"))


# --- wanted of another broker -------------------------------------------------------------------------------------


def test_a_flush_is_wanted_in_the_tree_of_the_filter() -> None:
    station = Station("a")
    station.behind("c", "kd/1")
    assert station.told() == [("b", FlushWanted("a", "c", 1, ("d",)))]
    assert station.done == []


def test_of_a_filter_that_crosses_slots_in_all_trees() -> None:
    station = Station("a")
    station.behind("c", "#")
    station.behind("c")
    assert station.told() == [("b", FlushWanted("a", "c", number, ("a", "b", "c", "d"))) for number in (1, 2)]


def test_the_first_filter_inside_a_slot_says_enough() -> None:
    """Nothing matters that one of them does not match."""
    station = Station("a")
    station.behind("c", "#", "kb/+")
    assert station.told() == [("b", FlushWanted("a", "c", 1, ("b",)))]


@pytest.mark.parametrize("family", [OPEN, None])
def test_where_one_tree_carries_all_there_is_nothing_to_wait_for(family: Family | None) -> None:
    station = Station("a", family, keys=family is not None)
    station.behind("c", "kd/1")
    station.climb(PINS["kd"])
    assert station.done == ["c", "roots"]
    assert station.told() == []


def test_nor_is_there_of_oneself() -> None:
    station = Station("a")
    station.behind("a", "kd/1")
    assert station.done == ["a"]


def test_who_is_asked_sends_it_along_each_tree() -> None:
    """One frame for each neighbour to which the ways part. From c to a: by d in the tree of b, and in that of d by b
    and d; at once in those of a and c."""
    station = Station("c")
    station.flushes.on_wanted("b", FlushWanted("a", "c", 9, ("a", "b", "c", "d")))
    assert station.told() == [
        ("a", Flush("c", "a", 9, ("a", "c"))),
        ("b", Flush("c", "a", 9, ("b", "d"))),
    ]


def test_ways_that_are_the_same_are_gone_together() -> None:
    """At b the way in its own tree goes on to d, as does the one in the tree of d."""
    station = Station("b")
    station.flushes.on_flush("c", Flush("c", "a", 9, ("b", "d")))
    assert station.told() == [("d", Flush("c", "a", 9, ("b", "d")))]
    last = Station("d")
    last.flushes.on_flush("b", Flush("c", "a", 9, ("b", "d")))
    assert last.told() == [("a", Flush("c", "a", 9, ("b", "d")))]


def walk(sender: BrokerId, receiver: BrokerId, roots: Sequence[BrokerId], family: Family = RING) -> list[str]:
    """Flush along real stations; the roots in the order in which they arrive."""
    stations = {broker: Station(broker, family) for broker in family.order}
    stations[receiver].behind(sender)
    number = stations[receiver].flushes.number
    stations[receiver].told()
    stations[sender].flushes._send(Flush(sender, receiver, number, tuple(roots)))
    arrived: list[str] = []
    todo = [(sender, to, frame) for to, frame in stations[sender].told()]
    for here, to, frame in todo:
        assert isinstance(frame, Flush)
        if to == receiver:
            arrived += frame.roots
        stations[to].flushes.on_flush(here, frame)
        assert stations[to].rejected == []
        todo += [(to, onward, more) for onward, more in stations[to].told()]
    assert (stations[receiver].done == [sender]) == (sorted(arrived) == sorted(family.roots()))
    return arrived


@pytest.mark.parametrize("order", ["abcd", "badcfe", "hcegabdf"])
def test_every_root_arrives_once_between_any_two(order: str) -> None:
    family = family_on(order, "a")
    assert family.ring
    for sender in order:
        for receiver in order:
            if sender != receiver:
                assert sorted(walk(sender, receiver, family.roots(), family)) == sorted(family.roots())


def test_who_wanted_it_goes_on_when_all_parts_have_come() -> None:
    station = Station("a")
    station.behind("c")
    station.flushes.on_flush("c", Flush("c", "a", 1, ("a", "c")))
    assert station.done == []
    station.flushes.on_flush("c", Flush("c", "a", 1, ("a", "c")))  # nobody says it twice, but it would not matter
    assert station.done == []
    station.flushes.on_flush("d", Flush("c", "a", 1, ("b", "d")))
    assert station.done == ["c"]
    assert station.flushes.coming == {}


def test_a_flush_that_nobody_waits_for_is_nothing() -> None:
    station = Station("a")
    station.behind("b", "ka/1")
    station.flushes.on_flush("c", Flush("c", "a", 1, ("a",)))  # the number is of one that b was asked for
    station.flushes.on_flush("c", Flush("c", "a", 5, ("a",)))
    assert (station.done, station.rejected) == ([], [])
    assert list(station.flushes.coming) == [1]


@pytest.mark.parametrize(
    ("peer", "frame"),
    [
        ("b", Flush("c", "a", 1, ("a",))),  # in the tree of a, c is not behind b
        ("d", Flush("c", "a", 1, ("a", "d"))),  # nor behind d, although it is in the tree of d
        ("c", Flush("a", "c", 1, ("a",))),  # of the broker itself
        ("c", Flush("d", "c", 1, ("a",))),  # back to where it came from
        ("c", Flush("c", "a", 1, ("z",))),  # in the tree of nobody
    ],
)
def test_forged_routes_are_rejected(peer: BrokerId, frame: Flush) -> None:
    station = Station("a")
    station.behind("c", "ka/1")
    station.told()
    station.flushes.on_flush(peer, frame)
    assert station.rejected == [(peer, f"bad route of a flush between {frame.from_broker} and {frame.to}")]
    assert (station.told(), station.done) == ([], [])


def test_wishes_on_forged_routes_are_rejected_too() -> None:
    station = Station("b")
    station.flushes.on_wanted("a", FlushWanted("c", "b", 1, ("a",)))
    station.flushes.on_flushed("a", Flushed("c", "d", 1, ("a",)))
    assert [peer for peer, _ in station.rejected] == ["a", "a"]
    assert station.told() == []


def test_brokers_that_are_not_there_get_nothing() -> None:
    station = Station("a")
    station.flushes.on_flush("c", Flush("z", "a", 1, ("a",)))
    station.flushes.on_flush("c", Flush("c", "z", 1, ("a",)))
    station.flushes.on_wanted("b", FlushWanted("z", "a", 1, ("a",)))
    station.flushes.on_wanted("b", FlushWanted("c", "a", 1, ("z",)))  # answered in no tree
    assert (station.told(), station.rejected) == ([], [])


def test_flushes_live_in_one_tree() -> None:
    station = Station("a")
    station.behind("c")
    station.climb(PINS["kd"])
    station.flushes.tree_lost()
    station.told()
    assert station.flushes.coming == station.flushes.climbing == {}
    station.flushes.on_flush("c", Flush("c", "a", 1, ("a", "c")))
    station.flushes.on_flush("d", Flush("c", "a", 1, ("b", "d")))
    station.flushes.on_flushed("b", Flushed("d", "a", 2, ("d",)))
    assert station.done == []
    station.interest.ready = False
    station.flushes.on_flush("d", Flush("d", "c", 1, ("c",)))
    assert (station.told(), station.rejected) == ([], [])


# --- to roots -----------------------------------------------------------------------------------------------------


def test_a_climb_ends_when_all_roots_have_answered() -> None:
    station = Station("a")
    station.climb(PINS["ka"], PINS["kb"], PINS["kc"], PINS["kd"], PINS["kd"] - 1)
    assert station.told() == [
        ("d", Flush("a", "b", 1, ("b",), True)),
        ("c", Flush("a", "c", 1, ("c",), True)),
        ("d", Flush("a", "d", 1, ("d",), True)),
    ]
    for root in "bc":
        station.flushes.on_flushed("b", Flushed(root, "a", 1, (root,)))
    assert station.done == []
    station.flushes.on_flushed("b", Flushed("c", "a", 1, ("d",)))  # c does not speak for d
    assert station.done == []
    station.flushes.on_flushed("b", Flushed("d", "a", 1, ("d",)))
    assert station.done == ["roots"]
    station.flushes.on_flushed("b", Flushed("d", "a", 1, ("d",)))
    assert station.done == ["roots"]


def test_one_that_is_the_root_itself_need_not_climb() -> None:
    station = Station("a")
    station.climb(PINS["ka"])
    station.climb()
    assert station.done == ["roots", "roots"]
    assert station.told() == []


def test_a_root_answers_along_the_agreed_tree() -> None:
    station = Station("d")
    station.flushes.on_flush("a", Flush("a", "d", 4, ("d",), True))
    assert station.told() == [("b", Flushed("d", "a", 4, ("d",)))]


def test_who_is_on_the_way_hands_a_climb_on() -> None:
    station = Station("d")
    station.flushes.on_flush("a", Flush("a", "b", 4, ("b",), True))
    assert station.told() == [("b", Flush("a", "b", 4, ("b",), True))]
    between = Station("b")
    between.flushes.on_flushed("d", Flushed("d", "a", 4, ("d",)))
    assert between.told() == [("a", Flushed("d", "a", 4, ("d",)))]
