"""Frames about clients that may be sent to other brokers: any that `wire` lets through."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from latecomer.messages.homes import Addresses, Profile, ProfileWanted
from latecomer.model.ids import NUMBER_MAX

names: Final = st.text(min_size=1, max_size=5)
numbers: Final = st.integers(0, 300) | st.integers(0, NUMBER_MAX)
places: Final = st.tuples(st.text(min_size=1, max_size=4), st.text(min_size=1, max_size=9))

amounts: Final = st.lists(numbers, max_size=8).map(tuple)


def _profile(**fields: Any) -> Profile:
    return Profile(**(fields | {"base": min(fields["base"], fields["number"])}))


HOMES: Final[dict[type[msgspec.Struct], st.SearchStrategy[Any]]] = {
    Addresses: st.builds(Addresses, names, numbers, numbers, st.lists(places, max_size=20).map(tuple), st.booleans()),
    ProfileWanted: st.builds(ProfileWanted, names, names, numbers, numbers),
    Profile: st.builds(
        _profile,
        from_broker=names,
        to=names,
        **dict.fromkeys(("boot", "number", "base", "clients", "subscriptions", "below"), numbers),
        added=amounts,
        removed=amounts,
    ),
}
