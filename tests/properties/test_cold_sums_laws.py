"""Adding up the cold tier: whichever shortcut is taken, the result is that of looking at every event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.history import cold_catalogue, cold_files, cold_sums, cold_survey, cold_write
from latecomer.history.cold import ColdTier
from latecomer.history.cold_names import class_of, part_path, stem_of
from latecomer.history.cold_sums import HOUR_US, Sums, unpacked
from latecomer.history.digest import digest_of
from latecomer.model.event import Event
from latecomer.model.history import Slice
from latecomer.model.ids import NUMBER_MAX, EventId
from latecomer.model.topics import topic_matches
from tests import strategies

DAY_US = 24 * HOUR_US
HALF_US = HOUR_US // 2
SLOTS = (HALF_US, HOUR_US, 2 * HOUR_US, DAY_US)
LONG = "ä" * 60

# Few of everything, so that hours, slots, days and topics coincide.
edges = st.sampled_from([0, 1, 9_999_999, 10_000_000, HALF_US - 1, HALF_US, HOUR_US - 1])
times = st.builds(lambda hour, at: hour * HOUR_US + at, st.sampled_from([0, 1, 2, 23, 24]), edges) | st.just(NUMBER_MAX)
topics = st.sampled_from(["a", "a/b", "a/b/c", "ab/b", "/", "/a", "$x/a", LONG, f"{LONG}/b", f"{LONG}x/b"])
patterns = st.sampled_from(["#", "a/#", "a/b", "+/b", "/#", "$x/#", f"{LONG}/#", "z/#"])
limits = st.just(0) | times | times.map(lambda at: at - at % HOUR_US) | st.just(NUMBER_MAX)
widths = st.sampled_from([HOUR_US, HOUR_US, 2 * HOUR_US, DAY_US, 10_000_000, HALF_US, HOUR_US + HALF_US, NUMBER_MAX])


class Question(msgspec.Struct, frozen=True):
    topics: str
    since_us: int
    until_us: int
    width_us: int


class Step(msgspec.Struct, frozen=True):
    """One store writes some of the events, and everybody is asked."""

    store: int
    slot_us: int
    numbers: list[int]
    """Of events, among all there are."""
    topics_max: int
    question: Question
    cuts: list[int]
    """Where the time asked for begins or ends, in the middle of an hour or not."""


questions = st.builds(Question, patterns, limits, limits, widths)
steps = st.builds(
    Step,
    st.integers(0, 2),
    st.sampled_from(SLOTS),
    st.lists(st.integers(0, 11), max_size=12),
    st.sampled_from([cold_sums.TOPICS_MAX, cold_sums.TOPICS_MAX, 1, 0]),
    questions,
    st.lists(times, min_size=1, max_size=2),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    ids = draw(st.lists(st.tuples(st.sampled_from(["b1", "b2"]), st.integers(0, 9)), min_size=1, max_size=12))
    return [
        Event(EventId(origin, 1, seq), draw(topics), published_us=draw(times), expires_us=draw(st.integers(0, 1)))
        for origin, seq in dict.fromkeys(ids)
    ]


def clear(events: list[Event]) -> list[Event]:
    """Without a class whose name is so long that another one looks the same but for a hash: such files are walked."""
    return [event for event in events if not event.topic.startswith(f"{LONG}x")]


@contextmanager
def small() -> Iterator[str]:
    """A folder, row groups of two, and no waiting for the disk."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(mock.patch.object(cold_files, "_sync"))
        stack.enter_context(mock.patch.object(cold_write, "GROUP_ROWS", 2))
        yield folder


def put(tier: ColdTier, events: Iterable[Event], slot_us: int) -> None:
    slots: dict[int, list[Event]] = {}
    for event in events:
        slots.setdefault(event.published_us - event.published_us % slot_us, []).append(event)
    for start_us, some in slots.items():
        tier.write(start_us, min(start_us + slot_us - 1, NUMBER_MAX), some)


def expected(events: Iterable[Event], asked: Question) -> tuple[Slice, ...]:
    found: dict[int, Slice] = {}
    for event in events:
        at = event.published_us
        if asked.since_us <= at < asked.until_us and topic_matches(asked.topics, event.topic):
            start = at // asked.width_us * asked.width_us
            old = found.get(start, Slice(start, 0, 0))
            found[start] = Slice(start, old.count + 1, (old.digest + digest_of(event.id)) % 2**64)
    return tuple(found[start] for start in sorted(found))


def survey(tier: ColdTier, asked: Question) -> tuple[Slice, ...]:
    return tier.survey(asked.topics, asked.since_us, asked.until_us, asked.width_us)


