"""Settling where brokers route by rendezvous: in rounds, as links of a family have cycles.

An event climbs from its origin to the root and comes down again: at most twice the longest route. A broker tells its
neighbours round 1 when it has sent on all that it owed itself, and round k when it has heard round k - 1 from all. So
when a broker has heard as many rounds as the longest way has links, everything that was owed has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.settling import Settling
from latecomer.messages.link import Settled, Version
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class RingSettling(Settling):
    """How far one broker's family of trees has settled."""

    rounds: Callable[[], int] = lambda: 0
    """Links on the longest way of an event."""
    beside: Callable[[], list[BrokerId]] = list
    numbers: dict[BrokerId, int] = field(default_factory=dict)
    """The last round heard from each neighbour."""
    told_rounds: int = 0
    over: bool = False

    @property
    def settled(self) -> bool:
        return self.over

    def tree_ready(self, version: Version, peers: list[BrokerId], past: bool) -> None:
        self.numbers.clear()
        self.told_rounds, self.over = 0, False
        Settling.tree_ready(self, version, self.beside(), past)

    def tree_lost(self) -> None:
        self.over = False
        Settling.tree_lost(self)

    def on_settled(self, peer: BrokerId, frame: Settled) -> None:
        if frame.version == self.version and peer in self.peers:
            self.numbers[peer] = max(frame.round, self.numbers.get(peer, 0))
            self.heard[peer] = frame.past or self.heard.get(peer, False)
            self._progress()

    def _progress(self) -> None:
        if not self.sent or self.over:
            return
        most, heard = self.rounds(), self._heard_rounds()
        while heard >= self.told_rounds < most:
            self.told_rounds += 1
            past = self.past or any(self.heard.values())
            for peer in self.peers:
                self.send(peer, Settled(self.version, past, self.told_rounds))
        if heard >= most:
            self.over = True
            self.settled_down()

    def _heard_rounds(self) -> int:
        return min((self.numbers.get(peer, 0) for peer in self.peers), default=self.rounds())
