"""A picture of a movement report; the same report gives the same file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from latecomer.pipeline.figure_style import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latecomer.pipeline.movement_job import Report, Task

TITLES = {"move": "the next other place", "next": "the next place"}
KILO = 1000


def draw(file: Path, report: Report) -> None:
    """Write the figure; the suffix says in which format."""
    with plot(file, 11.1, 3.1) as figure:
        panels = figure.subplots(1, 3, width_ratios=(4, 4, 3))
        for number, (axes, task) in enumerate(zip(panels, report.tasks, strict=False)):
            _draw_methods(axes, task, labelled=number == 0 or len(task.methods) != len(report.tasks[0].methods))
        _draw_sizes(panels[2], next(task for task in report.tasks if task.sizes))


def _draw_methods(axes: Axes, task: Task, *, labelled: bool) -> None:
    rows = list(reversed(task.methods))
    for top, marker, color in (("top1", "o", "black"), ("top3", "s", "0.45")):
        shares = [getattr(one, top) for one in rows]
        axes.errorbar(
            [share.mean for share in shares],
            range(len(rows)),
            xerr=[[share.mean - share.low for share in shares], [share.high - share.mean for share in shares]],
            linestyle="",
            marker=marker,
            markersize=4,
            color=color,
            capsize=2,
            label=top.replace("top", "top "),
        )
    axes.set_yticks(range(len(rows)), [one.method for one in rows] if labelled else [""] * len(rows))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title(TITLES[task.predicted], fontsize=9)
    axes.legend(fontsize=8, loc="lower left")


def _draw_sizes(axes: Axes, task: Task) -> None:
    sizes = [one.bytes / KILO for one in task.sizes]
    for top, marker in (("top1", "o"), ("top3", "s")):
        shares = [getattr(one.accuracy, top).mean for one in task.sizes]
        axes.plot(sizes, shares, color="black" if top == "top1" else "0.45", marker=marker, markersize=4, label=top)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("kB of the exported model")
    axes.set_title("what it takes", fontsize=9)
