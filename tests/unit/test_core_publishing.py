"""Publishing: what is safe before what is said, numbers, refusals, the window, and what is kept for the absent."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.core.effects import Accept, Deliver, Drop, Effect, Persist, Put, Refuse, Send
from latecomer.core.events import FLEETING_MAX
from latecomer.core.outbox import RESERVE
from latecomer.messages.link import Done, Publication
from latecomer.model.event import Value
from latecomer.model.record import Kind
from tests.unit.hand import Hand, event, frames, of, publications, records

EVERYTHING = {"b": ["#"]}


def sent(effects: list[Effect], peer: str = "b") -> list[int]:
    """Numbers of the events that leave for a neighbour."""
    return [publication.event.id.seq for publication in publications(effects, peer)]


def done(hand: Hand, *seqs: int, peer: str = "b") -> list[Effect]:
    return hand.hear(peer, Done("a", hand.boot, seqs))


def writes(effects: list[Effect]) -> list[object]:
    return [write for persist in of(effects, Persist) for write in persist.writes]


# -- safe first --------------------------------------------------------------------------------------------------------


def test_an_event_is_safe_before_anybody_hears_of_it() -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    hand.subscribe("x", "#")
    effects = hand.publish("t")
    kinds = [type(effect) for effect in effects]
    assert kinds[0] is Persist
    assert {Accept, Deliver, Send} < set(kinds[1:])
    [accept] = of(effects, Accept)
    assert (accept.client, accept.token, accept.event.topic) == ("p", 1, "t")
    assert Put("outbox", "", 1, accept.event) in writes(effects)
    assert Put("mailbox", "x", 1, accept.event) in writes(effects)


def test_an_unreliable_event_is_neither_kept_nor_promised() -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    hand.publish("t")  # reserves numbers
    effects = hand.publish("t", reliable=False)
    assert of(effects, Accept) + of(effects, Persist) == []
    assert sent(effects) == [2]
    assert not hand.broker.events.outbox.entries.get(2)


@pytest.mark.parametrize("topic", ["", "a/#", "a/+/b", "nul\0"])
def test_an_illegal_topic_is_refused_with_the_reason(topic: str) -> None:
    effects = Hand().publish(topic, token=5)
    [refuse] = of(effects, Refuse)
    assert (refuse.client, refuse.token) == ("p", 5)
    assert refuse.reason == records(effects, Kind.REFUSED)[0].detail != "busy"
    assert of(effects, Accept) == []


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"v": 2**63}, "attribute 'v' is beyond 64 bits"),
        ({"v": -(2**63)}, "attribute 'v' is beyond 64 bits"),
        ({"v": "\ud800"}, "attribute 'v' is not text that can be sent"),
        ({"v": "x" * 100}, "103 bytes exceed the limit of 102"),
    ],
)
def test_what_no_link_could_carry_is_refused(attributes: dict[str, Value], reason: str) -> None:
    effects = Hand(event_max=102).publish("t", attributes=attributes)
    assert [refuse.reason for refuse in of(effects, Refuse)] == [reason]
    assert of(effects, Accept) == []
    assert of(Hand(event_max=103).publish("t", attributes={"v": "x" * 100}), Accept)


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_numbers_grow_by_one() -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    assert [sent(hand.publish()) for _ in range(3)] == [[1], [2], [3]]


def test_numbers_are_reserved_on_disk_and_never_used_twice() -> None:
    """Long before they are used: a store may have an event before the disk has what was written with it."""
    hand = Hand()
    assert hand.disk.tables["meta"][""]["seq"] == 1 + 2 * RESERVE, "before the first is used"
    assert not [write for write in writes(hand.publish()) if isinstance(write, Put) and write.key == "seq"]
    hand.broker.events.outbox.next_seq = RESERVE + 2
    assert Put("meta", "", "seq", RESERVE + 3 + 2 * RESERVE) in writes(hand.publish()), "with as many to go"
    reborn = Hand(boot=2, disk=hand.disk)
    [accept] = of(reborn.publish(), Accept)
    assert accept.event.id.epoch == 1, "the disk was kept: the same epoch"
    assert accept.event.id.seq == RESERVE + 4 + 2 * RESERVE


def test_a_lost_disk_begins_another_epoch() -> None:
    [accept] = of(Hand(boot=9).publish(), Accept)
    assert (accept.event.id.epoch, accept.event.id.seq) == (9, 1)


# -- done --------------------------------------------------------------------------------------------------------------


def test_what_everybody_has_is_forgotten() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c", wants={"b": ["#"], "c": ["t"]})
    hand.publish("t")
    assert writes(done(hand, 1, peer="b")) == []
    assert writes(done(hand, 1, peer="b")) == [], "told twice is told once"
    assert list(hand.table("outbox")) == [1]
    assert writes(done(hand, 1, peer="c")) == [Drop("outbox", "", 1)]
    assert hand.broker.events.outbox.entries == {}


def test_what_nobody_wants_is_forgotten_at_once() -> None:
    hand = Hand("b")
    hand.join("b", wants={"b": ["other"]})
    effects = hand.publish("t")
    assert frames(effects, "b") == []
    assert hand.broker.events.outbox.entries == {}
    assert hand.table("outbox") == {}


@pytest.mark.parametrize("report", [Done("a", 2, (1,)), Done("z", 1, (1,)), Done("a", 1, (7,)), Done("a", 1, ())])
def test_reports_of_something_else_change_nothing(report: Done) -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    hand.publish()
    assert hand.hear("b", report) == []
    assert list(hand.broker.events.outbox.entries) == [1]


# -- the window --------------------------------------------------------------------------------------------------------


def test_each_origin_has_its_share_of_a_link_under_way() -> None:
    hand = Hand("b", link_max=5)  # two brokers: two events each
    hand.join("b", wants=EVERYTHING)
    assert [sent(hand.publish()) for _ in range(4)] == [[1], [2], [], []]
    assert sent(done(hand, 1)) == [3]
    assert sent(done(hand, 2, 3)) == [4]


def test_a_new_tree_begins_with_the_oldest_that_is_not_done() -> None:
    hand = Hand("b", "c", link_max=12)
    hand.join("b", "c", wants=EVERYTHING)
    for _ in range(4):
        hand.publish()
    done(hand, 2)
    hand.hear("c", hand.states("c", "d"))
    hand.settle()
    assert sent(hand.publish()) == [], "no tree is ready"
    assert sent(hand.agree()) == [1, 3, 4], "in order, as far as the window of a fourth of 12 goes"
    assert sent(done(hand, 1)) == [5]


def test_a_restart_sends_everything_that_was_not_done() -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    for _ in range(3):
        hand.publish()
    done(hand, 2)
    reborn = Hand("b", boot=2, disk=hand.disk)
    assert sent(reborn.join("b", wants=EVERYTHING)) == [1, 3]


# -- brokers that are away ---------------------------------------------------------------------------------------------


def parked(**settings: Any) -> Hand:
    """A broker whose only neighbour wants everything and went away; events 1 to 3 are kept for it."""
    hand = Hand("b", **settings)
    hand.join("b", wants=EVERYTHING)
    hand.part("b")
    effects = [effect for _ in range(3) for effect in hand.publish()]
    assert [record.detail for record in records(effects, Kind.PARKED)] == ["b"] * 3
    return hand


def test_what_is_kept_goes_to_those_who_were_away_and_to_nobody_else() -> None:
    hand = parked()
    again = publications(hand.join("b", wants=EVERYTHING), "b")
    assert [publication.event.id.seq for publication in again] == [1, 2, 3]
    assert {publication.only for publication in again} == {("b",)}
    done(hand, 1, 2, 3)
    assert hand.table("outbox") == {}


def test_a_restart_keeps_what_was_parked_for_those_who_lack_it() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c", wants={"b": ["#"], "c": ["#"]})
    hand.part("b")
    hand.meet("c", knows=(1, 1), received=hand.link("c").sent)
    hand.agree()
    hand.publish()
    assert [record.detail for record in records(done(hand, 1, peer="c"), Kind.PARKED)] == ["b"]
    assert hand.table("parked") == {1: ("b",)}
    reborn = Hand("b", "c", boot=2, disk=hand.disk)
    effects = reborn.join("b", "c", wants={"b": ["#"], "c": ["#"]})
    assert sent(effects, "b") == [1]
    assert sent(effects, "c") == []
    reborn.hear("b", Done("a", 1, (1,)))  # its epoch is that of the disk
    assert reborn.table("outbox") == reborn.table("parked") == {}


def test_a_broker_that_never_heard_of_the_others_keeps_for_all() -> None:
    hand = Hand("b")
    hand.publish()
    assert list(hand.broker.events.outbox.parked) == [1]
    [publication] = publications(hand.join("b", wants=EVERYTHING), "b")
    assert publication.only == ()


def test_what_is_kept_for_the_absent_gives_way_and_is_said_to() -> None:
    hand = parked(outbox_max=3)
    effects = hand.publish()
    [dropped] = records(effects, Kind.DROPPED)
    assert dropped.event == "a.1.1"
    assert dropped.detail == "no room to keep it for b"
    assert Drop("outbox", "", 1) in writes(effects)
    assert of(effects, Accept)
    assert list(hand.table("outbox")) == [2, 3, 4]
    assert hand.broker.events.dropped == 1


def test_when_nothing_can_give_way_the_publisher_waits() -> None:
    hand = Hand("b", outbox_max=2)
    hand.join("b", wants=EVERYTHING)
    hand.publish()
    hand.publish()
    effects = hand.publish(token=3)
    assert of(effects, Refuse) == [Refuse("p", 3, "busy")]
    assert of(effects, Persist) == []
    assert not records(effects, Kind.DROPPED)
    done(hand, 1)
    assert of(hand.publish(), Accept)
    assert of(hand.publish(reliable=False), Refuse) == [], "an unreliable event needs no room"


# -- unreliable events -------------------------------------------------------------------------------------------------


def test_unreliable_events_wait_for_a_tree_but_not_without_limit() -> None:
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    hand.lose("b")
    hand.meet("b", boot=2)  # another life of the neighbour: no tree is ready
    effects = [effect for _ in range(FLEETING_MAX + 1) for effect in hand.publish(reliable=False)]
    assert [record.event for record in records(effects, Kind.DROPPED)] == ["a.1.1"]
    hand.hear("b", hand.states("b", boot=2))
    hand.settle()
    assert sent(hand.agree(EVERYTHING)) == list(range(2, FLEETING_MAX + 2))


def test_unreliable_events_do_not_pile_up_on_a_link() -> None:
    hand = Hand("b", link_max=8)
    hand.join("b", wants=EVERYTHING)
    room = 8 - len(hand.link("b").unacked)
    effects = [effect for _ in range(room + 2) for effect in hand.publish(reliable=False)]
    assert len(sent(effects)) == room
    assert {record.detail for record in records(effects, Kind.DROPPED)} == {"unreliable, and the link to b is full"}
    assert len(records(effects, Kind.DROPPED)) == 2


def test_an_event_from_outside_is_not_of_our_making() -> None:
    """A neighbour that hands us our own event does not disturb the outbox."""
    hand = Hand("b")
    hand.join("b", wants=EVERYTHING)
    hand.publish()
    hand.hear("b", Publication(event("a", 1)))
    assert list(hand.broker.events.outbox.entries) == [1]
