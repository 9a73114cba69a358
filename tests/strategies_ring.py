"""Messages between brokers that route by rendezvous, as they may come from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from latecomer.messages.ring import ROUNDS_MAX, Flush, Flushed, FlushWanted, Round, Wants, WantsChange
from latecomer.model.filters import Filter
from latecomer.model.ids import NUMBER_MAX

names: Final = st.text(min_size=1, max_size=8)
numbers: Final = st.integers(0, 300) | st.integers(0, NUMBER_MAX)
roots: Final = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
ends: Final = st.lists(names, min_size=2, max_size=2, unique=True)


def ring_frames(one_filter: st.SearchStrategy[Filter]) -> dict[type[msgspec.Struct], st.SearchStrategy[Any]]:
    """With filters of any kind in them."""
    some: st.SearchStrategy[tuple[Filter, ...]] = st.lists(one_filter, max_size=4, unique=True).map(tuple)
    return {
        Round: st.builds(Round, st.text(), st.integers(1, 9) | st.integers(1, ROUNDS_MAX)),
        Wants: st.builds(Wants, names, numbers, numbers, some),
        WantsChange: st.builds(_change, names, numbers, numbers, some, st.integers(0, 4)),
        FlushWanted: st.builds(_between(FlushWanted), ends, numbers, roots),
        Flush: st.builds(_between(Flush), ends, numbers, roots, st.booleans()),
        Flushed: st.builds(_between(Flushed), ends, numbers, roots),
    }


def _between(kind: Callable[..., msgspec.Struct]) -> Callable[..., msgspec.Struct]:
    """From one broker to another."""
    return lambda ends, *rest: kind(ends[0], ends[1], *rest)


def _change(broker: str, boot: int, number: int, filters: tuple[Filter, ...], added: int) -> WantsChange:
    """Each filter is added or dropped."""
    return WantsChange(broker, boot, number, filters[:added], filters[added:])
