"""`overlay plan --plot`: the ring with its brokers, and the trees of the heaviest topics, before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.cli.plan_plot import COLOURS, INK, QUIET, save
from latecomer.planner.overlay.cost import cost_of_state
from latecomer.planner.overlay.problem import Configuration, OverlayProblem
from latecomer.planner.overlay.state import case_of, state_of
from latecomer.planner.overlay.state_kernels import OUTSIDE, RELAY, State
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TREES = 4
"""Topics whose trees are drawn: those with the most publications that anybody wants."""
NAMED_MOST = 40
NAME_MOST = 16
WIDTH, HEIGHT = 13.0, 7.2


def draw(file: Path, problem: OverlayProblem, start: Configuration, end: Configuration) -> None:
    """Write the picture; the suffix says in which format."""
    case = case_of(problem)
    topics = heaviest(problem)
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    for at, (name, place) in enumerate((("before", start), ("after", end)), 1):
        axes = figure.add_subplot(1, 2, at)
        state = state_of(case, place)
        cost = cost_of_state(problem, case, state)
        _draw_ring(axes, problem, state, topics)
        relays = f"{cost.external / problem.unit:,.6g} messages to relays, {cost.delay / problem.unit:,.6g} hops"
        axes.set_title(f"{name}: {relays}", color=INK, fontsize=11)
    handles = [
        Line2D([], [], color=COLOURS[at], label=plain(problem.topics[topic])[:NAME_MOST])
        for at, topic in enumerate(topics)
    ]
    handles.append(Line2D([], [], color=INK, marker="o", markerfacecolor="white", linestyle="", label="relay"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, file)


def heaviest(problem: OverlayProblem) -> list[int]:
    """The topics whose trees are drawn."""
    first, _ = problem.by_topic
    weight = problem.counts * (np.diff(first) > 0)
    found: list[int] = np.argsort(-weight, kind="stable")[:TREES].tolist()
    return [topic for topic in found if weight[topic] > 0]


def _draw_ring(axes: Axes, problem: OverlayProblem, state: State, topics: list[int]) -> None:
    angle = 2 * np.pi * np.array(problem.ring.positions, np.float64) / 2**problem.ring.bits
    x, y = np.sin(angle), np.cos(angle)  # clockwise from the top
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-1.35, 1.35)
    axes.set_ylim(-1.35, 1.35)
    circle = np.linspace(0, 2 * np.pi, 361)
    axes.plot(np.sin(circle), np.cos(circle), color=QUIET, zorder=1)
    axes.scatter(x, y, s=20, color=QUIET, zorder=2)
    parents, _, rows = problem.trees
    for number, topic in enumerate(topics):
        role, colour = state.role[topic], COLOURS[number]
        inside = np.flatnonzero(role != OUTSIDE)
        for at in inside.tolist():
            above = int(parents[rows[topic], at])
            if above >= 0:
                axes.plot([x[above], x[at]], [y[above], y[at]], color=colour, linewidth=1.1, alpha=0.8, zorder=2)
        fill = ["white" if role[at] == RELAY else colour for at in inside]
        size = 46 + 60 * (len(topics) - number)  # rings around one another
        axes.scatter(x[inside], y[inside], s=size, c=fill, edgecolors=colour, linewidths=1.4, zorder=3 + number)
    if len(problem.brokers) <= NAMED_MOST:
        for at, broker in enumerate(state.who.tolist()):
            name = plain(problem.brokers[broker])[:NAME_MOST]
            axes.text(1.16 * x[at], 1.16 * y[at], name, ha="center", va="center", fontsize=8, color=INK)
