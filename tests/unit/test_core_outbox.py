"""The outbox and what was seen, by themselves."""

from __future__ import annotations

from latecomer.core.outbox import Outbox
from latecomer.core.seen import CONTENT_MAX, RECENT_MAX, Seen
from latecomer.model.event import Event
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId
from latecomer.model.slots import origin_of, stream_of
from tests.unit.hand import event


def filled(count: int) -> Outbox:
    outbox = Outbox()
    for _ in range(count):
        outbox.add(event("a", outbox.take_seq()))
    return outbox


def send_all(outbox: Outbox, *peers: str) -> None:
    """As `Events.pump` does."""
    while outbox.queue:
        seq = outbox.queue.popleft()
        outbox.entries[seq].waiting = list(peers)
        outbox.under_way[seq] = None


def finish(outbox: Outbox, seq: int, *absent: str) -> bool:
    """The only neighbour asked, b, has it."""
    entry = outbox.done(seq, "b")
    assert entry is not None
    return outbox.finish(entry, absent)


def test_queued_under_way_and_gone() -> None:
    outbox = filled(2)
    assert list(outbox.queue) == [1, 2]
    assert outbox.done(1, "b") is None, "not even sent"
    send_all(outbox, "b")
    assert list(outbox.under_way) == [1, 2]
    assert finish(outbox, 1)
    assert list(outbox.entries) == list(outbox.under_way) == [2]


def test_done_when_the_last_neighbour_says_so() -> None:
    outbox = filled(1)
    send_all(outbox, "b", "c")
    assert outbox.done(1, "c") is None
    assert outbox.done(1, "c") is None
    assert outbox.done(1, "z") is None
    assert outbox.done(1, "b") is outbox.entries[1]


def test_parked_for_those_who_are_away() -> None:
    outbox = filled(2)
    send_all(outbox, "b")
    assert not finish(outbox, 1, "x", "y")
    assert list(outbox.parked) == [1]
    assert list(outbox.under_way) == [2]


def test_the_oldest_that_is_parked_gives_way_and_nothing_else() -> None:
    outbox = filled(3)
    send_all(outbox, "b")
    finish(outbox, 2, "x")
    finish(outbox, 3, "x")
    given_up = [outbox.give_up_oldest_parked(), outbox.give_up_oldest_parked()]
    assert [entry.event.id.seq for entry in given_up if entry] == [2, 3]
    assert outbox.give_up_oldest_parked() is None, "the rest is not for the absent alone"
    assert list(outbox.entries) == [1]


def test_each_of_the_absent_is_served_when_it_is_back() -> None:
    outbox = filled(1)
    send_all(outbox, "b")
    finish(outbox, 1, "x", "y", "z")
    outbox.restart({"b": None, "y": None, "x": None})
    assert outbox.entries[1].only == ("x", "y")
    send_all(outbox, "b")
    assert not finish(outbox, 1, "newcomer"), "a newcomer was not there when it was published"
    assert outbox.entries[1].needs == ("z",)
    outbox.restart({"b": None})
    assert list(outbox.queue) == [], "nobody in this tree needs it"
    outbox.restart({"b": None, "z": None})
    send_all(outbox, "b")
    assert finish(outbox, 1)


def test_a_new_tree_starts_again_in_order() -> None:
    outbox = filled(4)
    send_all(outbox, "b", "c")
    outbox.done(3, "b")
    outbox.halt()
    assert (list(outbox.queue), list(outbox.under_way)) == ([], [])
    assert outbox.done(3, "c") is None, "a report of the past"
    outbox.restart({})
    assert list(outbox.queue) == [1, 2, 3, 4]
    assert outbox.entries[3].waiting == []


