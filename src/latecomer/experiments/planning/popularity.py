"""S5, *planning* Fig. 7: the number of stores is given; over the exponent of popularity."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import (
    Axis,
    Claim,
    Sweep,
    access_sweep,
    compared,
    everywhere,
    from_zero,
    gone_past,
    random_stores_sweep,
    solved,
    solved_panel,
    traffic_panel,
    tree_sweep,
)
from latecomer.experiments.grid import Table
from latecomer.experiments.trials import Placing
from latecomer.experiments.verdict import Verdict, ranged, verdict

BASE = Placing(stores=20, capacity=5)
STORES = (20, 10)


class Popularity(Claim):
    id: ClassVar[str] = "S5"
    paper: ClassVar[str] = "planning"
    title: ClassVar[str] = "Fig. 7: popularity"
    sentence: ClassVar[str] = "10–25 % better than rnd and less than 9 % worse than grd_opt."
    given: ClassVar[str] = (
        "N = 100, M = 20 and M = 10, L = 5, T = 10, uniform locality. Ours: s_p from −1 to 1; under uniform locality "
        "−s is s with the topics in reversed order, so only s ≥ 0 is judged; ties go to the lowest index."
    )

    def axes(self, quick: bool) -> list[Axis]:
        drawn = [exponents(stores, quick) for stores in STORES]
        return [*drawn, *map(solved, drawn)]

    def sweeps(self) -> list[Sweep]:
        base = msgspec.structs.replace(BASE, popularity=0.5)
        return [tree_sweep(base), random_stores_sweep(base), access_sweep(base)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axes = [(f"M = {stores}", exponents(stores, quick)) for stores in STORES]
        hops = tuple(solved_panel(table, axis, solved(axis), title) for title, axis in axes)
        traffic = tuple(traffic_panel(table, axis, title) for title, axis in axes)
        return [
            Chart("planning-fig7", "Fig. 7: over the exponent of popularity", hops),
            Chart("planning-fig7-ont", "Fig. 7: overall network traffic", traffic),
        ]

    def judge(self, table: Table, quick: bool) -> Verdict:
        axes = [exponents(stores, quick) for stores in STORES]
        over_rnd, over_grd_opt, over_seq = compared(table, [p for axis in axes for p in from_zero(axis)])
        before = compared(table, everywhere(axes))
        parts = [
            ranged("10–25 % better than rnd", over_rnd, 10, 25, before=before[0]),
            ranged("< 9 % worse than grd_opt", over_grd_opt, -inf, 9, before=before[1]),
            ranged("wrr 4–17 % better than seq", over_seq, 4, 17, before=before[2]),
        ]
        past = gone_past(table, everywhere([solved(axis) for axis in axes]))
        return verdict(self.id, self.sentence, parts, f"{WHY} {past}")


def exponents(stores: int, quick: bool) -> Axis:
    steps = (-1.0, 0.0, 1.0) if quick else (-1.0, -0.5, 0.0, 0.5, 1.0)
    points = {s: msgspec.structs.replace(BASE, stores=stores, popularity=s) for s in steps}
    return Axis("exponent of popularity s_p", points)


WHY = (
    "Here all L·M slots are taken and all topics want the same places, as everybody asks everywhere alike. A "
    "likely reason, not measured: votes rank places, not sets of them: whoever comes too late for a place gets "
    "the next in the list, often next to a replica it has. What is measured is that most of it is lost by the "
    "walk of step 4 and little by the choice of stores (below). No tree and no access rule of the sweeps comes to "
    "the paper's figures; only a rnd whose stores are drawn by chance is beaten by as much as it says."
)
