"""A broker does not change its slots while it keeps events for others."""

from __future__ import annotations

import pytest

from latecomer.core.broker import Broker
from latecomer.core.clients import Disk
from latecomer.core.routing import Forwarding, Hierarchy, Rendezvous, Routing
from latecomer.core.settings import BrokerSettings
from latecomer.model.errors import SettingsError

RING = Rendezvous()


def start(disk: Disk, routing: Routing) -> None:
    Broker("a", BrokerSettings(routing=routing), {}, 2, disk)


def disk(slots: str, *, kept: bool) -> Disk:
    return {"meta": {"": {"epoch": 1, "slots": slots}}, "outbox": {"": {1: object()} if kept else {}}}


@pytest.mark.parametrize(
    ("slots", "routing"),
    [
        ("", RING),
        (RING.slots, Forwarding()),
        (RING.slots, Rendezvous(levels=2)),
        (RING.slots, Rendezvous(pins={"a": 1})),
    ],
)
def test_other_slots_wait_until_nothing_is_kept(slots: str, routing: Routing) -> None:
    with pytest.raises(SettingsError, match="kept for others"):
        start(disk(slots, kept=True), routing)
    start(disk(slots, kept=False), routing)


@pytest.mark.parametrize(
    ("slots", "routing"), [("", Hierarchy()), (RING.slots, RING), (RING.slots, Rendezvous(covering=False, root="b"))]
)
def test_what_does_not_concern_slots_may_change(slots: str, routing: Routing) -> None:
    start(disk(slots, kept=True), routing)
