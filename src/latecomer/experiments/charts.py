"""Charts in the papers' style: black lines told apart by markers, a dotted grid, error bars.

Two runs over the same measurements give the same file, byte for byte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec
from matplotlib.figure import Figure

from latecomer.experiments.statistics import Estimate
from latecomer.pipeline.figure_style import STYLE, write

MARKERS = {"wrr": "s", "seq": "o", "grd_opt": "^", "rnd": "x", "refined": "*", "bound": "", "pub/sub": "s"} | {
    "standard": "s",
    "logging": "o",
    "prefetching": "^",
    "home-broker": "x",
}
DASHES = {"rnd": ":", "grd_opt": "--", "bound": "-.", "kept": "--"}
OTHER_MARKERS = "Dv<>ph"
CURVES: dict[Any, Any] = {**STYLE, "lines.markersize": 4.5, "legend.fontsize": 8, "legend.framealpha": 1.0}

LEGEND_COLUMNS, LEGEND_LINE_INCHES = 2, 0.17


class Curve(msgspec.Struct, frozen=True):
    name: str
    xs: tuple[float, ...]
    points: tuple[Estimate, ...]


class Panel(msgspec.Struct, frozen=True):
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]


class Chart(msgspec.Struct, frozen=True):
    """One figure of a paper; its panels stand side by side."""

    name: str
    """Of the file, without suffix."""
    caption: str
    panels: tuple[Panel, ...]


def draw(chart: Chart, folder: Path) -> Path:
    """Write the chart as SVG into a folder and return the file."""
    with mpl.rc_context(CURVES):
        lines = max(-(-len(panel.curves) // LEGEND_COLUMNS) for panel in chart.panels)
        size = (3.7 * len(chart.panels), 2.9 + LEGEND_LINE_INCHES * lines)
        figure = Figure(figsize=size, layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(chart.panels), squeeze=False)[0], chart.panels, strict=True):
            for number, curve in enumerate(panel.curves):
                axes.errorbar(
                    curve.xs,
                    [point.mean for point in curve.points],
                    yerr=[point.half if point.runs > 1 else 0.0 for point in curve.points],
                    label=curve.name,
                    color="black",
                    marker=_marker(curve.name, number),
                    linestyle=_dashes(curve.name),
                    markerfacecolor="white",
                    capsize=2,
                    elinewidth=0.7,
                )
            axes.set_title(panel.title, fontsize=9)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
            if any(point.mean < 0 for curve in panel.curves for point in curve.points):
                axes.axhline(0, color="0.4", linewidth=0.7)
            else:
                axes.set_ylim(bottom=0)
            # Below the axis: many curves leave no room for it between them.
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=LEGEND_COLUMNS)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{chart.name}.svg"
        write(figure, file)
    return file


def _kind(name: str) -> str:
    """The algorithm of a curve such as `wrr, M = 10`."""
    return name.split(",")[0]


def _dashes(name: str) -> str:
    """By the algorithm, or by what was done with its plan."""
    return next((DASHES[word] for word in name.split(", ") if word in DASHES), "-")


def _marker(name: str, number: int) -> str:
    return MARKERS.get(_kind(name), OTHER_MARKERS[number % len(OTHER_MARKERS)])
