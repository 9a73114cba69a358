"""D8, Fig. 7: the Poisson model with the multimodal pattern, over the rate of changes."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Sweep
from latecomer.experiments.dynatops.judging import (
    SWEPT_HOURS,
    base_sweep,
    below,
    constant_sweep,
    each_about,
    exchange_sweep,
    greedy_sweep,
    load,
    mode_sweep,
    publications_sweep,
    similarity_sweep,
    system_panel,
    walks,
)
from latecomer.experiments.dynatops.playing import Playing, SystemName, change
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import between, changes, rising
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.verdict import Part, Verdict, shown, verdict

BASE = Playing()
RATES = (0.025, 0.1)
HALVES = change(BASE, systems=("bayeux", "dynatops", "selection", "repositioning"), swept=True, hours=SWEPT_HOURS)
OTHERS: tuple[SystemName, ...] = ("bayeux", "tco")
QUICK_HOURS = 20
DRAWN: tuple[SystemName, ...] = ("bayeux", "tco", "dynatops", "chord")
GIVEN = (
    "100 hours in steps of one, 50,000 users with 5 subscriptions each, 100 brokers, 1,000 topics in 100 modes, delays "
    "of 1; users of Bayeux and TCO at brokers by chance; α = 0.3, β = 0.1. Ours: a rate is changes per user and hour, "
    "T_free = 10 h, c = 5, w_l = 0.2 · c, w_d = 1, T_update = 1 h, 100 publications per topic and hour, a changed "
    "topic stays in its mode, any user publishes, TCO in parts of ten brokers."
)


def rate_axis(quick: bool) -> Axis:
    rates = (RATES[0], RATES[-1]) if quick else RATES
    base = change(BASE, hours=QUICK_HOURS) if quick else BASE
    return Axis("changes per user and hour", {rate: change(base, rate=rate) for rate in rates})


HALF_AXIS = Axis("changes per user and hour", {HALVES.rate: HALVES})


class Rates(Claim):
    id: ClassVar[str] = "D8"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 7: over the rate of subscription changes"
    sentence: ClassVar[str] = (
        "DYNATOPS reduces the brokers' subscription changes by 80 % against the other systems; it outperforms both on "
        "delay, by 10 %, and on overhead, by over 50 %; TCO's reconfiguration overhead increases dramatically with the "
        "rate, DYNATOPS's is less sensitive and over 90 % less when subscriptions change fast."
    )
    given: ClassVar[str] = GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [rate_axis(quick), *([] if quick else [HALF_AXIS])]

    def sweeps(self) -> list[Sweep]:
        kinds = (
            mode_sweep,
            publications_sweep,
            constant_sweep,
            exchange_sweep,
            similarity_sweep,
            greedy_sweep,
            base_sweep,
        )
        return [kind(BASE) for kind in kinds]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axis = rate_axis(quick)
        subscriptions = (
            system_panel(table, axis, "changes", "broker subscription changes", ("bayeux", "dynatops"), "(a)"),
            system_panel(table, axis, "load_spread", "load: deviation / mean (%)", ("bayeux", "dynatops"), "load"),
        )
        notifications = (
            system_panel(table, axis, "delay", "delay (hops)", DRAWN, "(b)"),
            system_panel(table, axis, "overhead", "messages per publication", DRAWN, "(c)"),
            system_panel(table, axis, "cost", "reconfiguration (messages)", ("tco", "dynatops"), "(d), eq. 11"),
            system_panel(table, axis, "counted", "reconfiguration (messages)", ("tco", "dynatops"), "(d), counted"),
        )
        return [
            Chart("dynatops-fig7a", "Fig. 7a: broker subscription changes, and the spread of the load", subscriptions),
            Chart("dynatops-fig7bcd", "Fig. 7b–d: delay, overhead, reconfiguration", notifications),
        ]

    def judge(self, table: Table, quick: bool) -> Verdict:
        axis = rate_axis(quick)
        fewest, fastest = axis.settings()[0], axis.settings()[-1]
        fewer = below(table, axis, "changes", "bayeux")
        sooner = [point for other in OTHERS for point in below(table, axis, "delay", other)]
        less = [point for other in OTHERS for point in below(table, axis, "overhead", other)]
        growth = {name: changes(table, fewest, fastest, f"cost_{name}") for name in ("tco", "dynatops")}
        parts: list[Part] = [
            between("fewer broker subscription changes than the others", fewer, 0, inf),
            each_about("by 80 %", fewer, 80),
            between("outperforms Bayeux and TCO on delay", sooner, 0, inf),
            each_about("by 10 %", sooner, 10),
            between("outperforms Bayeux and TCO on overhead, by over 50 %", less, 50, inf),
            rising("TCO's reconfiguration overhead increases with the rate", table, axis, "cost_tco"),
            between(
                "DYNATOPS's is less sensitive: growth from the lowest rate to the highest, TCO's less ours",
                [_difference(growth["tco"], growth["dynatops"])],
                0,
                inf,
                " points",
            ),
            between(
                "over 90 % less than TCO's at the highest rate (eq. 11)",
                [table.better(fastest, "cost_dynatops", "cost_tco")],
                90,
                inf,
            ),
            shown(
                between(
                    "*as counted:* less than TCO's at the highest rate",
                    [table.better(fastest, "counted_dynatops", "counted_tco")],
                    90,
                    inf,
                )
            ),
            shown(
                between(
                    "*with the exchange in clusters counted:* management messages below Bayeux's",
                    below(table, axis, "management", "bayeux"),
                    0,
                    inf,
                )
            ),
            *walks(table, axis),
            *load(table, axis),
            *([] if quick else halves(table)),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


def halves(table: Table) -> list[Part]:
    """What broker selection and re-positioning bring each on their own, at rate 0.1."""
    names: dict[SystemName, str] = {"selection": "broker selection alone", "repositioning": "re-positioning alone"}
    return [
        shown(between(f"*{word}:* {measure} below Bayeux's", below(table, HALF_AXIS, measure, "bayeux", name), 0, inf))
        for name, word in names.items()
        for measure in ("changes", "delay", "overhead")
    ]


def _difference(one: Estimate, other: Estimate) -> Estimate:
    """Of two that were measured apart: half-widths add up."""
    return Estimate(one.mean - other.mean, one.half + other.half, min(one.runs, other.runs))


WHY = (
    "**Why.** *Changes*: 500 users with 5 subscriptions each give a static broker 92 % of all topics, and a topic "
    "flips when the last of 2.5 users leaves it. In a cluster of five each broker soon has twenty modes of its own, "
    "with 12 users for each topic: nothing flips any more. With topics of any mode nothing holds the modes together, "
    "and there are more than twice as many changes as without selection (sweep). No reading gives 80 %. *Overhead*: "
    "follows from the same, 20 brokers for each topic instead of 92; re-positioning alone saves next to nothing, "
    "because where everybody wants everything there are hardly any relays. *Delay*: Tapestry with hexadecimal digits "
    "needs fewer hops than Chord, whoever stands where. On the same ring DYNATOPS saves half a per cent: half of the "
    "way is the climb to the rendezvous point, which no position shortens, and SSBR-Greedy stops early. With "
    "Tapestry's digits at base 2 the sign is the paper's, and the size nearly (sweep). *Reconfiguration*: eq. 11 "
    "charges 6,644 messages for each mover when there are 1,000 topics, and TCO is charged the links that change, "
    "some 140 in an hour. So one reconfiguration with two movers costs as much as TCO in all 100 hours. It is less "
    "only where so little is published that nothing ever pays (sweep of publications), or with another constant "
    "(sweep). What is as the paper says: ours does not grow with the rate, and TCO's does."
)
