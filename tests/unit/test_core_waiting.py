"""Who asks while the only store is away for a moment waits for it, and not for ever."""

from __future__ import annotations

from latecomer.core.inputs import Published, Requested
from latecomer.core.retrieval import RETURN_US
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from tests.unit.test_core_losses import SECOND, line_world


def test_the_answer_comes_when_the_store_is_back() -> None:
    world, asker = line_world()
    world.tell("1", Published("P", 1, "a"))
    world.run(11 * SECOND)
    world.crash("3")
    world.run(15 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"))))
    world.run(16 * SECOND)
    assert asker.outcomes == []
    world.start("3")
    world.run(26 * SECOND)
    [outcome] = asker.outcomes
    assert outcome.complete
    assert outcome.stores == ("3",)
    assert len(asker.events) == 1


def test_a_store_that_stays_away_is_not_waited_for_for_ever() -> None:
    world, asker = line_world()
    world.crash("3")
    world.run(15 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"))))
    world.run(15 * SECOND + RETURN_US - 1)
    assert asker.outcomes == []
    world.run(15 * SECOND + RETURN_US)
    assert [outcome.problem for outcome in asker.outcomes] == ["no store keeps these topics"]


def test_a_broker_that_was_away_long_ago_is_not_waited_for() -> None:
    world, asker = line_world()
    world.crash("3")
    world.run(60 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"))))
    world.run(60 * SECOND)
    assert [outcome.complete for outcome in asker.outcomes] == [False]


def test_topics_that_nobody_kept_are_not_waited_for() -> None:
    world, asker = line_world()
    world.crash("3")
    world.run(15 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("b"))))
    assert [outcome.problem for outcome in asker.outcomes] == ["no store keeps these topics"]


def test_a_client_of_the_store_s_own_broker_waits_until_it_is_filled() -> None:
    world, asker = line_world()
    world.assign("1", ["a"])
    world.run(20 * SECOND)
    world.tell("1", Published("P", 1, "a"))
    world.run(21 * SECOND)
    world.crash("3")
    world.start("3")
    world.tell("3", Requested("C", 1, Query(Filter("a"))))
    assert asker.outcomes == [], "alone, and not filled"
    world.run(31 * SECOND)
    [outcome] = asker.outcomes
    assert outcome.complete
    assert len(asker.events) == 1


def test_who_keeps_all_of_it_and_is_away_for_a_moment_is_waited_for() -> None:
    """Another store keeps some of it, and would answer at once."""
    world, asker = line_world()
    world.assign("1", ["+/x"])
    world.assign("3", ["b/#"])
    world.run(20 * SECOND)
    world.crash("3")
    world.run(22 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("b/#"))))
    world.run(23 * SECOND)
    assert asker.outcomes == []
    world.start("3")
    world.run(34 * SECOND)
    assert [(outcome.complete, outcome.stores) for outcome in asker.outcomes] == [(True, ("3",))]


def test_who_keeps_all_of_it_and_stays_away_is_not_waited_for_for_ever() -> None:
    world, asker = line_world()
    world.assign("1", ["+/x"])
    world.assign("3", ["b/#"])
    world.run(20 * SECOND)
    world.crash("3")
    world.run(22 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("b/#"))))
    world.run(22 * SECOND + RETURN_US - SECOND)
    assert asker.outcomes == []
    world.run(22 * SECOND + RETURN_US + SECOND)
    assert [outcome.problem for outcome in asker.outcomes] == ["no store keeps all of these topics"]
    assert asker.outcomes[0].stores == ("1",)


def test_a_request_does_not_overtake_what_was_published_here() -> None:
    """The window is one event: the others wait in the outbox, and reach the store one after the other."""
    world, asker = line_world(link_max=3)
    for token in range(1, 4):
        world.tell("1", Published("P", token, "a"))
    world.tell("1", Requested("C", 1, Query(Filter("a"))))
    world.run(20 * SECOND)
    assert [event.id.seq for event in asker.events] == [1, 2, 3]
    assert asker.outcomes[0].complete
