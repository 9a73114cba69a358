"""`--plot`: the network with its stores, the demand of each broker, and who is served from where."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from latecomer.cli.plan_files import whole_file
from latecomer.cli.plan_plot_layout import Points, layout
from latecomer.cli.plan_tables import far, listed, percent, unit
from latecomer.model.plan import Plan
from latecomer.model.topology import Node, Topology
from latecomer.planner.cost import serving
from latecomer.planner.problem import RATE_UNIT, Problem
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latecomer.planner.legality import Placement

Ints = npt.NDArray[np.int64]
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#997700", "#77aadd",
           "#994455", "#99ddff", "#bbcc33", "#ffaabb", "#225555")  # fmt: skip
"""Told apart also by those who see few colours (Paul Tol); they repeat when there are more stores."""
QUIET = "#d9d9d9"
INK = "#222222"
NAMED_MOST = 70
"""Brokers up to which all have their name beside them."""
LEGEND_MOST = 16
LABEL_MOST, NAME_MOST = 44, 24
"""Characters."""
WIDTH, HEIGHT = 11.0, 7.6


def draw(file: Path, topology: Topology, plan: Plan, problem: Problem, placement: Placement) -> None:
    """Write the picture; the suffix says in which format."""
    points = layout(topology, _hops(topology, problem, plan))
    named = [_name(node) for node in topology.nodes]
    regions, shares = serving_regions(problem, placement)
    colour = {store: COLOURS[at % len(COLOURS)] for at, store in enumerate(placement.stores)}
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.06)
    _draw_links(axes, topology, points, regions, colour)
    sizes = _draw_brokers(axes, problem, placement, points, regions, shares, colour)
    _draw_names(axes, named, placement, points, sizes)
    _legend(figure, problem, named, placement, colour)
    mean = f"mean {far(plan.prediction.hops_mean, plan.distance)} {unit(plan.distance)}"
    above = plan.prediction.gap
    gap = "" if above is None else f", at most {percent(above)} above the least" if above else ", the least there is"
    title = _text(topology.name)
    axes.set_title(f"{title}: {len(plan.stores)} stores by {plan.algorithm}, {mean}{gap}", color=INK, fontsize=12)
    save(figure, file)


def serving_regions(problem: Problem, placement: Placement) -> tuple[Ints, npt.NDArray[np.float64]]:
    """[N] the store that serves most of a broker's requests, and the part that it serves; -1 where nobody asks."""
    count = len(problem.brokers)
    served = np.zeros((count, count), np.int64)
    here = np.arange(count)
    for topic, places in enumerate(placement.replicas):
        served[here, serving(problem, places)] += problem.rates[topic]
    asked = served.sum(axis=1)
    main: Ints = np.where(asked > 0, served.argmax(axis=1), -1)
    share = served.max(axis=1) / np.maximum(asked, 1)
    return main, share


def _hops(topology: Topology, problem: Problem, plan: Plan) -> npt.NDArray[Any]:
    return problem.distance if plan.distance == "hops" else np.array(topology.hop_matrix())


def _draw_links(axes: Axes, topology: Topology, points: Points, regions: Ints, colour: dict[int, str]) -> None:
    """A link within one region has its colour."""
    position = {node.id: i for i, node in enumerate(topology.nodes)}
    ends = [(position[link.a], position[link.b]) for link in topology.links]
    inside = [bool(regions[a] == regions[b] >= 0) for a, b in ends]
    wide = 2.6 if len(points) <= 200 else 1.0
    lines = [points[[a, b]] for a, b in ends]
    tints = [colour[int(regions[a])] if same else "#c4c4c4" for (a, _), same in zip(ends, inside, strict=True)]
    widths = [wide if same else wide * 0.45 for same in inside]
    axes.add_collection(LineCollection(lines, colors=tints, linewidths=widths, alpha=0.6, zorder=1))


