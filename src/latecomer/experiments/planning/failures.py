"""S7, *planning* Fig. 9: stores fail, and requests go to the nearest that is left."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments import old_rule
from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Column, Sweep, access_sweep, hops_panel, tree_sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.statistics import estimate, ratio, slope
from latecomer.experiments.trials import Failing, Placing
from latecomer.experiments.verdict import Verdict, limited, ranged, verdict

BASE = Failing(stores=20, capacity=5, popularity=0.8, failed=5)
QUARTER = 5
LINEAR = 0.95
"""The share r² that a straight line explains, from which on we call a curve linear."""
ANEW = tuple(Placing(stores=stores, capacity=5, popularity=0.8, solved=True) for stores in (20, 15))
SWEEP_COLUMNS = (
    Column("mean hops, none failed", "mean", "whole_wrr"),
    Column("wrr longer at 25 %", "worse", "hops_wrr", "whole_wrr"),
    Column("seq longer at 25 %", "worse", "hops_seq", "whole_seq"),
    Column("rnd longer at 25 %", "worse", "hops_rnd", "whole_rnd"),
)


class Failures(Claim):
    id: ClassVar[str] = "S7"
    paper: ClassVar[str] = "planning"
    title: ClassVar[str] = "Fig. 9: failures of stores"
    sentence: ClassVar[str] = "A linear increase of the mean hop distance, up to 11 % when 25 % of the stores fail."
    given: ClassVar[str] = (
        "s_p = 0.8, uniform locality, every point the mean of 20 sets of failed stores. Ours, as in Figs. 7 and 10: "
        "N = 100, M = 20, L = 5; linear is r² above 0.95; ties go to the lowest index."
    )

    def axes(self, quick: bool) -> list[Axis]:
        counts = (0, 2, 5) if quick else tuple(range(11))
        failing: dict[float, Failing] = {failed: msgspec.structs.replace(BASE, failed=failed) for failed in counts}
        return [Axis("number of failed stores", failing), Axis("number of stores M", dict(enumerate(ANEW)))]

    def sweeps(self) -> list[Sweep]:
        return [tree_sweep(BASE, SWEEP_COLUMNS), stores_sweep(), access_sweep(BASE, SWEEP_COLUMNS)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        panel = hops_panel(table, self.axes(quick)[0], ("seq", "wrr", "rnd"))
        return [Chart("planning-fig9", "Fig. 9: over the number of failed stores", (panel,))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        axis = self.axes(quick)[0]
        quarter = axis.points[QUARTER]
        runs = [table.values(setting, "hops_wrr") for setting in axis.settings()]
        straight = estimate([slope(list(axis.points), list(seed))[1] for seed in zip(*runs, strict=True)])
        longer = [table.worse(quarter, f"hops_{name}", f"whole_{name}") for name in ("wrr", "seq")]
        linear_before = old_rule.stated(straight.mean > LINEAR)
        unserved = table.mean(quarter, "unserved_wrr").mean
        parts = [
            ranged("up to 11 % longer at 25 % failed", longer, 0, 11),
            limited("linear", straight, LINEAR, inf, f"r² = {straight.show('', 3)}", old=linear_before),
        ]
        lost = f"At 25 % failed {100 * unserved:.2f} % of the requests find no store at all and are not counted."
        return verdict(self.id, self.sentence, parts, f"{WHY} {placed_anew(table)} {lost}")


def stores_sweep() -> Sweep:
    told = "M is not given for this figure."
    options = {str(m): msgspec.structs.replace(BASE, stores=m, failed=m // 4) for m in (12, 20, 40)}
    return Sweep("number of stores M", told, "20", options, SWEEP_COLUMNS)


def placed_anew(table: Table) -> str:
    """What is left of the way when the failed stores are given up and the others placed anew."""
    all_of_them, fewer = ANEW
    names = {"wrr": "hops_wrr", "our refined plan": "hops_refined"}
    longer = {name: ratio(table.values(fewer, m), table.values(all_of_them, m)) for name, m in names.items()}
    told = " and ".join(f"{100 * e.mean - 100:.0f} % ± {100 * e.half:.0f} for {name}" for name, e in longer.items())
    return f"Even with {fewer.stores} instead of {all_of_them.stores} stores placed anew the way is longer, by {told}."


WHY = "No tree and no M of the sweeps comes down to 11 %."
