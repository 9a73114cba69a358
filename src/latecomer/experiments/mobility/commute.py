"""M1, M2, M3, M9, M12 and M14: the commute scenario, Figs. 3 to 5."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import numpy as np

from latecomer.experiments.charts import Chart, Curve, Panel
from latecomer.experiments.claim import Axis, Claim, Column, Sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.algorithms.registry import DRAWN
from latecomer.experiments.mobility.judging import (
    FAR,
    MARGINAL,
    NOTHING,
    LastHop,
    about,
    accuracy_sweep,
    also,
    between,
    both_panels,
    counted_sweep,
    delay_sweep,
    length_sweep,
    log_sweep,
    new,
    overhead_panel,
    percent,
    populations,
    rising,
    speed_sweep,
)
from latecomer.experiments.mobility.movements import START_H
from latecomer.experiments.mobility.wandering import SERIES_MIN, Wandering
from latecomer.experiments.statistics import Estimate, estimate
from latecomer.experiments.verdict import Part, Verdict, limited, shown, verdict

BASE = Wandering(scenario="commute")
SERIES = Wandering(scenario="commute", length_h=5.0, series=True)
"""An hour and a half longer than the last commuter is on the way."""
AFTERWARDS = 54
"""The step of the series from which on we look at what is left: 20:30."""
TRACKED = 0.9
"""The correlation from which on a curve tracks another."""
GIVEN = (
    "Publishers on 10 downtown brokers; 800 subscribers (200 to 800) start on 20 downtown brokers and leave between "
    "16:00 and 18:00; 40 % come to one of 30 downtown brokers after 15 to 45 minutes, 60 % to one of the others after "
    "45 to 90. One of 40 subscriptions each, 100 publications a minute, a log of 1000 events, perfect prediction."
)
PEAKS = tuple(Column(f"{name}, 17:00–17:30", "mean", f"peak_{name}") for name in ("standard", "home-broker"))
HIGHEST = tuple(Column(f"{name}, highest half hour", "mean", f"highest_{name}") for name in ("standard", "home-broker"))


class Average(Claim):
    id: ClassVar[str] = "M1"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 3: average overhead, commute"
    sentence: ClassVar[str] = (
        "Home-broker's overhead is by far the highest and increases with the population; standard performs worst among "
        "the others and increases too: almost 80 % with 800 clients; prefetching has almost no overhead; logging "
        "improves on standard."
    )
    given: ClassVar[str] = GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick)]

    def sweeps(self) -> list[Sweep]:
        kinds = (counted_sweep, length_sweep, log_sweep, speed_sweep, delay_sweep)
        return [*(kind(BASE) for kind in kinds), accuracy_sweep(BASE)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        return [Chart("mobility-fig3", "Fig. 3: average overhead, commute", both_panels(table, self.axes(quick)[0]))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts = self.parts(table, quick) + also(self.parts(LastHop(table), quick))
        return verdict(self.id, self.sentence, parts, WHY_AVERAGE)

    def parts(self, table: Table, quick: bool) -> list[Part]:
        axis = self.axes(quick)[0]
        points = axis.settings()
        others = [table.ratio(p, "overhead_home-broker", "overhead_standard") for p in points]
        return [
            about("standard with 800 clients: almost 80 %", percent(table, BASE, "overhead_standard"), 80),
            rising("standard increases with the population", table, axis, "overhead_standard"),
            between(
                "prefetching: almost none", [percent(table, p, "overhead_prefetching") for p in points], -inf, NOTHING
            ),
            between(
                "logging improves on standard",
                [table.better(p, "overhead_logging", "overhead_standard") for p in points],
                0,
                inf,
            ),
            between("home-broker is by far the highest: times standard", others, FAR, inf, " times"),
            rising("home-broker increases with the population", table, axis, "overhead_home-broker"),
        ]


WHY_AVERAGE = (
    "A client that is away for 52 minutes misses some 520 publications, and each travels five to six hops: 2,900 "
    "hops for each client, while a publication reaches all its subscribers with about 50. The size follows from the "
    "paper's own parameters, and only what is *counted* can bring it down. With the hop to the client counted as "
    "multicast, all parts are the paper's, the size too."
)


class Peak(Claim):
    id: ClassVar[str] = "M2"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 4: peak overhead, commute"
    sentence: ClassVar[str] = (
        "The peak is between 17:00 and 17:30; the approaches compare as in the average; standard has 230 % with 800 "
        "clients, almost three times its average; home-broker more than 25 times the regular load."
    )
    given: ClassVar[str] = GIVEN + " Overhead of the half hour from 17:00 to 17:30."

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick)]

    def sweeps(self) -> list[Sweep]:
        columns = PEAKS + HIGHEST
        return [kind(BASE, columns) for kind in (length_sweep, speed_sweep)]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        drawn = overhead_panel(table, self.axes(quick)[0], "peak", "17:00–17:30")
        highest = overhead_panel(table, self.axes(quick)[0], "highest", "the highest half hour")
        return [Chart("mobility-fig4", "Fig. 4: peak overhead, commute", (drawn, highest))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts = [
            *self.parts(table, quick),
            shown(
                between(
                    "home-broker in its highest half hour: more than 25 times",
                    [table.mean(BASE, "highest_home-broker")],
                    25,
                    inf,
                    "",
                )
            ),
            *also(self.parts(LastHop(table), quick)[:3]),
        ]
        return verdict(self.id, self.sentence, parts, WHY_PEAK)

    def parts(self, table: Table, quick: bool) -> list[Part]:
        points = self.axes(quick)[0].settings()
        return [
            about("standard with 800 clients: 230 %", percent(table, BASE, "peak_standard"), 230),
            about(
                "almost three times the average", table.ratio(BASE, "peak_standard", "overhead_standard"), 3, " times"
            ),
            between(
                "home-broker with 800 clients: more than 25 times", [table.mean(BASE, "peak_home-broker")], 25, inf, ""
            ),
            between(
                "logging below standard, as in the average",
                [table.better(p, "peak_logging", "peak_standard") for p in points],
                0,
                inf,
            ),
            between(
                "home-broker above standard, as in the average",
                [table.worse(p, "peak_home-broker", "peak_standard") for p in points],
                0,
                inf,
            ),
            _begins("the half hour with the highest overhead of standard begins at 17:00", table),
        ]


def _begins(paper: str, table: Table) -> Part:
    found = table.mean(BASE, "highest_at_standard")
    minutes = round(found.mean % 1 * 60)
    figure = f"at {int(found.mean)}:{minutes:02} on average, ± {60 * found.half:.0f} min"
    return new(limited(paper, found, 16.9, 17.1, figure))


WHY_PEAK = (
    "By Table 3 of the paper clients come back at their highest rate from 17:30 (when those who left at 16:00 and take "
    "90 minutes are there) until 18:15 (when the last who take 15 minutes have left), so this is when transfers are "
    "most, and half an hour of it cannot be three times the mean of three and a half hours: at the highest rate 6.7 "
    "clients a minute come, and 3.8 on average. A ratio of three would need a run more than twice as long. Home-broker "
    "costs more with every client that is back, and has its highest half hour after 18:00; before 17:30 most clients "
    "are still connected at their home-broker, or on the way."
)


class Migration(Claim):
    id: ClassVar[str] = "M3"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Subscription migration, commute"
    sentence: ClassVar[str] = (
        "For standard and logging the portion of the unicast traffic that migrates subscriptions is less than 1 %; "
        "there are no subscriptions because of mobility with home-broker."
    )
    given: ClassVar[str] = GIVEN + " Migration: subscriptions sent between brokers, subscribing and unsubscribing."

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        points = self.axes(quick)[0].settings()
        parts = [
            between(f"{name}: less than 1 %", [table.mean(p, f"migration_{name}") for p in points], 0, 1)
            for name in ("standard", "logging")
        ]
        parts.append(between("home-broker: none", [table.mean(p, "migration_home-broker") for p in points], 0, 0))
        return verdict(self.id, self.sentence, parts)


class OverTime(Claim):
    id: ClassVar[str] = "M9"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Fig. 5: messages over time, commute"
    sentence: ClassVar[str] = (
        "The message cost of standard and logging closely tracks the number of clients that execute state transfers; "
        "home-broker's stays high after all clients have reconnected."
    )
    given: ClassVar[str] = (
        GIVEN + " Unicast hops a minute in steps of five minutes, until 21:00. Ours: to track is a correlation of at "
        "least 0.9; to stay high is at least half of the highest step."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("time", {0.0: SERIES})]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        one = _series(table, "unicast", DRAWN, "unicast hops a minute", "all")
        two = _series(table, "unicast", DRAWN[:3], "unicast hops a minute", "without home-broker")
        three = _series(table, "transfers", ("standard", "logging"), "clients", "transfers under way")
        return [Chart("mobility-fig5", "Fig. 5: unicast messages over time, 800 clients", (one, two, three))]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts = [
            _tracks(f"{name} tracks the transfers: correlation", _correlation(table, name))
            for name in ("standard", "logging")
        ]
        high = [100 * after / most for after, most in _afterwards(table, "home-broker")]
        parts.append(between("home-broker stays high: after 20:30, of its highest step", [estimate(high)], 50, 100))
        return verdict(self.id, self.sentence, parts, WHY_TIME)


WHY_TIME = (
    "Both rise and fall together, but where most clients come the links near the root are full: from then on more "
    "transfers at once do not mean more hops a minute, and the curve of the messages is flatter than that of the "
    "transfers. With much faster links there are so few transfers at once that their number is a matter of chance."
)


class Afterwards(Claim):
    id: ClassVar[str] = "M14"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "After everyone has reconnected, commute"
    sentence: ClassVar[str] = (
        "After all clients have reconnected, standard, prefetching and logging have identical costs, since events are "
        "multicast to clients."
    )
    given: ClassVar[str] = GIVEN + " From 20:30 to 21:00, an hour after the last client is home."

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("time", {0.0: SERIES})]

    def judge(self, table: Table, quick: bool) -> Verdict:
        costs = {name: _late_costs(table, name) for name in DRAWN}
        pairs = [
            between(
                f"{name}: total after 20:30, next to standard",
                [_next_to(costs[name], costs["standard"])],
                -0.5,
                0.5,
            )
            for name in ("prefetching", "logging")
        ]
        late = _next_to(costs["home-broker"], costs["standard"])
        pairs.append(shown(between("home-broker, of which the paper says that it stays high", [late], MARGINAL, inf)))
        return verdict(self.id, self.sentence, pairs)


class HomePeak(Claim):
    id: ClassVar[str] = "M12"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Home-broker's peak, commute"
    sentence: ClassVar[str] = "At the peak home-broker's overhead more than quadruples next to its average."
    given: ClassVar[str] = GIVEN + " That its average is about 6 is what 25 is a quadruple of."

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(BASE, quick)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        named = table.ratio(BASE, "peak_home-broker", "overhead_home-broker")
        highest = table.ratio(BASE, "highest_home-broker", "overhead_home-broker")
        parts = [
            about("an average of about 6 with 800 clients", table.mean(BASE, "overhead_home-broker"), 6, ""),
            between("17:00–17:30: more than 4 times the average", [named], 4, inf, " times"),
            shown(between("the highest half hour: more than 4 times the average", [highest], 4, inf, " times")),
            *also([about("an average of about 6", LastHop(table).mean(BASE, "overhead_home-broker"), 6, "")]),
        ]
        return verdict(self.id, self.sentence, parts, WHY_HOME)


WHY_HOME = (
    "Every client that is back costs home-broker the same from then on, until the end of the run; what is stored "
    "comes on top only while clients come. So the peak is near the end, and cannot be four times an average that "
    "half of the run is near to."
)


# -- the series


def _values(table: Table, kind: str, name: str) -> list[list[float]]:
    """For each seed, the steps."""
    steps = round(SERIES.length_h * 60 / SERIES_MIN)
    return [[row[f"{kind}_{step:03}_{name}"] for step in range(steps)] for row in table.rows[SERIES]]


def _series(table: Table, kind: str, names: tuple[str, ...], y: str, title: str) -> Panel:
    curves = []
    for name in names:
        means = np.mean(_values(table, kind, name), axis=0).tolist()
        hours = tuple(START_H + (step + 0.5) * SERIES_MIN / 60 for step in range(len(means)))
        curves.append(Curve(name, hours, tuple(Estimate(mean, 0.0, 1) for mean in means)))
    return Panel(title, "time of day (h)", y, tuple(curves))


def _tracks(paper: str, found: Estimate) -> Part:
    return new(limited(paper, found, TRACKED, 1, found.show("", 2)))


def _correlation(table: Table, name: str) -> Estimate:
    pairs = zip(_values(table, "unicast", name), _values(table, "transfers", name), strict=True)
    return estimate([float(np.corrcoef(one, other)[0, 1]) for one, other in pairs])


def _afterwards(table: Table, name: str) -> list[tuple[float, float]]:
    """For each seed, the mean of the last steps and the highest of all."""
    return [(float(np.mean(row[AFTERWARDS:])), max(row)) for row in _values(table, "unicast", name)]


def _late_costs(table: Table, name: str) -> list[float]:
    """Everything that is sent in the last steps."""
    both = zip(_values(table, "unicast", name), _values(table, "multicast", name), strict=True)
    return [sum(one[AFTERWARDS:]) + sum(other[AFTERWARDS:]) for one, other in both]


def _next_to(values: list[float], others: list[float]) -> Estimate:
    return estimate([100 * value / other - 100 for value, other in zip(values, others, strict=True)])
