"""An event: one publication, with the identity it keeps everywhere."""

from __future__ import annotations

import msgspec

from latecomer.model.ids import BrokerId, ClientId, EventId, Number

Value = bool | int | float | str


class Event(msgspec.Struct, frozen=True, array_like=True):
    """What a client published. `reliable` events are kept by their origin until everybody who wants them has them."""

    id: EventId
    topic: str
    publisher: ClientId = ""
    published_us: Number = 0
    reliable: bool = True
    attributes: dict[str, Value] = {}
    payload: bytes = b""

    @property
    def origin(self) -> BrokerId:
        return self.id.origin
