"""Stories from the papers and about the network, told and checked: the texts of this folder (see `theatre`).

LATECOMER_REWRITE=1 writes down what happens now, for a reader to judge with `git diff`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.theatre import Theatre, read_blocks, write_blocks

PLAYS = sorted(Path(__file__).parent.glob("*.txt"))
LINES_MAX = 100
"""A story that nobody reads checks nothing."""


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
def test_the_story_is_as_told(play: Path) -> None:
    text = play.read_text(encoding="utf-8")
    blocks = read_blocks(text)
    theatre = Theatre()
    for block in blocks:
        if block.command:
            block.output = theatre.perform(block)
    told = write_blocks(blocks)
    if os.environ.get("LATECOMER_REWRITE"):
        play.write_text(told, encoding="utf-8")
    else:
        assert told == text
    assert theatre.run is not None
    assert [str(violation) for violation in theatre.run.promises.violations] == []


def test_there_are_stories_and_they_are_short() -> None:
    assert len(PLAYS) >= 7
    lengths = {play.name: len(play.read_text(encoding="utf-8").splitlines()) for play in PLAYS}
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}


def test_reading_and_writing_are_inverse() -> None:
    for play in PLAYS:
        text = play.read_text(encoding="utf-8")
        assert write_blocks(read_blocks(text)) == text
