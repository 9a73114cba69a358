"""What operators are told about sessions: which ones a broker has, and which are on their way to or from it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from latecomer.model.ids import BrokerId, ClientId
from latecomer.runtime.admin_views import Page, page_of

if TYPE_CHECKING:
    from latecomer.core.broker import Broker
    from latecomer.core.mobility.arrival import Arrival
    from latecomer.core.mobility.visits import Visit
    from latecomer.core.session.state import Session

Where = Literal["here", "arriving", "leaving", "promised", "visiting"]


class SessionView(msgspec.Struct, frozen=True):
    """A client's session, as one broker sees it.

    `here`: the broker has it. `arriving`: it is looked for, or comes from the partner. `leaving`: it goes to the
    partner, and stays if that fails. `promised`: everything was sent to the partner, and only the partner can say
    whether it has taken it. `visiting`: the client is connected here, and its session stays at the partner.
    """

    broker: BrokerId
    client: ClientId
    where: Where
    partner: BrokerId = ""
    """The other broker; empty: none, or not known yet."""
    user: str = ""
    connected: bool = False
    since_us: int = 0
    """When its client connected or left; of one that is arriving, when that began. Microseconds since 1970."""
    durable: bool = True
    """False: it ends with its connection."""
    expiry_s: int = 0
    subscriptions: int = 0
    queue_messages: int = 0
    queue_bytes: int = 0
    waits_for: BrokerId = ""
    """A broker that is away and without which the session cannot come."""
    via: BrokerId = ""
    """The broker to which the client is connected, if it is not this one."""


def session_page(core: Broker, after: str, limit: int, client: ClientId = "") -> Page[SessionView]:
    """A part of the sessions of a broker, or the one of a client."""
    here, arriving = core.sessions.by_client, core.mobility.arrivals.by_client
    visiting = {visit.client: visit for visit in core.mobility.visits.by_connection.values()}
    if client:
        names, following = [client] if client in here or client in arriving or client in visiting else [], ""
    else:
        more = (name for name in dict.fromkeys((*arriving, *visiting)) if name not in here)
        names, following = page_of(chain(here, more), after, limit)
    views = (
        _present(core, here[name])
        if name in here
        else _arriving(core.id, arriving[name])
        if name in arriving
        else _visiting(core.id, visiting[name])
        for name in names
    )
    return Page(tuple(views), following)


def _present(core: Broker, session: Session) -> SessionView:
    where, partner = _where(core, session.client)
    return SessionView(
        core.id,
        session.client,
        where,
        partner,
        session.user,
        bool(session.connection),
        session.connected_at if session.connection else session.away_since,
        session.durable,
        session.expiry_s,
        len(session.subscriptions),
        len(session.queue),
        session.queue_bytes,
        via=core.mobility.remote.via(session.connection)[0],
    )


def _where(core: Broker, client: ClientId) -> tuple[Where, BrokerId]:
    departures = core.mobility.departures
    if client in departures.promises:
        return "promised", departures.promises[client].attempt.broker
    if client in departures.leaving:
        return "leaving", departures.leaving[client].to
    return "here", ""


def _visiting(broker: BrokerId, visit: Visit) -> SessionView:
    return SessionView(broker, visit.client, "visiting", visit.peer, visit.user, True, visit.since)


def _arriving(broker: BrokerId, arrival: Arrival) -> SessionView:
    session = arrival.session
    return SessionView(
        broker,
        arrival.client,
        "arriving",
        arrival.owner,
        arrival.user,
        arrival.fact is not None,
        arrival.since,
        expiry_s=0 if session is None else session.expiry_s,
        subscriptions=0 if session is None else len(session.subscriptions),
        waits_for=arrival.waits_for,
    )
