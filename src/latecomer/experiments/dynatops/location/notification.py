"""D6, D7, D10 (location) and D12: what notifications cost, Figs 6d to 6f and 9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from latecomer.experiments.charts import Chart, Curve, Panel
from latecomer.experiments.claim import Axis, Claim, Column, Sweep
from latecomer.experiments.dynatops.location.located import (
    BAYEUX_NEAR,
    BAYEUX_PLACE,
    BAYEUX_STATIC,
    BNR,
    BOTH,
    BS,
    CHORD_PLACE,
    CHORD_STATIC,
    GEOPS,
    ON_CHORD,
    OTHERS,
    Located,
    of,
)
from latecomer.experiments.dynatops.location.reading import (
    BAYEUX,
    NOTIFIED,
    NOTIFIED_GIVEN,
    SIZES,
    UNWEIGHED,
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
from latecomer.experiments.verdict import Part, Verdict, shown, verdict

OURS = of(BOTH, C)
ONE = msgspec.structs.replace(NOTIFIED, systems=(BAYEUX_PLACE, BAYEUX_NEAR, GEOPS, CHORD_PLACE, BOTH), sizes=(C,))
FREE = {float(NOTIFIED.free_h): NOTIFIED} | {
    float(hours): msgspec.structs.replace(NOTIFIED, systems=(BOTH,), sizes=(C,), free_h=hours) for hours in (336, 504)
}
PURE = {"DYNATOPS, w_l = 0": (UNWEIGHED, BOTH)}
SLIGHTLY = 10.0
"""Per cent that “slightly” is at most."""


def _columns(others: Sequence[str]) -> tuple[Column, ...]:
    compared = [
        Column(f"{measure}, below {other}", "better", name(measure, OURS), name(measure, other))
        for measure in ("delay", "overhead")
        for other in others
    ]
    return (*compared, Column("reconfigurations", "mean", name("reconfigurations", OURS)))


def _sweeps() -> list[Sweep]:
    """What the paper leaves out and notifications may depend on; the others are with D3."""
    rates = {f"{times}": swept(ONE, published=times) for times in (1, 10, 100)}
    weights = {f"{weight:g}": swept(ONE, delay_weight=weight) for weight in (0.1, 1.0, 10.0)}
    chances = {kind: swept(ONE, chance=kind) for kind in ("uniform", "exponential", "none")}
    squares = {
        "2 × 2": swept(ONE),
        "4 × 4": swept(ONE, branches=(4, 4)),
        "16 × 16": swept(ONE, branches=(16,)),
    }
    areas = {"stays": swept(ONE), "follows": swept(ONE, area=True)}
    grounds = {
        "spread": swept(ONE),
        "cities": swept(ONE, where="cities"),
    }
    columns = _columns((BAYEUX_PLACE, GEOPS, CHORD_PLACE))
    return [
        Sweep("publications per check-in", "a rate is not given; benefit is weighed against cost by it.", "1", rates,
              columns),
        Sweep("w_d, the unit of a delay", "“w_d = 1”, and no unit: ours is the mean delay between two brokers.", "1",
              weights, columns),
        Sweep("delays", "“random variables with their means proportional to their geographical distances”.", "uniform",
              chances, columns),
        Sweep("squares of GeoPS", "“geography-aware overlay hierarchy”: how many make a larger one.", "2 × 2", squares,
              _columns((GEOPS,))),
        Sweep("who leaves the area of a cluster", "stays at its cluster, or follows to that of the area.", "stays",
              areas, columns),
        Sweep("where people are", "spread over all cells, or in the cells of the 80 cities only.", "spread", grounds,
              columns),
    ]  # fmt: skip


def _unweighed(table: Table, measure: str, system: str, others: Sequence[str]) -> list[Estimate]:
    """By how many per cent a system with w_l = 0 is below others."""
    found = [across(table, UNWEIGHED, NOTIFIED, name(measure, system), name(measure, other)) for other in others]
    return [msgspec.structs.replace(point, mean=-point.mean) for point in found]


class Notifications(Claim):
    id: ClassVar[str] = "D6"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Figs 6d, 6e: notification delay and overhead"
    sentence: ClassVar[str] = (
        "DYNATOPS (w_d = 1) provides over 60 % improvement against Bayeux and 30 % against GeoPS in delay, and over "
        "40 % improvement against Bayeux and 20 % against GeoPS in overhead."
    )
    given: ClassVar[str] = NOTIFIED_GIVEN + (
        " Delay: from the publishing user to the subscribing user, the hops to and from their brokers included. "
        "Overhead: all messages, from the publisher's broker on. Which Bayeux is not said: all three."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("w_l", {0.2: NOTIFIED, 0.0: UNWEIGHED})]

    def sweeps(self) -> list[Sweep]:
        return _sweeps()

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        flat = (*OTHERS, *ON_CHORD)
        panels = tuple(
            sizes_panel(table, NOTIFIED, measure, y, clustered=(BOTH,), flat=flat, more=PURE, title=title)
            for measure, y, title in (
                ("delay", "mean delay (of two brokers: 1)", "Fig. 6d"),
                ("overhead", "messages per publication", "Fig. 6e"),
            )
        )
        return [Chart("dynatops-fig6de", "Figs 6d, 6e: notification delay and overhead", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        def less(measure: str, others: Sequence[str]) -> list[Estimate]:
            return below(table, NOTIFIED, measure, OURS, others)

        parts = [
            between("delay: over 60 % below Bayeux(static, loc, loc+PNS)", less("delay", BAYEUX), 60),
            between("delay: over 30 % below GeoPS", less("delay", (GEOPS,)), 30),
            between("overhead: over 40 % below Bayeux(static, loc, loc+PNS)", less("overhead", BAYEUX), 40),
            between("overhead: over 20 % below GeoPS", less("overhead", (GEOPS,)), 20),
            shown(between("w_l = 0, delay: over 60 % below Bayeux", _unweighed(table, "delay", OURS, BAYEUX), 60)),
            shown(between("w_l = 0, delay: over 30 % below GeoPS", _unweighed(table, "delay", OURS, (GEOPS,)), 30)),
            shown(between("w_l = 0, overhead: over 40 % below Bayeux",
                          _unweighed(table, "overhead", OURS, BAYEUX), 40)),
            shown(between("w_l = 0, overhead: over 20 % below GeoPS",
                          _unweighed(table, "overhead", OURS, (GEOPS,)), 20)),
            shown(between("delay beside Bayeux-on-Chord(static, loc)", less("delay", ON_CHORD), 60)),
            shown(between("overhead beside Bayeux-on-Chord(static, loc)", less("overhead", ON_CHORD), 40)),
            shown(between("delay from the rendezvous point (III-A), beside Bayeux(static, loc, loc+PNS)",
                          less("delay_from_root", BAYEUX), 60)),
            shown(between("as the core walks: delay beside Bayeux", less("core_delay", BAYEUX), 60)),
            shown(between("as the core walks: overhead beside Bayeux", less("core_overhead", BAYEUX), 40)),
        ]  # fmt: skip
        return verdict(self.id, self.sentence, parts, _why(table))


def _why(table: Table) -> str:
    def mean(measure: str, system: str) -> float:
        return table.mean(NOTIFIED, name(measure, system)).mean

    return (
        f"Tapestry's routes are shorter than Chord's: {mean('climb', BAYEUX_PLACE):.1f} hops to the rendezvous point "
        f"against {mean('climb', CHORD_PLACE):.1f}, and re-positioning does not shorten a Chord route, it only brings "
        "brokers that want the same near to it; the gain beside Bayeux-on-Chord is that of DYNATOPS itself. Of "
        f"{mean('overhead', OURS):.0f} messages per publication {mean('internal', OURS):.0f} go to brokers that "
        f"subscribe, which no position changes, and {mean('external', OURS):.0f} to relays "
        f"({mean('external', CHORD_PLACE):.0f} before). {mean('reconfigurations', OURS):.1f} reconfigurations in the "
        f"month moved {mean('movers', OURS):.0f} brokers. What is said beside GeoPS hangs on our reconstruction: with "
        "larger squares its overhead is below ours (sweep). "
        f"{load_beside(table, NOTIFIED)}"
    )


class ClusterSize(Claim):
    id: ClassVar[str] = "D7"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 6f: notifications over the cluster size"
    sentence: ClassVar[str] = "The notification performance improvement increases with the cluster size."
    given: ClassVar[str] = NOTIFIED_GIVEN

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("w_l", {0.2: NOTIFIED, 0.0: UNWEIGHED})]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        panels = tuple(
            sizes_panel(table, NOTIFIED, measure, y, clustered=(BOTH, BS), flat=(BNR,), more=PURE)
            for measure, y in (("delay", "mean delay"), ("overhead", "messages per publication"))
        )
        return [Chart("dynatops-fig6f", "Fig. 6f: over the cluster size", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        def falls(measure: str, setting: Located, told: str = "") -> Part:
            names = [name(measure, BOTH, size) for size in SIZES]
            return along(f"{told}{measure} falls with c", table, setting, names, -1)

        parts = [
            *(falls(measure, NOTIFIED) for measure in ("delay", "overhead")),
            *(shown(falls(measure, UNWEIGHED, "w_l = 0: ")) for measure in ("delay", "overhead")),
        ]
        why = (
            "Larger clusters have fewer subscribing brokers, so that there are fewer messages; but the brokers that "
            "users are at are farther from them, and the way to the own broker is part of every delay. "
        )
        return verdict(self.id, self.sentence, parts, why + load_beside(table, NOTIFIED))


class FreePeriod(Claim):
    id: ClassVar[str] = "D10-location"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 9, location: the reconfiguration free period"
    sentence: ClassVar[str] = (
        "With the increase of the reconfiguration free period the notification performance degrades slightly and the "
        "reconfiguration overhead decreases (c = 10)."
    )
    given: ClassVar[str] = NOTIFIED_GIVEN + (
        f" “Slightly” is at most {SLIGHTLY:.0f} % from the shortest to the longest. The first reconfiguration is after "
        "the first T_free, so a longer one leaves consistent hashing in place for longer: that is part of the figure."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("T_free (h)", dict(FREE))]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        xs = tuple(FREE)
        panels = tuple(
            Panel(
                "",
                "T_free (h)",
                y,
                tuple(
                    Curve(label, xs, tuple(table.mean(setting, measure) for setting in FREE.values()))
                    for label, measure in curves.items()
                ),
            )
            for y, curves in (
                ("mean delay", {"DYNATOPS, c = 10": name("delay", OURS)}),
                ("messages per publication", {"DYNATOPS, c = 10": name("overhead", OURS)}),
                ("messages", {"reconfiguration, eq. 11": name("price", OURS), "counted": name("counted", OURS)}),
            )
        )
        return [Chart("dynatops-fig9-location", "Fig. 9: the reconfiguration free period", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        settings: list[Located] = list(FREE.values())
        first, last = settings[0], settings[-1]

        def saved(measure: str) -> Estimate:
            found = across(table, last, first, measure)
            return msgspec.structs.replace(found, mean=-found.mean)

        parts = [
            *(
                between(f"{measure} degrades, slightly", [across(table, last, first, name(measure, OURS))], 0, SLIGHTLY)
                for measure in ("delay", "overhead")
            ),
            between("the reconfiguration overhead (eq. 11) decreases", [saved(name("price", OURS))], 0),
            shown(between("the same, messages counted", [saved(name("counted", OURS))], 0)),
        ]
        return verdict(self.id, self.sentence, parts, load_beside(table, first))


class Halves(Claim):
    id: ClassVar[str] = "D12"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Figs 6d, 6e: broker selection and reconfiguration apart"
    sentence: ClassVar[str] = (
        "Both broker selection and broker network reconfiguration can improve notification delay and overhead."
    )
    given: ClassVar[str] = NOTIFIED_GIVEN + (
        " Beside the same Chord ring with location-based homes and no reconfiguration, which is what (BNR) starts from."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [Axis("w_l", {0.2: NOTIFIED, 0.0: UNWEIGHED})]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        panels = tuple(
            sizes_panel(table, NOTIFIED, measure, y, clustered=(BS, BOTH), flat=(BNR, CHORD_PLACE, CHORD_STATIC))
            for measure, y in (("delay", "mean delay"), ("overhead", "messages per publication"))
        )
        return [Chart("dynatops-fig6de-halves", "Figs 6d, 6e: the two halves", panels)]

    def judge(self, table: Table, quick: bool) -> Verdict:
        def less(measure: str, system: str, others: Sequence[str]) -> list[Estimate]:
            return below(table, NOTIFIED, measure, system, others)

        apart = [
            between(f"{label} improves {measure}", less(measure, system, (CHORD_PLACE,)), 0)
            for label, system in (("(BS)", of(BS, C)), ("(BNR)", BNR))
            for measure in ("delay", "overhead")
        ]
        together = [
            shown(between(f"both improve {measure} beside (BS) and (BNR)",
                          less(measure, OURS, (of(BS, C), BNR)), 0))
            for measure in ("delay", "overhead")
        ]  # fmt: skip
        static = [
            shown(between(f"{label}, {measure} beside Bayeux-on-Chord(static)",
                          less(measure, system, (CHORD_STATIC,)), 0))
            for label, system in (("(BS)", of(BS, C)), ("(BNR)", BNR))
            for measure in ("delay", "overhead")
        ]  # fmt: skip
        pure = [
            shown(between(f"(BS) with w_l = 0 improves {measure}",
                          _unweighed(table, measure, of(BS, C), (CHORD_PLACE,)), 0))
            for measure in ("delay", "overhead")
        ]  # fmt: skip
        beside = [
            shown(
                between(f"(BNR), {measure} beside {BAYEUX_STATIC}, {BAYEUX_PLACE}", less(measure, BNR, BAYEUX[:2]), 0)
            )
            for measure in ("delay", "overhead")
        ]
        return verdict(self.id, self.sentence, [*apart, *pure, *together, *static, *beside], self._why(table))

    def _why(self, table: Table) -> str:
        far = table.mean(NOTIFIED, name("delay", BS, C)).mean - table.mean(NOTIFIED, name("delay", CHORD_PLACE)).mean
        roots = [table.mean(NOTIFIED, name("topics", system)).mean for system in (of(BS, C), CHORD_PLACE)]
        return (
            f"With selection a broker subscribes to {roots[0]:.1f} topics instead of {roots[1]:.1f}, so trees are "
            f"smaller; but who stays at a broker of the first cluster pays the way there with every notification: "
            f"{far:+.2f} of the mean delay between two brokers. {load_beside(table, NOTIFIED)}"
        )
