"""How the sentences of this paper are read, and what is swept, for the Poisson model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from latecomer.experiments.charts import Panel
from latecomer.experiments.claim import Axis, Column, Sweep, panel
from latecomer.experiments.dynatops.playing import SWEPT, Playing, SystemName, change
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import about, between
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.verdict import Part, shown

SLIGHT = 10.0
"""Per cent that a "slight" change may be."""
SWEPT_HOURS = 50
NAMES: Mapping[SystemName, str] = {
    "bayeux": "Bayeux",
    "tco": "TCO",
    "dynatops": "DYNATOPS",
    "selection": "DYNATOPS(BS)",
    "repositioning": "DYNATOPS(BNR)",
    "chord": "Bayeux on Chord",
}
READ = (
    f"“By x”, without “over”, is x give or take a fifth; “over x” is more than x; “slightly” is at most {SLIGHT:.0f} %."
)
COLUMNS = (
    Column("broker subscription changes, below Bayeux", "better", "changes_dynatops", "changes_bayeux"),
    Column("management messages, below Bayeux", "better", "management_dynatops", "management_bayeux"),
    Column("delay, below Bayeux", "better", "delay_dynatops", "delay_bayeux"),
    Column("overhead, below Bayeux", "better", "overhead_dynatops", "overhead_bayeux"),
    Column("reconfiguration, eq. 11", "mean", "cost_dynatops"),
    Column("counted", "mean", "counted_dynatops"),
    Column("load: deviation, %", "mean", "load_spread_dynatops"),
    Column("load: highest / mean", "mean", "load_highest_dynatops"),
)


def system_panel(
    table: Table, axis: Axis, measure: str, y: str, systems: Sequence[SystemName], title: str = ""
) -> Panel:
    """A curve for each system."""
    return panel(table, axis, {NAMES[name]: f"{measure}_{name}" for name in systems}, y, title)


def below(table: Table, axis: Axis, measure: str, other: SystemName, name: SystemName = "dynatops") -> list[Estimate]:
    """By how many per cent a system is below another, at every point."""
    return [table.better(setting, f"{measure}_{name}", f"{measure}_{other}") for setting in axis.settings()]


def each_about(paper: str, points: Sequence[Estimate], x: float) -> Part:
    """At every point, give or take a fifth."""
    return about(paper, points[0], x) if len(points) == 1 else between(paper, points, 0.8 * x, 1.2 * x)


def walks(table: Table, axis: Axis) -> list[Part]:
    """As our brokers walk, and on the same overlay: for the reader."""
    parts = [
        between("*Bayeux on Chord:* delay below it", below(table, axis, "delay", "chord"), 0, inf),
        between("*Bayeux on Chord:* overhead below it", below(table, axis, "overhead", "chord"), 0, inf),
        between("*as our brokers walk:* delay below Bayeux's", below(table, axis, "core_delay", "bayeux"), 0, inf),
        between(
            "*as our brokers walk:* overhead below Bayeux's", below(table, axis, "core_overhead", "bayeux"), 0, 100
        ),
        between(
            "*from the rendezvous point (III-A):* delay below Bayeux's",
            below(table, axis, "root_delay", "bayeux"),
            0,
            inf,
        ),
    ]
    return [shown(part) for part in parts]


def load(table: Table, axis: Axis) -> list[Part]:
    """The spread of the load, beside every figure."""
    parts = [
        between(
            f"load of brokers, {NAMES[name]}: {word}",
            [table.mean(setting, f"{measure}_{name}") for setting in axis.settings()],
            0,
            inf,
            unit,
        )
        for name in ("bayeux", "dynatops")
        for word, measure, unit in (
            ("standard deviation next to the mean", "load_spread", " %"),
            ("highest next to the mean", "load_highest", " times"),
        )
        if all(f"{measure}_{name}" in table.rows[setting][0] for setting in axis.settings())
    ]
    return [shown(part) for part in parts]


# -- what is left out


def swept(base: Playing, /, **changed: object) -> Playing:
    """Without TCO, and with fewer seeds and hours."""
    return change(base, systems=SWEPT, swept=True, hours=SWEPT_HOURS, **changed)


def option_sweep(
    parameter: str, told: str, chosen: str, base: Playing, options: Mapping[str, Mapping[str, object]]
) -> Sweep:
    return Sweep(parameter, told, chosen, {name: swept(base, **changed) for name, changed in options.items()}, COLUMNS)


def mode_sweep(base: Playing) -> Sweep:
    told = (
        "subscriptions change as a Poisson process; whether a new topic is of the user's mode is not said. *new mode*: "
        "all five change, to another mode."
    )
    options = {word: {"change": word} for word in ("same mode", "any topic", "new mode")}
    return option_sweep("what a changed topic is replaced by", told, "same mode", base, options)


def publications_sweep(base: Playing) -> Sweep:
    told = "how much is published decides whether a reconfiguration pays, and is not given; per topic and hour."
    options = {f"{rate:g}": {"publications": rate} for rate in (1.0, 10.0, 100.0, 1000.0)}
    return option_sweep("publications", told, "100", base, options)


def popular_sweep(base: Playing) -> Sweep:
    told = "whether popular topics are published more often is not said."
    options: dict[str, Mapping[str, object]] = {"all alike": {}, "as popular": {"popular": True}}
    return option_sweep("publications of popular topics", told, "all alike", base, options)


def load_sweep(base: Playing) -> Sweep:
    told = (
        "no value is given. With load as a share of all, an even load is 1 / |B|, so w_l works in units of |B|; ours "
        "is the share of the cluster, and w_l is given in units of c."
    )
    options = {f"{weight:g} · c": {"load_weight": weight} for weight in (0.0, 0.02, 0.2, 2.0)}
    return option_sweep("w_l", told, "0.2 · c", base, options)


def exchange_sweep(base: Playing) -> Sweep:
    told = "how often brokers of a cluster tell one another their state is not given."
    hours = {"1 min": 1 / 60, "1 h": 1.0, "10 h": 10.0}
    return option_sweep("T_update", told, "1 h", base, {name: {"exchange": time} for name, time in hours.items()})


def similarity_sweep(base: Playing) -> Sweep:
    told = (
        "whether the present broker's subscriptions contain those of the user who asks. *asked*: as they are when it "
        "asks, with what it had; *after*: with what it wants now; *others*: only what somebody else holds."
    )
    options = {word: {"similarity": word} for word in ("asked", "after", "others")}
    return option_sweep("similarity at the present broker", told, "asked", base, options)


def cluster_sweep(base: Playing) -> Sweep:
    told = "c is given for Fig. 9 only (5)."
    return option_sweep("c", told, "5", base, {str(size): {"cluster": size} for size in (2, 5, 10, 25)})


def base_sweep(base: Playing) -> Sweep:
    told = (
        "Tapestry's digits are not given; a larger base has larger tables and shorter routes. Tapestry itself has 16."
    )
    return option_sweep(
        "base of Tapestry's digits", told, "16", base, {str(digits): {"base": digits} for digits in (2, 16)}
    )


def greedy_sweep(base: Playing) -> Sweep:
    told = (
        "SSBR-Greedy looks only at swaps of the broker with the highest cost, and stops when none of them helps. "
        "Beyond the paper, it may go on with the next worst."
    )
    options = {"the worst alone": {"tries": 1}, "all": {"tries": 100}}
    return option_sweep("whom SSBR-Greedy tries to swap", told, "the worst alone", base, options)


def constant_sweep(base: Playing) -> Sweep:
    told = "eq. 11 is an O(); its constants are not given. This one is before |P| log |V|."
    options = {f"{factor:g}": {"trees": factor} for factor in (0.01, 1.0)}
    return option_sweep("constant of the trees in eq. 11", told, "1", base, options)


def sigma_sweep(base: Playing) -> Sweep:
    told = "the exponent of the Zipf pattern is not given."
    options = {f"{sigma:g}": {"sigma": sigma} for sigma in (0.5, 1.0, 1.5)}
    return option_sweep("σ", told, "1", base, options)
