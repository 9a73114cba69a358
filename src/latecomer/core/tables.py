"""What a broker keeps on disk: the type of the values of each table, so that a driver can write and read them."""

from __future__ import annotations

from typing import Any

from latecomer.core.class_row import ClassRow
from latecomer.core.mobility.departure import PromiseRow
from latecomer.core.mobility.leftovers import LeftoverRow
from latecomer.core.mobility.particulars import ParticularsRow
from latecomer.core.session.past import RecallRow
from latecomer.core.session.state import Parcel, SessionRow, Subscription
from latecomer.messages.link import Sharing
from latecomer.messages.reposition import Positions
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import EventId

TABLES: dict[str, Any] = {
    "meta": int | bool | str,
    "member": int | bool | None,
    "forgotten": int,
    "outbox": Event,
    "parked": tuple[str, ...],
    "seen": tuple[int, int],
    "mailbox": Event,
    "client": int,
    "subscription": Filter,
    "advertisement": Filter,
    "session": SessionRow,
    "subscriptions": Subscription,
    "queue": Parcel | None,
    "erasing": int,
    "incoming": int,
    "recall": RecallRow,
    "held": Event,
    "retained": Event,
    "sharing": Sharing,
    "share": tuple[str, Filter, int],
    "store": ClassRow,
    "lost": tuple[int, int],
    "arriving": str,
    "promised": PromiseRow,
    "taken": tuple[str, str],
    "cut": dict[str, tuple[int, int]],
    "without": tuple[str, ...],
    "whereabouts": str,
    "unsure": tuple[str, ...],
    "particulars": ParticularsRow,
    "given": EventId,
    "late": tuple[str, int],
    "leftover": LeftoverRow,
    "leftovers": Parcel,
    "positions": Positions,
}
