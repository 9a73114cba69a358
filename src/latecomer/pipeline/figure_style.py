"""How figures look that stand beside those of the papers: black lines and a dotted grid; the same file every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from latecomer.model.errors import SettingsError

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, in the reader's own font
    "svg.hashsalt": "latecomer",
    "font.family": "serif",
    "font.size": 9,
    "axes.grid": True,
    "grid.linestyle": ":",
    "grid.color": "0.7",
    "lines.linewidth": 1.0,
}
DAYS = {".svg": "Date", ".pdf": "CreationDate"}
"""What the formats that have one call it."""


@contextmanager
def plot(file: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw into, in inches; afterwards it is written where `--plot` says."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        try:
            write(figure, file)
        except OSError as error:
            raise SettingsError("--plot", f"{file}: {error.strerror or error}") from error


def write(figure: Figure, file: Path) -> None:
    """The suffix says in which format; without the day on which it was drawn."""
    day = DAYS.get(file.suffix.lower())
    figure.savefig(file, metadata={day: None, "Creator": None} if day else None)
