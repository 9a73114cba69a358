"""A store that is told to keep other topics while it runs: what it answers meanwhile, and what is said of it."""

from __future__ import annotations

import msgspec
import pytest

from latecomer.core.class_row import NOT_YET
from latecomer.core.effects import CarryOut, Disconnect, Effect, Lookup, Report
from latecomer.core.inputs import CarriedOut, Found, StoreAssigned, Wanted
from latecomer.core.replicas import CATCH_UP_US
from latecomer.messages.link import (
    Adopted,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Keeping,
    ResponseEnd,
    StoreWithdraw,
    Subscribe,
)
from latecomer.model.history import Page
from latecomer.model.ids import NUMBER_MAX
from tests.unit.hand import frames, of
from tests.unit.replica_hand import BASE, Other, alive, held, network, row, word, words
from tests.unit.store_hand import CLASS, SECOND, StoreHand, past, request

OTHER = "u/#"


def keeping(hand: StoreHand, *topics: str) -> StoreHand:
    """These are kept since the beginning of time, and answered for."""
    hand.keep(*topics)
    return hand


def ends(effects: list[Effect], peer: str = "b") -> list[ResponseEnd]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, ResponseEnd)]


# -- withdrawing -------------------------------------------------------------------------------------------------------


def test_an_answer_that_has_begun_goes_on_when_its_class_is_withdrawn() -> None:
    hand = keeping(network(), CLASS, OTHER)
    [lookup] = of(hand.hear("b", request("d", "db")), Lookup)
    effects = hand.tell(StoreAssigned((OTHER,)))
    assert StoreWithdraw((CLASS,)) in frames(effects, "b")
    assert ends(effects) == []
    [end] = ends(hand.tell(Found(lookup.token, Page((past("d", 1, 1),), None))))
    assert (end.final, end.problem, end.from_us) == (True, "", 1), "it is as complete as it was"
    assert hand.broker.history.store.retiring == {}
    [refused] = ends(hand.hear("b", request("d", "db", 2)))
    assert (refused.final, refused.problem) == (False, "the way ends here")


def test_what_a_retiring_class_lacked_is_said() -> None:
    hand = network()
    hand.keep(CLASS, since=BASE)
    asked = msgspec.structs.replace(request("d", "db").query, since_us=5)
    [lookup] = of(hand.hear("b", request("d", "db", asked=asked)), Lookup)
    hand.tell(StoreAssigned(()))
    [end] = ends(hand.tell(Found(lookup.token, Page((), None))))
    assert (end.from_us, end.problem) == (BASE, "the store does not reach back so far")


def test_who_waits_for_the_tree_to_settle_is_sent_elsewhere() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.hear("b", request("d", "db"))
    [end] = ends(hand.tell(StoreAssigned(())))
    assert (end.final, end.problem) == (False, f"a no longer keeps {CLASS}")
    assert hand.broker.history.store.retiring == {}


# -- filling -----------------------------------------------------------------------------------------------------------


def test_what_is_answered_for_goes_on_while_something_else_is_filled() -> None:
    hand = keeping(network(word("e", 1, OTHER, since=7)), CLASS)
    other = Other(hand)
    effects = hand.tell(StoreAssigned((CLASS, OTHER)))
    said = words(effects, "b")[-1]
    assert (said.topics, said.filling) == ((CLASS, OTHER), True)
    assert said.classes[0] == (1, False), "of this one nothing has changed"
    assert said.classes[1][1]
    assert len(of(hand.hear("b", request("d", "db")), Lookup)) == 1
    said = words(other.has(past("d", 1, BASE, "u/x")).answer(effects), "b")[-1]
    assert (said.filling, said.classes) == (False, ((1, False), (7, False)))
    assert held(hand) == ["d.1.1"]


def test_a_store_that_fills_one_class_is_the_measure_for_another() -> None:
    """b keeps two classes, and has just begun with the second: what it has of the first is as complete as before."""
    half = Keeping("e", 1, 1, (CLASS, OTHER), NUMBER_MAX, True, ((5, False), (NUMBER_MAX, True)))
    hand = network(half)
    Other(hand).answer(hand.tell(StoreAssigned((CLASS,))))
    assert row(hand).since_us == 5
    hand.tell(StoreAssigned((CLASS, OTHER)))
    begun = row(hand, OTHER).since_us
    Other(hand).answer(alive(hand, SECOND))
    assert row(hand, OTHER).since_us == begun, "nobody answers for it"


def test_a_store_that_stops_keeping_a_class_meanwhile_is_no_measure() -> None:
    hand = network(word(since=5))
    effects = hand.tell(StoreAssigned((CLASS,)))
    begun = row(hand).since_us
    hand.hear("c", word("e", 2, OTHER, since=5))
    Other(hand).answer(effects)
    assert row(hand).since_us == begun


def test_stores_that_began_together_catch_up_with_one_another() -> None:
    hand = network(word(since=NUMBER_MAX, filling=True))
    other = Other(hand).has(past("d", 1, BASE))
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    begun = row(hand).since_us
    assert CLASS in hand.broker.advertisements.own
    hand.hear("c", word(number=2, since=begun - 1))
    other.answer(hand.wait(CATCH_UP_US))
    assert row(hand).since_us == begun - 1
    compared = len(other.compared)
    hand.hear("c", word(number=3, since=begun))
    other.answer(hand.wait(CATCH_UP_US))
    assert len(other.compared) == compared, "who has less is nobody to catch up with"


