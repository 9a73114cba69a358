"""Figures that are the same file whenever they are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.model.errors import SettingsError
from latecomer.pipeline.figure_style import plot


def drawn(file: Path) -> bytes:
    with plot(file, 2, 2) as figure:
        figure.subplots().plot([1, 2], [3, 4], label="line")
    return file.read_bytes()


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png", ".SVG"])
def test_a_figure_does_not_tell_when_it_was_drawn(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for day in ("1000000000", "2000000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
        files.append(drawn(tmp_path / f"figure{suffix}"))
    assert files[0] == files[1]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file or directory") as caught:
        drawn(tmp_path / "nowhere" / "figure.svg")
    assert caught.value.key == "--plot"
