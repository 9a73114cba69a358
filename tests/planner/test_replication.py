"""How many replicas: the rules of planning §6, and what they do at their ends."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from latecomer.planner.replication import Asked, ByWeight, Fixed, Given, SharedSlots, WeightWithin

WEIGHTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=8)


def asked(weights: list[int], ceiling: int, room: int | None = None, size: int = 1) -> Asked:
    count = len(weights)
    return Asked(tuple(weights), (ceiling,) * count, (size,) * count, room)


def test_by_weight_is_the_formula() -> None:
    """Zipf with exponent 1 and ten topics (S4): the lightest has a tenth of the heaviest."""
    weights = [2520 // rank for rank in range(1, 11)]
    assert ByWeight(2).replicas(asked(weights, 100)).tolist() == [20, 10, 6, 5, 4, 3, 2, 2, 2, 2]
    assert ByWeight(2).replicas(asked(weights, 8)).tolist() == [8, 8, 6, 5, 4, 3, 2, 2, 2, 2]


def test_nobody_asks_and_there_is_still_one() -> None:
    assert ByWeight(2).replicas(asked([0, 5, 10], 9)).tolist() == [2, 2, 4]
    assert ByWeight(1).replicas(asked([0, 0], 9)).tolist() == [1, 1]
    assert SharedSlots().replicas(asked([0, 5, 5], 9, room=9)).tolist() == [1, 4, 4]


def test_slots_are_shared_by_weight() -> None:
    assert SharedSlots().replicas(asked([6, 3, 1], 20, room=10)).tolist() == [6, 3, 1]
    assert SharedSlots().replicas(asked([1, 1, 1], 20, room=10)).tolist() == [4, 3, 3]
    assert SharedSlots().replicas(asked([98, 1, 1], 4, room=9)).tolist() == [4, 3, 2]
    assert SharedSlots(2).replicas(asked([98, 1, 1], 20, room=9)).tolist() == [5, 2, 2]


def test_fixed_and_given() -> None:
    assert Fixed(3).replicas(asked([1, 2], 9)).tolist() == [3, 3]
    assert Given((1, 4)).replicas(asked([1, 2], 9)).tolist() == [1, 4]


def test_weight_within_shares_only_when_it_must() -> None:
    weights = [40, 20, 10]
    assert WeightWithin(2).replicas(asked(weights, 9, room=14)).tolist() == [8, 4, 2]
    assert WeightWithin(2).replicas(asked(weights, 9, room=None)).tolist() == [8, 4, 2]
    assert WeightWithin(2).replicas(asked(weights, 9, room=10)).tolist() == [5, 3, 2]


def test_what_is_given_or_pinned_is_settled_before_the_rule() -> None:
    question = msgspec.structs.replace(asked([6, 3, 1], 20, room=10), given=(0, 0, 4), pinned=(0, 3, 0))
    assert SharedSlots().replicas(question).tolist() == [3, 3, 4]
    assert WeightWithin(1).replicas(question).tolist() == [3, 3, 4]
    assert ByWeight(1).replicas(question).tolist() == [6, 3, 4]


@given(weights=WEIGHTS, ceiling=st.integers(1, 9), spare=st.integers(0, 40))
def test_shared_slots_are_all_used_and_more_never_take_from_anybody(
    weights: list[int], ceiling: int, spare: int
) -> None:
    room = len(weights) + spare
    found = SharedSlots().replicas(asked(weights, ceiling, room))
    more = SharedSlots().replicas(asked(weights, ceiling, room + 1))
    assert (found >= 1).all()
    assert (found <= ceiling).all()
    wanting = [k for k, weight in zip(found.tolist(), weights, strict=True) if weight and k < ceiling]
    assert found.sum() == room or (found.sum() < room and not wanting)
    assert (more >= found).all()


@given(weights=WEIGHTS, ceiling=st.integers(1, 9), spare=st.integers(0, 40))
def test_a_heavier_topic_never_has_fewer(weights: list[int], ceiling: int, spare: int) -> None:
    question = asked(sorted(weights, reverse=True), ceiling, len(weights) + spare)
    for rule in (ByWeight(), SharedSlots(), WeightWithin(1)):
        found = rule.replicas(question).tolist()
        assert found == sorted(found, reverse=True)
