"""Fences: when the whole network knows what this broker told it (`subscribe_wait`).

A broker sends a fence to its neighbours in the tree. Frames keep their order on a link, so whoever reads a fence has
read everything that was told before it. It sends a fence of its own to its other neighbours, behind what it told them
because of that, and answers when all of them have answered. So when the first broker has all answers, everybody in the
tree knows what it knew: every subscription, and every group of shared subscriptions.

One wave at a time: what is asked for meanwhile waits for the next one, so that a thousand subscriptions cost no more
waves than round trips. A wave dies with its tree and is sent again in the next one. A fence that comes before this
broker's own tables are complete is answered when they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.interest import Interest
from latecomer.messages.link import Fence, Fenced, SessionFrame
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class _Owed:
    """A fence of a neighbour that is not answered."""

    peer: BrokerId
    number: int
    before: dict[BrokerId, int] | None = None
    """Our own fences that must be answered before; None: not sent yet."""


@dataclass(slots=True)
class Fences:
    """The fences between this broker and its neighbours in the present tree."""

    interest: Interest
    send: Callable[[BrokerId, SessionFrame], None]
    reject: Callable[[BrokerId, str], None]
    brokers_max: int
    passed: Callable[[int], None]
    """Called when everybody knows what was told up to the wave of this number."""
    climb: Callable[[Callable[[], None]], None] = lambda then: then()
    """Where subscriptions travel trees of their own: calls back when those who need them know ours."""
    wave: int = 0
    """Of the wave that is under way, or the last one."""
    done: int = 0
    """The last wave that is over."""
    climbing: bool = False
    """The wave under way waits for that."""
    asked: bool = False
    """Another wave is to follow."""
    _number: int = 0
    _waiting: dict[BrokerId, int] | None = None
    """Fences of the wave under way that are not answered; None: there is none."""
    _owed: list[_Owed] = field(default_factory=list)
    _answered: dict[BrokerId, int] = field(default_factory=dict)

    def ask(self) -> int:
        """Begin a wave, now or when the one under way is over; its number."""
        if self._waiting is None and not self.asked and self.interest.ready:
            self._begin()
            return self.wave
        self.asked = True
        return self.wave + 1

    def tree_ready(self) -> None:
        for owed in self._owed:
            self._forward(owed)
        if self._waiting is not None:  # the wave under way, in the new tree, and the one that was to follow
            self.wave += self.asked
            self.asked = False
            self._start()
        elif self.asked:
            self._begin()
        self._progress()

    def adopted(self) -> None:
        """Another tree begins: answers of the old one mean nothing."""
        self._owed.clear()

    def on_fence(self, peer: BrokerId, frame: Fence) -> None:
        interest = self.interest
        if interest.tree is None or frame.version != interest.tree.version or peer not in interest.peers:
            return  # of another tree: whoever sent it sends it again
        if sum(1 for owed in self._owed if owed.peer == peer) >= self.brokers_max:
            self.reject(peer, f"it sent more than {self.brokers_max} fences and waited for none")
            return
        owed = _Owed(peer, frame.number)
        self._owed.append(owed)
        if interest.ready:
            self._forward(owed)
            self._progress()

    def on_fenced(self, peer: BrokerId, frame: Fenced) -> None:
        self._answered[peer] = max(frame.number, self._answered.get(peer, 0))
        self._progress()

    def _begin(self) -> None:
        self.asked = False
        self.wave += 1
        self._start()
        self._progress()

    def _start(self) -> None:
        self._waiting, self.climbing = self._tell(""), True
        self.climb(self._climbed)

    def _climbed(self) -> None:
        self.climbing = False
        self._progress()

    def _forward(self, owed: _Owed) -> None:
        owed.before = self._tell(owed.peer)

    def _tell(self, but: BrokerId) -> dict[BrokerId, int]:
        assert self.interest.tree is not None
        told = {}
        for peer in self.interest.peers:
            if peer != but:
                self._number += 1
                told[peer] = self._number
                self.send(peer, Fence(self.interest.tree.version, self._number))
        return told

    def _progress(self) -> None:
        """Answer what can be answered."""
        if not self.interest.ready:
            return
        for owed in [owed for owed in self._owed if owed.before is not None and self._is_over(owed.before)]:
            self._owed.remove(owed)
            self.send(owed.peer, Fenced(owed.number))
        if self._waiting is not None and not self.climbing and self._is_over(self._waiting):
            self._waiting = None
            self.done = self.wave
            self.passed(self.wave)
            if self.asked:
                self._begin()

    def _is_over(self, told: dict[BrokerId, int]) -> bool:
        return all(self._answered.get(peer, 0) >= number for peer, number in told.items())
