"""The parts that serve MQTT clients, put together."""

from __future__ import annotations

from collections.abc import Callable

from latecomer.core.clients import Clients
from latecomer.core.events import Events
from latecomer.core.fences import Fences
from latecomer.core.orders import Orders
from latecomer.core.retrieval import Retrieval
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.figures import Figures
from latecomer.core.session.holding import Holding
from latecomer.core.session.limits import Access, SessionLimits
from latecomer.core.session.past import lane_of
from latecomer.core.session.publishing import Publishing
from latecomer.core.session.recall import Recalls
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.subacks import Subacks
from latecomer.core.session.subscribing import Subscribing
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import Packet


def make_sessions(
    settings: BrokerSettings,
    orders: Orders,
    clients: Clients,
    events: Events,
    retrieval: Retrieval,
    fences: Fences,
    limits: SessionLimits,
    access: Access,
    durability: str,
    measure: Callable[[Packet, int], int],
) -> Sessions:
    """What one broker needs to serve MQTT clients."""
    shares = events.shares
    deliveries = Deliveries(orders, limits, access, measure)
    publishing = Publishing(orders, limits, access, events)
    holding = Holding(orders, limits, retrieval, deliveries)
    lanes = lane_of if events.seen.slot is None else lambda event: (events.seen.stream(event), event.reliable)
    recalls = Recalls(orders, access, retrieval, deliveries, holding, lanes, events.interest.changed)
    subacks = Subacks(orders, settings, fences, shares, events.membership)
    figures = Figures(deliveries)
    subscribing = Subscribing(
        orders, limits, access, clients, shares, events.retained, deliveries, recalls, subacks, figures
    )
    return Sessions(orders, limits, access, durability, clients, shares, deliveries, publishing, subscribing, recalls)
