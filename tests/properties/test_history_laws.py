"""The engine of a store against a list of events: any events, in any order and any number of times, any question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.attributes import attributes_of
from latecomer.history import Engine, EngineSettings
from latecomer.history import lookup as lookup_module
from latecomer.history.digest import MODULUS, digest_of
from latecomer.model.content import parse_content
from latecomer.model.event import Event
from latecomer.model.filters import Filter, filter_matches
from latecomer.model.history import Key, Query, Slice, key_of
from latecomer.model.ids import NUMBER_MAX, EventId

SECOND = 1_000_000
SMALL = EngineSettings(keep_us=0, segment_us=30 * SECOND, segment_bytes=2000, reserve_bytes=0)
ids = st.builds(EventId, st.sampled_from(["b1", "b10", "b2", "ü", "\U00010000"]), st.integers(0, 2), st.integers(0, 5))
times = st.integers(0, 5).map(lambda n: n * SECOND) | st.integers(0, 120).map(lambda n: n * SECOND)
topics = st.sampled_from(["a", "a/b", "a/b/c", "a/c", "a0", "b", "b/c", "/", "$x/a", "ü/b"])
patterns = st.sampled_from(["#", "+", "a", "a/#", "a/+", "a/b/#", "+/b", "b/c", "$x/#", "/#", "nothing", "ü/+"])
payloads = st.sampled_from([b"", b'{"v": 1}', b'{"v": 5}', b"x" * 300])
wheres = st.none() | st.sampled_from(["v > 2", "v <= 1"]).map(parse_content)


def stamped(id: EventId, topic: str, at: int, payload: bytes, expires_us: int) -> Event:
    return Event(id, topic, "c", at, payload=payload, expires_us=expires_us)


def unique(events: Sequence[Event]) -> list[Event]:
    """An id is one event."""
    return list({event.id: event for event in events}.values())


events_lists = st.lists(
    st.builds(stamped, ids, topics, times, payloads, st.sampled_from([0, 0, 0, 50])), max_size=40
).map(unique)


@st.composite
def queries(draw: st.DrawFn, events: Sequence[Event]) -> Query:
    last = draw(st.integers(0, 6))
    keys = st.none() | st.builds(Key, times, st.sampled_from(["b1", "b2", "c"]), st.integers(0, 2), st.integers(0, 5))
    if events:
        keys = keys | st.sampled_from(events).map(key_of)
    return Query(
        Filter(draw(patterns), draw(wheres)),
        since_us=draw(st.just(0) | times),
        until_us=draw(st.just(0) | times),
        last=last,
        after=draw(keys) if not last else None,
    )


def expected(events: Sequence[Event], query: Query, now_us: int) -> list[Event]:
    found = [
        event
        for event in sorted(events, key=key_of)
        if filter_matches(query.filter, event.topic, attributes_of(event))
        and query.since_us <= event.published_us <= (query.until_us or NUMBER_MAX)
        and (query.after is None or key_of(event) > query.after)
        and (not event.expires_us or event.expires_us > now_us)
    ]
    return found[-query.last :] if query.last else found


def all_pages(
    engine: Engine, query: Query, now_us: int, events_max: int, bytes_max: int = 10_000, scan_max: int = 500
) -> list[Event]:
    """The whole answer, by as many pages as it takes."""
    found: list[Event] = []
    last = query.last
    while True:
        page = engine.read(query, now_us, events_max, bytes_max, scan_max)
        assert len(page.events) <= events_max
        assert list(page.events) == sorted(page.events, key=key_of)
        found += page.events
        if page.next is None or (last and len(found) >= last):
            return found
        assert query.after is None or page.next > query.after, "no progress"
        query = msgspec.structs.replace(query, after=page.next)


def sums(events: Sequence[Event], topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
    slices: dict[int, tuple[int, int]] = {}
    for event in events:
        if since_us <= event.published_us < until_us and filter_matches(Filter(topics), event.topic, {}):
            start = event.published_us // width_us * width_us
            count, digest = slices.get(start, (0, 0))
            slices[start] = (count + 1, (digest + digest_of(event.id)) % MODULUS)
    return tuple(Slice(start, *found) for start, found in sorted(slices.items()))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), events=events_lists, merged_max=st.sampled_from([0, 2, 64]))
def test_a_store_answers_as_a_list_would(data: st.DataObject, events: list[Event], merged_max: int) -> None:
    before, lookup_module.MERGED_MAX = lookup_module.MERGED_MAX, merged_max
    try:
        with TemporaryDirectory() as folder, Engine.open(Path(folder) / "s", SMALL, durability="none") as engine:
            given = data.draw(st.lists(st.sampled_from(events), max_size=60)) if events else []
            size = data.draw(st.integers(1, 20))
            new = sum(engine.append(given[at : at + size]) for at in range(0, len(given), size))
            kept = unique(given)
            assert new == len(kept)
            for _ in range(4):
                query = data.draw(queries(events))
                now_us = data.draw(st.sampled_from([0, 49, 50, 51]))
                events_max = data.draw(st.integers(1, 8))
                bytes_max, scan_max = (
                    data.draw(st.sampled_from([1, 400, 10_000])),
                    data.draw(st.sampled_from([1, 7, 500])),
                )
                found = all_pages(engine, query, now_us, events_max, bytes_max, scan_max)
                assert found == expected(kept, query, now_us)
            status = engine.status()
            assert status.events == len(kept)
            assert engine.verify().problems == ()
    finally:
        lookup_module.MERGED_MAX = before


@settings(max_examples=60, deadline=None)
@given(
    events=events_lists,
    pattern=patterns,
    since_us=times,
    until_us=st.integers(0, 130 * SECOND),
    width_us=st.sampled_from([10, 20, 30, 60, 3600]).map(lambda n: n * SECOND),
)
def test_surveys_are_equal_if_and_only_if_the_events_are(
    events: list[Event], pattern: str, since_us: int, until_us: int, width_us: int
) -> None:
    """Whatever the order they came in, and wherever their stores cut the time into segments."""
    other_settings = msgspec.structs.replace(SMALL, segment_us=3600 * SECOND, segment_bytes=1 << 30)
    with TemporaryDirectory() as folder:
        one = Engine.open(Path(folder) / "1", SMALL, durability="none")
        two = Engine.open(Path(folder) / "2", other_settings, durability="none")
        for event in events:
            one.append([event])
        two.append(events[::-1])
        window = (pattern, since_us, until_us, width_us)
        assert one.survey(*window) == two.survey(*window) == sums(events, *window)
        status = one.status(pattern)
        matching = [event for event in events if filter_matches(Filter(pattern), event.topic, {})]
        assert (status.events, two.status(pattern).events) == (len(matching), len(matching))
        assert status.newest_us == max((event.published_us for event in matching), default=0)
        whole = (0, 200 * SECOND, width_us)
        two.append([Event(EventId("another", 0, 0), "a/b", published_us=100 * SECOND)])
        assert one.survey("a/b", *whole) != two.survey("a/b", *whole)
        assert one.survey("b", *whole) == two.survey("b", *whole)
        one.close()
        two.close()
