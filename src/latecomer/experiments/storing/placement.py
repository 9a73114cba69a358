"""S3, *storing* Figs. 4 and 5: mean hop distance and stores, over N, SC and k."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import (
    Axis,
    Claim,
    Column,
    Sweep,
    access_sweep,
    everywhere,
    panel,
    random_stores_sweep,
    tree_sweep,
)
from latecomer.experiments.grid import Table
from latecomer.experiments.live import Live
from latecomer.experiments.parts import agreement, falling, sublinear
from latecomer.experiments.trials import Placing
from latecomer.experiments.verdict import Part, Verdict, better, ranged, up_to, verdict

BASE = Placing(demand="uniform", equal=True, replicas=5, capacity=5)
CURVES = {"pub/sub": "hops_seq", "grd_opt": "hops_grd_opt", "rnd": "hops_rnd"}
STORES = {"pub/sub": "stores_seq", "grd_opt": "stores_grd_opt", "rnd": "stores_rnd"}
SWEEP_COLUMNS = (
    Column("mean hops", "mean", "hops_seq"),
    Column("better than rnd", "better", "hops_seq", "hops_rnd"),
    Column("worse than grd_opt", "worse", "hops_seq", "hops_grd_opt"),
    Column("fewer stores than grd_opt", "better", "stores_seq", "stores_grd_opt"),
)


class Placement(Claim):
    """The paper's assignment is `seq`: a topic takes all its replicas at once."""

    id: ClassVar[str] = "S3"
    paper: ClassVar[str] = "storing"
    title: ClassVar[str] = "Figs. 4 and 5: distance and number of stores"
    sentence: ClassVar[str] = (
        "Better than rnd; less than 1–15 % worse than grd_opt with 50–80 % fewer stores; at SC = T as good as grd_opt "
        "with up to three times fewer stores; grows slower than N, falls with SC and with k."
    )
    given: ClassVar[str] = (
        "T = 10 topics, rates drawn between 0 and 1 request per second for each broker and topic, 1 message per second "
        "and topic with a lifetime of 1000 s, N brokers in a tree. Ours: N = 100, SC = 5 and k = 5 where they are not "
        "varied, M = ⌈T·k / SC⌉; “as good as” is at most 1 % worse; ties go to the broker with the lowest index."
    )

    def axes(self, quick: bool) -> list[Axis]:
        change = msgspec.structs.replace
        sizes = (20, 60, 100) if quick else (20, 40, 60, 80, 100, 140, 200)
        capacities = (1, 5, 10) if quick else (1, 2, 3, 4, 5, 6, 8, 10)
        counts = (1, 5, 10) if quick else (1, 2, 3, 4, 5, 6, 8, 10)
        return [
            Axis("number of brokers N", {n: change(BASE, brokers=n) for n in sizes}),
            Axis("storage capacity SC", {sc: change(BASE, capacity=sc) for sc in capacities}),
            Axis("replication degree k", {k: change(BASE, replicas=k) for k in counts}),
            Axis("number of brokers N", live_points(quick)),
        ]

    def sweeps(self) -> list[Sweep]:
        kinds = (tree_sweep, random_stores_sweep, access_sweep)
        told = "where SC is varied, N is not given; here SC = T."
        sizes = {str(n): msgspec.structs.replace(BASE, brokers=n, capacity=10) for n in (30, 50, 100, 200)}
        return [
            *(sweep(BASE, SWEEP_COLUMNS) for sweep in kinds),
            Sweep("number of brokers N", told, "100", sizes, SWEEP_COLUMNS),
        ]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axes = self.axes(quick)[:3]
        return [
            Chart("storing-fig4", "Mean hop distance", tuple(panel(table, axis, CURVES) for axis in axes)),
            Chart(
                "storing-fig5",
                "Number of stores used",
                tuple(panel(table, axis, STORES, "number of stores used") for axis in axes),
            ),
        ]

    def judge(self, table: Table, quick: bool) -> Verdict:
        by_size, by_capacity, by_count, live = self.axes(quick)
        points = everywhere((by_size, by_capacity, by_count))
        full = by_capacity.points[10]
        few = [table.better(point, "stores_seq", "stores_grd_opt") for point in points]
        parts: list[Part] = [
            better("better than rnd", [table.better(p, "hops_seq", "hops_rnd") for p in points]),
            ranged("1–15 % from grd_opt", [table.worse(p, "hops_seq", "hops_grd_opt") for p in points], 0, 15),
            ranged("50–80 % fewer stores", few, 50, 80),
            ranged("as good as grd_opt at SC = T", [table.worse(full, "hops_seq", "hops_grd_opt")], -inf, 1),
            up_to(
                "up to 3 times fewer stores at SC = T", [table.ratio(full, "stores_grd_opt", "stores_seq")], 3, " times"
            ),
            sublinear("grows slower than N", table, by_size, "hops_seq"),
            falling("falls with SC", table, by_capacity, "hops_seq"),
            falling("falls with k", table, by_count, "hops_seq"),
            agreement(table, live.settings()),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


def live_points(quick: bool) -> dict[float, Live]:
    """Small enough to send every message."""
    fields = {name: getattr(BASE, name) for name in BASE.__struct_fields__}
    sizes = (20,) if quick else (20, 40, 60)
    return {n: Live(**{**fields, "brokers": n}, algorithm="seq", asked=500 if quick else 1000) for n in sizes}


WHY = (
    "M = ⌈T·k / SC⌉ follows from the capacity and falls from 50 to 5, while grd_opt uses about ten stores whatever SC: "
    "with rates drawn alike everywhere the topics hardly differ and vote for nearly the same places. So at small SC "
    "there can be no saving. At SC = T there is one, and the larger the smaller the network, where chance makes topics "
    "differ more (sweep over N). At SC = T rnd keeps every topic in every store too and differs only in its choice of "
    "stores, which is a little better than the one by weighted votes. The distance to grd_opt is the paper's where SC "
    "is large."
)
