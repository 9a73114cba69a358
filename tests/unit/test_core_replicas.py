"""Replicas: stores tell of each other, compare, fetch what they lack, and know what that makes of them."""

from __future__ import annotations

import pytest

from latecomer.core import replicas
from latecomer.core.comparison import SLICE_US
from latecomer.core.directory import STRANGER_US
from latecomer.core.effects import Effect, Survey
from latecomer.core.inputs import StoreAssigned, StoreBlocked, StoreTrimmed, Surveyed
from latecomer.core.replicas import GATHER_US, HOPE_US, HOUR_US, PATIENCE_US
from latecomer.core.store import REPLICA
from latecomer.messages.link import (
    Adopted,
    Compare,
    Compared,
    Complete,
    Keeping,
    Publication,
    Request,
)
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query, Slice
from latecomer.sim.store import SimStore
from tests.unit.hand import Hand, frames, of
from tests.unit.replica_hand import BASE, Other, advertised, alive, held, network, row, word, words
from tests.unit.store_hand import CLASS, HOUR, SECOND, StoreHand, past

# -- words -------------------------------------------------------------------------------------------------------------


def test_a_word_is_told_on_once() -> None:
    hand = network()
    effects = hand.hear("c", word(), word())
    assert words(effects, "b") == [word()]
    assert words(effects, "c") == []
    assert words(hand.hear("b", word()), "c") == [], "old news"
    assert words(hand.hear("b", word(number=2)), "c") == [word(number=2)]
    assert words(hand.hear("b", word(number=1)), "c") == []


def test_a_word_outlives_trees_that_do_not_know_its_broker_yet() -> None:
    hand = network()
    directory = hand.broker.history.directory
    hand.hear("c", word("stranger"))
    directory.tree_ready(("a", "b"))
    assert "stranger" in directory.words, "it is not repeated when the broker joins"
    directory.orders.now += STRANGER_US
    directory.tree_ready(("a", "b", "stranger"))
    directory.tree_ready(("a", "b"))
    assert "stranger" in directory.words, "it was there meanwhile"
    directory.orders.now += STRANGER_US
    directory.tree_ready(("a", "b"))
    assert "stranger" not in directory.words, "it is made up"


def test_a_later_life_has_the_last_word() -> None:
    hand = network(word(number=9))
    later = Keeping("e", 2, 1, (), 0)
    assert words(hand.hear("b", later), "c") == [later]
    assert hand.broker.history.directory.words["e"] == later


def test_who_comes_hears_all_words() -> None:
    hand = Hand("b", "c")
    hand.join("b")
    hand.hear("b", word("b"), word("d"))
    assert words(hand.meet("c"), "c") == [word("b"), word("d")]


def test_what_is_kept_is_told_to_everybody() -> None:
    hand = network()
    effects = hand.tell(StoreAssigned((CLASS,)))
    assert words(effects, "b") == words(effects, "c") != []
    last = words(effects, "b")[-1]
    assert (last.broker, last.topics, last.filling) == ("a", (CLASS,), False)


def test_a_broker_that_keeps_nothing_any_more_contradicts_its_earlier_life() -> None:
    hand = Hand("b", boot=3)
    hand.join("b")
    effects = hand.hear("b", Keeping("a", 2, 5, (CLASS,), 1))
    [said] = words(effects, "b")
    assert (said.boot, said.topics) == (3, ())


def test_a_store_does_not_promise_what_it_has_let_go_of() -> None:
    hand = network()
    hand.keep(since=1)
    effects = hand.tell(StoreTrimmed(BASE))
    assert [said.since_us for said in words(effects, "b")] == [BASE]
    assert words(hand.tell(StoreTrimmed(BASE)), "b") == [], "no news"


def test_more_stores_than_there_may_be_brokers_end_the_link() -> None:
    hand = network(brokers_max=5)
    effects = hand.hear("c", *[word(f"s{number}") for number in range(6)])
    assert hand.away(effects) == ["it tells of more than 5 stores"]


# -- filling -----------------------------------------------------------------------------------------------------------


def test_a_store_that_begins_gets_what_others_have_and_then_answers() -> None:
    hand = network(word(since=5))
    other = Other(hand).has(past("d", 1, BASE), past("d", 2, BASE + 5 * SECOND), past("d", 3, BASE + HOUR))
    effects = hand.tell(StoreAssigned((CLASS,)))
    assert not advertised(effects)
    assert words(effects, "b")[-1].filling
    effects = other.answer(effects)
    assert held(hand) == ["d.1.1", "d.1.2", "d.1.3"]
    assert advertised(effects)
    assert row(hand).since_us == 5, "it has what the other has had since then"
    last = words(effects, "b")[-1]
    assert (last.since_us, last.filling) == (5, False)


