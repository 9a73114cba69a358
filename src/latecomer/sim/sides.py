"""Who stands at the edge of a simulated network: what the world tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from latecomer.messages.mqtt import Packet
from latecomer.model.event import Event
from latecomer.model.history import Outcome
from latecomer.model.ids import BrokerId, ClientId


class ClientSide(Protocol):
    """Where the clients of the simulated network live."""

    def accepted(self, client: ClientId, token: int, event: Event) -> None: ...
    def refused(self, client: ClientId, token: int, reason: str) -> None: ...
    def delivered(self, client: ClientId, connection: int, number: int, event: Event) -> None: ...
    def answered(self, client: ClientId, token: int, events: tuple[Event, ...], outcome: Outcome | None) -> None: ...
    def broker_started(self, broker: BrokerId, kept_disk: bool) -> None: ...


class Sockets(Protocol):
    """The far ends of MQTT connections."""

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None: ...
    def closed(self, connection: int, problem: str) -> None: ...
