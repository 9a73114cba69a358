"""One run of the location model: the same people in every system, everything counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from latecomer.experiments.dynatops.comparators.bayeux import random_ids, tapestry
from latecomer.experiments.dynatops.comparators.bayeux_location import by_place
from latecomer.experiments.dynatops.comparators.bayeux_proximity import near_tapestry
from latecomer.experiments.dynatops.comparators.geops import geops, regrouped
from latecomer.experiments.dynatops.homes import Homes, Similarity
from latecomer.experiments.dynatops.location.delays import Chance, factors, round_trips, unit_km
from latecomer.experiments.dynatops.location.ground import Ground
from latecomer.experiments.dynatops.location.spread import Where, made_up
from latecomer.experiments.dynatops.model import System, Tally, play
from latecomer.experiments.dynatops.overlay import Floats, Ints, Overlay, chord, random_points, random_ring
from latecomer.experiments.dynatops.reposition import Repositioning
from latecomer.experiments.dynatops.workload import Workload
from latecomer.experiments.grid import Measures, Setting

BAYEUX_STATIC, BAYEUX_PLACE, BAYEUX_NEAR, GEOPS = "Bayeux(static)", "Bayeux(loc)", "Bayeux(loc+PNS)", "GeoPS"
CHORD_STATIC, CHORD_PLACE, BNR = "Bayeux-on-Chord(static)", "Bayeux-on-Chord(loc)", "DYNATOPS(BNR)"
BS, BOTH = "DYNATOPS(BS)", "DYNATOPS"
"""These two for every cluster size: `DYNATOPS(BS) c=10`."""
SHARED = (
    "workload",
    "overlay",
    "overlay_kernels",
    "homes",
    "changes_kernels",
    "notify_kernels",
    "reposition",
    "reconfiguring",
    "model",
)
COMPARATORS = ("bayeux", "bayeux_location", "bayeux_proximity", "geops")
OTHERS = (BAYEUX_STATIC, BAYEUX_PLACE, BAYEUX_NEAR, GEOPS)
ON_CHORD = (CHORD_STATIC, CHORD_PLACE)


def of(system: str, size: int) -> str:
    """A system with clusters of so many brokers."""
    return f"{system} c={size}"


class Located(Setting, frozen=True, kw_only=True):
    """People, ground, systems; what the paper does not say has its value here."""

    SOURCES: ClassVar[tuple[str, ...]] = (
        *(f"experiments/dynatops/{file}.py" for file in SHARED),
        *(f"experiments/dynatops/comparators/{file}.py" for file in COMPARATORS),
        *(f"experiments/dynatops/location/{file}.py" for file in ("ground", "delays", "visits", "spread", "located")),
        "planner/overlay",
        "model/ring.py",
        "pipeline/synth_people.py",
        "pipeline/calibration.py",
        "pipeline/calibration-foursquare-us.json",
    )

    rows: int = 20
    columns: int = 60
    south: float = 29.0
    west: float = -126.0
    degrees: float = 1.0
    """Side of a cell."""
    side: int = 32
    """GeoPS: cells by side of the map."""
    branches: tuple[int, ...] = (2, 2, 2, 2, 2)
    users: int = 40_000
    months: int = 1
    checkins: int = 1_000_000
    where: Where = "spread"
    systems: tuple[str, ...] = OTHERS
    sizes: tuple[int, ...] = (10,)
    """c, for each of the systems that have clusters."""
    load_weight: float = 0.2
    """w_l = load_weight · c on shares of the cluster's load, which is load_weight · |B| on shares of all."""
    similarity: Similarity = "asked"
    area: bool = False
    """Whether who leaves the area of a cluster goes to the cluster of the next."""
    update_h: float = 24.0
    """T_update."""
    free_h: int = 24
    """T_free."""
    delay_weight: float = 1.0
    """w_d, next to a delay in units of the mean one between two brokers."""
    published: int = 1
    """Publications per check-in."""
    chance: Chance = "uniform"
    every_h: int = 5
    """Notifications are measured with the subscriptions of every so many hours."""
    seeds: int = 20

    def runs(self, asked: int) -> int:
        return min(asked, self.seeds)

    @property
    def ground(self) -> Ground:
        north, east = self.south + self.rows * self.degrees, self.west + self.columns * self.degrees
        return Ground(self.rows, self.columns, self.south, self.west, north, east)

    def measure(self, seed: int) -> Measures:
        people = made_up(
            self.ground, self.where, users=self.users, months=self.months, checkins=self.checkins, seed=seed
        )
        people = replace(people, published=people.published * self.published)
        return measured(Stage(self, seed, people), self.systems, self.sizes)


