"""Where brokers stand on the ring, and topics that stand elsewhere than at their hash; as a file, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.ring import BITS, BITS_MAX, Ring, hashed, point_of
from latecomer.model.topology import quoted

KEY = "ring"
BROKERS_MAX = 5_000
"""A plan has a number for each broker and position."""


class Positions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Broker → position on a circle of 2**bits points."""

    positions: dict[BrokerId, int]
    bits: int = BITS
    topics: dict[str, int] = {}
    """topic → its point, for those that are not at their hash."""

    def check(self) -> None:
        """Raise a SettingsError that names the first thing wrong."""
        if not 1 <= self.bits <= BITS_MAX:
            raise SettingsError("bits", f"{self.bits} bits; a ring has from 1 to {BITS_MAX}")
        if len(self.positions) > BROKERS_MAX:
            raise SettingsError(
                "positions", f"{len(self.positions):,} brokers are more than the {BROKERS_MAX:,} allowed"
            )
        taken: dict[int, BrokerId] = {}
        for broker, position in self.positions.items():
            if not broker:
                raise SettingsError("positions", "a broker has an empty name")
            if (other := taken.setdefault(position, broker)) != broker:
                told = f"{quoted(other)} and {quoted(broker)} are both at {position}; give each broker its own"
                raise SettingsError("positions", told)
        for topic, point in self.topics.items():
            if not 0 <= point < 1 << self.bits:
                raise SettingsError(f"topics.{topic}", f"{point} is not on a ring of {self.bits} bits")
        self.ring().check()

    def ring(self) -> Ring:
        return Ring(tuple(sorted(self.positions.values())), self.bits)

    def numbers(self) -> list[int]:
        """Per broker, in their order, how many positions are below its own."""
        number = {position: at for at, position in enumerate(self.ring().positions)}
        return [number[position] for position in self.positions.values()]

    def consistent_hashing(self) -> list[int]:
        """The same positions, with brokers in the order of their hashes: what chance would make of this ring."""
        order = sorted(range(len(self.positions)), key=[point_of(broker, 64) for broker in self.positions].__getitem__)
        found = [0] * len(order)
        for number, broker in enumerate(order):
            found[broker] = number
        return found

    def rearranged(self, numbers: Sequence[int]) -> Positions:
        """The same ring with every broker at the position of this number."""
        points = self.ring().positions
        placed = {broker: points[at] for broker, at in zip(self.positions, numbers, strict=True)}
        return msgspec.structs.replace(self, positions=placed)


def by_hash(brokers: Sequence[BrokerId]) -> Positions:
    """Everybody at the hash of its name."""
    placed = hashed(brokers)
    return Positions({broker: placed[broker] for broker in brokers})


def read_positions(text: str, source: str) -> Positions:
    try:
        found = msgspec.json.decode(text.removeprefix("\ufeff"), type=Positions)
        json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
        found.check()
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError(KEY, f"not a ring: {error}", source=source) from None
    except SettingsError as error:
        raise error.at(error.key, source=source) from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Of two positions of one broker msgspec would take the last."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise SettingsError(KEY, f"{quoted(name)} is named twice; name it once")
        names.add(name)


def write_positions(positions: Positions) -> str:
    """As a file that `read_positions` reads."""
    return msgspec.json.format(msgspec.json.encode(positions), indent=2).decode() + "\n"
