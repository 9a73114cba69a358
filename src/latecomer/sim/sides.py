"""Who stands at the edge of a simulated network: what the world tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from latecomer.core.effects import Attach, Close, Effect, Read
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Packet
from latecomer.model.event import Event
from latecomer.model.history import Outcome
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Record
from latecomer.sim.disk import Disk


class ClientSide(Protocol):
    """Where the clients of the simulated network live."""

    def accepted(self, client: ClientId, token: int, event: Event) -> None: ...
    def refused(self, client: ClientId, token: int, reason: str) -> None: ...
    def delivered(self, client: ClientId, connection: int, number: int, event: Event) -> None: ...
    def answered(self, client: ClientId, token: int, events: tuple[Event, ...], outcome: Outcome | None) -> None: ...
    def broker_started(self, broker: BrokerId, kept_disk: bool) -> None: ...


class Sockets(Protocol):
    """The far ends of MQTT connections."""

    def attached(self, connection: int) -> None: ...
    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None: ...
    def closed(self, connection: int, problem: str) -> None: ...
    def read(self, connection: int, go_on: bool) -> None: ...


class Observer(Protocol):
    """Somebody who watches from outside. Whoever inherits is told only what it has a method of its own for."""

    def noted(self, record: Record) -> None:
        return

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        return

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        return


def has_its_own(observer: Observer, method: str) -> bool:
    """Whether an observer wants to be told of something."""
    return getattr(type(observer), method, None) is not getattr(Observer, method)


def answer_socket(sockets: Sockets | None, effect: Effect) -> None:
    """Tell the far end of a connection what its broker does; packets are told by the world itself."""
    if type(effect) is Attach and sockets is not None:
        sockets.attached(effect.connection)
    elif type(effect) is Close and sockets is not None:
        sockets.closed(effect.connection, effect.problem)
    elif type(effect) is Read and sockets is not None:
        sockets.read(effect.connection, effect.go_on)
