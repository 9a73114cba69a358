"""Asking for history where nobody answers; and asking the store of this very broker, which answers at once."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Effect
from latecomer.core.inquiry import WINDOW
from latecomer.core.retrieval import ATTEMPTS_MAX, PATIENCE_US, PAUSE_US
from latecomer.messages.link import Adopted, Alive, Complete, Credit, Publication, StoreAdvertise
from latecomer.model.history import Outcome, key_of
from latecomer.model.ids import NUMBER_MAX
from tests.unit.hand import publications
from tests.unit.replica_hand import word
from tests.unit.retrieval_hand import Reader, answer, network, over, renew, the
from tests.unit.store_hand import Rules, StoreHand, credits, past, requests

# -- silence and failure -----------------------------------------------------------------------------------------------


def test_a_store_that_cannot_answer_is_asked_again_a_little_later() -> None:
    hand = network()
    reader = Reader(hand)
    effects = hand.hear("c", over(the(reader.first).id, final=False, problem="segment 7 is damaged"))
    assert requests(effects, "c") == []
    assert len(requests(hand.wait(PAUSE_US), "c")) == 1


def test_when_the_nearest_cannot_another_is_asked() -> None:
    hand = network(c=2, b=3)
    reader = Reader(hand)
    hand.hear("c", over(the(reader.first).id, final=False, problem="damaged"))
    assert len(requests(hand.wait(PAUSE_US), "b")) == 1


def test_in_the_end_who_asked_is_told_why_nobody_answers() -> None:
    hand = network()
    reader = Reader(hand)
    id = the(reader.first).id
    for attempt in range(ATTEMPTS_MAX):
        hand.hear("c", over(id, final=False, problem=f"damaged {attempt}"))
        if attempt + 1 < ATTEMPTS_MAX:
            assert reader.outcomes == []
            id = the(hand.wait(PAUSE_US)).id
    assert reader.outcomes == [Outcome((), 0, 0, False, f"damaged {ATTEMPTS_MAX - 1}")]
    assert requests(hand.wait(2 * PATIENCE_US), "c") == []


def test_a_store_that_says_nothing_is_not_waited_for_for_ever() -> None:
    hand = network(c=2, b=3)
    reader = Reader(hand)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 1)))
    effects = wait(hand, 3 * PATIENCE_US)
    assert credits(effects, "c")[0] == Credit(id, "e", 0)
    assert [asked.query.after for asked in requests(effects, "b")][:1] == [key_of(past("e", 1, 1))]


def test_a_store_that_waits_for_the_reader_is_not_silent() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    for number in range(1, WINDOW + 1):
        hand.hear("c", answer(id, past("e", number, number)))
    effects = wait(hand, 2 * PATIENCE_US - 1000)
    granted = reader.more()
    effects += granted + wait(hand, PATIENCE_US // 2)
    assert [told.credit for told in credits(effects, "c")] == [2 * WINDOW], "it has had no time to answer yet"
    assert requests(effects, "c") == []


def wait(hand: StoreHand, duration_us: int) -> list[Effect]:
    """Time passes, and the neighbours are alive."""
    effects: list[Effect] = []
    for _ in range(duration_us // 1_000_000):
        effects += hand.hear("b", Alive(hand.link("b").sent)) + hand.hear("c", Alive(hand.link("c").sent))
        effects += hand.wait(1_000_000)
    assert hand.broker.interest.ready
    return effects


# -- the own store -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [0, 5])
def test_the_own_store_answers_at_once(last: int) -> None:
    hand = StoreHand("b", "c", response_events=2)
    hand.line()
    hand.keep()
    hand.settled()
    hand.stock(*[past("e", number, number) for number in range(1, 10)])
    reader = Reader(hand, last=last)
    hand.perform(reader.first)
    assert reader.ids == [f"e.1.{number}" for number in range(10 - last if last else 1, 10)]
    assert reader.outcomes == [Outcome(("a",), 0, 1)]
    assert hand.broker.history.store.streams == {}


def test_the_own_store_waits_for_a_slow_reader() -> None:
    hand = StoreHand("b", "c", response_events=1)
    hand.line()
    hand.keep()
    hand.settled()
    hand.stock(*[past("e", number, number) for number in range(1, 30)])
    reader = Reader(hand, eager=False)
    hand.perform(reader.first)
    for _ in range(30):
        [part] = reader.inquiry.parts if reader.inquiry and reader.inquiry.parts else [None]
        assert part is None or len(part.waiting) <= WINDOW
        hand.perform(reader.more())
    assert reader.ids == [f"e.1.{number}" for number in range(1, 30)]
    assert len(reader.outcomes) == 1


def test_an_own_store_that_refuses_ends_the_question_before_it_is_asked() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.broker.history.store.access = Rules()
    reader = Reader(hand, user="mallory")
    assert [outcome.stores for outcome in reader.outcomes] == [("a",)]


def test_a_life_beyond_all_numbers_is_a_long_one() -> None:
    """Else whoever is sent the event next, or keeps it, chokes on it."""
    hand = network()
    reader = Reader(hand)
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1), left=NUMBER_MAX))
    assert [event.expires_us for event in reader.events] == [NUMBER_MAX]
    hand = StoreHand("b", "c")
    hand.line(b=["#"])
    effects = hand.hear("c", Publication(past("c", 1, 1), left_us=NUMBER_MAX))
    assert [carried.event.expires_us for carried in publications(effects, "b")] == [NUMBER_MAX]


def test_what_was_wrong_with_an_attempt_before_is_not_said_of_the_one_that_went_well() -> None:
    hand = network()
    reader = Reader(hand, "#")
    hand.hear("c", over(the(reader.first).id, final=False, problem="damaged"))
    hand.hear("c", StoreAdvertise((("#", 2),)))
    hand.hear("c", over(the(hand.wait(PAUSE_US)).id))
    assert reader.outcomes == [Outcome(("e",), 2, 0)]


# -- what an answer is worth -------------------------------------------------------------------------------------------


def test_who_was_not_asked_may_not_answer() -> None:
    """Bad input 24: the question went to `c`, and `d` is a broker behind `b`."""
    for ends in (False, True):
        hand = network()
        reader = Reader(hand)
        id = the(reader.first).id
        made_up = over(id, store="d") if ends else answer(id, past("d", 1, 1), store="d")
        [reason] = hand.away(hand.hear("b", made_up))
        assert "which it was not asked" in reason
        assert (reader.ids, reader.outcomes) == ([], [])


def test_what_was_begun_from_a_part_of_the_topics_is_never_complete() -> None:
    """First nobody keeps all of `+/x`; in the next tree somebody does, but not what was handed on before."""
    hand = network()
    reader = Reader(hand, "+/x")
    hand.hear("c", answer(the(reader.first).id, past("e", 1, 1, "t/x")))
    assert reader.ids == ["e.1.1"]
    hand.hear("b", hand.states("b", "d"))
    hand.settle()
    version = hand.broker.membership.version
    hand.hear("b", Adopted(version), Complete(version))
    effects = hand.hear("c", Adopted(version), StoreAdvertise((("#", 2),)), Complete(version))
    hand.hear("c", over(the(effects).id))
    assert [outcome.problem for outcome in reader.outcomes] == ["no store keeps all of these topics"]


@pytest.mark.parametrize(("said", "handed", "from_us"), [(10, 20, 10), (NUMBER_MAX, 20, 21), (10, 4, 5), (0, 20, 0)])
def test_what_was_begun_by_a_store_that_has_not_everything_is_complete_from_where_it_had(
    said: int, handed: int, from_us: int
) -> None:
    """`e` gives an event and is interrupted, `d` has everything and goes on."""
    for since_us in (0, 1):
        hand = network()
        hand.hear("c", word("e", since=said))
        reader = Reader(hand, since_us=since_us)
        hand.hear("c", answer(the(reader.first).id, past("e", 1, handed)))
        hand.hear("b", over(the(renew(hand, b=2), "b").id, store="d"))
        [outcome] = reader.outcomes
        assert outcome.from_us == max(from_us, since_us)
        assert outcome.complete == (not since_us or from_us <= since_us)


def test_what_a_store_does_not_have_does_not_matter_behind_it() -> None:
    """`e` has nothing before 30, where it goes on, and is interrupted as well."""
    hand = network(b=2)
    hand.hear("b", word("d", since=1))
    hand.hear("c", word("e", since=30))
    reader = Reader(hand)
    hand.hear("b", answer(the(reader.first, "b").id, past("e", 1, 40), store="d"))
    hand.hear("c", answer(the(renew(hand, c=2)).id, past("e", 2, 50)))
    hand.hear("b", over(the(renew(hand, b=2), "b").id, store="d"))
    assert reader.outcomes == [Outcome(("d",), 2, 1)]


def test_what_a_store_said_of_an_answer_holds_whoever_goes_on_with_it() -> None:
    hand = network()
    reader = Reader(hand, eager=False)
    id = the(reader.first).id
    hand.hear("c", answer(id, past("e", 1, 4)), answer(id, past("e", 2, 5)), over(id, problem="it was away"))
    asked = the(renew(hand, c=2))
    reader.more()
    hand.hear("c", over(asked.id))
    assert [outcome.problem for outcome in reader.outcomes] == ["it was away"]