@dataclass(frozen=True)
class Stage:
    """What all systems of a run have in common."""

    setting: Located
    seed: int
    workload: Workload

    @cached_property
    def squares(self) -> Ground:
        """GeoPS has the same map in other cells."""
        return msgspec.structs.replace(self.setting.ground, rows=self.setting.side, columns=self.setting.side)

    @cached_property
    def on_squares(self) -> Workload:
        return regrouped(self.workload, self.squares.cell_of(*self.setting.ground.middles()), self.squares.cells)

    def random(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0x10C, purpose])

    @cached_property
    def unit_km(self) -> float:
        return unit_km(self.setting.ground.kilometres())

    @cached_property
    def delay(self) -> Floats:
        return self._delay(self.setting.ground)

    @cached_property
    def access(self) -> Floats:
        return self._access(self.setting.ground)

    def _delay(self, ground: Ground) -> Floats:
        return round_trips(ground.kilometres(), self.setting.chance, self.random(0)) / self.unit_km

    def _access(self, ground: Ground) -> Floats:
        """[cells, brokers] between a user in a cell and a broker."""
        drawn = factors(self.setting.chance, ground.cells**2, self.random(1)).reshape(ground.cells, -1)
        return ground.kilometres() * drawn / self.unit_km

    @cached_property
    def points(self) -> Ints:
        return random_points(self.setting.ground.cells, self.random(2))

    @cached_property
    def chord(self) -> Overlay:
        return chord(random_ring(self.setting.ground.cells, self.random(3)), self.points)

    @cached_property
    def hashed(self) -> Ints:
        """[B] where consistent hashing puts brokers."""
        return self.random(4).permutation(self.setting.ground.cells)

    def homes(self, size: int) -> Homes:
        return Homes(
            "selection",
            similarity=self.setting.similarity,
            load_weight=self.setting.load_weight * size,
            exchange=self.setting.update_h,
        )

    def system(self, name: str, size: int) -> System:
        """A system by its name."""
        everywhere = np.arange(self.setting.ground.cells)
        on_chord = System(self.chord, self.hashed, delay=self.delay, access=self.access)
        moving = Repositioning(every=self.setting.free_h, delay_weight=self.setting.delay_weight)
        if name == GEOPS:
            squares = np.arange(self.squares.cells)
            found = geops(self.setting.side, self.setting.branches)
            return by_place(System(found, squares, delay=self._delay(self.squares), access=self._access(self.squares)))
        if name in (BAYEUX_STATIC, BAYEUX_PLACE, BAYEUX_NEAR):
            ids, keys = (random_ids(len(everywhere), self.random(purpose)) for purpose in (5, 6))
            any_of = self.random(7).random(self.delay.shape)
            overlay = near_tapestry(ids, keys, self.delay) if name == BAYEUX_NEAR else tapestry(ids, keys, any_of)
            bayeux = replace(on_chord, overlay=overlay, start=everywhere)
            return bayeux if name == BAYEUX_STATIC else by_place(bayeux)
        if name == CHORD_STATIC:
            return on_chord
        if name == CHORD_PLACE:
            return by_place(on_chord)
        if name == BNR:
            return by_place(replace(on_chord, repositioning=moving))
        assert name in (BS, BOTH), f"there is no {name}"
        clusters = self.setting.ground.clusters(size)
        selecting = replace(
            on_chord,
            homes=self.homes(size),
            clusters=clusters,
            home_at=everywhere,
            cluster_at=clusters if self.setting.area else everywhere[:0],
        )
        return replace(selecting, repositioning=moving) if name == BOTH else selecting


def measured(stage: Stage, systems: tuple[str, ...], sizes: tuple[int, ...]) -> Measures:
    """All systems, each measure under `measure:system`."""
    found: Measures = {}
    for name in systems:
        for size in sizes if name in (BS, BOTH) else sizes[:1]:
            workload = stage.on_squares if name == GEOPS else stage.workload
            tally = play(workload, stage.system(name, size), stage.seed, every=stage.setting.every_h)
            label = of(name, size) if name in (BS, BOTH) else name
            found |= {f"{measure}:{label}": value for measure, value in _measures(tally).items()}
    return found


def _measures(tally: Tally) -> Measures:
    return {
        "management": float(tally.management),
        "trees": float(tally.tree_messages),
        "core_trees": float(tally.core_tree_messages),
        "exchange": float(tally.exchange),
        "changes": float(tally.broker_changes),
        "hand_overs": float(tally.hand_overs),
        "load_spread": tally.load_spread,
        "load_highest": tally.load_highest,
        "topics": tally.topics,
        "delay": tally.delay,
        "delay_from_root": tally.delay_from_root,
        "core_delay": tally.core_delay,
        "overhead": tally.overhead,
        "core_overhead": tally.core_overhead,
        "internal": tally.internal,
        "external": tally.external,
        "climb": tally.climb,
        "reconfigurations": float(tally.reconfigurations),
        "movers": float(tally.movers),
        "price": tally.reconfiguration_formula,
        "counted": float(tally.reconfiguration_counted),
        "reports": float(tally.reports),
    }
