"""`latecomer story`: six simulated brokers, and the story of what happened to them.

The scenario is played as any other. What is told comes from the messages and records of the run: should the network
behave differently, so would the story.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from latecomer.cli.summary import outcome
from latecomer.messages.link import Publication, Subscribe, Unsubscribe
from latecomer.model.filters import Filter, filter_covers, parse_filter
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.report import Result
from latecomer.sim.runner import Run
from latecomer.sim.scenario import Crash, Fault, Publish, Step
from latecomer.sim.scenario_check import Prepared, loads
from latecomer.sim.trace import Trace
from latecomer.sim.transcript import attributes_text

WIDTH = 100


def story() -> None:
    """Six simulated brokers, and the story of how they find, lose and find each other again."""
    text = files("latecomer.sim").joinpath("scenarios", "story.toml").read_text(encoding="utf-8")
    if not Story(loads(text, "story.toml", Path())).tell().good:
        raise typer.Exit(1)


class Story:
    """Plays a scenario chapter by chapter and tells each when it is over."""

    def __init__(self, prepared: Prepared) -> None:
        self.trace = Trace()
        self.run = Run(prepared, observers=[self.trace])
        self.scenario = prepared.scenario
        self.told: dict[tuple[BrokerId, BrokerId], dict[Filter, None]] = {}
        """What each broker has told each neighbour, as heard on the links."""
        self.console = Console(highlight=False)

    def tell(self) -> Result:
        run = self.run
        run.begin()
        self._introduction()
        self._turn_page()
        chapters = self._chapters()
        for position, (at, what) in enumerate(chapters):
            run.advance(at if isinstance(what, Step | Crash) else at - 1)
            self._turn_page()
            if isinstance(what, Step):
                run.do(what)
            elif isinstance(what, Crash):
                run.strike(what)
            run.advance(chapters[position + 1][0] - 1 if position + 1 < len(chapters) else self.scenario.duration)
            self._chapter(at, what)
        run.heal()
        return self._end()

    def _chapters(self) -> list[tuple[Instant, Step | Fault | BrokerId]]:
        """Steps, crashes and, by the broker's name, returns; in order of time."""
        found: list[tuple[Instant, Step | Fault | BrokerId]] = [(step.at, step) for step in self.scenario.step]
        for fault in self.scenario.fault:
            assert isinstance(fault, Crash)
            found.append((fault.at, fault))
            if fault.duration is not None:
                found.append((fault.at + fault.duration, fault.broker))
        return sorted(found, key=lambda chapter: chapter[0])

    def _turn_page(self) -> None:
        for _, sender, receiver, message in self.trace.messages:
            known = self.told.setdefault((sender, receiver), {})
            if isinstance(message, Subscribe):
                known.update(dict.fromkeys(message.filters))
            elif isinstance(message, Unsubscribe):
                for filter in message.filters:
                    known.pop(filter, None)
        self.trace.clear()

    # -- chapters ------------------------------------------------------------------------------------------------------

    def _introduction(self) -> None:
        links = self.run.prepared.topology.links
        pairs = [(link.a, link.b) for link in links]
        used, spare = self._tree(pairs)
        self.heading("Six brokers meet" if len(self.run.world.nodes) == 6 else "The brokers meet")
        reserve = f"; {_pairs(spare)} stays in reserve" if spare else ""
        self.say(
            f"They are linked {_pairs(pairs)}. Each tells the others which links it has, and all compute the same tree "
            f"from it: {_pairs(used)}{reserve}."
        )

    def _chapter(self, at: Instant, what: Step | Fault | BrokerId) -> None:
        if isinstance(what, str):
            self._returned(at, what)
        elif isinstance(what, Crash):
            self._crashed(at, what)
        elif isinstance(what, Step) and what.publish is not None:
            self._published(at, what)
        elif isinstance(what, Step) and what.subscribe is not None:
            self._subscribed(at, what, parse_filter(what.subscribe))

    def _subscribed(self, at: Instant, step: Step, filter: Filter) -> None:
        broker = self.run.clients.clients[step.client].broker
        self.heading(f"{step.client} subscribes to {filter} at broker {broker}", at)
        heard = [
            (sender, receiver)
            for _, sender, receiver, message in self.trace.messages
            if isinstance(message, Subscribe) and filter in message.filters
        ]
        if heard:
            self.say(f"Word spreads along the tree: {_pairs(heard, ' → ')}.")
        speakers = list(dict.fromkeys([broker, *(receiver for _, receiver in heard)]))
        quenched = 0
        for speaker in speakers:
            core = self.run.world.nodes[speaker].core
            came_from = next((sender for sender, receiver in heard if receiver == speaker), None)
            for peer in core.interest.peers if core is not None else ():
                if peer == came_from or (speaker, peer) in heard:
                    continue
                covers = [f for f in self.told.get((speaker, peer), {}) if filter_covers(f, filter)]
                if covers:
                    quenched += 1
                    self.say(f"Broker {speaker} need not tell {peer}, which it has told {covers[0]}: that covers it.")
        if not heard and not quenched:
            self.say("Nobody else had to be told.")

    def _published(self, at: Instant, step: Step) -> None:
        assert step.publish is not None
        what = Publish(topic=step.publish) if isinstance(step.publish, str) else step.publish
        times = "" if what.count == 1 else f" {what.count} times"
        attributes = f" {attributes_text(what.attributes)}" if what.attributes else ""
        broker = self.run.clients.clients[step.client].broker
        self.heading(f"{step.client} publishes {what.topic}{attributes}{times} at broker {broker}", at)
        events = [record.event for record in self.trace.of(Kind.PUBLISHED)]
        ways = dict.fromkeys(" → ".join(path) for event in events for path in self.trace.paths(event))
        self.say(f"{'It travels' if len(events) == 1 else 'They travel'} {', and '.join(ways) or 'nowhere'}.")
        self._deliveries(self.trace.of(Kind.DELIVERED), len(events))
        parked: dict[tuple[BrokerId, str], int] = {}
        for record in self.trace.of(Kind.PARKED):
            parked[record.broker, record.detail] = parked.get((record.broker, record.detail), 0) + 1
        for (keeper, absent), count in parked.items():
            self.say(f"Broker {keeper} keeps {_events(count)} for broker {absent}, which is away.")

    def _deliveries(self, records: Iterable[Record], events: int) -> None:
        reached: dict[tuple[str, BrokerId, int], int] = {}
        for record in records:
            key = (record.client, record.broker, record.hops)
            reached[key] = reached.get(key, 0) + 1
        for (client, broker, hops), count in reached.items():
            got = f"{count} of {events}" if count != events else "it" if count == 1 else f"all {count}"
            self.say(f"{client} at broker {broker} gets {got}, {hops} hop{'' if hops == 1 else 's'} away.")

    def _crashed(self, at: Instant, fault: Crash) -> None:
        self.heading(f"Broker {fault.broker} dies", at)
        down = self.trace.of(Kind.UNLINKED)
        if down:
            who = ", ".join(dict.fromkeys(record.broker for record in down))
            self.say(
                f"Its neighbours {who} wait for it to come back, and count the link as down {self._after(at, down)}."
            )
        self._repaired(at, self.trace.of(Kind.TREE_READY))

    def _repaired(self, at: Instant, ready: list[Record]) -> None:
        if not ready:
            self.say("No other tree was needed.")
            return
        size = ready[-1].count
        last = [record for record in ready if record.count == size]
        pairs = [(link.a, link.b) for link in self.run.prepared.topology.links]
        used, _ = self._tree(pairs)
        when = self._after(at, last).capitalize()
        self.say(f"{when} all {size} brokers have their tables ready in a new tree: {_pairs(used)}.")

    def _returned(self, at: Instant, broker: BrokerId) -> None:
        self.heading(f"Broker {broker} returns with its disk", at)
        self._repaired(at, self.trace.of(Kind.TREE_READY))
        again = dict.fromkeys(
            str(message.event.id)
            for _, _, _, message in self.trace.messages
            if isinstance(message, Publication) and broker in message.only
        )
        if again:
            ways = dict.fromkeys(" → ".join(path) for event in again for path in self.trace.paths(event))
            self.say(f"What it missed follows, {_events(len(again))} for it alone: {', and '.join(ways)}.")
        self._deliveries(self.trace.of(Kind.DELIVERED), len(again))

    def _end(self) -> Result:
        result = self.run.result()
        self.heading("In the end")
        self.console.print(outcome(result))
        for violation in result.violations:
            self.say(str(violation))
        verdict = "Every accepted publication reached everybody who had asked for it, once and in order."
        self.say(verdict if result.good and not result.lost else "A promise was broken: this is a bug.")
        return result

    # -- words ---------------------------------------------------------------------------------------------------------

    def _tree(self, pairs: list[tuple[BrokerId, BrokerId]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Links in the present tree, and living links outside it."""
        core = next(node.core for node in self.run.world.nodes.values() if node.core is not None)
        tree = core.interest.tree
        assert tree is not None
        alive = [(a, b) for a, b in pairs if a in tree.parent and b in tree.parent]
        used = [(a, b) for a, b in alive if tree.parent[a] == b or tree.parent[b] == a]
        return used, [pair for pair in alive if pair not in used]

    def _after(self, at: Instant, records: list[Record]) -> str:
        seconds = (max(record.at_us for record in records) - self.run.zero - at) / 1e6
        return f"after {seconds:.2f} s"

    def heading(self, text: str, at: Instant | None = None) -> None:
        time = "" if at is None else f"{at / 1e6:4.0f} s  "
        self.console.print()
        self.console.print(Text(f"{time}{text}", style="bold"), soft_wrap=True)

    def say(self, sentence: str) -> None:
        for line in textwrap.wrap(sentence, WIDTH - 8, initial_indent="        ", subsequent_indent="        "):
            self.console.print(Text(line), soft_wrap=True)


def _pairs(pairs: Iterable[tuple[str, str]], between: str = "-") -> str:
    return ", ".join(f"{a}{between}{b}" for a, b in pairs)


def _events(count: int) -> str:
    return "one event" if count == 1 else f"{count} events"
