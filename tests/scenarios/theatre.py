"""Plays the texts of this folder: a command, a rule, and what must happen.

    A subscribe a/#
    ----
        1.000000  4 subscribed A to a/#
        1.000000  4 -> 3    subscribe a/#

A block is a command (with further input on the lines below it), a line of four dashes, and the output up to an empty
line. Lines that begin with '#' between blocks are comments. Every command that makes something happen lets one second
pass.

    network                  TOML follows: topology, routing, settings, clients; the tree comes out
    CLIENT join BROKER       also leave, come_back, subscribe, unsubscribe, advertise, unadvertise FILTER
    CLIENT publish TOPIC     followed by attributes, if any: {brand = "IBM", price = 600}
    fault {…}                as a [[fault]] of a scenario, happening now
    start BROKER             a broker that crashed
    wait DURATION            let time pass
    tables                   what each broker holds, for whom
    tree                     the links of the agreed tree
    end                      every fault ends, the checkers speak
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import msgspec

from latecomer.core.broker import Broker
from latecomer.core.table import SELF, FilterTable
from latecomer.sim.durations import Duration, read_duration
from latecomer.sim.runner import Run
from latecomer.sim.scenario import Fault, Publish, Step
from latecomer.sim.scenario_check import loads
from latecomer.sim.transcript import Transcript

SECOND_US = 1_000_000
RULE = "----"


@dataclass
class Block:
    """A command with the comment above it, its input, and what came or shall come out; a comment may stand alone."""

    comment: list[str]
    command: str = ""
    input: str = ""
    output: str = ""

    def __str__(self) -> str:
        if not self.command:
            return "\n".join(self.comment)
        below = [text for text in (self.input, RULE, self.output) if text]
        return "\n".join([*self.comment, self.command, *below])


def read_blocks(text: str) -> list[Block]:
    blocks: list[Block] = []
    comment: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("#"):
            comment.append(line)
        elif not line.strip():
            if comment:
                blocks.append(Block(comment))
                comment = []
        else:
            given = list(takewhile(lambda below: below != RULE, lines))
            came = list(takewhile(str.strip, lines))
            blocks.append(Block(comment, line, "\n".join(given), "\n".join(came)))
            comment = []
    return blocks


def write_blocks(blocks: list[Block]) -> str:
    return "\n\n".join(map(str, blocks)) + "\n"


class Theatre:
    """One play: the network of the last `network` command, and everything done to it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.run: Run | None = None

    def perform(self, block: Block) -> str:
        """Carry out one block; returns what came out."""
        self.lines = []
        word, _, rest = block.command.partition(" ")
        if word == "network":
            return tree(self._network(block.input))
        run = self.run
        assert run is not None, "a play begins with a network"
        if word == "tables":
            return tables(run)
        if word == "tree":
            return tree(run)
        if word == "end":
            return self._end(run)
        if word == "fault":
            fault = {"at": 0, **tomllib.loads(f"x = {rest}")["x"]}
            run.strike(msgspec.convert(fault, Fault, dec_hook=lambda kind, value: read_duration(value)))
        elif word == "start":
            run.world.start(rest)
        elif word != "wait":
            self._step(run, word, rest)
        run.advance(run.now + (read_duration(rest) if word == "wait" else SECOND_US))
        return "\n".join(self.lines)

    def _network(self, text: str) -> Run:
        prepared = loads(text, "the network above", Path(__file__).parent)
        transcript = Transcript(self._write)
        self.run = Run(prepared, transcript=transcript)
        self.run.begin()
        return self.run

    def _write(self, line: str) -> None:
        self.lines.append(line)

    def _step(self, run: Run, client: str, what: str) -> None:
        action, _, value = what.partition(" ")
        assert action in Step.ACTIONS, f"there is no command {client} {what}"
        if action == "publish":
            topic, _, attributes = value.partition(" ")
            given = tomllib.loads(f"x = {attributes or '{}'}")["x"]
            run.do(Step(at=Duration(0), client=client, publish=Publish(topic=topic, attributes=given)))
            return
        data = {"at": 0, "client": client, action: value or True}
        run.do(msgspec.convert(data, Step, dec_hook=lambda kind, value: read_duration(value)))

    def _end(self, run: Run) -> str:
        run.heal()
        result = run.result()
        counts = f"{result.accepted} accepted, {result.delivered} delivered, {result.lost} lost"
        return "\n".join([*self.lines, counts, *map(str, result.violations)])


def cores(run: Run) -> dict[str, Broker]:
    return {id: node.core for id, node in run.world.nodes.items() if node.core is not None}


def tables(run: Run) -> str:
    """Each broker's entries, by who holds them."""
    lines = []
    for id, core in cores(run).items():
        interest = core.interest
        wanted = _held(interest.subscriptions, interest.peers)
        announced = _held(interest.advertisements, interest.peers)
        if wanted or announced:
            shown = [f"wanted {wanted}" if wanted else "", f"advertised {announced}" if announced else ""]
            lines.append(f"{id}  {'; '.join(text for text in shown if text)}")
    return "\n".join(lines) or "empty, everywhere"


def _held(table: FilterTable, peers: list[str]) -> str:
    found = []
    for source in (SELF, *sorted(peers)):
        filters = sorted(map(str, table.of(source)))
        if filters:
            found.append(f"by {source or 'own clients'}: {', '.join(filters)}")
    return " | ".join(found)


def tree(run: Run) -> str:
    """The tree that all living brokers agree on."""
    trees = [core.interest.tree for core in cores(run).values()]
    first = trees[0]
    assert first is not None
    if any(other is None or other.version != first.version for other in trees):
        return "no agreement"
    pairs = sorted(f"{parent}-{child}" for child, parent in first.parent.items() if parent is not None)
    return f"root {first.root}: {' '.join(pairs)}"
