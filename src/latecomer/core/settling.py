"""Settling: when everything that was published before a tree has arrived in it.

A new tree begins with what its origins still owe. Each broker tells a tree neighbour `Settled` when it has sent on
all it owed itself, and all its *other* tree neighbours have told it the same: links keep order, so everything that
was owed from that side went ahead. The wave runs like that of the tables (`interest`) and ends because a tree has no
cycle.

A store answers no request before that: what it is still owed by somebody may belong into the answer, and need not
come to the client by any other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.messages.link import SessionFrame, Settled, Version
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class Settling:
    """How far one broker's tree has settled."""

    send: Callable[[BrokerId, SessionFrame], None]
    settled_down: Callable[[], None]
    """Called once per tree, when everything has arrived."""
    version: Version = ""
    """Of the tree that is ready; empty: none is."""
    peers: list[BrokerId] = field(default_factory=list)
    sent: bool = False
    """All that this broker owed has been sent."""
    past: bool = False
    """This broker may have finished events before all brokers of this tree were known (`membership`)."""
    heard: dict[BrokerId, bool] = field(default_factory=dict)
    """Tree neighbours that have settled, and whether they say the same of some broker on their side."""
    told: dict[BrokerId, None] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        return self.sent and len(self.heard) == len(self.peers)

    @property
    def first(self) -> bool:
        """Whether nobody has finished an event before all brokers of this tree were known."""
        return self.settled and not self.past and not any(self.heard.values())

    def tree_ready(self, version: Version, peers: list[BrokerId], past: bool) -> None:
        self.version, self.peers, self.sent, self.past = version, peers, False, past
        self.heard.clear()
        self.told.clear()

    def tree_lost(self) -> None:
        self.version, self.sent = "", False
        self.heard.clear()

    def all_sent(self) -> None:
        """What this broker owed is on its way."""
        if self.version and not self.sent:
            self.sent = True
            self._progress()

    def on_settled(self, peer: BrokerId, frame: Settled) -> None:
        if frame.version == self.version and peer in self.peers and peer not in self.heard:
            self.heard[peer] = frame.past
            self._progress()

    def _progress(self) -> None:
        if not self.sent:
            return
        silent = len(self.peers) - len(self.heard)
        for peer in self.peers:
            if peer not in self.told and silent == int(peer not in self.heard):
                self.told[peer] = None
                past = self.past or any(said for other, said in self.heard.items() if other != peer)
                self.send(peer, Settled(self.version, past))
        if silent == 0:
            self.settled_down()
