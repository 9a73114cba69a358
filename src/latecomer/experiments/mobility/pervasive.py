"""M7: the pervasive scenario, Fig. 9."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Column, Sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import (
    MARGINAL,
    OVERHEAD,
    about,
    between,
    both_panels,
    delay_sweep,
    edge_sweep,
    populations,
    sweep,
)
from latecomer.experiments.mobility.wandering import Wandering
from latecomer.experiments.verdict import Verdict, shown, verdict

BASE = Wandering(scenario="pervasive")
ON_DEVICE = Wandering(
    scenario="pervasive", algorithms=("standard", "standard on device", "prefetching", "prefetching on device")
)
GIVEN = (
    "As *random*, but connected to every broker on the way. Ours: disconnected for one second between two brokers; a "
    "hand-off is a handful of messages, so that none waits for another."
)
MIGRATION = tuple(Column(f"migration, {name}", "mean", f"migration_{name}") for name in ("standard", "logging"))


class Pervasive(Claim):
    id: ClassVar[str] = "M7"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 9: average overhead, pervasive"
    sentence: ClassVar[str] = (
        "Home-broker has the highest overhead, but the other approaches all perform equally well; subscription "
        "migration accounts for about 60 % of the unicast traffic of standard and logging, so subscriptions on the "
        "device would be beneficial."
    )
    given: ClassVar[str] = GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick), Axis("on device", {800.0: ON_DEVICE})]

    def sweeps(self) -> list[Sweep]:
        told = "“disconnection periods are very short”."
        gaps = {f"{gap:g} s": msgspec.structs.replace(BASE, gap_s=gap) for gap in (0.0, 1.0, 5.0, 30.0)}
        columns = OVERHEAD + MIGRATION
        others = [kind(BASE, columns) for kind in (edge_sweep, delay_sweep)]
        return [sweep("disconnected between two brokers", told, "1 s", gaps, columns), *others]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        return [Chart("mobility-fig9", "Fig. 9: average overhead, pervasive", both_panels(table, self.axes(quick)[0]))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        points = self.axes(quick)[0].settings()
        parts = [
            between(
                "home-broker has the highest overhead",
                [table.worse(p, "overhead_home-broker", "overhead_standard") for p in points],
                0,
                inf,
            ),
            *(
                between(
                    f"{name} performs as standard",
                    [table.worse(p, f"overhead_{name}", "overhead_standard") for p in points],
                    -MARGINAL,
                    MARGINAL,
                )
                for name in ("prefetching", "logging")
            ),
            *(
                about(f"{name}: about 60 % is migration", table.mean(BASE, f"migration_{name}"), 60)
                for name in ("standard", "logging")
            ),
            shown(
                between(
                    "subscriptions on the device save, of standard's overhead",
                    [table.better(ON_DEVICE, "overhead_standard on device", "overhead_standard")],
                    0,
                    inf,
                )
            ),
        ]
        return verdict(self.id, self.sentence, parts)
