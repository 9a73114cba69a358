"""The pictures of a report: what a browser that may load nothing shows of them."""

from __future__ import annotations

import pytest

from latecomer.pipeline.numbers import moment, rate, span
from latecomer.pipeline.report import table
from latecomer.pipeline.report_plots import MOST, heat_map, zipf


@pytest.mark.parametrize("side", [1, 5, MOST + 3])
def test_a_heat_map_is_made_of_paths(side: int) -> None:
    """The page forbids images, also those inside it: one would be shown as a broken picture."""
    page = heat_map([(f"t{a}/#", f"b{b}", a * b) for a in range(side) for b in range(side)], "requests")
    assert "<image" not in page
    assert page.count("<path") > min(side, MOST) ** 2
    assert page.count("t0/#") == (side <= MOST), "the lightest are left out where there are many"


def test_ranks_are_whole_numbers() -> None:
    found: dict[str, list[float]] = {
        "popularity_rank": [1, 2, 3],
        "locality_rank": [1, 2, 3],
        "popularity": [0.6, 0.3, 0.1],
    }
    page = zipf({**found, "locality": [1.0, 0.5, 0.25]}, None, None)
    assert "mathdefault" not in page
    assert [f">{rank}</text>" in page for rank in (1, 2, 3, 4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.09662934, "0.0966"), (0.00001234, "0.0000123"), (12.345, "12.3"), (999.96, "1000"), (76_560.3, "76,560"),
     (0, "0")],
)  # fmt: skip
def test_rates_have_three_digits_that_count(value: float, written: str) -> None:
    assert rate(value) == written


def test_instants_are_to_the_second() -> None:
    begin, day_us = 1_792_000_000_123_456, 86_400_000_000
    assert moment(begin) == "2026-10-14 17:46:40 UTC"
    assert span(begin, begin + 61_000_000) == "2026-10-14 17:46:40 to 17:47:41 UTC"
    assert span(begin, begin + day_us) == "2026-10-14 17:46:40 to 2026-10-15 17:46:40 UTC"


def test_words_stand_left_and_numbers_right() -> None:
    page = table(("class", "broker", "rate"), [("a/#", "b1", "0.1"), ("<b>", "b2", 3)], 7, "demand")
    assert page.count('<td class="words">') == 4
    assert "<td>0.1</td>" in page
    assert "&lt;b&gt;" in page
    assert 'and 5 more in the table <a href="demand/">demand</a>' in page
