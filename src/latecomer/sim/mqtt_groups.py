"""What the members of a shared group are promised together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from latecomer.model.ids import ClientId
from latecomer.sim.mqtt_clients import Publication


@dataclass(slots=True)
class Group:
    """The members of a group and what they got together."""

    members: dict[ClientId, int] = field(default_factory=dict)
    """Who was ever asked to be one, and the lowest QoS."""
    most: dict[ClientId, int] = field(default_factory=dict)
    """The highest QoS that a member asked for."""
    anchors: dict[ClientId, None] = field(default_factory=dict)
    """Members that the whole network knows, that did not leave, and whose sessions never end: while there is one,
    every publication is owed to the group, whoever of the others dies."""
    settled: bool = False
    """All members are such, and nobody came or went since. Only then QoS 2 is owed: what was sent to a member whose
    session ended goes to nobody else [MQTT-4.8.2-5]."""
    unsteady: bool = False
    """A member may have left, or its session ended: what was handed on may come late."""
    owed: dict[str, Publication] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    got_once: Counter[str] = field(default_factory=Counter)
    """With QoS 2."""

    def quality(self, publication: Publication) -> int:
        """The highest QoS that a member may get it with, if none gets it with 0."""
        least, most = min(self.members.values()), max(self.most.values())
        return min(publication.qos, most) if least else 0

    def excuse(self, quality: int) -> int:
        """Nothing is promised any more that may be delivered with this QoS, or a higher one."""
        tokens = [token for token, publication in self.owed.items() if self.quality(publication) >= quality]
        for token in tokens:
            del self.owed[token]
        return len(tokens)
