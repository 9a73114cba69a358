"""What the frames of a hand-over say, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _way(m: Any) -> str:
    return f"from {m.from_broker} to {m.to}"


def _here(m: Here) -> str:
    told = f"here {_way(m)}: {m.client} is at {m.owner}"
    return f"{told}, refused ({m.refusal})" if m.refusal else told


def _seek(m: Seek) -> str:
    clients = (f"{seeker.client}{' (ends)' if seeker.ends else ''}" for seeker in m.seekers)
    return f"seek by {m.from_broker}: {', '.join(clients)}"


def _ask(m: Ask) -> str:
    what = "the rest" if m.state else "the subscriptions"
    if m.connect is not None:
        return f"ask {_way(m)} to serve {m.client} ({m.attempt})"
    knows = ", which brought its subscriptions" if m.digest else ""
    told = f"ask {_way(m)} for {what} of {m.client}{knows} ({m.attempt}){', in outline' if m.outline else ''}"
    return told if m.copy is None else f"{told}, has copy {m.copy}"


def _standing(m: Standing) -> str:
    what = "the same" if m.known else f"{len(m.subscriptions)}"
    told = f"standing {_way(m)}: {what} subscriptions of {m.client} ({m.attempt})"
    return f"{told}, the copy holds" if m.copy else told


def _want(m: Want) -> str:
    lacking = f", lacking {', '.join(map(str, m.lacking))}" if m.lacking else ""
    return f"want {_way(m)}: up to page {m.credit} of {m.client} ({m.attempt}){lacking}"


def _shadow_rows(m: ShadowRows) -> str:
    told = f"shadow-rows {_way(m)}: page {m.number} of {m.client}, {len(m.rows)} rows ({m.copy})"
    return f"{told}, complete" if m.complete else told


def _rows(m: Rows) -> str:
    rows = f"rows {_way(m)}: page {m.number} of {m.client}, {len(m.rows)} rows ({m.attempt})"
    rows += f", {len(m.outline)} bytes of outline" if m.outline else ""
    return f"{rows}, granted" if m.grant is not None else rows


def _whereabouts(m: Whereabouts) -> str:
    entries = (client if here else f"no longer {client}" for client, here in m.entries)
    return f"whereabouts {_way(m)}: {'anew: ' if m.whole else ''}{', '.join(entries)}"


def _relay(m: Relay) -> str:
    packets = ", ".join(type(packet).__name__.lower() for packet in m.packets.packets) or "nothing"
    credit = f", credit {m.credit}" if m.credit else ""
    return f"relay {_way(m)}: {packets}{credit} ({m.attempt})"


def _leftovers(m: Leftovers) -> str:
    told = f"leftovers {_way(m)} for {m.client}: "
    if m.rows:
        return f"{told}rows {m.rows[0].key} to {m.rows[-1].key} ({m.mark})"
    return told + ("nothing more" if m.last else "there are some")


def _wanted(m: LeftoversWanted) -> str:
    what = "discarded" if m.discard else f"up to row {m.upto} is safe ({m.mark})"
    return f"leftovers-wanted {_way(m)} for {m.client}: {what}"


def _remembered(m: Remembered) -> str:
    return f"remembered {_way(m)}: {m.client}, {'lost by' if m.lost else 'at'} {m.owner}"


HAND_OVER: dict[type, Callable[[Any], str]] = {
    Seek: _seek,
    Here: _here,
    End: lambda m: f"end {_way(m)}: {m.client}",
    Ask: _ask,
    Standing: _standing,
    Rows: _rows,
    Want: _want,
    AskRefused: lambda m: f"ask-refused {_way(m)}: {m.client}: {m.refusal} ({m.attempt})",
    Taken: lambda m: f"taken {_way(m)}: {m.client}: {'yes' if m.yes else 'no'} ({m.attempt})",
    Released: lambda m: f"released {_way(m)} ({m.attempt})",
    Offer: lambda m: f"offer {_way(m)}: {m.client} ({m.attempt})",
    Fetch: lambda m: f"fetch {_way(m)}: {m.client}",
    Whereabouts: _whereabouts,
    WhereaboutsKept: lambda m: f"whereabouts-kept {_way(m)}: batch {m.number}",
    Attached: lambda m: f"attached {_way(m)}: {m.client} ({m.attempt})",
    Relay: _relay,
    Detach: lambda m: f"detach {_way(m)}: {m.problem or 'goodbye'} ({m.attempt})",
    ShadowOffer: lambda m: f"shadow-offer {_way(m)}: {len(m.subscriptions)} subscriptions of {m.client} ({m.copy})",
    ShadowWanted: lambda m: f"shadow-wanted {_way(m)}: up to page {m.credit} of {m.client} ({m.copy})",
    ShadowRows: _shadow_rows,
    ShadowLost: lambda m: f"shadow-lost {_way(m)}: {m.client} ({m.copy})",
    Remembered: _remembered,
    Leftovers: _leftovers,
    LeftoversWanted: _wanted,
}
