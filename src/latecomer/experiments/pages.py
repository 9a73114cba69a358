"""One page per paper: its sentences, our figures beside them, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from latecomer.experiments.charts import draw
from latecomer.experiments.claim import Sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.papers import Outcome
from latecomer.experiments.verdict import Verdict

TITLES = {
    "storing": "Storing and Replication in Topic-Based Publish/Subscribe Networks",
    "planning": "Storage planning and replica assignment in content-centric publish/subscribe networks",
}
SIGNS = {"reproduced": "✔ reproduced", "partly": "◐ partly", "not reproduced": "✘ not reproduced"}


def write_page(paper: str, outcomes: Sequence[Outcome], folder: Path, seeds: int) -> Path:
    """The page of a paper with its charts beside it."""
    lines = [*_head(paper, outcomes, seeds)]
    for outcome in outcomes:
        lines += _section(outcome)
        for chart in outcome.charts:
            draw(chart, folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{paper}.md"
    file.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    return file


def _head(paper: str, outcomes: Sequence[Outcome], seeds: int) -> list[str]:
    lines = [
        f"# *{paper}*, reproduced",
        "",
        f"“{TITLES[paper]}”: its claims, ours beside them. Written by "
        f"`latecomer reproduce {paper} --docs docs/papers`; {seeds} seeds a point, means with 95 % intervals.",
        "",
        "A part of a claim is reproduced if our interval reaches into what the paper gives at every point of the "
        "figure, and partly if it does at half of them; a direction without a size must be that of the means; “up to "
        "x” is held against the largest value, give or take a fifth of x. These rules are ours. What the paper leaves "
        "out is named in each section with our choice and with what other choices give; the verdict is always that of "
        "our choice, also where another comes nearer to the paper.",
        "",
        "| claim | verdict | parts reproduced | the paper |",
        "|---|---|---|---|",
    ]
    lines += [_row(outcome.verdict) for outcome in outcomes]
    return [*lines, ""]


def _row(verdict: Verdict) -> str:
    good = sum(part.word == "reproduced" for part in verdict.parts)
    return f"| {verdict.id} | {SIGNS[verdict.verdict]} | {good} of {len(verdict.parts)} | {verdict.paper} |"


def _section(outcome: Outcome) -> list[str]:
    claim, verdict = outcome.claim, outcome.verdict
    lines = [f"## {claim.id}. {claim.title}", "", f"> {claim.sentence}", "", claim.given, ""]
    if verdict.parts:
        lines += ["| the paper | ours | |", "|---|---|---|"]
        lines += [f"| {part.paper} | {part.figure} | {SIGNS[part.word]} |" for part in verdict.parts]
        lines.append("")
    if verdict.why:
        lines += [verdict.why, ""]
    for chart in outcome.charts:
        lines += [f"![{chart.caption}]({chart.name}.svg)", ""]
    if all(setting in outcome.table.rows for sweep in claim.sweeps() for setting in sweep.options.values()):
        for sweep in claim.sweeps():
            lines += sweep_lines(sweep, outcome.table)
    return lines


def sweep_lines(sweep: Sweep, table: Table) -> list[str]:
    """A table with a row per choice."""
    headers = [column.header for column in sweep.columns]
    lines = [
        f"**Left out: {sweep.parameter}.** {sweep.silence[0].upper()}{sweep.silence[1:]} We chose *{sweep.chosen}*.",
        "",
        "| " + " | ".join([sweep.parameter, *headers]) + " |",
        "|---" * (len(headers) + 1) + "|",
    ]
    for name, setting in sweep.options.items():
        shown = f"**{name}**" if name == sweep.chosen else name
        lines.append("| " + " | ".join([shown, *(column.show(table, setting) for column in sweep.columns)]) + " |")
    return [*lines, ""]
