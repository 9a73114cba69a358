"""Which slots topics belong to is not changed while events are kept: what others have had is numbered by slot."""

from __future__ import annotations

from latecomer.core.clients import Disk
from latecomer.core.routing import Rendezvous, Routing
from latecomer.model.errors import SettingsError


def slots_of(routing: Routing) -> str:
    """What decides to which slot a topic belongs; empty: there are no slots."""
    return routing.slots if isinstance(routing, Rendezvous) else ""


def check_slots(disk: Disk, routing: Routing) -> None:
    """Raise `SettingsError` if this disk keeps events that were numbered otherwise."""
    before = disk.get("meta", {}).get("", {}).get("slots", "")
    kept = disk.get("outbox", {}).get("", {})
    if kept and before != slots_of(routing):
        told = (
            f"cannot change while {len(kept)} events of this broker are kept for others: start it as it was, and "
            "change the routing of all brokers when every broker is there and nothing is under way"
        )
        raise SettingsError("core.routing", told)
