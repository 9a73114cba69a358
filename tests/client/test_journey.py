"""Where a client goes next, as a decision: no sockets, no clock."""

from __future__ import annotations

import pytest

from latecomer.client.addresses import Address
from latecomer.client.journey import Ended, GaveUp, Journey, Leg, Patience, Refused
from latecomer.messages.mqtt import Reason

A, B, C = (Address("localhost", port, broker) for port, broker in ((1, "a"), (2, "b"), (3, "c")))
NOBODY = Ended()
BROKE = Ended(welcomed=True)


def journey(*given: Address, **patience: float) -> Journey:
    return Journey(given or (A, B, C), Patience(**{"pause_s": 1.0, "pause_max_s": 4.0} | patience))  # type: ignore[arg-type]


def sent(reference: str = "", *, welcomed: bool = False) -> Ended:
    return Ended(reason=Reason.USE_ANOTHER_SERVER, reference=reference, welcomed=welcomed)


def test_all_addresses_and_then_a_pause() -> None:
    walk = journey()
    legs = [walk.begin_anew(), *(walk.ended(NOBODY) for _ in range(5))]
    assert [leg.address for leg in legs[:3]] == [A, B, C]
    assert [bool(leg.pause_s) for leg in legs] == [False, False, False, True, False, False]
    assert {leg.address for leg in legs[3:]} == {A, B, C}


def test_pauses_grow_up_to_a_limit_and_chance_spreads_them() -> None:
    walk, other = journey(A), journey(A)
    assert [walk.ended(NOBODY).pause_s for _ in range(5)] == [1.0, 2.0, 4.0, 4.0, 4.0]
    assert [other.ended(NOBODY, 0.0).pause_s for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]


def test_a_broken_connection_is_made_again_at_the_same_place_first() -> None:
    walk = journey()
    assert walk.ended(BROKE).address == A
    assert [walk.ended(NOBODY).address for _ in range(2)] == [B, C]


def test_a_reference_is_followed_at_once_and_the_next_ones_slower() -> None:
    walk = journey()
    assert walk.ended(sent("localhost:3")) == Leg(C, 0.0)
    assert walk.at.broker == "c"
    assert walk.ended(sent("elsewhere:9")).pause_s > 0
    assert walk.at == Address("elsewhere", 9)
    assert walk.ended(NOBODY).address in (A, B, C)  # nobody is there: back to what it was given


def test_whoever_sends_it_to_itself_is_not_asked_again_at_once() -> None:
    assert journey().ended(sent("localhost:1")).address == B
    alone = journey(A).ended(sent("localhost:1"))
    assert (alone.address, alone.pause_s) == (A, 1.0)


def test_without_a_reference_all_others_are_tried_first() -> None:
    walk = journey()
    assert [walk.ended(sent()).address for _ in range(2)] == [B, C]
    assert walk.ended(sent()).address in (A, B)


def test_patience_with_a_session_that_is_away() -> None:
    busy = Ended(reason=Reason.SERVER_BUSY)
    walk = journey()
    assert [walk.ended(busy).address for _ in range(4)] == [A, A, B, B]


def test_a_connection_that_lasted_ends_the_row() -> None:
    walk = journey(references_max=2)
    for _ in range(10):
        walk.ended(Ended(reason=Reason.USE_ANOTHER_SERVER, welcomed=True, lasted_s=11.0))
    assert walk.references == 1
    walk.ended(sent(welcomed=True))
    with pytest.raises(GaveUp, match=r"3 brokers in a row .* in a circle: .* → localhost:"):
        walk.ended(sent(welcomed=True))


def test_attempts_are_counted() -> None:
    walk = journey(A, attempts_max=3)
    walk.ended(NOBODY)
    walk.ended(Ended(reason=Reason.SERVER_BUSY, welcomed=True))
    with pytest.raises(GaveUp, match="in 3 attempts; the last was localhost:1: the connection broke"):
        walk.ended(BROKE)


@pytest.mark.parametrize(("reason", "welcomed"), [(0x87, False), (0x85, False), (0x8E, True), (0x95, True)])
def test_some_reasons_are_final(reason: int, welcomed: bool) -> None:
    with pytest.raises(Refused, match="localhost:1") as told:
        journey().ended(Ended(reason=reason, welcomed=welcomed))
    assert told.value.reason == reason


@pytest.mark.parametrize("reason", [0x8B, 0x8D, 0x98, 0x00])
def test_others_are_not(reason: int) -> None:
    assert journey().ended(Ended(reason=reason, welcomed=True)).address == A
