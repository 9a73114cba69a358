"""Who may be sent to another broker: the one place that says so.

A connection that the broker closes fires the will, and a session lives only so long without its client. So only
clients go whose session and will wait longer than a move takes, and only while nothing is under way to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latecomer.core.session.limits import NEVER_S
from latecomer.core.session.state import Session
from latecomer.model.ids import Instant

if TYPE_CHECKING:
    from latecomer.core.mobility.mobility import Mobility

SECOND_US = 1_000_000
BUSY = "messages are under way to it"


def waits_too_little(session: Session, away_us: Instant) -> str:
    """Why a client must not be away for so long, as far as its session and its will are concerned; empty: it may."""
    if not session.durable:
        return "its session ends with its connection"
    if session.expiry_s != NEVER_S and session.expiry_s * SECOND_US < away_us:
        return f"its session waits only {session.expiry_s} s for it"
    if session.will is not None:
        delay_s = session.will.properties.will_delay_s or 0
        if delay_s * SECOND_US < away_us:
            return f"its will waits only {delay_s} s for it"
    return ""


def problem_of_going(session: Session, mobility: Mobility, away_us: Instant) -> str:
    """Why a connected client may not be sent to another broker now; empty: it may."""
    client = session.client
    if not session.connection:
        return "it is away"
    if mobility.remote.via(session.connection)[0]:
        return "it is at another broker already, and its session here"
    if mobility.wishes.stays_home(session):
        return "its session stays at home"
    if problem := waits_too_little(session, away_us):
        return problem
    departures = mobility.departures
    if session.suspended or client in departures.leaving or client in departures.promises:
        return "its session is on its way to another broker"
    if session.given is not None or session.late:
        return "another broker may have an older session of it"
    if session.queue or session.incoming or session.leased or session.giving or session.past is not None:
        return BUSY
    return ""
