"""Runs: bursts of unreliable publications, which drivers forward as the bytes they came in (`runtime/fastpath`)."""

from __future__ import annotations

from dataclasses import dataclass

from latecomer.core.effects import Spread
from latecomer.core.events import Events
from latecomer.core.inputs import Relayed, RunOpened
from latecomer.messages.link import Run
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind


@dataclass(slots=True)
class Runs:
    """What the core has to say about runs."""

    events: Events

    def relay(self, fact: Relayed) -> None:
        """Send a run on. Like any unreliable event it is not worth an unbounded queue."""
        for peer in self.events.neighbours.send_all(fact.peers, fact.run, self.events.settings.link_max):
            self.events.dropped += 1
            self.events.orders.note(
                Kind.DROPPED, client=fact.run.publisher, peer=peer, detail="unreliable, and the link is full"
            )

    def on_run(self, peer: BrokerId, run: Run) -> None:
        if self.events.interest.ready and self._comes_from(peer, run.origin):
            self.events.orders.effects.append(Spread(peer, run))

    def _comes_from(self, peer: BrokerId, origin: BrokerId) -> bool:
        events = self.events
        family = events.interest.family
        if family is not None:  # topics of a run may have several trees; each publication goes on along its own
            return origin != events.broker and peer in family.beside[events.broker]
        return events.sides.get(origin) == peer or events.comes_from(peer, origin, "", origin)

    def on_opened(self, fact: RunOpened) -> None:
        for publication in fact.publications:
            self.events.on_publication(fact.peer, publication)
