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
    CLIENT publish TOPIC     followed by attributes, if any: {brand = "IBM", price = 600}; or by a number of times
    CLIENT request FILTER    a question about the past, followed by since=2s until=5s last=3, if any
    store BROKER TOPICS…     the broker keeps these topics from now on
    unstore BROKER           it keeps none
    fault {…}                as a [[fault]] of a scenario, happening now
    forge BROKER TO PATH…    a request for topic a that claims to have come by a path; being refused is as it should be
    start BROKER             a broker that crashed
    wait DURATION            let time pass
    tables                   what each broker holds, for whom
    stores                   Advertisement Tables: to whom each broker sends requests, and how far the store is
    history                  what is kept, and by whom
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
from latecomer.messages.link import Request, RequestId
from latecomer.model.filters import Filter
from latecomer.model.history import Query, key_of
from latecomer.sim.durations import Duration, read_duration
from latecomer.sim.runner import Run
from latecomer.sim.scenario import Ask, Fault, Publish, Step
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
        self.told: dict[int, None] = {}
        """Requests whose end has been told."""

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
        if word == "stores":
            return stores(run)
        if word == "history":
            return history(run)
        if word == "tree":
            return tree(run)
        if word == "end":
            return self._end(run)
        if word == "fault":
            fault = {"at": 0, **tomllib.loads(f"x = {rest}")["x"]}
            run.strike(msgspec.convert(fault, Fault, dec_hook=lambda kind, value: read_duration(value)))
        elif word == "start":
            run.world.start(rest)
        elif word in ("store", "unstore"):
            broker, *topics = rest.split()
            run.store(broker, topics)
        elif word == "forge":
            forge(run, *rest.split())
        elif word != "wait":
            self._step(run, word, rest)
        run.advance(run.now + (read_duration(rest) if word == "wait" else SECOND_US))
        return "\n".join((*self.lines, *self._answers()))

    def _answers(self) -> list[str]:
        """What came of questions that have ended meanwhile."""
        assert self.run is not None
        lines = []
        for token, request in self.run.clients.requests.items():
            outcome = request.outcome
            if outcome is None or token in self.told:
                continue
            self.told[token] = None
            got = " ".join(str(event.id) for event in request.events) or "nothing"
            hops = f"{outcome.hops} hop{'' if outcome.hops == 1 else 's'}"
            source = f"from {', '.join(outcome.stores)} ({hops})" if outcome.stores else "from nobody"
            worth = "complete" if outcome.complete else f"incomplete: {outcome.problem}"
            lines.append(f"{request.client} got {got} {source}, {worth}")
        return lines

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
            topic, _, rest = value.partition(" ")
            given = {} if rest.isdecimal() else tomllib.loads(f"x = {rest or '{}'}")["x"]
            publication = Publish(topic=topic, attributes=given, count=int(rest) if rest.isdecimal() else 1)
            run.do(Step(at=Duration(0), client=client, publish=publication))
            return
        if action == "request":
            run.do(Step(at=Duration(0), client=client, request=_ask(value)))
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


def forge(run: Run, sender: str, receiver: str, *path: str) -> None:
    """A broker makes up where a request came from."""
    request = Request(RequestId(path[0], 1, 999), path, "a", Query(Filter("a")))
    run.world.forge(sender, receiver, request)
    run.advance(run.now + SECOND_US)
    run.promises.violations = [found for found in run.promises.violations if found.promise != "honesty"]


def stores(run: Run) -> str:
    """Each broker's Advertisement Table, as the papers write it: "for topic a go to 2, the nearest is 1 hop away"."""
    lines = []
    for id, core in cores(run).items():
        shown = []
        for topics, entry in sorted(core.advertisements.table.items()):
            hops = f"({entry.hops} hop{'' if entry.hops == 1 else 's'})"
            shown.append(f"{topics}: {', '.join(f'{way} {hops}' if way else 'here' for way in sorted(entry.ways))}")
        lines.append(f"{id}  {' | '.join(shown) or 'nothing'}")
    return "\n".join(lines)


def history(run: Run) -> str:
    """What stands in each store."""
    lines = []
    for id, node in run.world.nodes.items():
        events = node.disk.store.events.values()
        if events or node.topics:
            kept = ", ".join(f"{event.id} {event.topic}" for event in sorted(events, key=key_of))
            lines.append(f"{id}  {kept or 'empty'}")
    return "\n".join(lines) or "nothing, nowhere"


def _ask(text: str) -> Ask:
    """A filter, and the times and numbers that may follow it."""
    words = text.split(" ")
    given: dict[str, object] = {}
    while len(words) > 1 and (option := words[-1].partition("="))[0] in ("since", "until", "last") and option[1]:
        words.pop()
        given[option[0]] = int(option[2]) if option[0] == "last" else option[2]
    data = {"filter": " ".join(words), **given}
    return msgspec.convert(data, Ask, dec_hook=lambda kind, value: read_duration(value))


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
