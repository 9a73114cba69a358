"""A claim: a figure of a paper, the settings it takes, and how its sentence is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import ClassVar, Literal

import msgspec

from latecomer.experiments.charts import Chart, Curve, Panel
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.trials import ALGORITHMS, Placing
from latecomer.experiments.verdict import Verdict
from latecomer.experiments.workload import TREES

COUNTED = 1000
"""Numbers from here on are shown without decimals."""


class Axis(msgspec.Struct, frozen=True):
    """What a figure varies: a setting for every value."""

    label: str
    points: Mapping[float, Setting]

    def settings(self) -> list[Setting]:
        return list(self.points.values())


class Column(msgspec.Struct, frozen=True):
    """What a sweep looks at: `name` next to `other`, as `Table` compares them."""

    header: str
    how: Literal["better", "worse", "ratio", "mean"]
    name: str
    other: str = ""

    def show(self, table: Table, setting: Setting) -> str:
        if self.how == "mean":
            mean = table.mean(setting, self.name)
            return mean.show("", 0 if abs(mean.mean) >= COUNTED else 2)
        found: Estimate = getattr(table, self.how)(setting, self.name, self.other)
        return found.show(" times" if self.how == "ratio" else " %")


DISTANCE = Column("mean hops of wrr", "mean", "hops_wrr")
OVER_RND = Column("wrr better than rnd", "better", "hops_wrr", "hops_rnd")
UNDER_GRD_OPT = Column("wrr worse than grd_opt", "worse", "hops_wrr", "hops_grd_opt")
OVER_SEQ = Column("wrr better than seq", "better", "hops_wrr", "hops_seq")
DEFAULT_COLUMNS = (DISTANCE, OVER_RND, UNDER_GRD_OPT, OVER_SEQ)


class Sweep(msgspec.Struct, frozen=True):
    """What the paper leaves out: our choice, and what others give."""

    parameter: str
    silence: str
    """What the paper says, and what it does not."""
    chosen: str
    options: Mapping[str, Setting]
    columns: tuple[Column, ...] = DEFAULT_COLUMNS


def tree_sweep(base: Placing, columns: tuple[Column, ...] | None = None) -> Sweep:
    told = "“N brokers are organized in a tree topology”, and nothing on which."
    options: dict[str, Placing] = {kind: msgspec.structs.replace(base, tree=kind) for kind in TREES}
    return Sweep("random tree", told, base.tree, options, columns or DEFAULT_COLUMNS)


def random_stores_sweep(base: Placing, columns: tuple[Column, ...] | None = None) -> Sweep:
    told = (
        "“no differentiation among topics during the selection of the M stores”: by the votes on all topics together "
        "(aggregate), or by chance (random)."
    )
    options = {kind: msgspec.structs.replace(base, random_stores=kind) for kind in ("aggregate", "random")}
    return Sweep("stores of rnd", told, base.random_stores, options, columns or DEFAULT_COLUMNS)


def access_sweep(base: Placing, columns: tuple[Column, ...] | None = None) -> Sweep:
    told = (
        "the printed gain counts the demand that passes a node on its way to the origin (path), while the system asks "
        "the nearest store (nearest)."
    )
    options = {kind: msgspec.structs.replace(base, access=kind) for kind in ("path", "nearest")}
    return Sweep("who serves a request in the greedy runs", told, base.access, options, columns or DEFAULT_COLUMNS)


class Claim:
    """One row of the claims ledger."""

    id: ClassVar[str]
    """The row of the ledger; with the paper's name behind it where two papers share one, as in `S10-storing`."""
    paper: ClassVar[str]
    title: ClassVar[str]
    sentence: ClassVar[str]
    """What the paper reports."""
    given: ClassVar[str] = ""
    """The setting: what the paper gives, and what we added."""

    @property
    def row(self) -> str:
        """Of the ledger."""
        return self.id.partition("-")[0]

    def axes(self, quick: bool) -> list[Axis]:
        """Everything that is measured for the figure."""
        return []

    def sweeps(self) -> list[Sweep]:
        return []

    def charts(self, table: Table, quick: bool) -> list[Chart]:
        return []

    def judge(self, table: Table, quick: bool) -> Verdict:
        raise NotImplementedError

    def settings(self, quick: bool) -> list[Setting]:
        """What is measured for the figure and, unless it is to be quick, for the sweeps."""
        found = [setting for axis in self.axes(quick) for setting in axis.settings()]
        if not quick:
            found += [setting for sweep in self.sweeps() for setting in sweep.options.values()]
        return list(dict.fromkeys(found))