@given(histories(), st.lists(steps, min_size=1, max_size=5), st.sampled_from([0, 1, 10**6]))
@settings(max_examples=60)
def test_a_survey_is_that_of_a_list(events: list[Event], done: list[Step], memory: int) -> None:
    """Two stores, one of which sorts by two levels, and one that has the first one's name; slots that overlap; files
    without sums; and questions before, between and after."""
    with small() as folder, ExitStack() as stack:
        stack.enter_context(mock.patch.object(cold_survey, "REMEMBERED_MAX", memory))
        stack.enter_context(mock.patch.object(cold_catalogue, "SUMS_BYTES", memory))
        stack.enter_context(mock.patch.object(cold_catalogue, "FOOTERS_BYTES", memory))
        tiers = [
            ColdTier(folder, writer="b1", fresh_s=0),
            ColdTier(folder, writer="b2", fresh_s=0),
            ColdTier(folder, writer="b1", depth=2, fresh_s=0),
        ]
        there: dict[EventId, Event] = {}
        for step in done:
            some = [events[number] for number in step.numbers if number < len(events)]
            with mock.patch.object(cold_sums, "TOPICS_MAX", step.topics_max):
                put(tiers[step.store], some, step.slot_us)
            there.update((event.id, event) for event in some)
            cuts = [
                Question("#", 0, NUMBER_MAX // HOUR_US * HOUR_US, HOUR_US),
                *(Question("#", at, NUMBER_MAX, HOUR_US) for at in step.cuts),
                *(Question("#", 0, at, HOUR_US) for at in step.cuts),
            ]
            for tier in (*tiers, ColdTier(folder)):
                for asked in (step.question, done[0].question, *cuts):
                    assert survey(tier, asked) == expected(there.values(), asked)
        assert tiers[0].damaged == []


@given(histories().map(clear), st.sampled_from(SLOTS), questions)
@settings(max_examples=40)
def test_whole_hours_of_one_store_read_no_row(events: list[Event], slot_us: int, asked: Question) -> None:
    with small() as folder:
        put(ColdTier(folder, writer="b1"), events, slot_us)
        tier = ColdTier(folder)
        since_us, until_us = (at - at % HOUR_US for at in (asked.since_us, asked.until_us))
        asked = Question(asked.topics, since_us, until_us, max(1, asked.width_us // HOUR_US) * HOUR_US)
        assert survey(tier, asked) == expected(events, asked)
        assert tier.groups_read == 0


@given(histories().map(clear).filter(bool), st.sampled_from(SLOTS), questions)
@settings(max_examples=40)
def test_what_two_stores_have_alike_reads_no_row_and_what_differs_does_so_once(
    events: list[Event], slot_us: int, asked: Question
) -> None:
    with small() as folder:
        for name in ("b1", "b2"):
            put(ColdTier(folder, writer=name), events, slot_us)
        asked = Question(asked.topics, 0, NUMBER_MAX // HOUR_US * HOUR_US, HOUR_US)
        tier = ColdTier(folder, fresh_s=0)
        assert survey(tier, asked) == expected(events, asked)
        assert tier.groups_read == 0
        more = Event(EventId("b3", 1, 1), events[0].topic, published_us=events[0].published_us)
        put(ColdTier(folder, writer="b2"), [more], slot_us)
        with mock.patch.object(cold_catalogue, "CACHE_BYTES", 0):
            assert survey(tier, asked) == expected([*events, more], asked)
            read = tier.groups_read
            assert (read > 0) == (topic_matches(asked.topics, more.topic) and more.published_us < asked.until_us), (
                "files of the same hour differ"
            )
            assert survey(tier, asked) == expected([*events, more], asked)
        assert tier.groups_read == read


@given(st.lists(st.tuples(strategies.topics, strategies.numbers, strategies.names, st.integers(0, 99))))
def test_sums_come_back_and_add_up(rows: list[tuple[str, int, str, int]]) -> None:
    sums = Sums()
    for topic, at, origin, seq in rows:
        sums.add(topic, at, EventId(origin, 1, seq))
    packed = sums.packed()
    assert packed is not None
    assert packed.isascii()
    found = unpacked(packed, len(rows))
    assert found is not None
    parts = list(found)
    assert len({(topic, hour) for topic, hour, _, _ in parts}) == len(parts)
    assert {(topic, hour) for topic, hour, _, _ in parts} == {(topic, at // HOUR_US) for topic, at, _, _ in rows}
    assert sum(count for _, _, count, _ in parts) == len(rows) == sums.count
    assert sum(digest for _, _, _, digest in parts) % 2**64 == sums.digest
    assert unpacked(packed, len(rows) + 1) is None, "sums of another table"


@given(st.binary(max_size=100), st.data())
def test_broken_sums_are_none(noise: bytes, data: st.DataObject) -> None:
    sums = Sums()
    for number in range(5):
        sums.add(f"a/{number}", number, EventId("b1", 1, number))
    packed = sums.packed()
    assert packed is not None
    assert unpacked(noise, 5) is None
    at = data.draw(st.integers(0, len(packed) - 1))
    broken = packed[:at] + noise[:1] + packed[at + 1 :]
    found = unpacked(broken, 5)
    good = unpacked(packed, 5)
    assert good is not None
    assert found is None or list(found) == list(good)


@given(
    strategies.topics | st.sampled_from(["/", "/a", LONG * 9, f"{LONG}/{LONG}/x"]), st.integers(1, 3), st.integers(1, 3)
)
def test_classes_of_one_topic_have_stems_that_agree(topic: str, depth: int, other: int) -> None:
    a, b = (stem_of(part_path(class_of(topic, levels), "2026-11-16", 0, 0, "b1")) for levels in (depth, other))
    assert a.startswith(b) or b.startswith(a)


@pytest.mark.parametrize(("a", "b"), [("a", "ab"), ("a", "b"), ("/a", "a"), ("$x/a", "x/a"), (LONG + "a" * 99, "a")])
def test_classes_without_a_common_topic_are_told_apart(a: str, b: str) -> None:
    one, two = (stem_of(part_path(class_of(topic, 1), "2026-11-16", 0, 0, "b1")) for topic in (a, b))
    assert not one.startswith(two)
    assert not two.startswith(one)