def test_it_is_advertised_behind_everything_that_was_fetched() -> None:
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE))
    effects = other.answer(hand.tell(StoreAssigned((CLASS,))))
    assert all(request.client == REPLICA for request in other.asked)
    own = hand.broker.advertisements.own
    assert list(own) == [CLASS]
    assert advertised(effects[-5:])


def test_without_others_it_answers_at_once_for_what_is_to_come() -> None:
    hand = network()
    begun = hand.now
    assert advertised(hand.tell(StoreAssigned((CLASS,))))
    assert row(hand).since_us > begun


def test_it_waits_for_the_tree_to_settle() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.hear("c", word())
    other = Other(hand)
    assert not advertised(other.answer(hand.tell(StoreAssigned((CLASS,)))))
    assert other.compared == []
    assert advertised(other.answer(hand.settled()))
    assert len(other.compared) == 1


def test_it_waits_a_while_for_brokers_that_it_remembers() -> None:
    first = network()
    first.part("c")
    hand = StoreHand("b", "c", boot=2, disk=first.disk)
    hand.now = first.now
    assert not advertised(hand.tell(StoreAssigned((CLASS,))))
    assert not hand.broker.advertisements.own
    hand.wait(GATHER_US)
    assert list(hand.broker.advertisements.own) == [CLASS]


def test_of_others_that_fill_themselves_nothing_is_promised() -> None:
    hand = network(word(filling=True))
    other = Other(hand).has(past("d", 1, BASE))
    begun = hand.now
    effects = other.answer(hand.tell(StoreAssigned((CLASS,))))
    assert held(hand) == ["d.1.1"], "what it has is welcome all the same"
    assert row(hand).since_us > begun
    assert advertised(effects)


def test_what_was_said_after_the_comparison_is_not_promised() -> None:
    hand = network(word(since=BASE + HOUR))
    other = Other(hand)
    effects = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    effects += hand.hear("c", word(number=2, since=5), word("d", since=3))  # filled from elsewhere meanwhile
    other.answer(effects)
    assert row(hand).since_us == BASE + HOUR


def test_what_another_lets_go_of_while_it_is_asked_is_not_promised() -> None:
    hand = network(word(since=5))
    other = Other(hand)
    effects = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    other.answer(effects + hand.hear("c", word(number=2, since=BASE)))
    assert row(hand).since_us == BASE


def test_topics_of_which_another_keeps_only_some_are_compared_and_not_promised() -> None:
    hand = network(word("e", 1, "t/x", "u"))
    other = Other(hand).has(past("d", 1, BASE, "t/x"), past("d", 2, BASE, "t/y"))
    begun = hand.now
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    assert held(hand) == ["d.1.1"]
    assert {compare.topics for compare in other.compared} == {"t/x"}
    assert row(hand).since_us > begun


def test_topics_taken_away_while_it_fills_do_not_keep_it_from_answering_for_others() -> None:
    hand = network(word())
    hand.tell(StoreAssigned((CLASS,)))
    hand.tell(StoreAssigned(()))
    replicas = hand.broker.history.replicas
    assert not replicas.filling
    assert advertised(hand.tell(StoreAssigned(("u/#",))))


# -- comparing ---------------------------------------------------------------------------------------------------------


def twins(hand: StoreHand, *events: Event) -> Other:
    hand.stock(*events)
    return Other(hand).has(*events)


def test_what_is_the_same_is_compared_once_and_not_fetched() -> None:
    hand = network(word())
    other = twins(hand, past("d", 1, BASE), past("d", 2, BASE + HOUR))
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    assert [compare.width_us for compare in other.compared] == [HOUR_US]
    assert other.asked == []
    assert row(hand).since_us == 1


def test_exactly_the_slices_that_differ_are_fetched() -> None:
    hand = network(word())
    same = [past("d", number, BASE + number * 600 * SECOND) for number in range(12)]
    other = twins(hand, *same)
    news = [past("x", number, BASE + HOUR + number * SECOND) for number in (1, 12, 45)]
    other.has(*news)
    hand.stock(past("own", 1, BASE + 5 * HOUR))
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    start = BASE + HOUR
    assert [(request.query.since_us, request.query.until_us) for request in other.asked] == [
        (start, start + 2 * SLICE_US - 1),
        (start + 4 * SLICE_US, start + 5 * SLICE_US - 1),
    ]
    assert [(compare.since_us, compare.until_us) for compare in other.compared[1:]] == [(start, start + HOUR_US)]
    assert len(held(hand)) == len(same) + len(news) + 1
    assert all(request.query.filter.topic == CLASS for request in other.asked)