HOPS = "mean hop distance"


def panel(table: Table, axis: Axis, measures: Mapping[str, str], y: str = HOPS, title: str = "") -> Panel:
    """One curve per name → measure."""
    xs = tuple(axis.points)
    curves = [
        Curve(name, xs, tuple(table.mean(setting, measure) for setting in axis.settings()))
        for name, measure in measures.items()
    ]
    return Panel(title, axis.label, y, tuple(curves))


def hops_panel(table: Table, axis: Axis, algorithms: Sequence[str] = ALGORITHMS, title: str = "") -> Panel:
    return panel(table, axis, {name: f"hops_{name}" for name in algorithms}, title=title)


def solved_panel(table: Table, axis: Axis, solved: Axis, title: str = "") -> Panel:
    """With the planner's own answer, which has fewer seeds."""
    drawn = hops_panel(table, axis, title=title)
    ours = hops_panel(table, solved, ("refined", "bound"))
    return msgspec.structs.replace(drawn, curves=drawn.curves + ours.curves)


def traffic_panel(table: Table, axis: Axis, title: str = "") -> Panel:
    """ONT: the mean hop distance times all requests."""
    drawn = panel(table, axis, {name: f"ont_{name}" for name in ALGORITHMS}, "ONT (1000 req·hops/s)", title)
    curves = [
        msgspec.structs.replace(curve, points=tuple(scaled(point, 1 / 1000) for point in curve.points))
        for curve in drawn.curves
    ]
    return msgspec.structs.replace(drawn, curves=tuple(curves))


def solved(axis: Axis) -> Axis:
    """The same points with the planner's own answer, which takes long: of exponents only from 0 on (`from_zero`)."""
    wanted = {x: s for x, s in axis.points.items() if isinstance(s, Placing) and x >= 0}
    return Axis(axis.label, {x: msgspec.structs.replace(s, solved=True) for x, s in wanted.items()})


def from_zero(axis: Axis) -> list[Setting]:
    """The points of an exponent, each once: −s is s with the topics in reversed order, where nothing else differs."""
    return [setting for exponent, setting in axis.points.items() if exponent >= 0]


def gone_past(table: Table, settings: Sequence[Setting]) -> str:
    """What the planner's own answer adds, and which phase of the paper's loses, in two sentences."""
    over = [table.better(setting, "hops_refined", "hops_wrr") for setting in settings]
    from_bound = [table.worse(setting, "hops_refined", "hops_bound") for setting in settings]
    within = [table.better(setting, "hops_within", "hops_wrr") for setting in settings]
    yardstick = [table.worse(setting, "hops_refined", "hops_grd_opt") for setting in settings]
    limits = f"; it is {_span(_means(yardstick))} than grd_opt, which keeps no limits" if _finite(yardstick) else ""
    return (
        f"The best assignment to wrr's own stores is {_span([-e for e in _means(within)])} than wrr's. "
        f"Past the paper: under the same limits our *refined* plan is {_span([-e for e in _means(over)])} than wrr "
        f"and at most {max(_means(from_bound)):.1f} % above the *bound* that no plan can be below{limits}."
    )


def _means(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.mean for estimate in estimates]


def _finite(estimates: Sequence[Estimate]) -> bool:
    return all(isfinite(estimate.mean) for estimate in estimates)


def _span(longer: Sequence[float]) -> str:
    """Per cent, in words."""
    least, most = min(longer), max(longer)
    if most <= 0:
        return f"{-most:.0f}–{-least:.0f} % shorter"
    if least >= 0:
        return f"{least:.0f}–{most:.0f} % longer"
    return f"between {-least:.0f} % shorter and {most:.0f} % longer"


def scaled(estimate: Estimate, by: float) -> Estimate:
    return Estimate(estimate.mean * by, estimate.half * by, estimate.runs)


def everywhere(axes: Sequence[Axis]) -> list[Setting]:
    return list(dict.fromkeys(setting for axis in axes for setting in axis.settings()))


def compared(table: Table, settings: Sequence[Setting]) -> tuple[list[Estimate], list[Estimate], list[Estimate]]:
    """wrr at every point: better than rnd, worse than grd_opt, better than seq; per cent."""
    return (
        [table.better(setting, "hops_wrr", "hops_rnd") for setting in settings],
        [table.worse(setting, "hops_wrr", "hops_grd_opt") for setting in settings],
        [table.better(setting, "hops_wrr", "hops_seq") for setting in settings],
    )
