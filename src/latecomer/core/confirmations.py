"""Confirmations: when an advertisement has reached everybody and the subscriptions it calls for have come back.

Each change of advertisements told on a link has a number. A neighbour confirms a number once everything it told on
because of it (to *its* other neighbours) is confirmed in turn; by the order of frames the subscriptions that the
advertisement calls for went ahead of the confirmation. Until its own are confirmed an origin floods its events: no
subscriber misses one because an advertisement was still on its way.

Waiting for everything told so far, rather than for exactly what one change caused, is coarser but never too early.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class Confirmations:
    """Numbers told and heard per neighbour, for the present tree."""

    _told: dict[BrokerId, int] = field(default_factory=dict)
    _confirmed: dict[BrokerId, int] = field(default_factory=dict)
    _owed: dict[BrokerId, tuple[int, dict[BrokerId, int]]] = field(default_factory=dict)
    """Confirmations we owe: to whom, the newest number, and what must be confirmed to us before."""

    def clear(self) -> None:
        """Another tree: completing it confirms everything told before; numbers go on so that none is mistaken."""
        self._confirmed.update(self._told)
        self._owed.clear()

    def tell(self, peer: BrokerId) -> int:
        number = self._told.get(peer, 0) + 1
        self._told[peer] = number
        return number

    def hear(self, peer: BrokerId, number: int) -> None:
        """A neighbour told us a change; what we told on because of it is already numbered."""
        before = {other: told for other, told in self._open().items() if other != peer}
        self._owed[peer] = (number, before)

    def confirmed(self, peer: BrokerId, number: int) -> None:
        self._confirmed[peer] = max(number, self._confirmed.get(peer, 0))

    def due(self) -> list[tuple[BrokerId, int]]:
        """Confirmations that can now be given."""
        due = [
            (peer, number)
            for peer, (number, before) in self._owed.items()
            if all(self._confirmed.get(other, 0) >= told for other, told in before.items())
        ]
        for peer, _ in due:
            del self._owed[peer]
        return due

    @property
    def settled(self) -> bool:
        return not self._open()

    def _open(self) -> dict[BrokerId, int]:
        return {peer: told for peer, told in self._told.items() if self._confirmed.get(peer, 0) < told}