def test_what_was_fetched_and_let_go_of_is_not_fetched_for_ever() -> None:
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE))
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    hand.disk.store = SimStore()
    other.answer(alive(hand, 3 * 60 * SECOND))
    assert len(other.compared) > 2
    assert len(other.asked) == 1
    other.has(past("d", 2, BASE + 1))
    other.answer(alive(hand, 60 * SECOND))
    assert len(other.asked) == 2


def test_what_is_older_than_what_is_kept_is_not_compared() -> None:
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE), past("d", 2, BASE + 3 * HOUR))
    other.answer(hand.tell(StoreAssigned((CLASS,), BASE + 2 * HOUR)))
    assert held(hand) == ["d.1.2"]


def test_nearer_stores_are_asked_first_and_all_of_them() -> None:
    hand = network(word("e"), word("c"), word("d"), word("elsewhere"))
    order: list[str] = []
    todo = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    for _ in range(5):
        compares = [f for peer in "bc" for f in frames(todo, peer) if isinstance(f, Compare)]
        if not compares:
            break
        [compare] = compares
        order.append(compare.store)
        answer = Compared("a", compare.store, compare.number, ())
        todo = hand.perform(hand.hear("b" if compare.store == "d" else "c", answer))
    assert order == ["c", "d", "e"]


def test_later_rounds_go_to_a_few_others_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "TURNS", 1)
    hand = network(word("e"), word("c"), word("d"))
    Other(hand).answer(hand.keep())
    order: list[str] = []
    for _ in range(3):
        hand.broker.history.replicas.tree_lost()
        hand.broker.history.replicas.round_due = hand.broker.orders.wake(hand.now + SECOND)
        effects = alive(hand, 3 * SECOND)
        order += [f.store for peer in "bc" for f in frames(effects, peer) if isinstance(f, Compare)]
    assert sorted(order) == ["c", "d", "e"], order


def test_behind_every_round_there_is_a_pause() -> None:
    """Else stores that take long over a round would never be quiet."""
    hand = network(word("e"), replica_us=3 * SECOND)
    other = Other(hand)
    other.answer(hand.keep())
    effects = alive(hand, 3 * SECOND)
    for _ in range(2):
        assert [f.store for f in frames(effects, "c") if isinstance(f, Compare)] == ["e"]
        alive(hand, 2 * SECOND)  # it takes its time
        other.answer(effects)
        assert not [f for f in frames(alive(hand, 2 * SECOND), "c") if isinstance(f, Compare)]
        effects = alive(hand, SECOND)


# -- events whose origin is away ---------------------------------------------------------------------------------------


def other_of_an_absent_origin(since: int) -> tuple[StoreHand, Other]:
    """Another store has two events of `far`, which is away; we have had the first one, and have been complete since
    instant 5."""
    hand = network(word("e", 1, "u/#"))
    hand.keep(since=5)
    hand.broker.events.seen.newest["far"] = (1, 1)
    hand.broker.membership.link_states.absent_since["far"] = hand.now
    other = Other(hand).has(past("far", 1, BASE), past("far", 2, BASE + SECOND))
    other.answer(hand.hear("c", word("e", 2, since=since)))
    other.answer(renewed(hand))
    return hand, other


def test_a_store_leaves_events_of_an_absent_origin_with_one_that_began_later() -> None:
    hand, _ = other_of_an_absent_origin(since=BASE)
    assert held(hand) == ["far.1.1"], "the origin may owe us something between the two"
    store = hand.broker.history.store
    assert store.completeness(CLASS, Query(Filter(CLASS), 5))[1] == "events of far, which is away, come when it is back"
    assert store.completeness(CLASS, Query(Filter(CLASS), 5, BASE))[1] == "", "nothing is missing so early"


