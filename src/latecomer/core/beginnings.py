"""Since when a topic class is complete that a store has just begun to keep.

Decision: what is published while a new store's subscription is still on its way passes it by, and *storing* §III says
nothing of it. No time is sure to be long enough for it: where a link lets nothing through one way, and its connection
is made anew again and again, its session lives on and the subscription waits. So a fence goes behind the subscription
(`fences`), and nothing is claimed before it has passed: then every broker of the tree knows.

Nor is anything claimed of the first seconds after that. A broker that is away may take us to be in its tree for a while
still, and finish events without keeping them for us. And clocks differ: what was taken by a broker that is ahead,
before it knew the subscription, is stamped later than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.fences import Fences
from latecomer.core.neighbours import SILENCES
from latecomer.core.settings import BrokerSettings
from latecomer.model.ids import Instant


@dataclass(slots=True)
class Beginnings:
    """Classes whose subscription may not have reached everybody."""

    settings: BrokerSettings
    fences: Fences
    waves: dict[str, int] = field(default_factory=dict)
    """The fence behind the subscription of each; 0: none has been sent."""

    def begin(self, name: str) -> None:
        """The subscription of this class is about to be told."""
        self.waves[name] = 0

    def ask(self) -> list[str]:
        """Send a fence behind what was told; returns the classes that everybody knows of at once."""
        begun = [name for name, wave in self.waves.items() if not wave]
        if begun:
            self.waves |= dict.fromkeys(begun, self.fences.ask())
        return self.passed(self.fences.done)

    def drop(self, name: str) -> None:
        """How complete this class is, is known otherwise; or it is no longer kept."""
        self.waves.pop(name, None)

    def passed(self, wave: int) -> list[str]:
        """The classes that everybody in the tree knows of, when this fence has passed."""
        known = [name for name, own in self.waves.items() if 0 < own <= wave]
        for name in known:
            del self.waves[name]
        return known

    def complete_from(self, now: Instant) -> Instant:
        """From when on a class is complete of which everybody in the tree knows now. A link that is dead, and not known
        to be at the other end, takes longest."""
        settings = self.settings
        return now + SILENCES * settings.heartbeat_us + settings.hold_us + settings.settle_max_us
