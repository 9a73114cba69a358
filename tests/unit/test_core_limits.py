"""What a neighbour may not do, one by one: the link ends with a sentence, and nothing has grown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from latecomer.core.effects import Deliver, Disconnect, Effect
from latecomer.core.inputs import LinkConnected
from latecomer.core.neighbours import REASON_MAX
from latecomer.core.retained import STAMP_MAX
from latecomer.core.routing import Forwarding
from latecomer.messages.link import (
    FRAME_MAX,
    GROUPS_MAX,
    PROTOCOL,
    Advertise,
    Done,
    Hello,
    LinkMessage,
    LinkState,
    LinkStates,
    Neighbour,
    Publication,
    Retained,
    RetainedSummary,
    Run,
    Sharing,
    SharingChange,
    Subscribe,
    Summary,
)
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter
from latecomer.model.ids import EventId
from latecomer.model.record import Kind
from latecomer.wire.link import encode
from tests.unit.hand import Hand, event, filters, frames, of, publications, records


def middle(**settings: Any) -> Hand:
    """Between `b` and `c`, who wants everything."""
    hand = Hand("b", "c", **settings)
    hand.join("b", "c", wants={"c": ["#"]})
    return hand


def rejected(effects: list[Effect], peer: str = "b") -> str:
    """Why the link was ended; exactly once."""
    assert [order.peer for order in of(effects, Disconnect)] == [peer]
    (why,) = records(effects, Kind.REJECTED)
    return why.detail


def test_a_window_that_is_ignored() -> None:
    hand = middle(link_max=6)
    for seq in range(1, 13):
        assert not of(hand.hear("b", Publication(event("b", seq))), Disconnect)
    effects = hand.hear("b", *[Publication(event("b", seq)) for seq in range(13, 100)])
    assert "it sent 13 events and waited for none to be done" in rejected(effects)
    assert hand.broker.events.carried == 0


def test_events_that_are_done_make_room() -> None:
    hand = middle(link_max=6)
    for seq in range(1, 100):
        hand.hear("b", Publication(event("b", seq)))
        assert not of(hand.hear("c", Done("b", 1, (seq,))), Disconnect)
    assert hand.broker.events.carrying == {"b": 0}


def test_the_same_event_again_and_again_is_one() -> None:
    hand = middle(link_max=6)
    for _ in range(100):
        assert not of(hand.hear("b", Publication(event("b", 1))), Disconnect)
    assert hand.broker.events.carrying == {"b": 1}


@pytest.mark.parametrize("origin", ["a", "c"])
@pytest.mark.parametrize("kind", ["publication", "run"])
def test_an_event_from_the_wrong_side(origin: str, kind: str) -> None:
    hand = middle()
    hand.subscribe("x", "#")
    forged: LinkMessage = Publication(event(origin, 2**62)) if kind == "publication" else Run(origin, "p", b"")
    effects = hand.hear("b", forged, Publication(event("b", 1)))
    assert f"an event of '{origin}', who is not on its side" in rejected(effects)
    assert of(effects, Deliver) + publications(effects, "c") == []
    assert not hand.broker.events.seen.newest, "later events of the true origin are not taken for old ones"


def test_too_many_filters() -> None:
    hand = middle(filters_max=3)
    assert not of(hand.hear("b", Subscribe(filters("1", "2", "3"))), Disconnect)
    assert "more than 3 filters" in rejected(hand.hear("b", Subscribe(filters("4"))))
    assert "b" not in hand.broker.interest.links


def test_too_many_advertisements() -> None:
    hand = middle(filters_max=3, routing=Forwarding(advertisements=True))
    assert not of(hand.hear("b", Advertise(filters("1", "2", "3"), 1)), Disconnect)
    assert "core.filters_max" in rejected(hand.hear("b", Advertise(filters("4"), 2)))


def crowd(count: int) -> LinkStates:
    return LinkStates(tuple(LinkState(f"x{number}", 1, 1, ()) for number in range(count)))


@pytest.mark.parametrize(
    "said",
    [
        crowd(8),
        LinkStates((LinkState("b", 1, 99, tuple(Neighbour(f"x{number}", 1, 1) for number in range(11))),)),
    ],
    ids=["known", "named"],
)
def test_too_many_brokers(said: LinkStates) -> None:
    hand = middle(brokers_max=10)
    assert "core.brokers_max" in rejected(hand.hear("b", said))
    assert list(hand.broker.membership.link_states.states) == ["a", "b", "c"]


def test_as_many_brokers_as_may_be() -> None:
    hand = middle(brokers_max=10)
    assert not of(hand.hear("b", crowd(7)), Disconnect)


def word(broker: str, *groups: str, number: int = 1) -> Sharing:
    return Sharing(broker, 1, number, tuple((group, Filter("t"), 10**6) for group in groups))


def test_too_many_brokers_that_share() -> None:
    hand = middle(brokers_max=3)
    for broker in "bcd":
        assert not of(hand.hear("b", word(broker, "g")), Disconnect)
    assert "more than 3 brokers" in rejected(hand.hear("b", word("e", "g")))
    assert list(hand.broker.shares.told) == ["b", "c", "d"]


def test_too_many_groups() -> None:
    hand = middle()
    effects = hand.hear("b", word("b", *(f"g{number}" for number in range(GROUPS_MAX + 1))))
    assert f"tells of {GROUPS_MAX + 1} groups" in rejected(effects)
    assert not hand.broker.shares.told


def test_a_group_of_millions_costs_no_more_than_a_small_one() -> None:
    """The choice is arithmetic: nobody draws up a list of all members."""
    hand = middle()
    hand.hear("b", word("b", "g"))
    hand.hear("c", Sharing("c", 1, 1, (("g", Filter("t"), 2),)))
    shares = hand.broker.shares
    shares._turns["g", Filter("t")] = 10**6 - 2
    found = [shares.choose("t", dict, {"b": 1, "c": 1}, ())[0][0][2] for _ in range(4)]
    assert found == ["b", "c", "c", "b"]


def test_a_broker_grants_no_more_groups_than_it_can_tell_of() -> None:
    hand = middle()
    shares = hand.broker.shares
    granted = 0
    for number in range(100):
        key = (f"g{number}", Filter("x" * 60_000))
        if shares.problem(key) is None:
            shares.join(key, "s")
            granted += 1
    assert granted == 34
    assert shares.problem(("g0", Filter("x" * 60_000))) is None, "it is told of already"
    assert "this broker has no room" in (shares.problem(("h", Filter("x" * 60_000))) or "")
    shares.flush()
    sent = [frame for frame in hand.broker.orders.frames["b"] if isinstance(frame, Sharing)]
    assert len(sent[-1].entries) == 34
    assert len(encode(sent[-1])) < FRAME_MAX
    shares.leave(("g0", Filter("x" * 60_000)), "s")
    assert shares.problem(("h", Filter("x" * 60_000))) is None


def test_the_network_has_room_for_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker grants no more when it has heard of so many; what neighbours may tell of is twice as much."""
    monkeypatch.setattr("latecomer.core.shares.NETWORK_MAX", 20)
    hand = middle()
    hand.hear("b", word("b", "g" * 18))
    shares = hand.broker.shares
    assert shares.problem(("g", Filter("t"))) is not None
    assert not of(hand.hear("b", word("d", "g" * 18)), Disconnect)
    assert "altogether" in rejected(hand.hear("b", word("e", "g" * 18)))
    assert list(shares.told) == ["b", "d"]
    assert shares.told_size == 38


