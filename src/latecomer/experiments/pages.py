"""One page per paper: its sentences, our figures beside them, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from latecomer.experiments.charts import draw
from latecomer.experiments.claim import Sweep
from latecomer.experiments.dynatops.introduction import INTRODUCTION as DYNATOPS
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.introduction import INTRODUCTION as MOBILITY
from latecomer.experiments.papers import Outcome
from latecomer.experiments.trials import DEAR_RUNS
from latecomer.experiments.verdict import Part, Verdict

TITLES = {
    "storing": "Storing and Replication in Topic-Based Publish/Subscribe Networks",
    "planning": "Storage planning and replica assignment in content-centric publish/subscribe networks",
    "dynatops": "DYNATOPS: a dynamic topic-based publish/subscribe architecture",
    "mobility": "Disconnected operation in publish/subscribe middleware",
}
CLOSED_FORM = "plans that were solved and requests that were simulated message by message have {dear} seeds"
SEEDS = {
    "storing": "{seeds} seeds a point, means with 95 % intervals; " + CLOSED_FORM,
    "planning": "{seeds} seeds a point, means with 95 % intervals; " + CLOSED_FORM,
    "dynatops": "{dear} seeds a point that is judged, means with 95 % intervals",
    "mobility": "{dear} seeds a point, up to 100 for Fig. 5, means with 95 % intervals",
}
INTRODUCTIONS = {"dynatops": DYNATOPS, "mobility": MOBILITY}
"""What a reader has to know before the claims."""
SIGNS = {
    "reproduced": "✔ reproduced",
    "partly": "◐ partly",
    "not reproduced": "✘ not reproduced",
    "undecided": "? undecided",
    "consistent, input fitted": "≈ consistent, input fitted",
    None: "–",
}

RULE = (
    "**How we judge.** A point of a figure is *inside* when our mean lies where the paper says and the 95 % half-width "
    "is at most half of the paper's range, or, where the paper gives one limit only, of the mean's distance to that "
    "limit; *outside* when the whole interval is; otherwise *open*. A part of a claim is reproduced when all its "
    "points are inside, partly when at least half are, otherwise not; it is *undecided* when the open points could "
    "change that, and with fewer than 20 seeds always. “Up to x” is held against the largest value, give or take a "
    "fifth of x. A claim is what all its parts are, and partly when they differ. No point counts twice, and a check of "
    "our simulation against our own closed form is shown but not judged."
)
OLD_RULE = (
    "**The old rule.** This rule was made after the first results had been seen. Under the rule before it a part was "
    "reproduced when our *interval* reached into what the paper gives, which rewards wide intervals; base points of "
    "several sweeps, exponents of both signs and our own checks counted too. Its verdicts on the same measurements "
    "stand beside; “–” is where it knew no such part."
)


def write_pages(outcomes: Sequence[Outcome], folder: Path, seeds: int) -> None:
    """A page for every paper that there is anything about."""
    for paper in TITLES:
        found = [outcome for outcome in outcomes if outcome.claim.paper == paper]
        if found:
            write_page(paper, found, folder, seeds)


def write_page(paper: str, outcomes: Sequence[Outcome], folder: Path, seeds: int) -> Path:
    """The page of a paper with its charts beside it."""
    lines, old = [*_head(paper, outcomes, seeds)], _judged_before(outcomes)
    for outcome in outcomes:
        lines += _section(outcome, old)
        for chart in outcome.charts:
            draw(chart, folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{paper}.md"
    file.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    return file


def _head(paper: str, outcomes: Sequence[Outcome], seeds: int) -> list[str]:
    old = _judged_before(outcomes)
    told = SEEDS[paper].format(seeds=seeds, dear=min(seeds, DEAR_RUNS))
    lines = [
        f"# *{paper}*, reproduced",
        "",
        f"“{TITLES[paper]}”: its claims, ours beside them. Written by "
        f"`latecomer reproduce {paper} --docs docs/papers`; {told}.",
        "",
        RULE,
        "",
        *((OLD_RULE, "") if old else ()),
        "What the paper leaves out is named in each section with our choice and with what other choices give; the "
        "verdict is always that of our choice, also where another comes nearer to the paper.",
        "",
        *((INTRODUCTIONS[paper], "") if paper in INTRODUCTIONS else ()),
        _cells("claim", "verdict", "parts reproduced", *(("under the old rule",) if old else ()), "the paper"),
        "|---" * (4 + old) + "|",
    ]
    lines += [_row(outcome.verdict, old) for outcome in outcomes]
    return [*lines, ""]


def _judged_before(outcomes: Sequence[Outcome]) -> bool:
    """Whether the old rule has anything to say about a paper."""
    return any(outcome.verdict.old is not None for outcome in outcomes)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _row(verdict: Verdict, old: bool) -> str:
    judged = verdict.judged()
    good = sum(part.word == "reproduced" for part in judged)
    before = (SIGNS[verdict.old],) if old else ()
    return _cells(verdict.id, SIGNS[verdict.verdict], f"{good} of {len(judged)}", *before, verdict.paper)


def _part(part: Part, old: bool) -> str:
    word = SIGNS[part.word] if part.judged else "shown, not judged"
    return _cells(part.paper, part.figure, word, *((SIGNS[part.old],) if old else ()))


def _section(outcome: Outcome, old: bool) -> list[str]:
    claim, verdict = outcome.claim, outcome.verdict
    lines = [f"## {claim.id}. {claim.title}", "", f"> {claim.sentence}", "", claim.given, ""]
    if verdict.parts:
        header = ("the paper", "ours", "verdict", *(("under the old rule",) if old else ()))
        lines += [_cells(*header), "|---" * len(header) + "|"]
        lines += [_part(part, old) for part in verdict.parts]
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
