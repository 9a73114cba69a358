"""Figure 5 of dynatops from the tables of `latecomer checkins`; the same tables give the same file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from latecomer.pipeline.figure_style import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latecomer.pipeline.checkins_job import Analysis, Figures

DAY_H, WEEK_H = 24, 168
VISITS_SHOWN = 1000
DAYS_LABELLED = 3


def draw(file: Path, found: Analysis) -> None:
    """Write the figure; the suffix says in which format."""
    with plot(file, 11.1, 3.1) as figure:
        left, middle, right = figure.subplots(1, 3)
        _draw_repeats(left, found.figures)
        _draw_lingers(middle, found.figures)
        _draw_days(right, found.figures)


def cumulated(counts: Sequence[int]) -> list[float]:
    """The share of all up to each."""
    total = max(1, sum(counts))
    return [part / total for part in accumulate(counts)]


def _draw_repeats(axes: Axes, figures: Figures) -> None:
    shown = [row for row in figures.repeats if row["visits"] <= VISITS_SHOWN]
    many = [row["visits"] for row in shown]
    axes.step(many, cumulated([row["pairs"] for row in figures.repeats])[: len(many)], where="post", color="black")
    axes.set_xscale("log")
    _finish(axes, "a. (user, cell) pairs", "at most so many visits", "pairs")
    axes.axhline(1 / 3, color="0.4", linewidth=0.7, linestyle="--")
    axes.annotate("dynatops: a third once", (1, 1 / 3), (2, 3), textcoords="offset points", fontsize=8)


def _draw_lingers(axes: Axes, figures: Figures) -> None:
    hours = [row["hours"] + 1 for row in figures.lingers]
    axes.step(hours, cumulated([row["visits"] for row in figures.lingers]), where="post", color="black")
    axes.set_xscale("log")
    _finish(axes, "b. linger time (○ dynatops)", "hours, at most", "visits")
    for at, share, told in ((DAY_H, 0.5, "a day: half"), (WEEK_H, 0.9, "a week: 90 %")):
        axes.axvline(at, color="0.4", linewidth=0.7, linestyle="--")
        axes.plot([at], [share], marker="o", markersize=4, color="black", markerfacecolor="white", linestyle="")
        axes.annotate(told, (at, share), (-5, 2), textcoords="offset points", fontsize=8, horizontalalignment="right")


def _draw_days(axes: Axes, figures: Figures) -> None:
    days = [row["day"] for row in figures.days]
    at = range(len(days))
    axes.plot(at, [row["subscribed"] for row in figures.days], color="black", label="subscribed")
    axes.plot(at, [row["unsubscribed"] for row in figures.days], color="black", linestyle=":", label="unsubscribed")
    step = max(1, len(days) // DAYS_LABELLED)
    axes.set_xticks(list(at)[::step], days[::step], fontsize=7)
    axes.set_title("c. subscriptions to the own and friends' cells", fontsize=9)
    axes.set_ylabel("events a day")
    axes.set_yscale("log")  # on the first days everybody arrives somewhere
    axes.legend(fontsize=8)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x)
    axes.set_ylabel(f"share of {y}")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
