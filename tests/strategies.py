"""Link messages of every kind, as they may come from outside: whatever `wire` lets through."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from latecomer.messages.link import (
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Alive,
    Compare,
    Compared,
    Complete,
    Confirm,
    Credit,
    Done,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Hello,
    Keeping,
    LinkMessage,
    LinkState,
    LinkStates,
    Lost,
    Neighbour,
    Publication,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Retained,
    RetainedSummary,
    Run,
    Settled,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.model.content import Conjunction, Constraint, Op, conjunction
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Query, Slice
from latecomer.model.ids import NUMBER_MAX, EventId
from tests.strategies_hand_over import HAND_OVER
from tests.strategies_homes import HOMES
from tests.strategies_reposition import REPOSITION
from tests.strategies_ring import ring_frames

names: Final = st.text(min_size=1, max_size=8)
groups: Final = st.text(st.characters(codec="utf-8", exclude_characters="/+#"), min_size=1, max_size=8)
numbers: Final = st.one_of(st.integers(0, 300), st.integers(0, NUMBER_MAX))
finite: Final = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
attribute_values: Final = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=5)
)
levels: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0/+#"), max_size=4)


def topic_of(parts: list[str]) -> str:
    return "/".join(parts) or "/"


def filter_of(parts: list[str], open_end: bool) -> str:
    return topic_of([*parts, "#"] if open_end else parts)


topics: Final = st.builds(topic_of, st.lists(levels, min_size=1, max_size=4))
topic_filters: Final = st.builds(filter_of, st.lists(st.one_of(levels, st.just("+")), max_size=4), st.booleans())
orders: Final = st.sampled_from([Op.GE, Op.GT, Op.LE, Op.LT])
constraints: Final = st.one_of(
    st.builds(Constraint, names, st.just(Op.EXISTS)),
    st.builds(Constraint, names, st.sampled_from([Op.EQ, Op.NE]), finite),
    st.builds(Constraint, names, orders, finite.filter(lambda value: not isinstance(value, bool))),
    st.builds(Constraint, names, st.sampled_from([Op.PREFIX, Op.SUFFIX, Op.CONTAINS]), st.text(max_size=5)),
    st.builds(Constraint, names, st.just(Op.IN), st.lists(finite, max_size=5).map(tuple)),
)
contents: Final = st.one_of(
    st.lists(constraints, min_size=1, max_size=4).map(conjunction),
    # A peer need not have made it canonical.
    st.builds(Conjunction, st.lists(constraints, max_size=4).map(tuple)),
)
one_filter: Final = st.builds(Filter, topic_filters, st.none() | contents)
filters: Final = st.lists(one_filter, max_size=4).map(tuple)
event_ids: Final = st.builds(EventId, names, numbers, numbers)
extras: Final = st.builds(
    Extras,
    st.none() | st.integers(0, 1),
    st.none() | st.text(max_size=5),
    st.none() | topics,
    st.none() | st.binary(max_size=8),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3).map(tuple),
)
events: Final = st.builds(
    Event,
    event_ids,
    topics,
    st.text(max_size=5),
    numbers,
    st.booleans(),
    st.dictionaries(st.text(max_size=5), attribute_values, max_size=4),
    st.binary(max_size=64),
    st.integers(0, 2),
    st.booleans(),
    numbers,
    st.none() | extras,
    st.lists(st.tuples(names, st.text(max_size=5), names), max_size=2).map(tuple),
)
neighbours: Final = st.lists(st.builds(Neighbour, names, numbers, numbers), max_size=4).map(tuple)
link_states: Final = st.builds(LinkState, names, numbers, numbers, neighbours)


def query_of(filter: Filter, one: int, other: int, last: int, after: Key | None) -> Query:
    """Two instants in the order in which they may stand; `last` and `after` never together."""
    since, until = (one, other) if not other or one <= other else (other, one)
    return Query(filter, since, until, 0 if after is not None else last, after)


def response_of(
    id: RequestId, path: tuple[str, ...], store: str, found: list[tuple[Event, int]], next: Key | None
) -> Response:
    return Response(id, path, store, tuple(event for event, _ in found), tuple(left for _, left in found), next)


def keeping_of(
    broker: str, boot: int, number: int, topics: tuple[str, ...], since_us: int, filling: bool, each: bool
) -> Keeping:
    """With a word about each topic class, or as older brokers say it."""
    return Keeping(
        broker, boot, number, topics, since_us, filling, ((since_us, filling),) * len(topics) if each else ()
    )


keys: Final = st.builds(Key, numbers, names, numbers, numbers)
queries: Final = st.builds(query_of, one_filter, numbers, numbers, numbers, st.none() | keys)
request_ids: Final = st.builds(RequestId, names, numbers, numbers)
paths: Final = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
positive: Final = st.integers(1, 300) | st.integers(1, NUMBER_MAX)
topic_classes: Final = st.lists(topic_filters, max_size=4).map(tuple)
slices: Final = st.lists(st.builds(Slice, numbers, numbers, numbers), max_size=4).map(tuple)

STRATEGIES: Final[dict[type[msgspec.Struct], st.SearchStrategy[Any]]] = {
    Hello: st.builds(Hello, st.text(max_size=8), names, *[numbers] * 6),
    Alive: st.builds(Alive, numbers),
    LinkStates: st.builds(LinkStates, st.lists(link_states, max_size=4).map(tuple)),
    Summary: st.builds(Summary, st.lists(st.tuples(names, numbers, numbers), max_size=4).map(tuple)),
    Adopted: st.builds(Adopted, st.text()),
    Subscribe: st.builds(Subscribe, filters),
    Unsubscribe: st.builds(Unsubscribe, filters),
    Advertise: st.builds(Advertise, filters, numbers),
    Unadvertise: st.builds(Unadvertise, filters, numbers),
    Confirm: st.builds(Confirm, numbers),
    Fence: st.builds(Fence, st.text(), numbers),
    Fenced: st.builds(Fenced, numbers),
    AdvertisementsComplete: st.builds(AdvertisementsComplete, st.text()),
    Complete: st.builds(Complete, st.text()),
    Publication: st.builds(Publication, events, st.lists(names, max_size=3).map(tuple), st.booleans(), numbers),
    RetainedSummary: st.builds(RetainedSummary, st.integers(0, 2**64 - 1), st.booleans()),
    Retained: st.builds(Retained, st.lists(events, max_size=2).map(tuple), st.lists(numbers, max_size=2).map(tuple)),
    Sharing: st.builds(
        Sharing,
        names,
        numbers,
        numbers,
        st.lists(st.tuples(groups, one_filter, st.integers(1, 9)), max_size=2).map(tuple),
    ),
    SharingChange: st.builds(
        SharingChange,
        names,
        numbers,
        numbers,
        st.lists(st.tuples(groups, one_filter, st.integers(0, 9)), max_size=2).map(tuple),
    ),
    Run: st.builds(Run, names, st.text(max_size=5), st.binary(max_size=64)),
    StoreAdvertise: st.builds(StoreAdvertise, st.lists(st.tuples(topic_filters, positive), max_size=4).map(tuple)),
    StoreWithdraw: st.builds(StoreWithdraw, topic_classes),
    Settled: st.builds(Settled, st.text()),
    Lost: st.builds(Lost, names, names, numbers, numbers),
    Request: st.builds(
        Request,
        request_ids,
        paths,
        topic_filters,
        queries,
        st.text(max_size=5),
        st.text(max_size=5),
        numbers,
        st.text(max_size=8),
    ),
    Response: st.builds(
        response_of, request_ids, paths, names, st.lists(st.tuples(events, numbers), max_size=2), st.none() | keys
    ),
    ResponseEnd: st.builds(
        ResponseEnd, request_ids, paths, names, numbers, numbers, st.text(max_size=20), st.booleans()
    ),
    Credit: st.builds(Credit, request_ids, names, numbers),
    Keeping: st.builds(keeping_of, names, numbers, numbers, topic_classes, numbers, st.booleans(), st.booleans()),
    Errand: st.builds(Errand, names, names, numbers, st.binary(max_size=20)),
    ErrandAnswer: st.builds(ErrandAnswer, names, names, numbers, st.binary(max_size=20), st.text(max_size=20)),
    Compare: st.builds(Compare, names, names, numbers, topic_filters, numbers, numbers, positive),
    Compared: st.builds(
        Compared,
        names,
        names,
        numbers,
        slices,
        st.text(max_size=20),
        st.lists(st.tuples(names, numbers, numbers), max_size=3).map(tuple),
    ),
    **HAND_OVER,
    **HOMES,
    **REPOSITION,
    **ring_frames(one_filter),
    Void: st.just(Void()),
    Done: st.builds(Done, names, numbers, st.lists(numbers, max_size=8).map(tuple)),
}
messages: Final[st.SearchStrategy[LinkMessage]] = st.one_of(list(STRATEGIES.values()))
