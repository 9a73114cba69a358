"""Deliveries of shared subscriptions to the sessions of this broker: which member of a group gets an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latecomer.core.clients import Clients
from latecomer.core.effects import Drop
from latecomer.core.events import Events
from latecomer.core.handing_on import hand_on
from latecomer.core.orders import Orders
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.limits import Access
from latecomer.core.session.state import Parcel, Session
from latecomer.core.shares import GroupName, Shares
from latecomer.model.event import Event
from latecomer.model.ids import ClientId


@dataclass(slots=True)
class SharedDeliveries:
    """Chooses among the members here."""

    orders: Orders
    access: Access
    clients: Clients
    shares: Shares
    deliveries: Deliveries
    events: Events
    by_client: Mapping[ClientId, Session]

    def deliver(self, event: Event, hops: int) -> None:
        """To one member of each group: whoever is connected and can take more, in turn; else whoever is connected; else
        whoever comes back. A group without members here has them elsewhere, if anywhere."""
        gone: list[GroupName] = []
        for name, key, group in self.shares.mine(event.shares):
            if key is None or group is None:
                gone.append(name)
                continue
            members = [self.by_client[client] for client in group.rotate()]
            may = self.access.may_receive
            allowed = [member for member in members if may(member.user, member.client, event.topic)]
            if not allowed:
                continue
            session = min(allowed, key=_reluctance)
            outlives = any(member.durable for member in members) or self.shares.elsewhere(key)
            for subscription in session.subscriptions.values():
                if (subscription.group, subscription.filter) == key:
                    self.deliveries.give_shared(session, event, subscription, hops, outlives=outlives)
                    break
        if gone and event.reliable:
            hand_on(self.events, event, gone)

    def hand_on_orphans(self, queues: Mapping[str, Mapping[int | str, object]]) -> None:
        """Deliveries to members of groups whose sessions died with this broker's last life go to other members."""
        for client, queue in queues.items():
            if client in self.by_client:
                continue
            for number in sorted(queue, key=int):
                parcel = queue[number]
                self.orders.writes.append(Drop("queue", client, number))
                if isinstance(parcel, Parcel) and parcel.share is not None and parcel.share.stored:
                    name = (parcel.share.group, str(parcel.share.filter))
                    hand_on(self.events, parcel.event, [name])


def _reluctance(session: Session) -> int:
    if not session.connection:
        return 2
    return 1 if len(session.inflight) + session.leased >= session.quota else 0
