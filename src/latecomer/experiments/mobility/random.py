"""M4, M5 and M6: the random scenario, Figs. 6 to 8."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart, Curve, Panel
from latecomer.experiments.claim import Axis, Claim, Sweep, panel, scaled
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import (
    MARGINAL,
    LastHop,
    about,
    accuracy_sweep,
    also,
    between,
    both_panels,
    changes,
    counted_sweep,
    delay_sweep,
    edge_sweep,
    length_sweep,
    log_sweep,
    percent,
    populations,
    publishers_sweep,
    rising,
    speed_sweep,
)
from latecomer.experiments.mobility.wandering import Wandering
from latecomer.experiments.verdict import Part, Verdict, verdict

BASE = Wandering(scenario="random")
LOGGING = Wandering(scenario="random", algorithms=("logging",))
SIZES = (800, 900, 1000, 1100, 1200)
GIVEN = (
    "One of 27 subscriptions that match one event each; 800 subscribers (200 to 800), connected and disconnected for "
    "10 to 30 minutes each, moving at 5, 50 or 100 km/h to the east or west while disconnected; 100 publications a "
    "minute. Ours: subscribers start and publishers are anywhere, home is where a client starts, 16:00 to 19:30, and "
    "clients turn round at the edge of the city."
)


class Population(Claim):
    id: ClassVar[str] = "M4"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 6: average overhead, random"
    sentence: ClassVar[str] = (
        "Similar trends; standard with 800 clients has virtually 100 % overhead; prefetching's is small; logging's "
        "is less than 70 % of standard's with 800 clients."
    )
    given: ClassVar[str] = GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick)]

    def sweeps(self) -> list[Sweep]:
        kinds = (
            counted_sweep,
            length_sweep,
            edge_sweep,
            publishers_sweep,
            log_sweep,
            speed_sweep,
            delay_sweep,
        )
        return [*(kind(BASE) for kind in kinds), accuracy_sweep(BASE)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        return [Chart("mobility-fig6", "Fig. 6: average overhead, random", both_panels(table, self.axes(quick)[0]))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        axis = "all below 4, the end of the paper's axis: home-broker"
        counted = LastHop(table)
        parts = [
            *self.parts(table, quick),
            *also(self.parts(counted, quick)),
            *also([between(axis, [counted.mean(BASE, "overhead_home-broker")], 0, 4, "")]),
        ]
        return verdict(self.id, self.sentence, parts, WHY_POPULATION)

    def parts(self, table: Table, quick: bool) -> list[Part]:
        points = self.axes(quick)[0].settings()
        return [
            about("standard with 800 clients: virtually 100 %", percent(table, BASE, "overhead_standard"), 100),
            between(
                "logging with 800 clients: less than 70 % of standard",
                [scaled(table.ratio(BASE, "overhead_logging", "overhead_standard"), 100)],
                -inf,
                70,
            ),
            between(
                "prefetching: small, at least nine tenths below standard",
                [table.better(p, "overhead_prefetching", "overhead_standard") for p in points],
                90,
                100,
            ),
            between(
                "home-broker highest: above standard",
                [table.worse(p, "overhead_home-broker", "overhead_standard") for p in points],
                0,
                inf,
            ),
            rising("standard increases with the population", table, self.axes(quick)[0], "overhead_standard"),
        ]


WHY_POPULATION = (
    "As in M1 the size hangs on what is counted: a client misses 74 publications in 20 minutes, and they travel about "
    "five hops. With the hop to the client counted as multicast our figures are the paper's, standard, logging and "
    "home-broker alike, and fill its axis, which ends at 4: so we take it that the paper counted that hop here."
)


class Locality(Claim):
    id: ClassVar[str] = "M5"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 7: interest locality, random"
    sentence: ClassVar[str] = (
        "Unlike the other approaches, the cost of logging decreases with increasing interest locality; with "
        "appropriate locality logging matches the performance of prefetching."
    )
    given: ClassVar[str] = (
        GIVEN + " 800 subscribers, 30, 60 or 90 % of which have the same interest; the others have others by chance."
    )

    def axes(self, quick: bool) -> list[Axis]:
        points = {float(x): msgspec.structs.replace(BASE, locality=x) for x in (30, 60, 90)}
        return [Axis("interest locality (%)", points)]

    def sweeps(self) -> list[Sweep]:
        high = msgspec.structs.replace(BASE, locality=90)
        return [edge_sweep(high)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        panels = both_panels(table, self.axes(quick)[0])
        return [Chart("mobility-fig7", "Fig. 7: interest locality, random, 800 clients", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts = self.parts(table, quick) + also(self.parts(LastHop(table), quick))
        return verdict(self.id, self.sentence, parts, WHY_LOCALITY)

    def parts(self, table: Table, quick: bool) -> list[Part]:
        axis = self.axes(quick)[0]
        low, middle, high = axis.settings()
        falls = [changes(table, a, b, "overhead_logging") for a, b in ((low, middle), (middle, high))]
        return [
            between("logging decreases", falls, -inf, 0),
            *(
                rising(f"{name} increases", table, axis, f"overhead_{name}")
                for name in ("standard", "prefetching", "home-broker")
            ),
            between(
                "at 90 % logging matches prefetching: above it by",
                [table.worse(high, "overhead_logging", "overhead_prefetching")],
                -inf,
                MARGINAL,
            ),
        ]


WHY_LOCALITY = (
    "The tenth of the clients with other interests is rarely served by a log: nobody else at the new broker wants "
    "the same. What they missed still travels, and is most of what logging sends at 90 %; prefetching sends none of "
    "it. The two more control messages of logging count as well, as the multicast becomes small."
)


class LogSize(Claim):
    id: ClassVar[str] = "M6"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 8: size of the log, random"
    sentence: ClassVar[str] = (
        "When the log size is increased from 800 to 1200 events, logging's overhead decreases only marginally, "
        "regardless of the population size."
    )
    given: ClassVar[str] = (
        GIVEN + " Ours: a log has what a broker received to deliver it, and what was published there."
    )

    def axes(self, quick: bool) -> list[Axis]:
        sizes = (SIZES[0], SIZES[-1]) if quick else SIZES
        return [populations(LOGGING, quick, log_size=size) for size in sizes]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        return [Chart("mobility-fig8", "Fig. 8: size of the log, random", (self._panel(table, quick),))]

    def _panel(self, table: Table, quick: bool) -> Panel:
        axes = self.axes(quick)
        counts = list(axes[0].points)
        curves: list[Curve] = []
        for count in counts:
            settings = [axis.points[count] for axis in axes]
            by_size = {float(p.log_size): p for p in settings if isinstance(p, Wandering)}
            drawn = panel(table, Axis("log size (events)", by_size), {f"{count:.0f} subscribers": "overhead_logging"})
            curves += drawn.curves
        return Panel("", "log size (events)", "message overhead ratio", tuple(curves))

    def judge(self, table: Table, quick: bool) -> Verdict:
        axes = self.axes(quick)
        smallest, largest = axes[0], axes[-1]
        falls = [
            changes(table, smallest.points[count], largest.points[count], "overhead_logging")
            for count in smallest.points
        ]
        parts = [
            between("it does not increase, at any population", falls, -inf, 0.5),
            between("it decreases only marginally, at every population", falls, -MARGINAL, inf),
        ]
        return verdict(self.id, self.sentence, parts)
