"""All claims by paper, and reproducing them: measure, draw, judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from latecomer.experiments import planning, storing
from latecomer.experiments.charts import Chart, draw
from latecomer.experiments.claim import Claim
from latecomer.experiments.grid import Spread, Table, alone, measure
from latecomer.experiments.verdict import Verdict
from latecomer.model.errors import SettingsError

PAPERS: dict[str, tuple[Claim, ...]] = {"storing": storing.CLAIMS, "planning": planning.CLAIMS}
SEEDS = 20
QUICK_SEEDS = 5
CACHE = "measured"
"""Folder of the measurements, within that of the results."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a claim."""

    claim: Claim
    table: Table
    verdict: Verdict
    charts: tuple[Chart, ...]


Told = Callable[[str, int, int], None]
"""Told the claim, how many of its measurements there are, and of how many."""


def chosen(names: Sequence[str]) -> list[Claim]:
    """Papers and claims by name, in the order of the ledger; nothing named is everything."""
    claims = [claim for paper in PAPERS.values() for claim in paper]
    known = {claim.id: [claim] for claim in claims} | {paper: list(found) for paper, found in PAPERS.items()}
    for name in names:
        if name not in known:
            listed = ", ".join([*PAPERS, *(claim.id for claim in claims)])
            raise SettingsError("claim", f"there is no {name!r}; choose from {listed}")
    wanted = [claim for name in names for claim in known[name]] if names else claims
    return [claim for claim in claims if claim in wanted]


def reproduce(
    claim: Claim, folder: Path, seeds: int, *, quick: bool, spread: Spread = alone, told: Told | None = None
) -> Outcome:
    """One claim: measured as far as it is not yet, drawn into the folder, judged."""
    progress = None if told is None else lambda done, total: told(claim.id, done, total)
    file = folder / CACHE / f"{claim.id}.jsonl"
    table = measure(claim.settings(quick), seeds, file, spread=spread, told=progress)
    charts = tuple(claim.charts(table, quick))
    for chart in charts:
        draw(chart, folder)
    return Outcome(claim, table, claim.judge(table, quick), charts)
