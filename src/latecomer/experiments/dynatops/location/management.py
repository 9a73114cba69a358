"""D3, D4, D5: what moving users cost brokers, Figs 6a to 6c."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart, Curve, Panel
from latecomer.experiments.claim import Axis, Claim, Column, Sweep
from latecomer.experiments.dynatops.location.located import (
    BAYEUX_PLACE,
    BAYEUX_STATIC,
    BS,
    GEOPS,
    ON_CHORD,
    OTHERS,
    Located,
    of,
)
from latecomer.experiments.dynatops.location.reading import (
    MANAGED,
    MANAGED_GIVEN,
    SHOWN_SEEDS,
    SIZES,
    C,
    across,
    along,
    below,
    between,
    load_beside,
    name,
    sizes_panel,
    swept,
)
from latecomer.experiments.grid import Table
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.verdict import Verdict, shown, verdict

ALONE = msgspec.structs.replace(MANAGED, systems=(BS,))
UNWEIGHED = msgspec.structs.replace(ALONE, load_weight=0.0)
AREA = msgspec.structs.replace(ALONE, area=True, seeds=SHOWN_SEEDS)
WEIGHTS = {"DYNATOPS, w_l = 0.2 · c": (MANAGED, BS), "DYNATOPS, w_l = 0": (UNWEIGHED, BS)}
MIDDLE = (5, 10, 20)
"""Before the rise."""
UPDATES_H = (1.0, 6.0, 24.0, 168.0)
ALL_SYSTEMS = (BAYEUX_STATIC, BAYEUX_PLACE, GEOPS, BS)
MANAGEMENT = (
    *(Column(f"c = {size}", "mean", name("management", BS, size)) for size in SIZES),
    Column("of it exchange, c = 50", "mean", name("exchange", BS, 50)),
    Column("load spread, c = 10", "mean", name("load_spread", BS, C)),
)


def _compared(base: Located, **changed: object) -> Located:
    return swept(base, systems=ALL_SYSTEMS, **changed)


def _rises(table: Table) -> str:
    """For which T_update the curve of w_l = 0 falls to c = 20 and rises to c = 50: exchange next to tree updates."""

    def break_even_h(before: int, after: int) -> float:
        more, less = (
            table.mean(UNWEIGHED, name(measure, BS, size)).mean
            for measure, size in (("exchange", after), ("trees", after))
        )
        more -= table.mean(UNWEIGHED, name("exchange", BS, before)).mean
        saved = table.mean(UNWEIGHED, name("trees", BS, before)).mean - less
        return UNWEIGHED.update_h * more / saved if saved > 0 else inf

    longest = break_even_h(20, 50)
    return (
        f"With w_l = 0 a step of c saves more tree updates than it costs in exchange if T_update is above "
        f"{break_even_h(5, 10):.0f} h from 5 to 10, above {break_even_h(10, 20):.0f} h from 10 to 20, and above "
        f"{longest:.0f} h from 20 to 50: so the paper's curve, falling to c = 20 and rising to c = 50, is that of a "
        f"T_update from {break_even_h(10, 20):.0f} to {longest:.0f} h."
    )


def _less(above: Estimate) -> Estimate:
    """By how many per cent it is below."""
    return msgspec.structs.replace(above, mean=-above.mean)


class Management(Claim):
    id: ClassVar[str] = "D3"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 6a: subscription management overhead over the cluster size"
    sentence: ClassVar[str] = (
        "DYNATOPS significantly reduces the subscription management overhead against other systems (over 40 %); it "
        "first decreases with the cluster size c; under large cluster sizes (c = 50) it starts to increase."
    )
    given: ClassVar[str] = MANAGED_GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("w_l", {0.2: MANAGED, 0.0: UNWEIGHED})]

    def sweeps(self) -> list[Sweep]:
        told = "“every T_update period”, and nothing on how long it is."
        periods = {f"{hours:g} h": swept(ALONE, update_h=hours) for hours in UPDATES_H}
        unweighed = {f"{hours:g} h": swept(UNWEIGHED, update_h=hours) for hours in UPDATES_H}
        similar = {kind: swept(ALONE, similarity=kind) for kind in ("asked", "after", "others")}
        areas = {"stays": swept(ALONE), "follows": swept(ALONE, area=True)}
        versus = (
            *(Column(f"c = 10, below {other}", "better", name("management", BS, C), name("management", other))
              for other in (BAYEUX_STATIC, BAYEUX_PLACE, GEOPS)),
            Column("c = 10, below c = 5", "better", name("management", BS, 10), name("management", BS, 5)),
            Column("c = 50, above c = 20", "worse", name("management", BS, 50), name("management", BS, 20)),
        )  # fmt: skip
        grounds = {
            "spread": _compared(MANAGED),
            "cities": _compared(MANAGED, where="cities", rows=20, columns=60, south=29.0, degrees=1.0, side=32,
                                branches=(2, 2, 2, 2, 2)),
            "spread, 2,000 users": _compared(MANAGED, users=2_000, checkins=50_000),
        }  # fmt: skip
        return [
            Sweep("T_update", told, "24 h", periods, MANAGEMENT),
            Sweep("T_update, with w_l = 0", told, "24 h", unweighed, MANAGEMENT),
            Sweep(
                "similarity",
                "brokers' subscriptions before the change (asked), after it (after: the present broker always has "
                "all), or without the user's own (others).",
                "asked",
                similar,
                MANAGEMENT,
            ),
            Sweep(
                "who leaves the area of a cluster",
                "“let each cluster manage users in a continuous geographical area close to it”, and the protocol asks "
                "the present broker for ever.",
                "stays",
                areas,
                MANAGEMENT,
            ),
            Sweep(
                "where people are",
                "the paper has 1,200 cells; the real check-ins fill 80 cells of a degree (*cities*: the calibration "
                "as it is, on 20 × 60).",
                "spread",
                grounds,
                versus,
            ),
        ]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        panels = (
            sizes_panel(table, MANAGED, "management", "messages", flat=OTHERS, more=WEIGHTS),
            Panel(
                "of which",
                "cluster size c",
                "messages",
                tuple(
                    Curve(label, tuple(map(float, SIZES)), tuple(table.mean(MANAGED, name(m, BS, c)) for c in SIZES))
                    for label, m in {"tree updates": "trees", "exchange": "exchange", "tree updates, core": "core_trees"
                                     }.items()
                ),
            ),
        )  # fmt: skip
        return [Chart("dynatops-fig6a", "Fig. 6a: subscription management overhead", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        points = [p for size in MIDDLE for p in below(table, MANAGED, "management", of(BS, size), OTHERS)]
        names = [name("management", BS, size) for size in SIZES]
        chord = [p for size in MIDDLE for p in below(table, MANAGED, "management", of(BS, size), ON_CHORD)]
        trees = [name("trees", BS, size) for size in SIZES]
        pure = [
            _less(across(table, UNWEIGHED, MANAGED, name("management", BS, size), name("management", other)))
            for size in MIDDLE
            for other in OTHERS
        ]
        hops = table.mean(MANAGED, name("trees", BS, C)).mean / table.mean(MANAGED, name("changes", BS, C)).mean
        flat = table.mean(MANAGED, name("trees", BAYEUX_PLACE)).mean
        flat /= table.mean(MANAGED, name("changes", BAYEUX_PLACE)).mean
        why = (
            f"A change of a broker costs {hops:.1f} messages on Chord and {flat:.1f} on Tapestry, whose routes are "
            "shorter, so that fewer changes need not be fewer messages; beside Bayeux-on-Chord both have the same "
            "routes. Exchange costs |B|·(c − 1) messages every T_update: the rise is T_update alone. The weight of "
            "load decides the rest: with w_l = 0.2 · c users are moved for load's sake, and each move costs brokers as "
            "much as it saves; with w_l = 0 the figure is near the paper's, and the load is what D4 shows. "
            f"{_rises(table)} {load_beside(table, MANAGED)}"
        )
        return verdict(
            self.id,
            self.sentence,
            [
                between("over 40 % less than Bayeux(static, loc, loc+PNS) and GeoPS, c = 5, 10, 20", points, 40),
                along("decreases with c, up to 20", table, MANAGED, names[:-1], -1),
                along("starts to increase, c = 50", table, MANAGED, names[-2:], 1),
                shown(between("with w_l = 0: over 40 % less, c = 5, 10, 20", pure, 40)),
                shown(along("with w_l = 0: decreases with c, up to 20", table, UNWEIGHED, names[:-1], -1)),
                shown(along("with w_l = 0: starts to increase, c = 50", table, UNWEIGHED, names[-2:], 1)),
                shown(between("w_l = 0.2 · c beside Bayeux-on-Chord(static, loc): over 40 % less", chord, 40)),
                shown(along("tree updates alone decrease with c", table, MANAGED, trees, -1)),
            ],
            why,
        )


class LoadSpread(Claim):
    id: ClassVar[str] = "D4"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 6b: spread of the brokers' load"
    sentence: ClassVar[str] = (
        "Pure similarity based broker selection (w_l = 0) worsens the load imbalance on brokers, especially when the "
        "cluster size is large; the issue is greatly improved by adjusting the weight for the load factor."
    )
    given: ClassVar[str] = MANAGED_GIVEN + " Load is the number of subscriptions of a broker's users, mean over time."

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("w_l", {0.2: MANAGED, 0.0: UNWEIGHED})]

    def sweeps(self) -> list[Sweep]:
        weights = {f"{weight:g} · c": swept(ALONE, load_weight=weight) for weight in (0.0, 0.02, 0.2, 2.0)}
        columns = (
            *(Column(f"spread, c = {size}", "mean", name("load_spread", BS, size)) for size in SIZES),
            Column("busiest over mean, c = 50", "mean", name("load_highest", BS, 50)),
            Column("management, c = 10", "mean", name("management", BS, C)),
        )
        return [Sweep("w_l", "“adjusting the weight”, and no value.", "0.2 · c", weights, columns)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        flat = (BAYEUX_STATIC, BAYEUX_PLACE, GEOPS)
        return [
            Chart(
                "dynatops-fig6b",
                "Fig. 6b: spread of load",
                (sizes_panel(table, MANAGED, "load_spread", "standard deviation / mean", flat=flat, more=WEIGHTS),),
            )
        ]

    def judge(self, table: Table, quick: bool) -> Verdict:
        spread = [name("load_spread", BS, size) for size in SIZES]
        flat = [across(table, UNWEIGHED, MANAGED, one, name("load_spread", BAYEUX_PLACE)) for one in spread]
        static = [across(table, UNWEIGHED, MANAGED, one, name("load_spread", BAYEUX_STATIC)) for one in spread]
        repaired = [across(table, UNWEIGHED, MANAGED, one) for one in spread]
        return verdict(
            self.id,
            self.sentence,
            [
                between("w_l = 0 worsens it, beside location-based homes", flat, 0),
                along("the more, the larger c", table, UNWEIGHED, spread, 1),
                between("w_l = 0 is above w_l > 0", repaired, 0),
                shown(between("w_l = 0 beside static homes", static, 0)),
            ],
        )


class HandOvers(Claim):
    id: ClassVar[str] = "D5"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 6c: hand-overs of users"
    sentence: ClassVar[str] = "DYNATOPS reduces the user handovers by over 90 % against GeoPS."
    given: ClassVar[str] = MANAGED_GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("rule", {0.0: MANAGED, 1.0: UNWEIGHED, 2.0: AREA})]

    def sweeps(self) -> list[Sweep]:
        base = swept(MANAGED, systems=(GEOPS, BS))
        options = {
            "asked": base,
            "after": msgspec.structs.replace(base, similarity="after"),
            "after, w_l = 0": msgspec.structs.replace(base, similarity="after", load_weight=0.0),
            "others": msgspec.structs.replace(base, similarity="others"),
        }
        told = (
            "whether the user's own topics count for the present broker, and whether the new one does; whether a "
            "better broker is taken however little better it is."
        )
        columns = tuple(
            Column(f"c = {size}, fewer than GeoPS", "better", name("hand_overs", BS, size), name("hand_overs", GEOPS))
            for size in SIZES
        )
        return [Sweep("similarity", told, "asked", options, columns)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        more = WEIGHTS | {"DYNATOPS, by area": (AREA, BS)}
        shown_ = sizes_panel(table, MANAGED, "hand_overs", "hand-overs", flat=(GEOPS, BAYEUX_PLACE), more=more)
        return [Chart("dynatops-fig6c", "Fig. 6c: hand-overs", (shown_,))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        def fewer(setting: Located) -> list[Estimate]:
            return [
                across(table, setting, MANAGED, name("hand_overs", BS, c), name("hand_overs", GEOPS)) for c in SIZES
            ]

        literal, pure, area = ([_less(point) for point in fewer(setting)] for setting in (MANAGED, UNWEIGHED, AREA))
        return verdict(
            self.id,
            self.sentence,
            [
                between("over 90 % fewer than GeoPS, c = 5, 10, 20, 50", literal, 90),
                shown(between("with w_l = 0", pure, 90)),
                shown(between("where leaving the area of a cluster forces a move", area, 90)),
            ],
            "Whoever stays at the first broker is handed over to nobody: with w_l = 0 only a topic that the own broker "
            "lacks moves anybody. With w_l > 0 every change, also of a friend's cell, is an occasion to be moved for "
            f"load's sake, and there are five times as many changes as moves. {load_beside(table, MANAGED)}",
        )
