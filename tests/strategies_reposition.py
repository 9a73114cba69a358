"""Messages about positions on the ring, as they may come from outside."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from latecomer.messages.reposition import Place, Positions, PositionsKnown, Prepared, Proposal, Stamp, Withdrawn
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.ring import BITS

names: Final = st.text(min_size=1, max_size=8)
numbers: Final = st.one_of(st.integers(0, 300), st.integers(0, NUMBER_MAX))
made: Final = st.builds(Stamp, st.one_of(st.integers(1, 300), st.integers(1, NUMBER_MAX)), names, numbers)
stamps: Final = made | st.builds(Stamp, numbers, st.text(max_size=8), numbers)
positions: Final = st.one_of(st.integers(0, 300), st.integers(0, 2**BITS - 1))


def places_of(placed: dict[str, int]) -> tuple[Place, ...]:
    """Brokers at different positions."""
    return tuple({position: (broker, position) for broker, position in placed.items()}.values())


places: Final = st.dictionaries(names, positions, max_size=4).map(places_of)
REPOSITION: Final[dict[type[msgspec.Struct], st.SearchStrategy[Any]]] = {
    Positions: st.builds(Positions, made, places),
    PositionsKnown: st.builds(PositionsKnown, stamps),
    Proposal: st.builds(Proposal, made, stamps, places),
    Prepared: st.builds(Prepared, names, names, stamps, st.text(max_size=20)),
    Withdrawn: st.builds(Withdrawn, stamps),
}
