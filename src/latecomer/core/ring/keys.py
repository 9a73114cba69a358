"""To which slot topics and filters belong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from latecomer.model.slots import key_of, key_of_filter, slot_of

KEYS_MAX = 65_536
"""Keys whose slot is remembered."""


@dataclass(slots=True)
class Keys:
    """The slots of one network."""

    levels: int
    pins: Mapping[str, int]
    _slots: dict[str, int] = field(default_factory=dict)

    def slot(self, topic: str) -> int:
        """The slot of a topic."""
        return self._slot(key_of(topic, self.levels))

    def slot_of_filter(self, topic_filter: str) -> int | None:
        """The slot of all topics that a filter matches; None: it crosses keys."""
        key = key_of_filter(topic_filter, self.levels)
        return None if key is None else self._slot(key)

    def _slot(self, key: str) -> int:
        slot = self._slots.get(key)
        if slot is None:
            if len(self._slots) >= KEYS_MAX:
                self._slots.clear()
            slot = self._slots[key] = slot_of(key, self.pins)
        return slot
