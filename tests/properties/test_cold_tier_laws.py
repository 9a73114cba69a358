"""The cold tier against a list: whatever is written, in whatever order and by whomever, a query finds the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.attributes import attributes_of
from latecomer.history import cold_files, cold_write
from latecomer.history.cold import ColdTier
from latecomer.history.cold_names import CLASS_MAX, class_of, day_of, encoded, parse_part, part_path
from latecomer.history.digest import digest_of
from latecomer.model.content import parse_content
from latecomer.model.event import Event
from latecomer.model.filters import Filter, filter_matches
from latecomer.model.history import Key, Query, Slice, key_of
from latecomer.model.ids import NUMBER_MAX, EventId
from tests import strategies

DAY_US = 86_400_000_000
SLOT_US = DAY_US // 2
NOW_US = 50

# Few of everything, so that keys, slots, days and topics coincide.
times = st.one_of(
    st.integers(0, 20), st.sampled_from([SLOT_US - 1, SLOT_US, DAY_US - 1, DAY_US, DAY_US + 1, 5 * DAY_US, NUMBER_MAX])
)
topics = st.sampled_from(["a", "a/b", "a/c", "A/b", "b/c", "/", "/a", "$x/a", "ä/b", "../b", "a" * 200 + "/b"])
patterns = st.sampled_from(["#", "+/+", "a/#", "a", "a/b", "+/b", "/#", "$x/#", "ä/#", "../b", "a" * 200 + "/#", "z/#"])
contents = st.sampled_from([None, parse_content("n > 1"), parse_content('s = "x"')])
payloads = st.sampled_from([b"", b"x" * 100, b'{"n": 1}', b'{"n": 2, "s": "x"}', b"{"])
expiries = st.sampled_from([0, NOW_US - 1, NOW_US, NOW_US + 1])


@pytest.fixture(autouse=True, scope="module")
def _no_power_cuts() -> Iterator[None]:
    """Waiting for the disk is most of the time, and nothing here depends on it."""
    with mock.patch.object(cold_files, "_sync"):
        yield


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Events with different ids; of the rest, whatever there can be."""
    found = []
    ids = draw(st.lists(st.tuples(st.sampled_from(["b1", "b2", "\U0010ffff"]), st.integers(0, 2), st.integers(0, 9))))
    for id in dict.fromkeys(ids):
        event = draw(strategies.events)
        found.append(
            msgspec.structs.replace(
                event,
                id=EventId(*id),
                topic=draw(topics),
                published_us=draw(times),
                expires_us=draw(expiries),
                payload=draw(payloads),
                attributes=draw(st.sampled_from([event.attributes, {}, {"n": 5}])),
            )
        )
    return found


def moments(events: Sequence[Event]) -> st.SearchStrategy[int]:
    """Mostly those of the events, and right beside them: that is where limits go wrong."""
    if not events:
        return times
    near = st.builds(lambda event, by: event.published_us + by, st.sampled_from(events), st.sampled_from([0, 0, 1, -1]))
    return near.map(lambda at: min(max(at, 0), NUMBER_MAX)) | times


def shapes(events: Sequence[Event]) -> st.SearchStrategy[str]:
    """Everything, what an event just about matches, or anything."""
    if not events:
        return patterns
    near = st.sampled_from(events).flatmap(
        lambda event: st.sampled_from([event.topic, f"{event.topic}/#", f"{event.topic.partition('/')[0]}/#"])
    )
    return st.just("#") | near | patterns


@st.composite
def queries(draw: st.DrawFn, events: Sequence[Event]) -> Query:
    places = st.builds(Key, times, st.sampled_from(["b1", "b2"]), st.integers(0, 2), st.integers(0, 9))
    if events:
        places |= st.sampled_from(events).map(key_of)
    after = draw(st.none() | places)
    return Query(
        Filter(draw(shapes(events)), draw(st.none() | contents)),
        draw(st.just(0) | moments(events)),
        draw(st.just(0) | moments(events)),
        0 if after else draw(st.sampled_from([0, 0, 1, 2, 4, NUMBER_MAX])),
        after,
    )


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[Event], list[Query]]:
    events = draw(histories())
    return events, draw(st.lists(queries(events), min_size=1, max_size=6))


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[Event], str, int, int]:
    events = draw(histories())
    return events, draw(shapes(events)), draw(moments(events)), draw(moments(events))