def fenced(hand: StoreHand, effects: list[Effect], *peers: str) -> list[Effect]:
    """These neighbours, and all behind them, know what they were told."""
    answers: list[Effect] = []
    for peer in peers:
        [fence] = [frame for frame in frames(effects, peer) if isinstance(frame, Fence)]
        answers += hand.hear(peer, Fenced(fence.number))
    return answers


def test_a_class_is_complete_a_while_after_everybody_knows_of_it_and_nobody_is_told_so_before() -> None:
    hand = network()
    effects = hand.tell(StoreAssigned((CLASS,)))
    sent = [type(frame) for frame in frames(effects, "b")]
    assert sent.index(Subscribe) < sent.index(Fence), "who reads the fence knows the subscription"
    alive(hand, 3 * SECOND)
    fenced(hand, effects, "b")
    assert row(hand).since_us == NOT_YET, "the brokers behind c may not know"
    assert words(effects, "b")[-1].classes == ((NOT_YET, False),)
    effects = fenced(hand, effects, "c")
    assert row(hand).since_us == hand.now + 4 * SECOND
    assert words(effects, "b")[-1].classes == ((hand.now + 4 * SECOND, False),)


def test_a_class_that_was_withdrawn_and_begun_again_waits_for_its_second_subscription() -> None:
    hand = network()
    first = hand.tell(StoreAssigned((CLASS,)))
    hand.tell(StoreAssigned(()))
    hand.tell(StoreAssigned((CLASS,)))
    second = fenced(hand, first, "b", "c")
    assert row(hand).since_us == NOT_YET
    fenced(hand, second, "b", "c")
    assert row(hand).since_us == hand.now + 4 * SECOND


def test_a_class_that_was_filled_meanwhile_is_as_complete_as_the_store_it_was_filled_from() -> None:
    hand = network(word(since=5))
    effects = hand.tell(StoreAssigned((CLASS,)))
    Other(hand).answer(effects)
    fenced(hand, effects, "b", "c")
    assert row(hand).since_us == 5


@pytest.mark.parametrize(("lived_us", "anew"), [(SECOND, True), (10 * SECOND, False)])
def test_a_store_that_dies_before_its_subscription_is_known_begins_anew(lived_us: int, anew: bool) -> None:
    hand = network()
    fenced(hand, hand.tell(StoreAssigned((CLASS,))), "b", "c")
    begun = row(hand).since_us
    hand.wait(lived_us)
    again = StoreHand("b", "c", boot=2, disk=hand.disk)
    again.now = hand.now + SECOND
    again.tell(StoreAssigned((CLASS,)))
    assert row(again).since_us == (begun + lived_us + SECOND if anew else begun)


def test_a_store_whose_advertisement_is_on_its_way_is_waited_for() -> None:
    """The one that was withdrawn and the one that takes its place are heard of on different ways."""
    hand = network(word())
    expects = hand.broker.history.replicas.expects
    assert expects("t/x", True)
    assert expects("+/x", False)
    assert not expects("u/x", False)
    hand.hear("c", word("e", 2, OTHER))
    assert not expects("t/x", True)


# -- what operators elsewhere want -------------------------------------------------------------------------------------


def test_an_errand_goes_there_and_its_answer_comes_back() -> None:
    hand = network()
    assert frames(hand.tell(Wanted(3, "e", b"do")), "c") == [Errand("a", "e", 3, b"do")]
    assert of(hand.hear("c", ErrandAnswer("c", "a", 3, b"forged")), Report) == [], "another one was asked"
    assert of(hand.hear("c", ErrandAnswer("e", "a", 3, b"done")), Report) == [Report(3, b"done")]
    assert of(hand.hear("c", ErrandAnswer("e", "a", 3, b"again")), Report) == []


def test_errands_of_others_are_carried_out_or_handed_on() -> None:
    hand = network()
    assert of(hand.hear("b", Errand("d", "a", 7, b"do")), CarryOut) == [CarryOut("d", 7, b"do")]
    effects = hand.tell(CarriedOut("d", 7, b"", "no"))
    assert frames(effects, "b") == [ErrandAnswer("a", "d", 7, b"", "no")]
    effects = hand.hear("b", Errand("d", "e", 8, b"do"))
    assert frames(effects, "c") == [Errand("d", "e", 8, b"do")]
    assert of(effects, CarryOut) == []


def test_an_errand_that_cannot_arrive_is_reported() -> None:
    hand = network()
    [report] = of(hand.tell(Wanted(1, "x", b"")), Report)
    assert (report.problem, report.answered) == ("there is no way from a to x now", False)
    hand.tell(Wanted(2, "e", b""))
    [report] = of(hand.hear("c", Adopted("another tree")), Report)
    assert (report.token, report.answered) == (2, False)
    assert hand.broker.history.errands.waiting == {}


def test_an_errand_from_the_wrong_side_ends_the_link() -> None:
    hand = network()
    effects = hand.hear("c", Errand("d", "a", 7, b"do"))
    assert of(effects, CarryOut) == []
    assert [effect.reason for effect in of(effects, Disconnect)] == ["bad route of an errand between d and a"]
