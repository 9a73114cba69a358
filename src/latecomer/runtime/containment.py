"""What is done when one effect cannot be performed: the others are performed all the same.

An effect that failed is never just skipped where somebody counts on it. What was to reach a client or a neighbour is
sent again on the next connection, so that connection is ended; a question gets a negative answer; a record of the event
log is counted as lost. Only what must be safe on disk cannot be made up for: a `Persist` that fails stops the broker
(`Driver._keep`), which has then acknowledged nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from latecomer.core.effects import (
    Attach,
    CarryOut,
    Close,
    Disconnect,
    Lookup,
    Note,
    Read,
    Report,
    Send,
    Spread,
    Survey,
    Transmit,
)
from latecomer.core.inputs import CarriedOut, Found, Surveyed
from latecomer.model.history import Page
from latecomer.runtime.connection import Connection

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

PROBLEM = "an internal error of this broker; its log has more"


class Containment:
    """Makes up for effects of a driver that could not be performed."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.table: dict[type, Callable[[Any], None]] = {
            Attach: self._client,
            Transmit: self._client,
            Close: self._client,
            Read: self._client,
            Connection: self.give_up,
            Send: self._neighbour,
            Disconnect: self._neighbour,
            Spread: self._nothing,  # a run has QoS 0
            Lookup: self._lookup,
            Survey: self._survey,
            CarryOut: self._carry_out,
            Report: self._nothing,  # who waits for it does not wait for ever
            Note: self._note,
        }

    def failed(self, effect: object, error: Exception) -> None:
        """An effect could not be performed. Raises nothing."""
        what = type(effect).__name__.lower()
        self.driver.alarms.ring(what, error, _about(effect))
        try:
            self.table.get(type(effect), self._nothing)(effect)
        except Exception as second:
            self.driver.alarms.ring(what, second, "while it was made up for")

    def give_up(self, connection: Connection) -> None:
        """End a client's connection: its session goes on with the next one, and what is unsettled is sent again."""
        connection.give_up()

    def write_failed(self, connection: Connection, error: Exception) -> None:
        """The fast path could not write to one of its receivers. Raises nothing."""
        self.driver.alarms.ring("write", error, f"to connection {connection.id}")
        try:
            connection.give_up()
        except Exception as second:
            self.driver.alarms.ring("write", second, "while it was made up for")

    def _client(self, effect: Attach | Transmit | Close | Read) -> None:
        connection = self.driver.connections.get(effect.connection)
        if connection is not None:
            connection.give_up()

    def _neighbour(self, effect: Send | Disconnect) -> None:
        """The session with the neighbour sends again what it did not get, on the next connection."""
        if self.driver.links is not None:
            self.driver.links.give_up(effect.peer, effect.connection)

    def _lookup(self, effect: Lookup) -> None:
        self.driver.tell(Found(effect.token, Page((), None), PROBLEM))

    def _survey(self, effect: Survey) -> None:
        self.driver.tell(Surveyed(effect.token, (), PROBLEM))

    def _carry_out(self, effect: CarryOut) -> None:
        self.driver.tell(CarriedOut(effect.broker, effect.number, b"", PROBLEM))

    def _note(self, effect: Note) -> None:
        if self.driver.journal is not None:
            self.driver.journal.dropped += 1

    def _nothing(self, effect: object) -> None:
        """There is nobody to make it up to."""


def _about(effect: object) -> str:
    """Whom an effect concerns, for the log."""
    if isinstance(effect, Attach | Transmit | Close | Read):
        return f"to connection {effect.connection}"
    if isinstance(effect, Send | Disconnect | Spread):
        return f"with neighbour {effect.peer}"
    return ""
