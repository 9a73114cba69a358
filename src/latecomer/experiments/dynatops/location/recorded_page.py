"""The page about real check-ins: the location claims judged on them, beside those with made-up people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from latecomer.experiments.dynatops.location.recorded import People
from latecomer.experiments.verdict import Part, Verdict

NAME = "dynatops-real"


def write_recorded(
    names: Sequence[str], people: People, real: Sequence[Verdict], made_up: Mapping[str, Verdict], folder: Path
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}.md"
    file.write_text("\n".join(page(names, people, real, made_up)) + "\n", encoding="utf-8")
    return file


def page(names: Sequence[str], people: People, real: Sequence[Verdict], made_up: Mapping[str, Verdict]) -> list[str]:
    lines = [
        "# *dynatops*, on real check-ins",
        "",
        "The location claims of [*dynatops*](dynatops.md) with people who were recorded instead of made up: the same "
        "systems, parameters and rules of judging. Written by `latecomer reproduce dynatops --checkins FILE`.",
        "",
        f"Data: {', '.join(names)}. {people.users:,} users check in {people.checkins:,} times in {people.visits:,} "
        f"visits. The ground is {people.rows} × {people.columns} cells of {people.degrees:g} degrees, one broker and "
        f"one topic each, from {people.south:g} north and {people.west:g} east on; people are in {people.filled} of "
        f"these cells. {len(people.tables)} seeds: who follows whom, positions and delays differ between them, the "
        "check-ins do not, so an interval says nothing about other people.",
        "",
    ]
    for verdict in real:
        beside = made_up.get(verdict.id)
        known = {} if beside is None else {part.paper: part for part in beside.parts}
        lines += [f"## {verdict.id}: {verdict.verdict}", "", f"> {verdict.paper}", ""]
        lines += ["| the paper | real check-ins | | made up | |", "|---|---|---|---|---|"]
        lines += [_row(part, known.get(part.paper)) for part in verdict.parts]
        lines.append("")
    return lines[:-1]


def _row(part: Part, other: Part | None) -> str:
    made_up = ("not measured", "") if other is None else (other.figure, _word(other))
    return f"| {' | '.join((part.paper, part.figure, _word(part), *made_up))} |"


def _word(part: Part) -> str:
    return part.word if part.judged else "shown, not judged"
