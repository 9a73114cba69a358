"""D13: orderings and sentences that belong to no single figure."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, panel, scaled
from latecomer.experiments.dynatops.judging import below
from latecomer.experiments.dynatops.patterns import pattern_axis
from latecomer.experiments.dynatops.rates import OTHERS, rate_axis
from latecomer.experiments.dynatops.sizes import size_axes
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import between, new
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.verdict import TOLERANCE, Part, Verdict, mostly, shown, verdict

GENERAL = 30.0


class Sentences(Claim):
    id: ClassVar[str] = "D13"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Orderings, the abstract, and the lemmas"
    sentence: ClassVar[str] = (
        "TCO is ahead of Bayeux in overhead and behind it in delay (Fig. 7); 30 % less notification delay and overhead "
        "in general (abstract); SSBR-Greedy takes at most O(P · V) iterations for P topics and V brokers (lemma 3.3)."
    )
    given: ClassVar[str] = (
        "The points of Figs. 7, 8 and 10. “In general” is at more than half of the points of Figs. 7 and 8, next to "
        "Bayeux and to TCO; 30 % less is 24 % or more. The location model has its own figures."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [rate_axis(quick), pattern_axis(quick), *size_axes(quick)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        _, _, *sizes = self.axes(quick)
        panels = tuple(panel(table, axis, {"swaps": "swaps"}, "iterations", axis.label) for axis in sizes[:2])
        return [Chart("dynatops-iterations", "Iterations of SSBR-Greedy", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        rates, patterns, *sizes = self.axes(quick)
        everywhere = Axis(
            "", {float(n): s for n, s in enumerate(dict.fromkeys([*rates.settings(), *patterns.settings()]))}
        )
        least = (1 - TOLERANCE) * GENERAL
        grown = [setting for axis in sizes for setting in axis.settings()]
        parts: list[Part] = [
            between("TCO's overhead is below Bayeux's", below(table, rates, "overhead", "bayeux", "tco"), 0, inf),
            between(
                "TCO's delay is above Bayeux's",
                [table.worse(setting, "delay_tco", "delay_bayeux") for setting in rates.settings()],
                0,
                inf,
            ),
            *(
                new(
                    mostly(
                        f"about 30 % less {measure} in general",
                        [point for other in OTHERS for point in below(table, everywhere, measure, other)],
                        least,
                        inf,
                    )
                )
                for measure in ("delay", "overhead")
            ),
            between(
                "iterations, next to topics times brokers",
                [table.ratio(setting, "swaps", "bound") for setting in grown],
                0,
                1,
                " times",
            ),
            shown(
                between(
                    "ours: iterations, next to brokers",
                    [
                        _per_broker(table, axis, x)
                        for axis in sizes
                        for x in axis.points
                        if axis.label.startswith("|B|")
                    ],
                    0,
                    1,
                    " times",
                )
            ),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


def _per_broker(table: Table, axis: Axis, brokers: float) -> Estimate:
    return scaled(table.mean(axis.points[brokers], "swaps"), 1 / brokers)


WHY = (
    "That TCO is behind in delay depends on its parts: with parts of ten brokers its overlays are a little deeper than "
    "Tapestry's routes, from the publisher on. For the delay of DYNATOPS see D8. Iterations are far below the bound, "
    "and grow with the number of brokers rather than with the product."
)
