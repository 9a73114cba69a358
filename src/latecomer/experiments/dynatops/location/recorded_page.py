"""The page about real check-ins: the location claims judged on them, beside those with made-up people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from latecomer.experiments.dynatops.location.recorded import Judged, People
from latecomer.experiments.verdict import Part, Verdict


def write_recorded(
    names: Sequence[str], people: People, real: Sequence[Judged], made_up: Mapping[str, Verdict], folder: Path
) -> Path:
    """One page for each data: that of `checkins.parquet` is `dynatops-on-checkins.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"dynatops-on-{Path(names[0]).stem}.md"
    file.write_text("\n".join(page(names, people, real, made_up)) + "\n", encoding="utf-8")
    return file


def page(names: Sequence[str], people: People, real: Sequence[Judged], made_up: Mapping[str, Verdict]) -> list[str]:
    lines = [
        f"# *dynatops* on {', '.join(names)}",
        "",
        "The location claims of [*dynatops*](dynatops.md) with people who were recorded instead of made up: the same "
        "systems, parameters and rules of judging, without sweeps. Written by `latecomer reproduce dynatops --checkins "
        "FILE`.",
        "",
        f"{people.users:,} users check in {people.checkins:,} times, in {people.visits:,} visits, from {people.first} "
        f"to {people.last} (UTC). The ground is {people.rows} × {people.columns} cells of {people.degrees:g} degrees, "
        f"one broker and one topic each; its corner in the south-west is at {people.south:g}, {people.west:g}. People "
        f"are in {people.filled} of these cells. GeoPS has {people.side} × {people.side}. {len(people.tables)} seeds: "
        "who follows whom, positions and delays differ between them, the check-ins do not, so an interval says nothing "
        "about other people.",
        "",
        max((one.load for one in real), key=len, default=""),
        "",
        "| claim | real check-ins | made up |",
        "|---|---|---|",
    ]
    lines += [f"| {one.verdict.id} | {one.verdict.verdict} | {_beside(one.verdict.id, made_up)} |" for one in real]
    for one in real:
        lines += ["", *_section(one, made_up.get(one.verdict.id))]
    return lines


def _section(judged: Judged, beside: Verdict | None) -> list[str]:
    known = {} if beside is None else {part.paper: part for part in beside.parts}
    return [
        f"## {judged.verdict.id}: {judged.verdict.verdict}",
        "",
        f"> {judged.verdict.paper}",
        "",
        "| the paper | real check-ins | | made up | |",
        "|---|---|---|---|---|",
        *(_row(part, known.get(part.paper)) for part in judged.verdict.parts),
    ]


def _beside(id: str, made_up: Mapping[str, Verdict]) -> str:
    return made_up[id].verdict if id in made_up else "not measured"


def _row(part: Part, other: Part | None) -> str:
    made_up = ("not measured", "") if other is None else (other.figure, _word(other))
    return f"| {' | '.join((part.paper, part.figure, _word(part), *made_up))} |"


def _word(part: Part) -> str:
    return part.word if part.judged else "shown, not judged"
