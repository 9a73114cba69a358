"""D9, Fig. 8: the three patterns of subscriptions."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Sweep
from latecomer.experiments.dynatops.glimpse import Glimpse
from latecomer.experiments.dynatops.judging import (
    below,
    cluster_sweep,
    load,
    load_sweep,
    popular_sweep,
    sigma_sweep,
    swept,
    system_panel,
    walks,
)
from latecomer.experiments.dynatops.playing import change
from latecomer.experiments.dynatops.poisson import Pattern
from latecomer.experiments.dynatops.rates import BASE, DRAWN, GIVEN, OTHERS, QUICK_HOURS
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import between
from latecomer.experiments.verdict import Part, Verdict, shown, verdict

PATTERNS: tuple[Pattern, ...] = ("uniform", "zipf", "multimodal")
HOURS = 50
SHORT = Glimpse(hours=HOURS)
UNIFORM, ZIPF = (swept(BASE, pattern=pattern) for pattern in PATTERNS[:2])


def pattern_axis(quick: bool) -> Axis:
    base = change(SHORT, hours=QUICK_HOURS) if quick else SHORT
    uniform, zipf, multimodal = (change(base, pattern=pattern) for pattern in PATTERNS)
    return Axis("1 uniform, 2 Zipf, 3 multimodal", {1.0: uniform, 2.0: zipf, 3.0: multimodal if quick else BASE})


class Patterns(Claim):
    id: ClassVar[str] = "D9"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 8: three patterns of subscriptions"
    sentence: ClassVar[str] = (
        "TCO has a low delay under the Zipf pattern but worse under the others; DYNATOPS outperforms the other systems "
        "under all patterns."
    )
    given: ClassVar[str] = (
        "Rate 0.1, T_free = 10 h. "
        + GIVEN
        + " Zipf with σ = 1; the first two patterns for 50 of the 100 hours, as the measures are means over time."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [pattern_axis(quick)]

    def sweeps(self) -> list[Sweep]:
        return [
            load_sweep(UNIFORM),
            cluster_sweep(UNIFORM),
            sigma_sweep(ZIPF),
            popular_sweep(ZIPF),
        ]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axis = pattern_axis(quick)
        panels = (
            system_panel(table, axis, "delay", "delay (hops)", DRAWN, "(a)"),
            system_panel(table, axis, "overhead", "messages per publication", DRAWN, "(b)"),
            system_panel(table, axis, "load_spread", "load: deviation / mean (%)", ("bayeux", "dynatops"), "load"),
        )
        return [Chart("dynatops-fig8", "Fig. 8: delay, overhead and the spread of the load by pattern", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        axis = pattern_axis(quick)
        uniform, zipf, multimodal = axis.settings()
        parts: list[Part] = [
            *(
                between(f"DYNATOPS outperforms {word} on {measure} under all patterns", points, 0, inf)
                for measure in ("delay", "overhead")
                for word, points in (
                    ("Bayeux", below(table, axis, measure, OTHERS[0])),
                    ("TCO", below(table, axis, measure, OTHERS[1])),
                )
            ),
            between(
                "TCO's delay is low under Zipf: below Bayeux's",
                [table.better(zipf, "delay_tco", "delay_bayeux")],
                0,
                inf,
            ),
            between(
                "TCO's delay is worse under the others: above Bayeux's",
                [table.worse(setting, "delay_tco", "delay_bayeux") for setting in (uniform, multimodal)],
                0,
                inf,
            ),
            shown(
                between(
                    "*beside it:* broker subscription changes below Bayeux's",
                    below(table, axis, "changes", "bayeux"),
                    0,
                    inf,
                )
            ),
            *walks(table, axis),
            *load(table, axis),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


WHY = (
    "**Why.** *Delay*: as in D8, Chord's routes are longer than Tapestry's, and TCO's are about as short as "
    "Tapestry's: where everybody wants almost everything, a topic's overlay is nearly the whole overlay. *Overhead*: "
    "TCO sends each subscribing broker one message, the least there can be with its homes; DYNATOPS is below it only "
    "where selection leaves fewer brokers to send to, and under Zipf it does not leave enough. Under the uniform "
    "pattern nothing is similar to anything: selection keeps users moving, and *raises* the brokers' subscription "
    "changes by two fifths, whatever w_l is above 0 (sweep), and still by 7 % with w_l = 0."
)
