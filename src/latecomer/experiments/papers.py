"""All claims by paper, and reproducing them: measure, draw, judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from latecomer.experiments import dynatops, mobility, planning, storing
from latecomer.experiments.charts import Chart, draw
from latecomer.experiments.claim import Claim
from latecomer.experiments.grid import Spread, Table, alone, measure
from latecomer.experiments.verdict import Verdict
from latecomer.model.errors import SettingsError

PAPERS: dict[str, tuple[Claim, ...]] = {
    "storing": storing.CLAIMS,
    "planning": planning.CLAIMS,
    "dynatops": dynatops.CLAIMS,
    "mobility": mobility.CLAIMS,
}
SEEDS = 200
"""Of the closed form, which is cheap; settings that are not say how many they run."""
QUICK_SEEDS = 5
CACHE = "measured.jsonl"
"""The measurements, beside the results: of all claims, as some look at the same points."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a claim."""

    claim: Claim
    table: Table
    verdict: Verdict
    charts: tuple[Chart, ...]


Told = Callable[[str, int, int], None]
"""Told the claim, how many of its measurements there are, and of how many."""


def chosen(names: Sequence[str]) -> list[Claim]:
    """Claims by name, or all claims of the papers named, in the order of the ledger; nothing named is everything.

    A paper beside claims only says where they stand: `planning S1 S2` is those two.
    """
    claims = [claim for paper in PAPERS.values() for claim in paper]
    rows = list(dict.fromkeys(claim.row for claim in claims))
    for name in names:
        if name not in PAPERS and name not in rows and all(name != claim.id for claim in claims):
            listed = ", ".join([*PAPERS, *rows])
            raise SettingsError("claim", f"there is no {name!r}; choose from {listed}")
    papers = [name for name in names if name in PAPERS]
    named = [claim for claim in claims if claim.id in names or claim.row in names]
    for name in names:
        found = [claim.paper for claim in claims if name in (claim.id, claim.row)]
        if papers and found and not any(paper in papers for paper in found):
            raise SettingsError("claim", f"{name} is a claim of {found[0]}: leave out {' and '.join(papers)}")
    if not named:
        return [claim for claim in claims if claim.paper in papers or not papers]
    return [claim for claim in named if claim.paper in papers or not papers]


def reproduce(
    claim: Claim, folder: Path, seeds: int, *, quick: bool, spread: Spread = alone, told: Told | None = None
) -> Outcome:
    """One claim: measured as far as it is not yet, drawn into the folder, judged."""
    progress = None if told is None else lambda done, total: told(claim.id, done, total)
    table = measure(claim.settings(quick), seeds, folder / CACHE, spread=spread, told=progress)
    charts = tuple(claim.charts(table, quick))
    for chart in charts:
        draw(chart, folder)
    return Outcome(claim, table, claim.judge(table, quick), charts)
