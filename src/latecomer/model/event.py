"""An event: one publication, with the identity it keeps everywhere."""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.model.ids import BrokerId, ClientId, EventId, Number

Value = bool | int | float | str
Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]


class Extras(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an MQTT 5 publisher says about its message, handed on unaltered and in order [MQTT-3.3.2-17]."""

    payload_format: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user: tuple[tuple[str, str], ...] = ()


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a client published. `reliable` events are kept by their origin until everybody who wants them has them.

    Events wait in their hundred thousands, and no event can be part of a reference cycle. So the garbage collector is
    spared the walk over them, which stops a broker for some tenths of a second each time.
    """

    id: EventId
    topic: str
    publisher: ClientId = ""
    published_us: Number = 0
    reliable: bool = True
    attributes: dict[str, Value] = {}
    """As a client of the core states them; those of an MQTT message follow from its extras and payload."""
    payload: bytes = b""
    qos: Qos = 1
    """As published; meant only for MQTT clients, the network knows `reliable`."""
    retain: bool = False
    expires_us: Number = 0
    """On the clock of whoever holds the event; 0: never. Brokers tell each other what is left of it."""
    extras: Extras | None = None
    shares: tuple[tuple[str, str, str], ...] = ()
    """The member broker that the origin chose for each shared subscription: (group, filter, broker). A long group and
    filter are named by a digest, with an empty group (`core/shares`)."""
    groups_only: bool = False
    """A further copy, for these groups alone: whoever subscribed otherwise has the event already."""

    @property
    def origin(self) -> BrokerId:
        return self.id.origin