def test_it_takes_them_when_the_origin_is_back_or_forgotten() -> None:
    hand, other = other_of_an_absent_origin(since=BASE)
    del hand.broker.membership.link_states.absent_since["far"]
    for _ in range(2 * hand.broker.settings.replica_us // SECOND):
        other.answer(alive(hand, SECOND))
    assert held(hand) == ["far.1.1", "far.1.2"]
    assert hand.broker.history.store.completeness(CLASS, Query(Filter(CLASS), 5))[1] == ""


def test_it_takes_them_at_once_from_a_store_that_is_complete_for_as_long() -> None:
    hand, _ = other_of_an_absent_origin(since=5)
    assert held(hand) == ["far.1.1", "far.1.2"]


# -- what may go wrong -------------------------------------------------------------------------------------------------


def renewed(hand: StoreHand) -> list[Effect]:
    """Another tree, ready and settled."""
    hand.hear("b", hand.states("b", "d"))
    effects = hand.settle()
    version = hand.broker.membership.version
    for peer in ("b", "c"):
        effects += hand.hear(peer, Adopted(version), Complete(version))
    return effects + hand.settled()


def interrupted(how: str) -> tuple[StoreHand, Other, list[Effect]]:
    """A store that is fetching a slice when something happens; then it may go on."""
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE))
    other.silent = True
    effects = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    while not any(isinstance(frame, Request) for frame in frames(effects, "c")):
        effects = hand.perform(hand.hear("c", *[r for frame in frames(effects, "c") for r in other.reply(frame)]))
    other.silent = False
    if how == "tree":
        return hand, other, renewed(hand)
    if how == "silence":
        alive(hand, PATIENCE_US + SECOND)
        for _ in range(2 * hand.broker.settings.replica_us // SECOND):
            other.answer(alive(hand, SECOND))
        return hand, other, []
    if how == "full":
        hand.tell(StoreBlocked(True))
        return hand, other, hand.tell(StoreBlocked(False))
    return hand, other, hand.tell(StoreAssigned((CLASS, "u/#")))


@pytest.mark.parametrize("how", ["tree", "silence", "full", "another class"])
def test_what_was_not_fetched_after_all_is_fetched_later(how: str) -> None:
    hand, other, effects = interrupted(how)
    other.answer(effects)
    assert held(hand) == ["d.1.1"]


def test_what_a_full_store_refused_is_fetched_again_before_the_gap_is_closed() -> None:
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE))
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    hand.disk.store = SimStore()  # the engine had no room for it, and says so a moment later
    hand.tell(StoreBlocked(True, BASE))
    assert row(hand).gaps != ()
    other.answer(hand.tell(StoreBlocked(False)))
    assert held(hand) == ["d.1.1"]
    assert row(hand).gaps == ()


def test_a_full_store_does_not_compare() -> None:
    hand = network(word())
    hand.keep()
    hand.broker.history.replicas.tree_lost()
    hand.tell(StoreBlocked(True))
    other = Other(hand).has(past("d", 1, BASE))
    other.answer(alive(hand, 3 * 60 * SECOND))
    assert (other.compared, other.asked) == ([], [])


def test_a_store_that_says_nothing_is_given_up_and_nothing_is_promised() -> None:
    hand = network(word(), word("d"))
    other = Other(hand)
    other.silent = True
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    begun = row(hand).since_us
    near = Other(hand, "d", "b").has(past("d", 1, BASE))
    effects = near.answer(alive(hand, 2 * PATIENCE_US + 2 * SECOND))
    effects += near.answer(alive(hand, 2 * PATIENCE_US + 2 * SECOND))
    assert list(hand.broker.advertisements.own) == [], "clients are better off with those who have more"
    while hand.now - hand.broker.history.replicas.begun_at <= HOPE_US + 2 * PATIENCE_US:
        near.answer(alive(hand, PATIENCE_US))
    assert list(hand.broker.advertisements.own) == [CLASS], "it must not wait for ever"
    assert held(hand) == ["d.1.1"]
    assert row(hand).since_us == begun


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_a_comparison_that_fails_promises_nothing(whose: str) -> None:
    hand = network(word())
    effects = hand.tell(StoreAssigned((CLASS,)))
    begun = row(hand).since_us
    if whose == "ours":
        [survey] = of(effects, Survey)
        effects = hand.tell(Surveyed(survey.token, (), "damaged"))
    else:
        [compare] = [frame for frame in frames(effects, "c") if isinstance(frame, Compare)]
        effects = hand.hear("c", Compared("a", "e", compare.number, (), "damaged"))
    assert not advertised(effects), "who has more is still there, and is asked again"
    assert row(hand).since_us == begun
    Other(hand).has(past("d", 1, BASE)).answer(alive(hand, 2 * SECOND))
    assert held(hand) == ["d.1.1"]
    assert list(hand.broker.advertisements.own) == [CLASS]
    assert row(hand).since_us == 1


