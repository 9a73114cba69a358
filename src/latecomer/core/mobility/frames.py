"""Who takes which frame of a hand-over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latecomer.core.mobility.mobility import Mobility
from latecomer.messages.hand_over import (
    Ask,
    AskRefused,
    Attached,
    Detach,
    End,
    Fetch,
    Here,
    Leftovers,
    LeftoversWanted,
    Offer,
    Relay,
    Released,
    Remembered,
    Rows,
    Seek,
    ShadowLost,
    ShadowOffer,
    ShadowRows,
    ShadowWanted,
    Standing,
    Taken,
    Want,
    Whereabouts,
    WhereaboutsKept,
)
from latecomer.model.ids import BrokerId

BETWEEN = "of a hand-over between"


def frames_of(mobility: Mobility) -> dict[type, Callable[[BrokerId, Any], None]]:
    """Frames from one broker to another are handed on by those in between; `Seek` goes to everybody."""
    arrivals, departures, doubts = mobility.arrivals, mobility.departures, mobility.doubts
    own, visits, remote = mobility.broker, mobility.visits, mobility.remote
    copies, shadows = mobility.copies, mobility.shadows
    table: dict[type, Callable[[Any], None]] = {
        Here: mobility.on_here,
        End: doubts.on_end,
        Ask: mobility.others.on_ask,
        AskRefused: mobility.search.on_ask_refused,
        Standing: arrivals.on_standing,
        Rows: arrivals.on_rows,
        Want: departures.on_want,
        Taken: mobility.on_taken,
        Released: arrivals.on_released,
        Offer: arrivals.on_offer,
        Fetch: mobility.wishes.on_fetch,
        Whereabouts: mobility.directory.on_whereabouts,
        WhereaboutsKept: mobility.directory.on_kept,
        Attached: visits.on_attached,
        # The end that opened a tunnel is where its client is.
        Relay: lambda frame: (visits if frame.attempt.broker == own else remote).on_relay(frame),
        Detach: lambda frame: (visits if frame.attempt.broker == own else remote).on_detach(frame),
        ShadowOffer: shadows.on_offer,
        ShadowWanted: copies.on_wanted,
        ShadowRows: shadows.on_rows,
        # From a broker that has a copy, or from the owner of the session.
        ShadowLost: lambda frame: (copies if frame.copy.broker == own else shadows).on_lost(frame),
        Remembered: mobility.search.on_remembered,
        Leftovers: doubts.leftovers.on_leftovers,
        LeftoversWanted: doubts.leftovers.on_wanted,
    }
    passage = mobility.passage

    def carried(handle: Callable[[Any], None]) -> Callable[[BrokerId, Any], None]:
        def arrived(peer: BrokerId, frame: Any) -> None:
            if passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
                handle(frame)

        return arrived

    return {kind: carried(handle) for kind, handle in table.items()} | {Seek: mobility.seeking.on_seek}