def test_a_change_needs_what_was_before_it() -> None:
    change = SharingChange("d", 1, 3, (("g", Filter("t"), 1),))
    assert "without what was before it" in rejected(middle().hear("b", change))
    hand = middle()
    hand.hear("b", word("d", "h", number=1))
    assert "without what was before it" in rejected(hand.hear("b", change))


def test_changes_cannot_add_up_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.core.shares.WORD_MAX", 20)
    hand = middle()
    hand.hear("b", word("d", "g" * 15, number=1))
    replaced = (("g" * 15, Filter("t"), 0), ("h" * 15, Filter("t"), 1))
    assert not of(hand.hear("b", SharingChange("d", 1, 2, replaced)), Disconnect)
    assert "20 characters" in rejected(hand.hear("b", SharingChange("d", 1, 3, (("i" * 15, Filter("t"), 1),))))


def test_an_event_does_not_carry_endless_choices() -> None:
    """Long names are told by a digest, and what does not fit into one event travels in further copies: no group goes
    without."""
    hand = middle()
    for number in range(5000):
        hand.broker.shares.join((f"{number}" + "g" * 250, Filter("t/#")), "s")
    parts = hand.broker.shares.choose("t/1", dict, {"a": 1}, ())
    assert sum(map(len, parts)) == 5000
    assert len({choice for part in parts for choice in part}) == 5000
    for part in parts:
        assert len(encode(Publication(Event(EventId("a", 1, 1), "t/1", shares=part)))) < 50_000


