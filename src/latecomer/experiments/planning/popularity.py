"""S5, *planning* Fig. 7: the number of stores is given; over the exponent of popularity."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import (
    Axis,
    Claim,
    Sweep,
    access_sweep,
    everywhere,
    gone_past,
    random_stores_sweep,
    solved_panel,
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
    given: ClassVar[str] = "N = 100, M = 20 and M = 10, L = 5, T = 10, uniform locality. Ours: s_p from −1 to 1."

    def axes(self, quick: bool) -> list[Axis]:
        return [exponents(BASE, stores, quick) for stores in STORES]

    def sweeps(self) -> list[Sweep]:
        base = msgspec.structs.replace(BASE, popularity=0.5)
        return [tree_sweep(base), random_stores_sweep(base), access_sweep(base)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axes = zip(STORES, self.axes(quick), strict=True)
        panels = tuple(solved_panel(table, axis, f"M = {stores}") for stores, axis in axes)
        return [Chart("planning-fig7", "Fig. 7: over the exponent of popularity", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        points = everywhere(self.axes(quick))
        parts = [
            ranged("10–25 % better than rnd", [table.better(p, "hops_wrr", "hops_rnd") for p in points], 10, 25),
            ranged("< 9 % worse than grd_opt", [table.worse(p, "hops_wrr", "hops_grd_opt") for p in points], -100, 9),
            ranged("wrr 4–17 % better than seq", [table.better(p, "hops_wrr", "hops_seq") for p in points], 4, 17),
        ]
        return verdict(self.id, self.sentence, parts, f"{WHY} {gone_past(table, points)}")


def exponents(base: Placing, stores: int, quick: bool) -> Axis:
    steps = (-1.0, 0.0, 1.0) if quick else (-1.0, -0.5, 0.0, 0.5, 1.0)
    change = msgspec.structs.replace
    return Axis(
        "exponent of popularity s_p", {s: change(base, stores=stores, solved=True, popularity=s) for s in steps}
    )


WHY = (
    "Here all L·M slots are taken and all topics want the same places, as everybody asks everywhere alike. A "
    "likely reason, not measured: votes rank places, not sets of them: whoever comes too late for a place gets "
    "the next in the list, often next to a replica it has. What is measured is that most of it is lost by the "
    "walk of step 4 and little by the choice of stores (below). No tree and no access rule of the sweeps comes to "
    "the paper's figures; only a rnd whose stores are drawn by chance is beaten by as much as it says."
)