def slots(events: Iterable[Event]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event.published_us // SLOT_US * SLOT_US, []).append(event)
    return found


def put(tier: ColdTier, events: Iterable[Event]) -> None:
    for start_us, some in slots(events).items():
        tier.write(start_us, min(start_us + SLOT_US - 1, NUMBER_MAX), iter(some))


def expected(events: Sequence[Event], query: Query) -> list[Event]:
    found = [
        event
        for event in sorted(events, key=key_of)
        if filter_matches(query.filter, event.topic, attributes_of(event))
        and query.since_us <= event.published_us <= (query.until_us or NUMBER_MAX)
        and not 0 < event.expires_us <= NOW_US
        and (query.after is None or key_of(event) > query.after)
    ]
    return found[-query.last :] if query.last else found


def pages(tier: ColdTier, query: Query, events_max: int, bytes_max: int, scan_max: int) -> list[Event]:
    """The whole answer, page by page."""
    found: list[Event] = []
    while True:
        page = tier.read(query, NOW_US, events_max, bytes_max, scan_max)
        assert len(page.events) <= events_max
        assert len(page.events) <= 1 or sum(len(event.payload) for event in page.events) <= bytes_max
        found += page.events
        if page.next is None:
            return found
        assert query.after is None or page.next > query.after, "it does not get on"
        assert not page.events or page.next >= key_of(page.events[-1])
        query = msgspec.structs.replace(query, after=page.next, last=0)


@given(
    asked(),
    st.integers(1, 4),
    st.sampled_from([1, 150, 10**6]),
    st.sampled_from([1, 200, 20_000]),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_a_query_finds_what_a_list_has(
    case: tuple[list[Event], list[Query]], events_max: int, bytes_max: int, scan_max: int, rows: int
) -> None:
    events, some = case
    with TemporaryDirectory() as folder, mock.patch.object(cold_write, "GROUP_ROWS", rows):
        tier = ColdTier(folder, writer="b1")
        put(tier, events)
        for query in some:
            assert pages(tier, query, events_max, bytes_max, scan_max) == expected(events, query)
            assert pages(ColdTier(folder), query, 1000, 10**6, 10**6) == expected(events, query)
        assert tier.damaged == []


@given(histories(), st.integers(1, 3))
@settings(max_examples=40)
def test_every_limit_is_exact(events: list[Event], rows: int) -> None:
    """Each time and place that there is, as each kind of limit; and each number of last ones."""
    everything = Filter("#")
    asked = [Query(everything, last=count) for count in range(1, len(events) + 1)]
    for event in events:
        at = event.published_us
        asked += [Query(everything, at), Query(everything, 0, at), Query(everything, at, at)]
        asked.append(Query(everything, after=key_of(event)))
    with TemporaryDirectory() as folder, mock.patch.object(cold_write, "GROUP_ROWS", rows):
        tier = ColdTier(folder, writer="b1")
        put(tier, events)
        for query in asked:
            assert pages(tier, query, 1000, 10**6, 10**6) == expected(events, query)


@given(histories(), st.data())
@settings(max_examples=25)
def test_writing_in_pieces_twice_and_by_two_is_writing_once(events: list[Event], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, mock.patch.object(cold_write, "GROUP_ROWS", 2):
        tiers = [ColdTier(folder, writer=name, fresh_s=0) for name in ("b1", "B1")]
        for event in events:
            for tier in data.draw(st.lists(st.sampled_from(tiers), min_size=1, max_size=3)):
                put(tier, [event])
        for tier in tiers:
            put(tier, data.draw(st.lists(st.sampled_from(events), max_size=3)) if events else [])
        everything = Query(Filter("#"))
        for tier in tiers:
            query = data.draw(queries(events))
            assert pages(tier, query, 3, 10**6, 3) == expected(events, query)
            assert pages(tier, everything, 1000, 10**6, 1000) == expected(events, everything)


@given(spans(), st.sampled_from([1, 7, SLOT_US, NUMBER_MAX]))
@settings(max_examples=40)
def test_slices_reach_and_status_add_up(case: tuple[list[Event], str, int, int], width: int) -> None:
    events, topic, since, until = case
    found: dict[int, Slice] = {}
    for event in events:
        if since <= event.published_us < until and filter_matches(Filter(topic), event.topic, {}):
            start = event.published_us // width * width
            old = found.get(start, Slice(start, 0, 0))
            found[start] = Slice(start, old.count + 1, (old.digest + digest_of(event.id)) % 2**64)
    with TemporaryDirectory() as folder:
        tier, other = ColdTier(folder, writer="b1"), ColdTier(folder, writer="b2")
        put(tier, events)
        for _ in range(2):
            assert tier.survey(topic, since, until, width) == tuple(found[start] for start in sorted(found))
        assert tier.status()[0] == len(events)
        published = [event.published_us for event in events]
        assert tier.reach() == ((min(published), max(published)) if events else None)
        put(other, events[:3])
        tier = ColdTier(folder)
        assert tier.survey(topic, since, until, width) == tuple(found[start] for start in sorted(found))


@given(histories(), times)
@settings(max_examples=40)
def test_what_is_dropped_is_whole_and_old(events: list[Event], before_us: int) -> None:
    with TemporaryDirectory() as folder:
        tier = ColdTier(folder, writer="b1")
        put(tier, events)
        dropped = tier.drop_before(before_us)
        left = pages(tier, Query(Filter("#")), 1000, 10**6, 10**6)
        assert tier.status()[0] == len(events) - dropped
        assert [event for event in left if event.published_us >= before_us] == [
            event for event in expected(events, Query(Filter("#"))) if event.published_us >= before_us
        ]
        oldest_slot = before_us // SLOT_US * SLOT_US
        assert all(event.published_us >= oldest_slot for event in left), "a whole file is older"
        assert bool(list(Path(folder).iterdir())) == (tier.status()[0] > 0), "directories are left behind"


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_names_never_become_paths(a: str, b: str) -> None:
    for name in (a, b):
        text = encoded(name)
        assert len(text) <= CLASS_MAX
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.~%ABCDEF")
    assert (encoded(a) == encoded(b)) == (a == b)
    # To a file system that takes capitals for small letters as well.
    assert (encoded(a).lower() == encoded(b).lower()) == (a == b)


@given(strategies.topics, strategies.numbers, strategies.names)
def test_a_file_is_known_by_its_name(topic: str, at: int, writer: str) -> None:
    path = part_path(class_of(topic, 1), day_of(at), at, at, encoded(writer))
    part = parse_part(path, 1, 2)
    assert part is not None
    assert (part.start_us, part.end_us, part.writer, part.day) == (at, at, encoded(writer), day_of(at))
    assert part.levels == topic.partition("/")[0]
    assert path.count("/") == 2
