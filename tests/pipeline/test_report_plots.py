"""The pictures of a report: what a browser that may load nothing shows of them."""

from __future__ import annotations

import pytest

from latecomer.pipeline.report_plots import MOST, heat_map


@pytest.mark.parametrize("side", [1, 5, MOST + 3])
def test_a_heat_map_is_made_of_paths(side: int) -> None:
    """The page forbids images, also those inside it: one would be shown as a broken picture."""
    page = heat_map([(f"t{a}/#", f"b{b}", a * b) for a in range(side) for b in range(side)], "requests")
    assert "<image" not in page
    assert page.count("<path") > min(side, MOST) ** 2
    assert page.count("t0/#") == (side <= MOST), "the lightest are left out where there are many"
