"""The Advertisement Table of one broker, neighbour by neighbour: what it holds, what it tells, what it takes back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from latecomer.core.advertisements import BATCH_MAX, Advertisements, Nearest
from latecomer.core.effects import Note
from latecomer.core.orders import Orders
from latecomer.core.table import SELF
from latecomer.messages.link import SessionFrame, StoreAdvertise, StoreWithdraw
from latecomer.model.record import Kind

T = "t/#"


@dataclass
class Bench:
    """A table whose neighbours are the test."""

    sent: list[tuple[str, SessionFrame]] = field(default_factory=list)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    changes: int = 0
    orders: Orders = field(default_factory=lambda: Orders("a", 1))
    table: Advertisements = field(init=False)

    def __post_init__(self) -> None:
        def changed() -> None:
            self.changes += 1

        self.table = Advertisements(
            self.orders,
            lambda peer, frame: self.sent.append((peer, frame)),
            lambda peer, why: self.rejected.append((peer, why)),
            changed,
            5000,
        )

    def told(self) -> list[tuple[str, SessionFrame]]:
        """What has been told since the last time."""
        sent, self.sent = self.sent, []
        return sent

    def says(self, peer: str, hops: int, topics: str = T) -> None:
        self.table.on_advertise(peer, StoreAdvertise(((topics, hops),)))

    def verdicts(self) -> list[str]:
        return [
            effect.record.detail
            for effect in self.orders.effects
            if isinstance(effect, Note) and effect.record.kind is Kind.TABLED
        ]


def bench(*peers: str, size: int = 10) -> Bench:
    """In a tree that is complete, and without stores."""
    made = Bench()
    for peer in peers:
        made.table.link_fresh(peer)
    made.table.adopt(list(peers), size)
    for peer in peers:
        made.table.complete(peer)
        made.table.completed(peer)
    assert made.told() == []
    return made


def advertise(hops: int, topics: str = T) -> StoreAdvertise:
    return StoreAdvertise(((topics, hops),))


# -- the papers' rule --------------------------------------------------------------------------------------------------


def test_the_first_one_is_entered_and_told_on_but_not_back() -> None:
    made = bench("b", "c", "d")
    made.says("b", 3)
    assert made.table.table == {T: Nearest(3, ("b",))}
    assert made.told() == [("c", advertise(4)), ("d", advertise(4))]
    assert made.verdicts() == ["closer"]


@pytest.mark.parametrize(
    ("hops", "entry", "told", "verdict"),
    [
        (2, Nearest(2, ("c",)), [("b", advertise(3)), ("d", advertise(3))], "closer"),
        (3, Nearest(3, ("b", "c")), [], "equal"),
        (4, Nearest(3, ("b",)), [], "further"),
    ],
)
def test_closer_takes_the_place_equal_stands_beside_further_is_left_out(
    hops: int, entry: Nearest, told: list[tuple[str, SessionFrame]], verdict: str
) -> None:
    made = bench("b", "c", "d")
    made.says("b", 3)
    made.told()
    made.says("c", hops)
    assert made.table.table == {T: entry}
    assert made.told() == told, "closer is forwarded; equal and further are not"
    assert made.verdicts() == ["closer", verdict]


def test_what_was_further_is_known_when_the_nearest_goes() -> None:
    made = bench("b", "c", "d")
    made.says("b", 2)
    made.says("c", 5)
    made.told()
    made.table.on_withdraw("b", StoreWithdraw((T,)))
    assert made.table.table == {T: Nearest(5, ("c",))}
    told = made.told()
    assert ("b", advertise(6)) in told
    assert ("d", advertise(6)) in told
    assert ("c", StoreWithdraw((T,))) in told, "there is nothing but its own side any more"


def test_a_store_that_moves_away_takes_the_place_of_its_own_word() -> None:
    made = bench("b", "c")
    made.says("b", 2)
    made.says("b", 4)
    assert made.table.table == {T: Nearest(4, ("b",))}
    assert made.told() == [("c", advertise(3)), ("c", advertise(5))]


def test_the_last_one_withdrawn_leaves_nothing() -> None:
    made = bench("b", "c")
    made.says("b", 2)
    made.told()
    made.table.on_withdraw("b", StoreWithdraw((T, "never/told")))
    assert made.table.table == {}
    assert made.told() == [("c", StoreWithdraw((T,)))]
    assert made.verdicts() == ["closer", "withdrawn"]
    assert made.table.way(T) is None


def test_the_own_store_is_no_hops_away() -> None:
    made = bench("b", "c")
    made.table.open([T])
    assert made.table.table == {T: Nearest(0, (SELF,))}
    assert made.table.way(T) == SELF
    assert made.told() == [("b", advertise(1)), ("c", advertise(1))]
    made.table.open([T])
    assert made.told() == []
    made.table.close([T, "other"])
    assert made.told() == [("b", StoreWithdraw((T,))), ("c", StoreWithdraw((T,)))]
    assert made.table.table == {}


def test_what_is_told_of_the_own_store_stays_true_whoever_is_nearer_elsewhere() -> None:
    made = bench("b", "c")
    made.says("b", 1)
    made.told()
    made.table.open([T])
    assert made.told() == [("b", advertise(1)), ("c", advertise(1))]
    made.table.on_withdraw("b", StoreWithdraw((T,)))
    assert made.told() == []


def test_an_offer_that_grows_longer_is_taken_back_from_who_has_a_nearer_one() -> None:
    made = bench("b", "c", "d")
    made.says("b", 4)
    made.says("c", 4)  # nothing is told: the others know of something as near
    made.says("d", 4)
    assert made.told() == [("c", advertise(5)), ("d", advertise(5))]
    made.says("b", 6)
    assert made.table.table == {T: Nearest(4, ("c", "d"))}
    assert made.told() == [("b", advertise(5))]


# -- questions ---------------------------------------------------------------------------------------------------------


def test_equal_entries_take_turns() -> None:
    made = bench("b", "c", "d")
    for peer in ("b", "c", "d"):
        made.says(peer, 2)
    assert [made.table.way(T) for _ in range(6)] == ["b", "c", "d", "b", "c", "d"]
    assert {made.table.way(T, came_from="c") for _ in range(4)} == {"b", "d"}


def test_no_request_goes_back_where_it_came_from() -> None:
    made = bench("b", "c")
    made.says("b", 2)
    assert made.table.way(T, came_from="c") == "b"
    assert made.table.way(T, came_from="b") is None
    assert made.table.way("other", came_from="b") is None


def test_when_the_nearest_does_not_answer_another_is_tried() -> None:
    made = bench("b", "c")
    made.says("b", 2)
    made.says("c", 5)
    failed: list[str | None] = []
    for _ in range(4):
        failed.append(made.table.way(T, failed=failed))
    assert failed == ["b", "c", "b", "c"]
    assert made.table.way("other", failed=["b"]) is None


@pytest.mark.parametrize(
    ("asked", "classes"),
    [
        ("a/b", ["a/#"]),
        ("a/#", ["a/#"]),
        ("+/b", ["a/#", "c/b"]),
        ("#", ["a/#", "c/b"]),
        ("c/+", ["c/b"]),
        ("x", []),
    ],
)
def test_classes_that_together_hold_what_is_asked_for(asked: str, classes: list[str]) -> None:
    made = bench("b", "c")
    made.says("b", 2, "a/#")
    made.says("b", 2, "a/b/+")
    made.says("c", 4, "c/b")
    assert made.table.classes_for(asked) == classes


def test_of_classes_that_hold_everything_the_nearest_one_does() -> None:
    made = bench("b", "c")
    made.says("b", 3, "#")
    made.says("c", 2, "a/#")
    assert made.table.classes_for("a/b") == ["a/#"]
    made.says("b", 1, "#")
    assert made.table.classes_for("a/b") == ["#"]
    assert made.table.stored("a/b")
    assert not made.table.stored("$x")


def test_two_names_of_the_same_topics_are_asked_once() -> None:
    made = bench("b")
    made.says("b", 3, "+/#")
    made.says("b", 3, "#")
    made.says("b", 3, "$s/#")
    assert made.table.classes_for("#") == ["#"]


# -- trees and links ---------------------------------------------------------------------------------------------------


def test_another_tree_begins_with_the_own_store_alone() -> None:
    made = bench("b", "c")
    made.table.open(["own"])
    made.says("b", 3)
    made.told()
    made.table.adopt(["b", "c"], 10)
    assert made.table.table == {"own": Nearest(0, (SELF,))}
    made.says("b", 4)
    made.table.open(["more"])
    assert made.told() == [], "nothing is told before it can be complete"
    made.table.completed("b")
    assert made.table.table[T] == Nearest(4, ("b",))
    made.table.complete("c")
    assert made.told() == [("c", StoreAdvertise((("more", 1), (T, 5))))], "the difference to the tree before"


def test_what_is_no_longer_offered_in_another_tree_is_taken_back() -> None:
    made = bench("b", "c")
    made.says("b", 3)
    made.told()
    made.table.on_withdraw("b", StoreWithdraw((T,)))
    made.says("b", 3)
    made.told()
    made.table.adopt(["c"], 10)
    made.table.complete("c")
    assert made.told() == [("c", StoreWithdraw((T,)))]


def test_a_fresh_session_knows_nothing() -> None:
    made = bench("b", "c")
    made.table.open([T])
    made.says("b", 3, "far")
    made.told()
    made.table.link_fresh("b")
    assert "far" not in made.table.table
    assert made.table.way("far") is None
    made.table.adopt(["b", "c"], 10)
    made.table.complete("b")
    assert made.told() == [("b", advertise(1))]


def test_a_neighbour_that_is_gone_is_forgotten() -> None:
    made = bench("b", "c")
    made.says("b", 3)
    made.table.link_down("b")
    assert made.table.table == {}
    made.table.link_down("b")
    made.table.open(["own"])
    assert [peer for peer, _ in made.told() if peer == "b"] == []


def test_routes_are_void_when_other_topics_are_stored_and_only_then() -> None:
    made = bench("b", "c")
    made.says("b", 3)
    assert made.changes == 1
    made.says("b", 4)
    made.says("c", 2)
    assert made.changes == 1
    made.table.on_withdraw("b", StoreWithdraw((T,)))
    assert made.changes == 1
    made.table.on_withdraw("c", StoreWithdraw((T,)))
    assert made.changes == 2


def test_many_classes_are_told_in_frames_that_links_carry() -> None:
    made = bench("b")
    names = [f"t/{number}" for number in range(BATCH_MAX + 1)]
    made.table.open(names)
    made.table.close(names)
    told = [frame for _, frame in made.told()]
    sizes = [len(frame.entries if isinstance(frame, StoreAdvertise) else frame.topics) for frame in told]  # type: ignore[union-attr]
    assert sizes == [BATCH_MAX, 1, BATCH_MAX, 1]


# -- bad input 25 ------------------------------------------------------------------------------------------------------


def test_more_classes_than_the_limit_end_the_link() -> None:
    made = bench("b")
    made.table.on_advertise("b", StoreAdvertise(tuple((f"t/{number}", 1) for number in range(5001))))
    assert made.rejected == [("b", "it tells of more than 5000 topic classes, which core.filters_max allows")]
    assert made.table.table == {}


def test_a_distance_that_cannot_be_ends_the_link() -> None:
    made = bench("b", "c", size=3)
    made.says("b", 2)
    assert made.rejected == []
    made.says("b", 3, "other")
    assert made.rejected == [("b", "it tells of a store 3 hops away among 3 brokers")]
    assert "other" not in made.table.table


def test_nor_is_it_believed_when_it_was_told_before_the_tree_was_complete() -> None:
    made = Bench()
    made.table.link_fresh("b")
    made.table.adopt(["b"], 2)
    made.says("b", 7)
    assert made.rejected == [], "it may have been said of the tree before"
    made.table.completed("b")
    assert made.rejected == [("b", "it tells of a store 7 hops away among 2 brokers")]
    assert made.table.table == {}


def test_a_broker_whose_nearest_is_behind_the_asker_knows_a_further_one() -> None:
    """A store that is not where it was advertised must not hide another one."""
    made = bench("b", "c", "d")
    made.says("b", 1)
    made.says("c", 4)
    assert made.table.way(T, came_from="b") == "c"
