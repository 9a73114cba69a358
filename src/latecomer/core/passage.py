"""Passage: frames from one broker to another along the tree, handed on by those in between, who keep nothing.

They hold only while the tree is ready: who waits for an answer asks again in the next one, or gives up.
"""

from __future__ import annotations

from dataclasses import dataclass

from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.messages.link import SessionFrame
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class Passage:
    """What one broker does with frames that are for a certain other."""

    broker: BrokerId
    neighbours: Neighbours
    interest: Interest

    def arrived(self, peer: BrokerId, sender: BrokerId, receiver: BrokerId, frame: SessionFrame, what: str) -> bool:
        """Whether a frame is for this broker; if it is for another, it is handed on."""
        if not self._on_its_way(peer, sender, receiver, what):
            return False
        if receiver != self.broker:
            self.send(receiver, frame)
        return receiver == self.broker

    def _on_its_way(self, peer: BrokerId, sender: BrokerId, receiver: BrokerId, what: str) -> bool:
        """Bad input 24: it comes from the side of who sent it, and goes on to another."""
        tree = self.interest.tree
        assert tree is not None
        if not self.interest.ready or peer not in self.interest.peers:
            return False  # it comes late, from another tree
        if sender not in tree.parent or sender == self.broker or receiver not in tree.parent:
            return False
        here = receiver == self.broker
        good = tree.next_hop(self.broker, sender) == peer and (here or receiver not in tree.path(sender, peer))
        if not good:
            self.neighbours.reject(peer, f"bad route {what} {sender} and {receiver}")
        return good

    def send(self, receiver: BrokerId, frame: SessionFrame) -> bool:
        """Towards a broker; False: there is no way to it now."""
        tree = self.interest.tree
        assert tree is not None
        if not self.interest.ready or receiver not in tree.parent or receiver == self.broker:
            return False
        self.neighbours.send(tree.next_hop(self.broker, receiver), frame)
        return True
