"""Stories of clients that wander, told in MQTT and checked: the texts of the folder `moves` (see `mqtt_theatre`).

LATECOMER_REWRITE=1 writes down what happens now, for a reader to judge with `git diff`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.mqtt_theatre import MqttTheatre
from tests.scenarios.test_transcripts import LINES_MAX
from tests.scenarios.theatre import read_blocks, write_blocks

PLAYS = sorted((Path(__file__).parent / "moves").glob("*.txt"))


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
def test_the_story_is_as_told(play: Path) -> None:
    text = play.read_text(encoding="utf-8")
    first, *blocks = read_blocks(text)
    while not first.command:  # comments that stand alone
        first, *blocks = blocks
    word, _, network = first.command.partition(" ")
    assert word == "network", "a play begins with a network"
    theatre = MqttTheatre(network)
    for block in blocks:
        if block.command:
            block.output = theatre.perform(block)
    told = write_blocks(read_blocks(text)[: -len(blocks)] + blocks)
    if os.environ.get("LATECOMER_REWRITE"):
        play.write_text(told, encoding="utf-8")
    else:
        assert told == text
    assert all(node.core is None or node.core.mobility.idle for node in theatre.world.nodes.values())


def test_the_stories_are_there_and_short() -> None:
    lengths = {play.stem: len(play.read_text(encoding="utf-8").splitlines()) for play in PLAYS}
    assert len(lengths) >= 6
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}