def _draw_brokers(
    axes: Axes,
    problem: Problem,
    placement: Placement,
    points: Points,
    regions: Ints,
    shares: npt.NDArray[np.float64],
    colour: dict[int, str],
) -> npt.NDArray[np.float64]:
    """Areas as demand, paler where the main store serves less; stores are squares with a frame."""
    demand = problem.rates.sum(axis=0) / max(1, int(problem.rates.sum(axis=0).max()))
    scale = min(1.0, math.sqrt(40 / len(points)))
    sizes: npt.NDArray[np.float64] = (28 + 620 * demand) * max(scale, 0.12)
    stores = frozenset(placement.stores)
    for i, (x, y) in enumerate(points.tolist()):
        store = i in stores
        area, mark = (max(sizes[i], 150 * scale), "s") if store else (sizes[i], "o")
        fill = colour[i] if store else colour.get(int(regions[i]), QUIET)
        axes.scatter(x, y, s=area, marker=mark, color="white", linewidths=0, zorder=2)  # no link shines through
        axes.scatter(
            x,
            y,
            s=area,
            marker=mark,
            color=fill,
            alpha=1.0 if store else 0.35 + 0.6 * float(shares[i]),
            edgecolors=INK if store else "white",
            linewidths=1.8 if store else 0.6,
            zorder=4 if store else 3,
        )
    return sizes


def _draw_names(
    axes: Axes, named: list[str], placement: Placement, points: Points, sizes: npt.NDArray[np.float64]
) -> None:
    stores = frozenset(placement.stores)
    for i, name in enumerate(named):
        if i not in stores and len(named) > NAMED_MOST:
            continue
        radius = math.sqrt(max(sizes[i], 150 if i in stores else 0) / math.pi)
        axes.annotate(
            name,
            (float(points[i, 0]), float(points[i, 1])),
            xytext=(0, radius + 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9.5 if i in stores else 7,
            fontweight="bold" if i in stores else "normal",
            color=INK if i in stores else "#666666",
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=5,
        )


def _legend(figure: Figure, problem: Problem, named: list[str], placement: Placement, colour: dict[int, str]) -> None:
    """Each store with what it keeps, the heaviest topics first."""
    weights = problem.weights
    handles: list[Line2D] = []
    for store in placement.stores[:LEGEND_MOST]:
        kept = [topic for topic, places in enumerate(placement.replicas) if store in places]
        kept.sort(key=lambda topic: (-int(weights[topic]), topic))
        label = f"{named[store]}: {_text(listed(problem.topics[topic] for topic in kept)) or 'nothing'}"
        label = label if len(label) <= LABEL_MOST else label[: LABEL_MOST - 1] + "…"
        handles.append(Line2D([], [], marker="s", ls="", ms=9, mfc=colour[store], mec=INK, label=label))
    if len(placement.stores) > LEGEND_MOST:
        handles.append(Line2D([], [], ls="", label=f"and {len(placement.stores) - LEGEND_MOST} stores more"))
    most = f"area: demand, up to {int(problem.rates.sum(axis=0).max()) / RATE_UNIT:,.3g}/s"
    handles.append(Line2D([], [], marker="o", ls="", ms=11, mfc=QUIET, mec="white", label=most))
    handles.append(
        Line2D([], [], marker="o", ls="", ms=7, mfc=QUIET, mec="white", label="colour: who serves most of it")
    )
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8.5, labelcolor=INK)


def _name(node: Node) -> str:
    """The id, and what the map calls it."""
    label = "" if node.label in ("", node.id) else f" {node.label}"
    return _text((node.id + label)[:NAME_MOST])


def _text(words: str) -> str:
    """Names from outside are no formulas."""
    return plain(words).replace("\\", "/").replace("$", r"\$")


def save(figure: Figure, file: Path) -> None:
    """Whole or not at all; the same bytes for the same plan."""
    kind = file.suffix.lower().removeprefix(".")
    about: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    style: dict[Any, Any] = {"svg.hashsalt": "latecomer", "svg.fonttype": "none"}
    with whole_file(file, "--plot") as partial, matplotlib.rc_context(style):
        figure.savefig(partial, format=kind, dpi=150, metadata=about, facecolor="white")
