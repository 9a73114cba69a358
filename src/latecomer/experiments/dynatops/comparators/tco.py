"""TCO: a topic-connected overlay, where brokers that want a topic reach one another over brokers that want it too.

In the style of DCB-M: brokers are divided, each part is connected by greedy merge, and the parts are combined by greedy
merge over links between them. It is made anew when some topic is no longer in one piece: the parts with brokers whose
subscriptions changed, then what combines them. A reconfiguration costs the links that are not as before (§IV-B).
Decisions: parts by chance, of ten brokers; of links that join as many topics the one with the lowest numbers; looked at
after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.changes_kernels import Tables
from latecomer.experiments.dynatops.comparators.tco_kernels import connected, greedy_merge, spread_events
from latecomer.experiments.dynatops.overlay import Floats, Ints
from latecomer.experiments.dynatops.workload import Workload

Flags = npt.NDArray[np.bool_]
PART = 10


@dataclass(slots=True)
class Tco:
    """Watches the brokers' subscriptions, and keeps every topic connected."""

    workload: Workload
    parts: Ints
    """[B] the part that each broker is in"""
    every: int = 1
    """Notifications are counted in every so many steps."""
    links: Flags = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    reconfigurations: int = 0
    changed: int = 0
    """Links that came or went, after the first overlay was made"""
    sums: Floats = field(default_factory=lambda: np.zeros(6))
    degree: float = 0.0

    def __call__(self, step: int, tables: Tables) -> None:
        """After a step."""
        subscribed = tables.counts > 0
        wants = np.ascontiguousarray(subscribed.T)
        first = not len(self.links)
        if first or not connected(wants, self.links):
            before = self.links
            self.links = self.connect(subscribed, tables.touched)
            if not first:
                self.reconfigurations += 1
                self.changed += int((before != self.links).sum()) // 2
        tables.touched[:] = False
        if (step + 1) % self.every == 0:
            users = np.bincount(tables.home, minlength=len(self.parts)) / len(tables.home)
            spread_events(wants, self.links, tables.counts, self.workload.published[step], users, self.sums)
        self.degree = float(self.links.sum(axis=1).mean())

    def connect(self, subscribed: Flags, touched: Flags) -> Flags:
        """Links inside parts where nothing changed are kept."""
        same = self.parts[:, None] == self.parts[None, :]
        stale = np.isin(self.parts, self.parts[touched]) if len(self.links) else np.ones(len(self.parts), np.bool_)
        links = self.links & same if len(self.links) else np.zeros(same.shape, np.bool_)
        links[stale] = False
        links[:, stale] = False
        greedy_merge(subscribed, links, np.where(stale, self.parts, -1), False)
        greedy_merge(subscribed, links, self.parts, True)
        return links

    @property
    def overhead(self) -> float:
        """Messages per publication."""
        return float(self.sums[1] / self.sums[0])

    @property
    def delay_to_brokers(self) -> float:
        return float(self.sums[3] / self.sums[2])

    @property
    def delay(self) -> float:
        """Mean from publishers to users."""
        return float(self.sums[5] / self.sums[4])


def random_parts(brokers: int, size: int, random: np.random.Generator) -> Ints:
    return random.permutation(brokers) // size
