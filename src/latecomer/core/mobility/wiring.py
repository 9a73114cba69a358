"""The parts of the hand-over, put together."""

from __future__ import annotations

from latecomer.core.events import Events
from latecomer.core.fences import Fences
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.mobility.apart import Apart
from latecomer.core.mobility.arrival import Arrivals
from latecomer.core.mobility.asked import Asked
from latecomer.core.mobility.copies import Copies
from latecomer.core.mobility.departure import Departures
from latecomer.core.mobility.doubts import Doubts
from latecomer.core.mobility.going_on import GoingOn
from latecomer.core.mobility.guessing import Guessing
from latecomer.core.mobility.leftovers import LeftoverKeeper
from latecomer.core.mobility.mobility import Mobility
from latecomer.core.mobility.particulars import particulars_of
from latecomer.core.mobility.recent import RecentLog
from latecomer.core.mobility.remote import RemoteClients
from latecomer.core.mobility.search import Search
from latecomer.core.mobility.seek import Seeking
from latecomer.core.mobility.shadows import Shadows
from latecomer.core.mobility.tunnel import Relaying
from latecomer.core.mobility.visits import Visits
from latecomer.core.mobility.whereabouts import Directory
from latecomer.core.mobility.wishes import Wishes
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.ring.flushes import Flushes
from latecomer.core.session.sessions import Sessions
from latecomer.core.settings import BrokerSettings
from latecomer.model.ids import BrokerId


def make_mobility(
    broker: BrokerId,
    settings: BrokerSettings,
    orders: Orders,
    neighbours: Neighbours,
    interest: Interest,
    membership: Membership,
    events: Events,
    fences: Fences,
    sessions: Sessions,
    flushes: Flushes,
) -> Mobility:
    """What one broker needs so that sessions can come and go."""
    passage = Passage(broker, neighbours, interest)
    settling, flood_us, hand_over = events.settling, settings.flood_us, settings.hand_over
    if hand_over.algorithm == "logging":
        events.recent = RecentLog(hand_over.recent_events, hand_over.recent_bytes)
    seeking = Seeking(broker, orders, neighbours, interest, fences, flood_us, settings.brokers_max)
    common, most = (broker, orders, passage, events, settling), hand_over.departures_max
    shadows = Shadows(*common, sessions.limits, sessions.clients, hand_over.shadows_max)
    parts = (sessions.limits, sessions.subscribing, sessions.deliveries, sessions.erasing)
    arrivals = Arrivals(*common, *parts, hand_over.patience_us, shadows)
    departures = Departures(*common, sessions.resume, hand_over.patience_us, most, flushes)
    copies = departures.copies = Copies(*common, most, flushes)
    directory = _directory(broker, settings, orders, membership, passage, events, sessions)
    going_on = GoingOn(broker, orders, membership, sessions, directory, hand_over)
    leftovers = LeftoverKeeper(
        broker, orders, passage, sessions, settling, events, departures.stays, copies.void, flushes
    )
    others = (membership, passage, sessions, arrivals, departures, directory, hand_over.pointers_max)
    asked = Asked(broker, orders, *others, going_on, leftovers)
    relaying = Relaying(broker, passage, hand_over.tunnel_bytes)
    doubts = Doubts(broker, orders, interest, membership, passage, sessions, seeking)
    network = (broker, orders, interest, membership, passage)
    walk = (*network, sessions, arrivals, departures, seeking, directory, doubts)
    return Mobility(
        *walk,
        Apart(broker, interest, membership, settling, fences),
        Wishes(broker, passage, sessions, arrivals, departures),
        Guessing(broker, orders, passage, sessions, departures, copies, hand_over),
        asked,
        Search(*walk, hand_over, going_on),
        Visits(broker, orders, sessions.limits, arrivals, relaying),
        RemoteClients(broker, orders, sessions, departures, relaying),
        shadows,
        copies,
        not neighbours.links and not any(member != broker for member in membership.members),
        hand_over,
        going_on,
        leftovers,
    )


def _directory(
    broker: BrokerId,
    settings: BrokerSettings,
    orders: Orders,
    membership: Membership,
    passage: Passage,
    events: Events,
    sessions: Sessions,
) -> Directory:
    return Directory(
        broker,
        orders,
        membership,
        passage,
        settings.hand_over.copies,
        settings.flood_us,
        lambda: [session.client for session in sessions.by_client.values() if session.durable],
        lambda client, full, promised: particulars_of(
            sessions.by_client[client], orders.now, full=full, promised=promised
        ),
        events.epoch,
    )
