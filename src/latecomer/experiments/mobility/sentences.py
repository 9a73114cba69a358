"""M8, M10, M11 and M13: optimisations of the routing, the cost model, and what is said about shares."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import msgspec

from latecomer.experiments.claim import Axis, Claim, Column, Sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility import commute, pervasive, random
from latecomer.experiments.mobility.algorithms.registry import DRAWN
from latecomer.experiments.mobility.judging import (
    MARGINAL,
    NEGLIGIBLE,
    LastHop,
    about,
    also,
    between,
    changes,
    percent,
    populations,
    speed_sweep,
)
from latecomer.experiments.mobility.wandering import Wandering
from latecomer.experiments.statistics import Estimate, estimate
from latecomer.experiments.verdict import FITTED, TOLERANCE, Part, Verdict, shown, verdict


class Optimised(Claim):
    id: ClassVar[str] = "M8"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Covering and advertisements"
    sentence: ClassVar[str] = (
        "While covering and advertisements do reduce some of the overhead, their overall effect is negligible (commute "
        "and random)."
    )
    given: ClassVar[str] = (
        "800 subscribers. Covering as in our brokers: what a broker tells its parent is what is wanted below it and "
        "not covered by something else that is. Advertisements: subscriptions also descend to every publisher that "
        "they match, and events climb only as far as they are wanted. Everything that is sent, multicast included."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [
            Axis(base.scenario, {float(n): s for n, s in enumerate(self._settings(base))})
            for base in (commute.BASE, random.BASE)
        ]

    def _settings(self, base: Wandering) -> list[Wandering]:
        other = msgspec.structs.replace(base, algorithms=DRAWN[:3])
        return [
            base,
            msgspec.structs.replace(other, routing="covering"),
            msgspec.structs.replace(other, routing="advertisements"),
        ]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts: list[Part] = []
        for axis in self.axes(quick):
            plain, covering, advertised = axis.settings()
            for word, other in (("covering", covering), ("advertisements", advertised)):
                found = {name: changes(table, plain, other, f"total_{name}") for name in DRAWN[:3]}
                both = [found["standard"], found["logging"]]
                parts.append(
                    between(f"{axis.label}: negligible, {word}: change of the total", both, -NEGLIGIBLE, NEGLIGIBLE)
                )
                ours = f"{axis.label}: {word}: change of the total of prefetching, of which the paper says nothing"
                parts.append(shown(between(ours, [found["prefetching"]], -NEGLIGIBLE, NEGLIGIBLE)))
                fewer = [changes(table, plain, other, f"unicast_{name}") for name in ("standard", "logging")]
                parts.append(
                    between(f"{axis.label}: some overhead is saved, {word}: change of the unicast", fewer, -inf, 0)
                )
        return verdict(self.id, self.sentence, parts, WHY_OPTIMISED)


WHY_OPTIMISED = (
    "Advertisements raise the unicast instead of lowering it: a subscription then also goes down to its publishers, "
    "and with so many subscribers hardly an event is spared its climb to the root."
)


class Model(Claim):
    id: ClassVar[str] = "M10"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "The cost model next to the simulation (§4)"
    sentence: ClassVar[str] = (
        "To a first approximation, the messages that a reconnecting client needs are those that migrate its "
        "subscriptions (3 for each) and those that forward its events (rates times the perceived disconnection: T2 + "
        "T3, T2' for prefetching, all the time away for home-broker; less what the log has)."
    )
    given: ClassVar[str] = (
        "The paper only argues the model; here equations 1 to 5, with the rates and lengths of time of each run, are "
        "held against the messages that were counted in it, in messages and not in hops. The message that makes a "
        "migration atomic is in both. 800 subscribers. Ours: a first approximation is a fifth."
    )

    def axes(self, quick: bool) -> list[Axis]:
        bases = (commute.BASE, random.BASE, pervasive.BASE)
        return [Axis(base.scenario, {800.0: base}) for base in bases]

    def judge(self, table: Table, quick: bool) -> Verdict:
        parts = []
        for axis in self.axes(quick):
            (setting,) = axis.settings()
            for name in DRAWN:
                off = table.worse(setting, f"model_{name}", f"messages_{name}")
                told = f"{axis.label}, {name}: the model next to what was counted"
                parts.append(between(told, [off], -100 * TOLERANCE, 100 * TOLERANCE))
        return verdict(self.id, self.sentence, parts, WHY_MODEL)

    def sweeps(self) -> list[Sweep]:
        columns = tuple(
            Column(f"{name}: model above counted", "worse", f"model_{name}", f"messages_{name}") for name in DRAWN
        )
        return [speed_sweep(commute.BASE, columns)]


WHY_MODEL = (
    "Equation 4 takes T3 in full, but by step 3 of §3.1 the old broker stores nothing any more once the "
    "subscriptions stand at the new one, which is long before the last event has come: where transfers wait for one "
    "another the model is too high, and with fast links it is right (sweep). Where few events are missed it is too "
    "low by the messages that it leaves out: the request for the subscriptions, the two of the log, and "
    "home-broker's word where the client is."
)


class Concurrency(Claim):
    id: ClassVar[str] = "M11"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Clients in transfer at once, commute"
    sentence: ClassVar[str] = (
        "Up to 10 % of the subscribers perform state transfer concurrently; network capacity must be doubled to handle "
        "the extra load of just 10 % of mobile users."
    )
    given: ClassVar[str] = commute.GIVEN + " The speed of the links was chosen so that the first part comes out."

    def axes(self, quick: bool) -> list[Axis]:
        return [populations(commute.BASE, quick), Axis("random", {800.0: random.BASE})]

    def sweeps(self) -> list[Sweep]:
        columns = (
            Column("standard: clients in transfer at most, %", "mean", "concurrent_standard"),
            Column("standard: seconds until all is there", "mean", "wait_standard"),
            Column("logging: clients in transfer at most, %", "mean", "concurrent_logging"),
            Column("logging: seconds", "mean", "wait_logging"),
        )
        return [speed_sweep(commute.BASE, columns)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        found = about("up to 10 % at once", table.mean(commute.BASE, "concurrent_standard"), 10)
        if found.word == "reproduced":
            found = msgspec.structs.replace(found, word=FITTED)
        doubled = [percent(table, commute.BASE, "overhead_standard"), percent(table, random.BASE, "overhead_standard")]
        parts = [
            found,
            about("commute: the load is doubled, 100 % more", doubled[0], 100),
            shown(about("random: the load is doubled, 100 % more", doubled[1], 100)),
        ]
        return verdict(self.id, self.sentence, parts, WHY_CONCURRENCY)


WHY_CONCURRENCY = (
    "When 6.7 clients a minute arrive, a tenth of 800 at once means that a transfer takes twelve minutes, for some 520 "
    "events. The load is more than doubled: see M1."
)


class Shares(Claim):
    id: ClassVar[str] = "M13"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Shares of the unicast traffic"
    sentence: ClassVar[str] = (
        "Migration is about 2 % of the unicast in random (standard, logging) and even more than 60 % for prefetching "
        "in pervasive; the overhead of prefetching in commute is almost fully migration and constant overhead of the "
        "protocol, and stored events have a negligible impact on it in random; logging's overhead increases "
        "marginally with larger populations in random."
    )
    given: ClassVar[str] = "The points of Figs. 3, 6 and 9 with 800 subscribers."

    def axes(self, quick: bool) -> list[Axis]:
        singles = [Axis(base.scenario, {800.0: base}) for base in (commute.BASE, pervasive.BASE)]
        return [populations(random.BASE, quick), *singles]

    def judge(self, table: Table, quick: bool) -> Verdict:
        base = random.BASE
        fewest = populations(base, quick).settings()[0]
        stored = [table.mean(setting, "event_prefetching") for setting in (commute.BASE, base)]
        parts = [
            *(
                about(f"random, {name}: about 2 % is migration", table.mean(base, f"migration_{name}"), 2)
                for name in ("standard", "logging")
            ),
            between(
                "pervasive, prefetching: more than 60 % is migration",
                [table.mean(pervasive.BASE, "migration_prefetching")],
                60,
                100,
            ),
            between(
                "pervasive, prefetching: a higher share than standard's",
                [_difference(table, "migration_prefetching", "migration_standard")],
                0,
                inf,
                " points",
            ),
            between("stored events in prefetching's overhead (commute, random)", stored, 0, NEGLIGIBLE),
            between(
                "random: logging increases marginally from 200 to 800 clients",
                [changes(table, fewest, base, "overhead_logging")],
                0,
                MARGINAL,
            ),
            *also(
                [
                    between(
                        "random: logging increases marginally from 200 to 800 clients",
                        [changes(LastHop(table), fewest, base, "overhead_logging")],
                        0,
                        MARGINAL,
                    )
                ]
            ),
            *(
                shown(
                    about(f"random, {name}: subscribing and unsubscribing alone", table.mean(base, f"told_{name}"), 2)
                )
                for name in ("standard", "logging")
            ),
            shown(
                between(
                    "random: standard increases from 200 to 800 clients",
                    [changes(table, fewest, base, "overhead_standard")],
                    0,
                    inf,
                )
            ),
        ]
        return verdict(self.id, self.sentence, parts, WHY_SHARES)


def _difference(table: Table, name: str, other: str) -> Estimate:
    pairs = zip(table.values(pervasive.BASE, name), table.values(pervasive.BASE, other), strict=True)
    return estimate([one - two for one, two in pairs])


WHY_SHARES = (
    "The subscriptions that brokers send to one another are migration too by equation 2; without them, subscribing and "
    "unsubscribing alone come near to the 2 %. Logging increases with the population because the multicast grows "
    "more slowly than the number of clients; with the hop to the client counted, which grows as fast, it is marginal, "
    "as the paper says."
)
