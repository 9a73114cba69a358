"""Carrying the events of others: handed out once, sent on, reported done when everybody behind has them."""

from __future__ import annotations

from latecomer.core.effects import Deliver, Effect, Persist, Put
from latecomer.core.reports import BATCH
from latecomer.core.routing import Forwarding, Hierarchy
from latecomer.messages.link import Adopted, Done, Publication
from latecomer.model.record import Kind
from tests.unit.hand import Hand, event, frames, of, publications, records


def middle(**wants: list[str]) -> Hand:
    """A broker between b, c and d."""
    hand = Hand("b", "c", "d")
    hand.join("b", "c", "d", wants=wants)
    return hand


def reports(effects: list[Effect], peer: str) -> list[Done]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Done)]


def soon(hand: Hand) -> list[Effect]:
    return hand.wait(hand.broker.settings.done_delay_us)


def test_an_event_goes_where_it_is_wanted_and_not_back() -> None:
    hand = middle(b=["#"], c=["t"], d=["u"])
    publication = Publication(event("b", 1))
    effects = hand.hear("b", publication)
    assert publications(effects, "c") == [publication]
    assert publications(effects, "b") == publications(effects, "d") == []


def test_it_is_done_when_everybody_behind_has_it() -> None:
    hand = middle(c=["#"], d=["#"])
    hand.hear("b", Publication(event("b", 1)))
    assert reports(soon(hand), "b") == []
    hand.hear("c", Done("b", 1, (1,)))
    hand.hear("c", Done("b", 1, (1,)))
    hand.hear("b", Done("b", 1, (1,)))  # not one of those it was sent to
    assert reports(soon(hand), "b") == []
    assert hand.broker.events.carried == 1
    hand.hear("d", Done("b", 1, (1,)))
    assert reports(soon(hand), "b") == [Done("b", 1, (1,))]
    assert hand.broker.events.carried == 0


def test_what_goes_no_further_is_done_here() -> None:
    hand = middle()
    hand.hear("b", *[Publication(event("b", seq)) for seq in (1, 2)])
    hand.hear("c", Publication(event("c", 9)))
    effects = soon(hand)
    assert reports(effects, "b") == [Done("b", 1, (1, 2))], "collected for a moment"
    assert reports(effects, "c") == [Done("c", 1, (9,))]


def test_who_is_not_in_the_tree_cannot_be_an_origin() -> None:
    hand = middle(c=["#"])
    hand.subscribe("x", "#")
    effects = hand.hear("b", Publication(event("stranger", 1)))
    assert of(effects, Deliver) + publications(effects, "c") + reports(soon(hand), "b") == []


def test_many_reports_do_not_wait() -> None:
    hand = middle()
    effects = hand.hear("b", *[Publication(event("b", seq)) for seq in range(1, BATCH + 1)])
    assert reports(effects, "b") == [Done("b", 1, tuple(range(1, BATCH + 1)))]


def test_nothing_is_handed_out_twice() -> None:
    hand = middle()
    hand.subscribe("x", "#")
    effects = hand.hear("b", Publication(event("b", 5)))
    assert of(effects, Persist)[0].writes[0] == Put("seen", "", "b", (1, 5))
    assert [deliver.number for deliver in of(effects, Deliver)] == [1]
    for again in (5, 4):
        assert of(hand.hear("b", Publication(event("b", again))), Deliver) == []
    assert reports(soon(hand), "b") == [Done("b", 1, (5, 5, 4))], "but it is reported each time"


def test_what_was_seen_survives_a_restart() -> None:
    hand = middle()
    hand.subscribe("x", "#")
    hand.hear("b", Publication(event("b", 5)))
    reborn = Hand("b", boot=2, disk=hand.disk)
    reborn.join("b")
    effects = reborn.hear("b", Publication(event("b", 5)), Publication(event("b", 6)))
    assert [record.event for record in records(effects, Kind.DELIVERED)] == ["b.1.6"]


def test_an_event_for_some_brokers_passes_the_others_by() -> None:
    hand = middle(c=["#"], d=["#"])
    hand.subscribe("x", "#")
    effects = hand.hear("b", Publication(event("b", 1), only=("c",)))
    assert len(publications(effects, "c")) == 1
    assert publications(effects, "d") == []
    assert of(effects, Deliver) == []
    assert len(of(hand.hear("b", Publication(event("b", 1), only=("a",))), Deliver)) == 1


def test_unreliable_events_are_neither_kept_nor_reported() -> None:
    hand = middle(c=["#"])
    hand.subscribe("x", "#")
    effects = hand.hear("b", Publication(event("b", 1, reliable=False)))
    assert [deliver.number for deliver in of(effects, Deliver)] == [0]
    assert len(publications(effects, "c")) == 1
    assert of(effects, Persist) == []
    assert hand.broker.events.carried == 0
    assert reports(soon(hand), "b") == []


def test_events_of_a_tree_that_was_left_are_not_heeded() -> None:
    hand = middle(c=["#"])
    hand.subscribe("x", "#")
    hand.hear("d", Adopted("another tree"))
    effects = hand.hear("b", Publication(event("b", 1)))
    assert of(effects, Deliver) + publications(effects, "c") == []
    assert reports(soon(hand), "b") == []


def test_a_new_tree_forgets_what_was_on_its_way() -> None:
    hand = middle(c=["#"])
    hand.hear("b", Publication(event("b", 1)))
    hand.hear("d", Adopted("another tree"))
    assert hand.broker.events.carried == 0
    assert reports(hand.hear("c", Done("b", 1, (1,))) + soon(hand), "b") == []


def test_the_distance_is_told() -> None:
    hand = Hand("b")
    hand.meet("b")
    hand.hear("b", hand.states("b", "c", "d"))
    hand.settle()
    hand.agree()
    hand.subscribe("x", "#")
    effects = hand.publish() + hand.hear("b", *[Publication(event(origin, 1)) for origin in ("b", "c")])
    assert [record.hops for record in records(effects, Kind.DELIVERED)] == [0, 1, 2]


def test_in_a_hierarchy_events_climb_wanted_or_not() -> None:
    hand = Hand("b", "c", routing=Hierarchy(root="b"))
    hand.join("b", "c", wants={"c": ["t"]})
    effects = hand.publish("unwanted") + hand.publish("t")
    assert [publication.event.topic for publication in publications(effects, "b")] == ["unwanted", "t"]
    assert [publication.event.topic for publication in publications(effects, "c")] == ["t"]


def test_what_no_advertisement_covers_goes_everywhere() -> None:
    hand = Hand("b", "c", routing=Forwarding(advertisements=True))
    hand.join("b", "c")
    [publication] = publications(hand.publish("t"), "b")
    assert publication.flooded
    on = publications(hand.hear("b", Publication(event("b", 1), flooded=True)), "c")
    assert [publication.flooded for publication in on] == [True]
