"""Rendezvous routing (*dynatops*): every slot has a broker on a ring where its subscriptions and events meet."""

from __future__ import annotations

import msgspec

from latecomer.core.routing.description import describe
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.slots import SLOTS

LEVELS_MAX = 16


class Rendezvous(msgspec.Struct, frozen=True, tag="rendezvous", tag_field="kind", forbid_unknown_fields=True):
    """Subscriptions climb to the root of their slot, along the tree that the ring's routes from that root form; events
    climb there always and descend on match. A filter that crosses slots is told to everybody. Everything else travels
    the agreed tree."""

    covering: bool = True
    """Do not tell the parent what is covered by something it was told."""
    levels: int = 1
    """With `rendezvous`: so many levels of a topic are its key; all topics of a key share a slot."""
    pins: dict[str, int] = {}
    """With `rendezvous`: key = slot, for keys that are not at their hash."""
    root: BrokerId | None = None
    """Root of the agreed tree; the broker with the most links by default."""

    def check(self) -> None:
        """Raise `SettingsError` naming the key that cannot work."""
        if not 1 <= self.levels <= LEVELS_MAX:
            raise SettingsError("settings.routing.levels", f"must be from 1 to {LEVELS_MAX}, not {self.levels}")
        for key, slot in self.pins.items():
            if not 0 <= slot < SLOTS:
                raise SettingsError(f"settings.routing.pins.{key}", f"must be from 0 to {SLOTS - 1}, not {slot}")

    @property
    def slots(self) -> str:
        """What decides to which slot a topic belongs."""
        pins = "".join(f" {key}={slot}" for key, slot in sorted(self.pins.items()))
        return f"{self.levels}{pins}"

    @property
    def advertisements(self) -> bool:
        """Publishers do not announce what they publish."""
        return False

    def tells_subscription(self, *, to_parent: bool, advertised: bool) -> bool:
        """Whether a subscription is told to a neighbour in its tree."""
        return to_parent

    def tells_advertisement(self, *, to_parent: bool) -> bool:
        return False

    @property
    def climbs(self) -> bool:
        """Whether every event goes to the parent, wanted or not."""
        return True

    def __str__(self) -> str:
        """The same text for the same routing, everywhere."""
        pins = "".join(f" {key}={slot}" for key, slot in sorted(self.pins.items()))
        levels = f"rendezvous by {self.levels} level{'s' if self.levels > 1 else ''}"
        return describe(levels + (f" with{pins}" if pins else ""), self.covering, False, self.root)
