"""The tables: medians with their spread, ratios, and whether the targets are reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from bench.broker.measure import Result
from bench.broker.scenarios import FASTER, Feature, Line, Metric, Scenario, Target

REFERENCE = "mosquitto"
BEFORE = "before"
AMONG_PEERS = ("mosquitto", "amqtt", "nats", "nats-mqtt")
"""Brokers that are measured to compare with; targets are not theirs."""
KEPT = {True: "safe from power cuts", False: "kept nowhere"}


@dataclass(slots=True)
class Score:
    """Targets reached by one broker."""

    must: int = 0
    aim: int = 0
    of: int = 0


@dataclass(slots=True)
class Report:
    """Collects results as they come and shows them at the end, or when interrupted."""

    brokers: list[str]
    scenarios: list[tuple[Scenario, dict[str, list[Result]]]] = field(default_factory=list)
    features: list[tuple[Feature, dict[str, list[Result]]]] = field(default_factory=list)
    lines: list[tuple[Line, dict[str, list[Result]]]] = field(default_factory=list)
    scores: dict[str, Score] = field(default_factory=dict)
    load_bound: bool = False

    def show(self, console: Console) -> None:
        if self.scenarios:
            console.print(self.scenario_table())
        if self.features:
            console.print(self.feature_table())
        if self.lines:
            console.print(self.line_table())
        for name, score in self.scores.items():
            console.print(f"{name}: {score.must} of {score.of} targets reached, {score.aim} of them as aimed for")
        if self.load_bound:
            console.print("* the load generator was busy all the time: the broker may be faster than the figure says")

    def scenario_table(self) -> Table:
        table = Table(
            title="deliveries per second, all checked: median ± half of the range, processor time; ratio to Mosquitto"
        )
        table.add_column("", overflow="fold")
        for broker in self.brokers:
            table.add_column(broker, justify="right")
        for broker in self.compared():
            table.add_column(f"{broker}\nratio", justify="right")
        table.add_column("must", justify="right")
        table.add_column("aim", justify="right")
        for scenario, found in self.scenarios:
            for metric, target in scenario.targets.items():
                cells = [
                    self.cell(found.get(broker), metric, scenario.without.get(broker), beside=True)
                    for broker in self.brokers
                ]
                ratios = [
                    self.verdict(
                        broker, ratio(found.get(broker), found.get(REFERENCE), metric), target, metric in FASTER
                    )
                    for broker in self.compared()
                ]
                what = scenario.title if metric == "deliveries/s" else f"{scenario.title}: {metric}"
                table.add_row(what, *cells, *ratios, *bounds(target, metric in FASTER))
        return table

    def feature_table(self) -> Table:
        table = Table(title="the same broker with and without")
        for column in ("", "load", "broker", "without", "with", "ratio", "must", "aim"):
            table.add_column(column, justify="left" if column in ("", "load", "broker") else "right", overflow="fold")
        for feature, found in self.features:
            for broker in self.brokers:
                base, other = found.get(f"{broker} without"), found.get(f"{broker} with")
                if base is None or other is None:
                    continue
                cells = [self.cell(base, "deliveries/s", None), self.cell(other, "deliveries/s", None)]
                figure = ratio(other, base, "deliveries/s")
                verdict = self.verdict(broker, figure, feature.target, True)
                load = feature.name.partition(".")[2]
                table.add_row(feature.title, load, broker, *cells, verdict, *bounds(feature.target, True))
        return table

    def line_table(self) -> Table:
        table = Table(title="brokers in a line, publishers at one end, subscribers at the other")
        for column in ("", "broker", "", "figure", "CPU µs each", "to the bridge", "must", "to before", "must"):
            table.add_column(column, justify="left" if column in ("", "broker") else "right", overflow="fold")
        for line, found in self.lines:
            for metric in line.metrics:
                table.add_section()
                for broker in self.brokers:
                    for durable in (False, True):
                        results = found.get(line_key(broker, durable))
                        if results:
                            table.add_row(*self.line_row(line, metric, broker, durable, found))
        return table

    def line_row(
        self, line: Line, metric: Metric, broker: str, durable: bool, found: dict[str, list[Result]]
    ) -> list[str]:
        results, faster = found[line_key(broker, durable)], metric in FASTER
        target = None if broker in (*AMONG_PEERS, BEFORE) else line.targets.get(durable)
        bridge = None if broker == REFERENCE else ratio(results, found.get(line_key(REFERENCE, False)), metric)
        gain = None if broker in AMONG_PEERS or broker == BEFORE else line.gain
        before = ratio(results, found.get(line_key(BEFORE, durable)), metric) if broker not in AMONG_PEERS else None
        return [
            line.title if faster else f"{line.title}: {metric}",
            broker,
            "" if broker in AMONG_PEERS else KEPT[durable],
            self.cell(results, metric, None),
            cpu(results),
            self.verdict(broker, bridge, target, faster),
            bounds(target, faster)[0],
            "" if broker == BEFORE else self.verdict(broker, before, gain if before else None, faster),
            bounds(gain, faster)[0],
        ]

    def compared(self) -> list[str]:
        return [broker for broker in self.brokers if broker != REFERENCE] if REFERENCE in self.brokers else []

    def cell(
        self, results: Sequence[Result] | None, metric: Metric, reason: str | None, *, beside: bool = False
    ) -> str:
        """The median of a metric; with `beside`, the processor time per delivery as well."""
        if reason:
            return "[dim]left out[/]"
        if not results:
            return ""
        wrong = [result.error for result in results if result.error]
        if wrong:
            return f"[red]{wrong[0][:60]}[/]"
        values = [result.values[metric] for result in results]
        middle = statistics.median(values)
        star = ""
        if any(result.load_bound for result in results) and metric in FASTER:
            star, self.load_bound = "*", True
        processor = f" [dim]{cpu(results)} µs[/]" if beside and metric in FASTER else ""
        spread = f" [dim]±{(max(values) - min(values)) / 2 / middle:.0%}[/]" if len(values) > 1 and middle else ""
        return (f"{middle:,.0f}" if middle >= 100 else f"{middle:.1f}") + star + spread + processor

    def verdict(self, broker: str, figure: float | None, target: Target | None, faster: bool) -> str:
        """The ratio in the colour of its success; counted for the summary."""
        if target is None or broker in (*AMONG_PEERS, BEFORE):
            return "" if figure is None else f"{figure:.2f}"
        score = self.scores.setdefault(broker, Score())
        score.of += 1
        if figure is None:
            return "[red]✗[/]"
        must, aim = (
            (figure >= target.must, figure >= target.aim) if faster else (figure <= target.must, figure <= target.aim)
        )
        score.must += must
        score.aim += aim
        return (
            f"[green]{figure:.2f} ✓✓[/]" if aim else f"[yellow]{figure:.2f} ✓[/]" if must else f"[red]{figure:.2f} ✗[/]"
        )


def line_key(broker: str, durable: bool) -> str:
    return f"{broker} {KEPT[durable]}"


def cpu(results: Sequence[Result]) -> str:
    """Processor time of the broker, or of all brokers of a line, per delivery."""
    values = [result.values["CPU µs"] for result in results if "CPU µs" in result.values]
    return f"{statistics.median(values):.3g}" if values else ""


def ratio(ours: Sequence[Result] | None, theirs: Sequence[Result] | None, metric: Metric) -> float | None:
    """Median of the ratios round by round: what slowed a round down slowed down both."""
    pairs = zip(ours or (), theirs or (), strict=False)
    each = [
        mine.values[metric] / other.values[metric]
        for mine, other in pairs
        if mine.values.get(metric) and other.values.get(metric)
    ]
    return statistics.median(each) if each else None


def bounds(target: Target | None, faster: bool) -> tuple[str, str]:
    sign = "≥" if faster else "≤"
    return ("", "") if target is None else (f"{sign} {target.must:g}", f"{sign} {target.aim:g}")
