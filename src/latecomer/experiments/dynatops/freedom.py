"""D10, the Poisson half of Fig. 9: how long a configuration stays."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Sweep
from latecomer.experiments.dynatops.judging import (
    SLIGHT,
    load,
    publications_sweep,
    system_panel,
)
from latecomer.experiments.dynatops.playing import Playing, change
from latecomer.experiments.dynatops.rates import GIVEN, QUICK_HOURS
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import between, changes, new
from latecomer.experiments.parts import fall
from latecomer.experiments.verdict import Part, Verdict, shown, verdict

BASE = Playing(rate=0.025, systems=("dynatops",))
FREE = (2, 10, 50)


def free_axis(quick: bool, base: Playing = BASE) -> Axis:
    """Over T_free."""
    lengths = (2, 10) if quick else FREE
    found = change(base, hours=QUICK_HOURS) if quick else base
    return Axis("T_free (h)", {float(free): change(found, free=free) for free in lengths})


class Freedom(Claim):
    id: ClassVar[str] = "D10-poisson"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 9, Poisson model: reconfiguration free period"
    sentence: ClassVar[str] = (
        "With the increase of T_free the notification performance degrades slightly and the reconfiguration overhead "
        "decreases, because fewer reconfigurations are triggered."
    )
    given: ClassVar[str] = "Rate 0.025, c = 5, multimodal. " + GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [free_axis(quick), free_axis(quick, change(BASE, change="any topic", swept=True))]

    def sweeps(self) -> list[Sweep]:
        return [publications_sweep(BASE)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        charts = []
        for axis, file, word in zip(self.axes(quick), ("", "-any"), ("same mode", "any topic"), strict=True):
            panels = (
                system_panel(table, axis, "delay", "delay (hops)", ("dynatops",), word),
                system_panel(table, axis, "overhead", "messages per publication", ("dynatops",), word),
                system_panel(table, axis, "cost", "reconfiguration (messages, eq. 11)", ("dynatops",), word),
                system_panel(table, axis, "load_spread", "load: deviation / mean (%)", ("dynatops",), word),
            )
            charts.append(Chart(f"dynatops-fig9-poisson{file}", f"Fig. 9, Poisson model: over T_free, {word}", panels))
        return charts

    def judge(self, table: Table, quick: bool) -> Verdict:
        same, any_topic = self.axes(quick)
        parts = [
            *_parts(table, same),
            *(
                shown(_renamed(part, f"*a changed topic of any mode:* {part.paper}"))
                for part in _parts(table, any_topic)
            ),
            *load(table, same),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


def _renamed(part: Part, paper: str) -> Part:
    return change(part, paper=paper)


def _parts(table: Table, axis: Axis) -> list[Part]:
    first, last = axis.settings()[0], axis.settings()[-1]
    less = between(
        "the reconfiguration overhead decreases, from the shortest T_free to the longest",
        [fall(table, first, last, "cost_dynatops")],
        0,
        inf,
        " messages",
    )
    fewer = between(
        "fewer reconfigurations are triggered",
        [fall(table, first, last, "reconfigurations_dynatops")],
        0,
        inf,
        " fewer",
    )
    worse = [
        between(
            f"{measure} degrades slightly",
            [changes(table, first, last, f"{measure}_dynatops")],
            0,
            SLIGHT,
        )
        for measure in ("delay", "overhead")
    ]
    return [new(part) for part in (less, fewer, *worse)]


WHY = (
    "With topics of the same mode the brokers' subscriptions hardly change, so one or two reconfigurations are "
    "enough in 100 hours, whatever T_free is; what they cost differs more from seed to seed than from one T_free to "
    "another. Notifications are a little worse with a long T_free because the first configuration comes later. The "
    "paper's picture, in which every period brings another reconfiguration, is that of topics of any mode, shown "
    "beside."
)
