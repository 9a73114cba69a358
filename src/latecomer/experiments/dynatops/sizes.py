"""D11, Fig. 10 and Table II: the configuration itself, next to consistent hashing, over brokers and topics."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Axis, Claim, Column, Sweep, panel
from latecomer.experiments.dynatops.configured import Configured, Pattern
from latecomer.experiments.dynatops.playing import change
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.mobility.judging import between
from latecomer.experiments.statistics import Estimate, estimate
from latecomer.experiments.verdict import Part, Verdict, shown, verdict

PATTERNS: dict[str, Pattern] = {"U": "uniform", "M": "multimodal"}
BROKERS, TOPICS = (10, 100, 1000), (50, 500, 5000)
TABLE_II = {
    (10, 100): 0.028,
    (100, 100): 0.184,
    (1000, 100): 96.0,
    (100, 50): 0.098,
    (100, 500): 0.502,
    (100, 5000): 1.9,
}


def size_axes(quick: bool) -> list[Axis]:
    """|B| and |P|, uniform and multimodal."""
    brokers, topics = (BROKERS[:2], TOPICS[:2]) if quick else (BROKERS, TOPICS)
    axes = []
    for pattern in PATTERNS.values():
        base = Configured(pattern=pattern)
        axes.append(Axis(f"|B|, {pattern}", {float(n): change(base, brokers=n) for n in brokers}))
        axes.append(Axis(f"|P|, {pattern}", {float(n): change(base, topics=n) for n in topics}))
    return axes


class Sizes(Claim):
    id: ClassVar[str] = "D11"
    paper: ClassVar[str] = "dynatops"
    title: ClassVar[str] = "Fig. 10 and Table II: savings over consistent hashing"
    sentence: ClassVar[str] = (
        "DYNATOPS configurations always improve on consistent hashing, for every size of the broker network and of the "
        "topic space, and more under skewed subscriptions (multimodal) than under the uniform pattern. Table II: 28 "
        "ms, 184 ms, 96 s for 10, 100, 1000 brokers; 98 ms, 502 ms, 1.9 s for 50, 500, 5000 topics."
    )
    given: ClassVar[str] = (
        "|P| = 100 while |B| varies, |B| = 100 while |P| varies. Ours: 5 topics for each broker, modes of 10 topics of "
        "which a broker wants 5, 10,000 publications of each topic in the period, w_d = 1, hashed positions. Overhead "
        "is all messages from the rendezvous point on, delay is accD. Times are those of this machine, of the path and "
        "the choice, for the reader; [the bench](../reference/overlay-speed.md) has them in full."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return size_axes(quick)

    def sweeps(self) -> list[Sweep]:
        return [wanted_sweep(), publications_sweep(), tries_sweep()]

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        axes = size_axes(quick)
        charts = []
        for name, word, pair in (
            ("brokers", "number of brokers |B|", (axes[0], axes[2])),
            ("topics", "number of topics |P|", (axes[1], axes[3])),
        ):
            drawn = []
            for measure in ("overhead", "delay"):
                curves = [
                    panel(table, Axis(word, axis.points), {f"{measure}, {letter}": measure}).curves[0]
                    for letter, axis in zip("UM", pair, strict=True)
                ]
                base = panel(table, Axis(word, pair[0].points), {}, f"{measure} saved (%)")
                drawn.append(change(base, curves=tuple(curves)))
            charts.append(Chart(f"dynatops-fig10-{name}", f"Fig. 10: savings over {word}", tuple(drawn)))
        return charts

    def judge(self, table: Table, quick: bool) -> Verdict:
        axes = size_axes(quick)
        points = [setting for axis in axes for setting in axis.settings()]
        pairs = [
            (one, other)
            for first, second in ((axes[0], axes[2]), (axes[1], axes[3]))
            for one, other in zip(first.settings(), second.settings(), strict=True)
        ]
        parts: list[Part] = [
            between("overhead: always a saving", [table.mean(s, "overhead") for s in points], 0, inf),
            between("delay: always a saving", [table.mean(s, "delay") for s in points], 0, inf),
            between("overhead: larger when multimodal", _more(table, pairs, "overhead"), 0, inf, " points"),
            between("delay: larger when multimodal", _more(table, pairs, "delay"), 0, inf, " points"),
            *(
                shown(
                    between(
                        f"{setting.brokers} brokers, {setting.topics} topics: {1000 * TABLE_II[key]:g} ms",
                        [_milliseconds(table, setting)],
                        0,
                        inf,
                        " ms",
                    )
                )
                for axis in axes[:2]
                for setting in axis.settings()
                if isinstance(setting, Configured) and (key := (setting.brokers, setting.topics)) in TABLE_II
            ),
        ]
        return verdict(self.id, self.sentence, parts, WHY)


def _milliseconds(table: Table, setting: Setting) -> Estimate:
    found = table.mean(setting, "seconds")
    return Estimate(1000 * found.mean, 1000 * found.half, found.runs)


def _more(table: Table, pairs: Sequence[tuple[Setting, Setting]], measure: str) -> list[Estimate]:
    """How much more is saved when multimodal, in points of per cent."""
    return [
        estimate(
            [
                more - less
                for less, more in zip(table.values(uniform, measure), table.values(multimodal, measure), strict=True)
            ]
        )
        for uniform, multimodal in pairs
    ]


SWEEP_COLUMNS = (
    Column("overhead saved, %", "mean", "overhead"),
    Column("delay saved, %", "mean", "delay"),
    Column("messages to relays saved, %", "mean", "external"),
    Column("overhead saved at the end of the path, %", "mean", "ended_overhead"),
    Column("delay saved at its end, %", "mean", "ended_delay"),
    Column("movers", "mean", "movers"),
    Column("swaps", "mean", "swaps"),
)


def _both(**changed: object) -> dict[str, Configured]:
    return {letter: change(Configured(pattern=pattern, swept=True), **changed) for letter, pattern in PATTERNS.items()}


def wanted_sweep() -> Sweep:
    told = "how many topics a broker subscribes to is not given (100 brokers, 500 topics)."
    options = {
        f"{wanted}, {letter}": setting
        for wanted in (5, 10, 30, 100)
        for letter, setting in _both(wanted=wanted, topics=500).items()
    }
    return Sweep("topics for each broker", told, "5", options, SWEEP_COLUMNS)


def publications_sweep() -> Sweep:
    told = "publications decide whether a move pays for what it costs, and are not given (100 brokers, 100 topics)."
    options = {
        f"{number:g}, {letter}": setting
        for number in (10.0, 100.0, 1000.0, 10_000.0, 100_000.0)
        for letter, setting in _both(publications=number).items()
    }
    return Sweep("publications of each topic", told, "10000", options, SWEEP_COLUMNS)


def tries_sweep() -> Sweep:
    told = "SSBR-Greedy stops when the worst broker has no better swap; beyond the paper, it may try others."
    options = {
        f"{word}, {letter}": setting
        for word, tries in (("the worst alone", 1), ("all", 100))
        for letter, setting in _both(tries=tries).items()
    }
    return Sweep("whom it tries to swap", told, "the worst alone", options, SWEEP_COLUMNS)


WHY = (
    "The pattern matters for overhead at some sizes and hardly for delay; why, we have not measured. What limits the "
    "savings is where SSBR-Greedy stops: going on with the next worst brokers nearly doubles them (sweep)."
)
