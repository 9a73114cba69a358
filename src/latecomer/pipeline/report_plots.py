"""The pictures of a report, as SVG inside the page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from latecomer.pipeline.stages.zipf import Fit

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
"""Told apart also by those who see few colours (Paul Tol)."""
MOST = 24
"""Rows and columns of a heat map, and bars."""
NAME_MOST = 28
RANKS_FEW = 10
"""Up to here every rank has a number on its axis."""
SHADES = 32
"""Of a heat map; from fifty on the scale beside it would become pixels."""
STYLE: dict[Any, Any] = {"svg.hashsalt": "latecomer", "svg.fonttype": "none", "font.size": 9}


def heat_map(
    cells: Sequence[tuple[str, str, int]], what: str, sides: tuple[str, str] = ("broker", "topic class")
) -> str:
    """The heaviest rows and columns; darker is more."""
    down, across = _heaviest(cells, 0), _heaviest(cells, 1)
    values = np.zeros((len(down), len(across)))
    for a, b, count in cells:
        if a in down and b in across:
            values[down[a], across[b]] += count
    figure, axes = _figure(1.6 + 0.22 * len(down))
    # Paths, never pixels: the page may load nothing, and an image inside it counts as loaded.
    shades = matplotlib.colormaps["Blues"].resampled(SHADES)
    image = axes.pcolormesh(values, cmap=shades, vmin=0, edgecolors="white", linewidth=0.5)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(across)) + 0.5, [label(name) for name in across], rotation=60, ha="right")
    axes.set_yticks(np.arange(len(down)) + 0.5, [label(name) for name in down])
    axes.set_xlabel(sides[0])
    axes.set_ylabel(sides[1])
    figure.colorbar(image, ax=axes, label=what)
    return _svg(figure, f"{what} by {sides[1]} and {sides[0]}")


def through_time(periods: Mapping[str, Sequence[int]], period_s: int) -> str:
    """Requests, publications and changes of subscriptions per second."""
    at = [datetime.fromtimestamp(us / 1e6, UTC) for us in periods["begin_us"]]
    at.append(at[-1] + timedelta(seconds=period_s))  # where the last period ends
    changes = [a + b for a, b in zip(periods["subscribed"], periods["unsubscribed"], strict=True)]
    lines = (
        ("requests", periods["requests"]),
        ("publications", periods["publications"]),
        ("subscriptions that began or ended", changes),
    )
    figure = Figure(figsize=(8.0, 1.5 * len(lines)), layout="constrained")
    FigureCanvasSVG(figure)
    # One scale for each: there may be a thousand publications for one request.
    for axes, (name, counts), colour in zip(figure.subplots(len(lines), sharex=True), lines, COLOURS, strict=False):
        axes.spines[["top", "right"]].set_visible(False)
        edges = date2num(at)  # type: ignore[no-untyped-call]
        axes.stairs([count / period_s for count in counts], edges, color=colour, fill=True, alpha=0.8)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("per second")
        axes.set_title(name, loc="left", fontsize="medium")
    axes.xaxis_date(UTC)
    words = ConciseDateFormatter(axes.xaxis.get_major_locator(), tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(words)
    return _svg(figure, "requests, publications and changes of subscriptions through time")


def zipf(found: Mapping[str, Sequence[float]], popularity: Fit | None, locality: Fit | None) -> str:
    """Shares by rank on scales of powers, and the laws that fit best."""
    figure, axes = _figure(3.4)
    told = (("popularity", "popularity_rank", popularity), ("locality", "locality_rank", locality))
    for (name, rank, law), colour in zip(told, COLOURS, strict=False):
        pairs = sorted((r, v) for r, v in zip(found[rank], found[name], strict=True) if v > 0)
        ranks = np.array([pair[0] for pair in pairs], float)
        values = np.array([pair[1] for pair in pairs], float)
        axes.plot(ranks, values, ".", color=colour, label=name)
        if law is not None and len(ranks):
            shape = ranks**-law.exponent
            drawn = shape * values.sum() / shape.sum()
            axes.plot(ranks, drawn, color=colour, alpha=0.6, label=f"s = {law.exponent:.2f} ± {law.error:.2f}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    last = max(found["popularity_rank"], default=1)
    few = FixedLocator(range(1, round(last) + 1)) if last <= RANKS_FEW else None
    for axis, ticks in ((axes.xaxis, few), (axes.yaxis, None)):
        axis.set_major_locator(ticks or LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10f}".rstrip("0").rstrip(".")))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("rank")
    axes.set_ylabel("share")
    axes.legend(frameon=False)
    return _svg(figure, "popularity and locality by rank")


def hop_bars(found: Mapping[str, Sequence[int | None]]) -> str:
    """How many requests were answered from how far."""
    counts: dict[int, int] = {}
    for far, count in zip(found["hops"], found["requests"], strict=True):
        if far is not None:
            counts[far] = counts.get(far, 0) + (count or 0)
    figure, axes = _figure(2.6)
    axes.bar(sorted(counts), [counts[far] for far in sorted(counts)], color=COLOURS[0])
    axes.set_xlabel("hops to the store")
    axes.set_ylabel("requests")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return _svg(figure, "requests by distance")


def churn(rows: Sequence[tuple[str, int, int]]) -> str:
    """The classes whose subscriptions changed most."""
    rows = rows[:MOST]
    figure, axes = _figure(1.2 + 0.22 * len(rows))
    down = range(len(rows))
    axes.barh(down, [row[1] for row in rows], color=COLOURS[2], label="began")
    axes.barh(down, [-row[2] for row in rows], color=COLOURS[1], label="ended")
    axes.set_yticks(down, [label(row[0]) for row in rows])
    axes.invert_yaxis()
    axes.axvline(0, color="#222", linewidth=0.6)
    axes.legend(frameon=False)
    return _svg(figure, "subscriptions that began and ended")


def hand_over_times(found: Mapping[str, Sequence[int]]) -> str:
    """For each algorithm, the share of sessions that were there within a time; classes are those of the table."""
    figure, axes = _figure(3.0)
    for (name, counts), colour in zip(found.items(), COLOURS, strict=False):
        within = [2**at for at in range(len(counts))]
        shares = 100 * np.cumsum(counts) / sum(counts)
        axes.step(within, shares, where="post", color=colour, label=f"{label(name)}, {sum(counts):,} sessions")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylim(0, 103)
    axes.set_xlabel("milliseconds from the CONNECT, or from the wish to move it, until the session was there")
    axes.set_ylabel("% of sessions")
    axes.legend(frameon=False, loc="lower right")
    return _svg(figure, "time of hand-overs by algorithm")


# -- drawing


def _heaviest(cells: Sequence[tuple[str, str, int]], side: int) -> dict[str, int]:
    """The names with the most, and their places, in the order of names."""
    sums: dict[str, int] = {}
    for cell in cells:
        name = cell[0] if side == 0 else cell[1]
        sums[name] = sums.get(name, 0) + cell[2]
    kept = sorted(sums, key=lambda name: (-sums[name], name))[:MOST]
    return {name: place for place, name in enumerate(sorted(kept))}


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(8.0, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def shown(text: str) -> str:
    """What does not print is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def label(text: str) -> str:
    """Names from outside are no formulas, and not endless."""
    short = text if len(text) <= NAME_MOST else text[: NAME_MOST - 1] + "…"
    return shown(short).replace("\\", "/").replace("$", r"\$")


def _svg(figure: Figure, title: str) -> str:
    """Without the XML heading, and without the day on which it was drawn."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    text = file.getvalue()
    return f'<figure aria-label="{title}">{text[text.index("<svg") :]}</figure>'