def test_retained_messages_with_long_properties_are_told_in_pieces() -> None:
    """They must fit into frames as well as those with long payloads."""
    hand = middle()
    extras = Extras(user=(("x", "y" * 200_000),))
    events = [msgspec.structs.replace(kept(f"t{n}", n), extras=extras) for n in range(10)]
    for each in events:
        hand.hear("c", Retained((each,), (0,)))
    told = [f for f in frames(hand.hear("b", RetainedSummary(1)), "b") if isinstance(f, Retained)]
    assert [event.topic for frame in told for event in frame.events] == [event.topic for event in events]
    assert max(len(frame.events) for frame in told) == 2


def kept(topic: str, seq: int, at: int = 1, payload: bytes = b"x") -> Event:
    return Event(EventId("b", 1, seq), topic, "p", at, payload=payload, retain=True)


def test_retained_messages_beyond_all_limits_are_dropped_and_noted() -> None:
    hand = middle()
    hand.broker.retained.messages_max = 2
    effects = hand.hear("b", Retained(tuple(kept(f"t{n}", n) for n in range(4)), (0,) * 4))
    assert [record.detail for record in records(effects, Kind.DROPPED)] == ["retained, and there are too many"] * 2
    assert list(hand.broker.retained.events) == ["t0", "t1"]
    hand.hear("b", Retained((kept("t0", 9, 2, b"newer"),), (0,)))
    assert hand.broker.retained.events["t0"].payload == b"newer", "what is there can be replaced"
    hand.hear("b", Retained((kept("t0", 10, 3, b""), kept("t2", 11, 3)), (0, 0)))
    assert list(hand.broker.retained.events) == ["t1", "t2"], "and deleted, which makes room"


def test_retained_bytes_beyond_all_limits() -> None:
    hand = middle()
    hand.broker.retained.bytes_max = 100
    effects = hand.hear("b", Retained((kept("t", 1, payload=bytes(100)),), (0,)))
    assert records(effects, Kind.DROPPED)
    assert not hand.broker.retained.events


def flooded(event: Event) -> LinkMessage:
    return Publication(event, flooded=True)


@pytest.mark.parametrize("said", [lambda e: Retained((e,), (0,)), flooded], ids=["told", "published"])
def test_a_retained_message_from_the_end_of_time(said: Callable[[Event], LinkMessage]) -> None:
    """Nothing could come after it, and what our own publisher says next could not be written."""
    hand = middle()
    effects = hand.hear("b", said(kept("t", 1, STAMP_MAX + 1)))
    assert [record.detail for record in records(effects, Kind.DROPPED)] == ["retained, and from the end of time"]
    assert hand.broker.retained.stamp_after("t", 5) == 5


def test_everything_is_told_once_in_a_session() -> None:
    """A few bytes that ask for everything must not be answered again and again."""
    hand = middle()
    hand.hear("c", Retained((kept("t", 1),), (0,)))
    for digest in (1, 2):
        assert frames(hand.hear("b", RetainedSummary(digest, answer=True)), "b")
    assert "all retained messages 3 times" in rejected(hand.hear("b", RetainedSummary(3, answer=True)))
    hand.meet("b", number=2)
    assert not of(hand.hear("b", RetainedSummary(4)), Disconnect), "another session, another answer"


def test_link_states_are_compared_once_in_a_session() -> None:
    hand = middle()
    assert not of(hand.hear("b", Summary(())), Disconnect)
    assert "a second summary" in rejected(hand.hear("b", Summary(())))


def test_a_reason_is_one_short_line() -> None:
    hand = Hand("b")
    hand.tell(LinkConnected("b"))
    settings = hand.broker.settings
    hello = Hello(settings.network, "b", PROTOCOL, 1, 1, routing="another way\n" + "x" * 10_000)
    why = rejected(hand.hear("b", hello))
    assert why.isprintable()
    assert len(why) == REASON_MAX