def test_a_gap_is_closed_by_a_round_with_who_has_everything() -> None:
    hand = network(word())
    other = Other(hand)
    other.answer(hand.tell(StoreAssigned((CLASS,))))
    hand.tell(StoreBlocked(True))
    hand.wait(SECOND)
    other.has(past("d", 1, hand.now))
    other.answer(hand.tell(StoreBlocked(False)))
    assert held(hand) == ["d.1.1"]
    assert row(hand).gaps == ()


def test_slices_that_nobody_asked_for_are_not_heeded() -> None:
    hand = network(word())
    effects = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    [compare] = [frame for frame in frames(effects, "c") if isinstance(frame, Compare)]
    odd = (Slice(2**63 - 1, 1, 1), Slice(BASE + 1, 1, 1), Slice(compare.until_us, 1, 1))
    effects = hand.perform(hand.hear("c", Compared("a", "e", compare.number, odd)))
    assert [f for f in frames(effects, "c") if isinstance(f, Compare | Request)] == []
    assert advertised(effects)


def test_a_slice_that_is_told_twice_is_fetched_once() -> None:
    hand = network(word())
    other = Other(hand).has(past("d", 1, BASE), past("d", 2, BASE + SLICE_US))
    effects = hand.perform(hand.tell(StoreAssigned((CLASS,))))
    for _ in range(2):
        [compare] = [frame for frame in frames(effects, "c") if isinstance(frame, Compare)]
        [told] = other.reply(compare)
        assert isinstance(told, Compared)
        again = Compared("a", "e", compare.number, (*told.slices, *told.slices))
        effects = hand.perform(hand.hear("c", again))
    other.answer(effects)
    assert held(hand) == ["d.1.1", "d.1.2"]


def test_a_round_that_somebody_spoilt_is_made_again_with_everybody() -> None:
    hand = network(word(), word("c"))
    near, far = Other(hand, "c"), Other(hand)
    near.answer(hand.tell(StoreAssigned((CLASS,))))
    alive(hand, PATIENCE_US + SECOND)  # `e` says nothing, and is given up
    assert row(hand).since_us > 1
    for _ in range(2 * hand.broker.settings.replica_us // SECOND):
        far.answer(near.answer(alive(hand, SECOND)))
    assert row(hand).since_us == 1


def test_who_was_away_for_long_leaves_a_gap() -> None:
    hand = network(forget_us=20 * SECOND)
    hand.keep()
    gone_at = hand.now
    hand.part("c")
    hand.wait(15 * SECOND)
    hand.join("c", boot=2)
    [(start, end)] = row(hand).gaps
    assert gone_at <= start < end <= hand.now, "it had stopped keeping things for us, or might have"


def test_a_gap_that_goes_on_stays_behind_all_others() -> None:
    hand = network()
    hand.keep()
    hand.tell(StoreBlocked(True))
    store = hand.broker.history.store
    store.missed(BASE, hand.now)
    assert [end == 0 for _, end in row(hand).gaps] == [False, True]
    hand.hear("b", Publication(past("b", 1, 7)))
    assert row(hand).gaps[-1] == (7, 0)


# -- for others --------------------------------------------------------------------------------------------------------


def test_others_are_told_what_they_ask() -> None:
    hand = network()
    hand.keep()
    hand.stock(past("d", 1, BASE), past("d", 2, BASE + 1), past("d", 3, BASE, "other"))
    effects = hand.perform(hand.hear("c", Compare("e", "a", 7, CLASS, 0, 100 * HOUR, HOUR_US)))
    [told] = [frame for frame in frames(effects, "c") if isinstance(frame, Compared)]
    assert (told.to, told.store, told.number) == ("e", "a", 7)
    assert [(part.start_us, part.count) for part in told.slices] == [(BASE, 2)]


@pytest.mark.parametrize("compare", [(0, 100 * HOUR, 1), (0, 2**62, SLICE_US), (0, 100 * HOUR, SLICE_US - 1)])
def test_a_comparison_that_nobody_could_carry_is_not_made(compare: tuple[int, int, int]) -> None:
    hand = network()
    hand.keep()
    effects = hand.hear("c", Compare("e", "a", 7, CLASS, *compare))
    assert of(effects, Survey) == []
    [told] = [frame for frame in frames(effects, "c") if isinstance(frame, Compared)]
    assert told.problem


def test_a_broker_without_a_store_has_nothing_to_look_at() -> None:
    hand = network()
    effects = hand.hear("c", Compare("e", "a", 7, CLASS, 0, HOUR, HOUR_US))
    assert of(effects, Survey) == []
    [told] = [frame for frame in frames(effects, "c") if isinstance(frame, Compared)]
    assert told.problem == "no store here"