def test_what_is_kept_for_all_goes_to_all_in_the_next_tree() -> None:
    outbox = filled(1)
    send_all(outbox, "b")
    entry = outbox.done(1, "b")
    assert entry is not None
    outbox.keep_for_all(entry)
    assert list(outbox.parked) == [1]
    outbox.restart({})
    assert list(outbox.queue) == [1]
    assert not outbox.parked
    assert outbox.entries[1].only == ()


def test_forgetting_brokers_lets_go_of_what_only_they_needed() -> None:
    outbox = filled(3)
    send_all(outbox, "b")
    finish(outbox, 1, "x")
    finish(outbox, 2, "x", "y")
    assert outbox.forget(["x"]) == [1]
    assert list(outbox.entries) == [2, 3]
    assert list(outbox.parked) == [2]
    assert outbox.entries[2].needs == ("y",)


def test_seen_is_one_pair_of_numbers_per_origin() -> None:
    seen = Seen()

    def take(origin: str, epoch: int, seq: int) -> str | None:
        return seen.take(Event(EventId(origin, epoch, seq), f"t/{seq}"))

    assert take("b", 1, 3) == "b"
    assert take("b", 1, 3) is None
    assert take("b", 1, 2) is None, "older: handed out, or not asked for"
    assert take("c", 1, 1) == "c", "each origin by itself"
    assert take("b", 2, 1) == "b", "a new epoch is newer whatever its number"
    assert take("b", 1, 9) is None, "the disk of that epoch is lost"
    assert seen.newest == {"b": (2, 1), "c": (1, 1)}


def test_with_slots_seen_is_one_pair_of_numbers_per_origin_and_slot() -> None:
    """Two keys of one origin may come by different ways: the later number of one says nothing of the other."""
    seen = Seen(lambda topic: int(topic))
    first, second = Event(EventId("b", 1, 1), "7"), Event(EventId("b", 1, 2), "9")
    assert seen.take(second) == stream_of("b", 9)
    assert not seen.has(first)
    assert seen.take(first) == stream_of("b", 7)
    assert seen.take(first) is None
    assert seen.has(first)
    assert seen.newest == {stream_of("b", 9): (1, 2), stream_of("b", 7): (1, 1)}
    assert {origin_of(stream) for stream in seen.newest} == {"b"}


def test_the_last_events_of_brokers_that_are_away_are_known_for_a_while() -> None:
    seen = Seen()
    for number in range(1, RECENT_MAX + 3):
        assert seen.take(Event(EventId("b", 1, number), "t/x", "p", number))
    assert not seen.take(Event(EventId("b", 1, 2), "t/x", "p", 2)), "it is not new"
    assert seen.take(Event(EventId("c", 1, 1), "t/x", "p", 1))
    found = [each.id.seq for each in seen.recent_of({"b": 0}, Query(Filter("t/#")))]
    assert found == list(range(3, RECENT_MAX + 3)), "the oldest give way, and `c` is not away"
    assert not list(seen.recent_of({"b": 0}, Query(Filter("u/#"))))
    assert [each.id.seq for each in seen.recent_of({"b": 0}, Query(Filter("#"), 7, 9))] == [7, 8, 9]


def test_of_a_large_event_the_content_is_not_known() -> None:
    seen = Seen()
    for number, payload in ((1, b'{"v": 1}'), (2, b'{"v": 2}'), (3, b'{"v": 1, "text": "%s"}' % bytes(CONTENT_MAX))):
        seen.take(Event(EventId("b", 1, number), "t/x", "p", number, payload=payload))
    found = seen.recent_of({"b": 0}, Query(parse_filter("t/# ? v = 2")))
    assert [each.id.seq for each in found] == [2, 3], "the third may be meant"
    assert max(len(each.payload) for each in seen.recent["b"]) < 10


def test_a_copy_for_groups_alone_is_in_no_store() -> None:
    seen = Seen()
    assert seen.take(Event(EventId("b", 1, 1), "t/x", "p", 1, groups_only=True))
    assert not list(seen.recent_of({"b": 0}, Query(Filter("#"))))
