"""In which state a broker is about one client's session, as the old broker and as the new one of a hand-over."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from latecomer.core.mobility.arrival import Stage
from latecomer.model.ids import ClientId

if TYPE_CHECKING:
    from latecomer.core.mobility.mobility import Mobility


class Old(StrEnum):
    """Of a broker that has, or had, the session."""

    NONE = "none"
    CONNECTED = "connected"
    """The session is here, and so is its client."""
    AWAY = "away"
    """The session is here, its client is not."""
    LEAVING = "leaving"
    """Another broker has asked for it."""
    LAPSING = "lapsing"
    """Another broker had asked for it, in a tree that is lost: will and expiry wait for the next question."""
    PROMISED = "promised"
    MOVED = "moved"
    """It is remembered where it went."""


class New(StrEnum):
    """Of a broker to which the session shall come."""

    NONE = "none"
    SEEKING = "seeking"
    ASKING = "asking"
    """For the subscriptions."""
    SUBSCRIBED = "subscribed"
    """The rows may not be asked for yet."""
    RECEIVING = "receiving"
    """The rows were asked for."""
    VISITING = "visiting"
    """The session stays elsewhere, and its client is connected here."""


def old_state(mobility: Mobility, client: ClientId) -> Old:
    departures = mobility.departures
    if client in departures.promises:
        return Old.PROMISED
    if client in departures.leaving:
        return Old.LEAVING
    if client in departures.lapsing:
        return Old.LAPSING
    session = mobility.sessions.by_client.get(client)
    if session is not None:
        return Old.CONNECTED if session.connection else Old.AWAY
    return Old.MOVED if client in mobility.others.pointers else Old.NONE


def new_state(mobility: Mobility, client: ClientId) -> New:
    arrival = mobility.arrivals.by_client.get(client)
    if arrival is None:
        visits = mobility.visits.by_connection.values()
        return New.VISITING if any(visit.client == client for visit in visits) else New.NONE
    if arrival.stage is Stage.SEEKING:
        return New.SEEKING
    if arrival.stage is Stage.ASKING:
        return New.ASKING
    return New.RECEIVING if arrival.asked else New.SUBSCRIBED
