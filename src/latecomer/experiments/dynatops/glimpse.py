"""A point of a figure that shows notifications only: TCO's overlay is made when they are counted, not in every hour."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from latecomer.experiments.dynatops.changes_kernels import Tables
from latecomer.experiments.dynatops.comparators.bayeux_on_chord import bayeux_on_chord
from latecomer.experiments.dynatops.comparators.consistent_hashing import consistent_hashing
from latecomer.experiments.dynatops.comparators.tco import Tco, random_parts
from latecomer.experiments.dynatops.model import play
from latecomer.experiments.dynatops.overlay import chord, random_points, random_ring
from latecomer.experiments.dynatops.playing import (
    MEASURED_EVERY,
    SOURCES,
    SWEPT,
    Playing,
    change,
    measured,
    measured_links,
)
from latecomer.experiments.grid import Measures


class Glimpse(Playing, frozen=True, kw_only=True):
    """The same users, ring and systems as a `Playing`; what TCO's reconfigurations cost is not counted."""

    SOURCES: ClassVar[tuple[str, ...]] = (*SOURCES, "experiments/dynatops/glimpse.py")

    def measure(self, seed: int) -> Measures:
        measures = Playing.measure(change(self, systems=SWEPT), seed)
        workload = self.workload(seed)
        chance = np.random.default_rng([seed, 0xD2])
        ring = chord(random_ring(workload.brokers, chance), random_points(workload.topics, chance))
        start = consistent_hashing(workload.brokers, chance)
        tco = Tco(workload, random_parts(workload.brokers, self.part, chance))

        def watch(step: int, tables: Tables) -> None:
            if (step + 1) % (self.hours // 2) == 0:
                tco(step, tables)

        tally = play(workload, bayeux_on_chord(ring, start), seed, every=MEASURED_EVERY, watch=watch)
        found = {"chord": measured(tally), "tco": measured_links(tco)}
        return measures | {
            f"{measure}_{name}": value
            for name, kind in found.items()
            for measure, value in kind.items()
            if name == "chord" or measure in ("delay", "overhead", "degree")
        }
