"""Who has the session of a client? Everybody in the tree is asked.

Questions are collected for a moment and sent as one `Seek` along the tree, with a fence behind it (`core/fences`).
Frames keep their order on a link and answers take the same links back: when the fence has passed, all answers are here.
A question dies with its tree and is asked again in the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.fences import Fences
from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.messages.hand_over import Seek, Seeker
from latecomer.model.ids import BrokerId, ClientId, Instant

SEEKERS_MAX = 1000
"""Clients in one frame."""


@dataclass(slots=True)
class Seeking:
    """Questions of this broker, and those of others on their way through it."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    interest: Interest
    fences: Fences
    flood_us: int
    brokers_max: int
    answer: Callable[[BrokerId, Seeker], None] = field(init=False)
    """Tell another broker what this one knows of a client."""
    asked: Callable[[list[Seeker], int], None] = field(init=False)
    """These clients were asked for; all answers have come when the fence of this number has passed."""
    waiting: dict[ClientId, Callable[[], Seeker | None]] = field(default_factory=dict)
    """Clients to be asked for; a question that has become void is None."""
    due: Instant | None = None
    sent_at: Instant = -1 << 62
    early: list[tuple[BrokerId, Seek]] = field(default_factory=list)
    """Questions that came before this broker's tables were complete."""

    def ask(self, client: ClientId, question: Callable[[], Seeker | None]) -> None:
        """Ask everybody, soon."""
        self.waiting[client] = question
        if not self.interest.ready:
            return
        if self.orders.now >= self.sent_at + self.flood_us:
            self.flush()
        elif self.due is None:
            self.due = self.orders.wake(self.sent_at + self.flood_us)

    def flush(self) -> None:
        self.due = None
        if not self.interest.ready or not self.waiting:
            return
        self.sent_at = self.orders.now
        waiting, self.waiting = self.waiting, {}
        seekers = {client: seeker for client, question in waiting.items() if (seeker := question()) is not None}
        if not seekers:
            return
        tree, every = self.interest.tree, list(seekers.values())
        assert tree is not None
        for start in range(0, len(every), SEEKERS_MAX):
            frame = Seek(tree.version, self.broker, tuple(every[start : start + SEEKERS_MAX]))
            for peer in self.interest.peers:
                self.neighbours.send(peer, frame)
        self.asked(every, self.fences.ask())

    def woken(self) -> None:
        if self.due is not None and self.due <= self.orders.now:
            self.flush()

    def adopted(self) -> None:
        """Another tree begins."""
        self.early.clear()

    def tree_ready(self) -> None:
        early, self.early = self.early, []
        for peer, frame in early:
            self.on_seek(peer, frame)
        self.flush()

    def on_seek(self, peer: BrokerId, frame: Seek) -> None:
        tree, interest = self.interest.tree, self.interest
        if tree is None or frame.version != tree.version or peer not in interest.peers:
            return  # of another tree: whoever sent it sends it again
        if frame.from_broker not in tree.parent or frame.from_broker == self.broker:
            return
        if tree.next_hop(self.broker, frame.from_broker) != peer:
            self.neighbours.reject(peer, f"it asks for sessions in the name of {frame.from_broker!r}")
            return
        if not interest.ready:
            if len(self.early) >= self.brokers_max:
                self.neighbours.reject(peer, "it asks for too many sessions")
            else:
                self.early.append((peer, frame))
            return
        for other in interest.peers:
            if other != peer:
                self.neighbours.send(other, frame)
        for seeker in frame.seekers:
            self.answer(frame.from_broker, seeker)
