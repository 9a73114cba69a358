"""One point of a figure of the Poisson model: the same users, changes and publications for every system."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
import numpy as np

from latecomer.experiments.dynatops.comparators.bayeux import random_ids, tapestry
from latecomer.experiments.dynatops.comparators.bayeux_on_chord import bayeux_on_chord
from latecomer.experiments.dynatops.comparators.consistent_hashing import consistent_hashing
from latecomer.experiments.dynatops.comparators.tco import PART, Tco, random_parts
from latecomer.experiments.dynatops.homes import Homes, Similarity, even_clusters
from latecomer.experiments.dynatops.model import System, Tally, play
from latecomer.experiments.dynatops.overlay import chord, random_points, random_ring
from latecomer.experiments.dynatops.poisson import Change, Pattern, Poisson
from latecomer.experiments.dynatops.reposition import Repositioning
from latecomer.experiments.dynatops.workload import Workload
from latecomer.experiments.grid import Measures, Setting
from latecomer.experiments.trials import DEAR_RUNS

FILES = (
    "changes_kernels.py",
    "comparators/bayeux.py",
    "comparators/bayeux_on_chord.py",
    "comparators/consistent_hashing.py",
    "comparators/tco.py",
    "comparators/tco_kernels.py",
    "homes.py",
    "model.py",
    "notify_kernels.py",
    "overlay.py",
    "overlay_kernels.py",
    "playing.py",
    "poisson.py",
    "poisson_kernels.py",
    "reconfiguring.py",
    "reposition.py",
    "workload.py",
)
SOURCES = ("model/ring.py", "planner/overlay", *(f"experiments/dynatops/{file}" for file in FILES))
SystemName = Literal["bayeux", "chord", "tco", "dynatops", "selection", "repositioning"]
"""Bayeux on Tapestry and on Chord, TCO (which watches the homes of Bayeux on Chord, and needs it), DYNATOPS, and its
halves (BS) and (BNR)."""
ALL: tuple[SystemName, ...] = ("bayeux", "chord", "tco", "dynatops")
SWEPT: tuple[SystemName, ...] = ("bayeux", "dynatops")
SWEEP_RUNS = 5
"""Seeds of what is swept and not judged."""
MEASURED_EVERY, TCO_EVERY = 5, 50
"""Notifications are counted in every so many hours; TCO's take long, as every topic has an overlay of its own."""


class Playing(Setting, frozen=True, kw_only=True):
    """A workload, and the parameters of the systems that play it."""

    SOURCES: ClassVar[tuple[str, ...]] = SOURCES

    systems: tuple[SystemName, ...] = ALL
    pattern: Pattern = "multimodal"
    rate: float = 0.1
    """Changes per user and hour"""
    change: Change = "same mode"
    sigma: float = 1.0
    publications: float = 100.0
    """Per topic and hour"""
    popular: bool = False
    hours: int = 100
    cluster: int = 5
    """c"""
    load_weight: float = 0.2
    """w_l / c, with load as the share of the cluster; as w_l / |B| with load as the share of all"""
    similarity: Similarity = "asked"
    exchange: float = 1.0
    """T_update in hours"""
    free: int = 10
    """T_free in hours"""
    delay_weight: float = 1.0
    """w_d"""
    trees: float = 1.0
    """The constant before |P| log |V| in eq. 11"""
    tries: int = 1
    """SSBR-Greedy ends when so many of the worst brokers have no better swap"""
    base: int = 16
    """Of Tapestry's digits"""
    part: int = PART
    """Brokers in a part of TCO"""
    swept: bool = False

    def runs(self, asked: int) -> int:
        return min(asked, SWEEP_RUNS if self.swept else DEAR_RUNS)

    def workload(self, seed: int) -> Workload:
        return Poisson(
            pattern=self.pattern,
            rate=self.rate,
            change=self.change,
            sigma=self.sigma,
            publications=self.publications,
            popular=self.popular,
            hours=self.hours,
        ).workload(seed)

    def measure(self, seed: int) -> Measures:
        workload, measures = self.workload(seed), Measures()
        chance = np.random.default_rng([seed, 0xD2])
        ring = chord(random_ring(workload.brokers, chance), random_points(workload.topics, chance))
        start = consistent_hashing(workload.brokers, chance)
        digits = random_ids(workload.brokers, chance, self.base), random_ids(workload.topics, chance, self.base)
        prefer = chance.random((workload.brokers, workload.brokers))
        parts = random_parts(workload.brokers, self.part, chance)
        selection = Homes("selection", self.similarity, self.load_weight * self.cluster, self.exchange)
        clusters = even_clusters(workload.brokers, self.cluster)
        moving = Repositioning(every=self.free, delay_weight=self.delay_weight, trees=self.trees, tries=self.tries)
        systems: dict[SystemName, System] = {
            "bayeux": System(tapestry(*digits, prefer, self.base), np.arange(workload.brokers)),
            "chord": bayeux_on_chord(ring, start),
            "dynatops": System(ring, start, selection, clusters, repositioning=moving),
            "selection": System(ring, start, selection, clusters),
            "repositioning": System(ring, start, repositioning=moving),
        }
        tco = Tco(workload, parts, min(TCO_EVERY, self.hours)) if "tco" in self.systems else None
        for name in self.systems:
            if name == "tco":
                continue
            watch = tco if name == "chord" else None
            found = measured(play(workload, systems[name], seed, every=MEASURED_EVERY, watch=watch))
            measures |= {f"{measure}_{name}": value for measure, value in found.items()}
        if tco is not None:
            measures |= {f"{measure}_tco": value for measure, value in measured_links(tco).items()}
        return measures


def measured(tally: Tally) -> Measures:
    """Of a system with trees."""
    return {
        "changes": float(tally.broker_changes),
        "management": float(tally.management),
        "exchange": float(tally.exchange),
        "core_management": float(tally.core_tree_messages + tally.exchange),
        "hand_overs": float(tally.hand_overs),
        "user_changes": float(tally.changes),
        "delay": tally.delay,
        "root_delay": tally.delay_from_root,
        "core_delay": tally.core_delay,
        "overhead": tally.overhead,
        "internal": tally.internal,
        "external": tally.external,
        "climb": tally.climb,
        "core_overhead": tally.core_overhead,
        "topics": tally.topics,
        "load_spread": 100 * tally.load_spread,
        "load_highest": tally.load_highest,
        "sent_highest": tally.sent_highest,
        "reconfigurations": float(tally.reconfigurations),
        "movers": float(tally.movers),
        "cost": tally.reconfiguration_formula,
        "counted": float(tally.reconfiguration_counted),
        "benefit": tally.benefit,
    }


def measured_links(tco: Tco) -> Measures:
    """Of TCO, instead of what trees cost."""
    return {
        "delay": tco.delay,
        "overhead": tco.overhead,
        "cost": float(tco.changed),
        "counted": float(tco.changed),
        "reconfigurations": float(tco.reconfigurations),
        "degree": tco.degree,
    }


change = msgspec.structs.replace
