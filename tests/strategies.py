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
    Complete,
    Confirm,
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
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.model.content import Conjunction, Constraint, Op, conjunction
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter
from latecomer.model.ids import NUMBER_MAX, EventId

names: Final = st.text(min_size=1, max_size=8)
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
filters: Final = st.lists(st.builds(Filter, topic_filters, st.none() | contents), max_size=4).map(tuple)
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
        st.lists(
            st.tuples(names, st.builds(Filter, topic_filters, st.none() | contents), st.integers(1, 9)), max_size=2
        ).map(tuple),
    ),
    Run: st.builds(Run, names, st.text(max_size=5), st.binary(max_size=64)),
    Void: st.just(Void()),
    Done: st.builds(Done, names, numbers, st.lists(numbers, max_size=8).map(tuple)),
}
messages: Final[st.SearchStrategy[LinkMessage]] = st.one_of(list(STRATEGIES.values()))
