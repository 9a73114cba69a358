"""What operators are told about clients that would be better at other brokers, as one broker knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from latecomer.core.homes.settings import Mode
from latecomer.model.ids import BrokerId, ClientId

if TYPE_CHECKING:
    from latecomer.core.broker import Broker


class PeerView(msgspec.Struct, frozen=True):
    """A broker to which clients may be sent, by its last word."""

    broker: BrokerId
    clients: int
    subscriptions: int
    load: float
    """Its share of the subscriptions of the cluster, in times the mean."""
    heard_us: int
    """When; microseconds since 1970."""


class ProposalView(msgspec.Struct, frozen=True):
    """A client that would be better elsewhere."""

    client: ClientId
    to: BrokerId
    similarity: float
    """The share of its topic filters that other clients of its broker have."""
    there: float
    """The same at the other broker."""
    gain: float
    """With what load counts."""
    problem: str = ""
    """Why the broker does not send it by itself now; empty: it may, with mode `move`."""


class HomesView(msgspec.Struct, frozen=True):
    broker: BrokerId
    mode: Mode
    clients: int
    """Connected ones."""
    subscriptions: int
    load: float
    """Of this broker, in times the mean of those that it knows; 0: nobody has subscribed to anything."""
    similarity: float | None
    """The mean over its clients, at the last update; none: there was none, or nobody has subscribed to anything."""
    peers: tuple[PeerView, ...]
    proposals: tuple[ProposalView, ...]
    """Those that gain most first, at most 1,000."""
    wished: int
    """Clients that would be better elsewhere, also those that are not listed."""
    sent: int
    """Clients that were sent since the broker started."""
    returned: int
    """Those of them that came back."""


def homes_view(core: Broker) -> HomesView:
    homes = core.homes
    loads = homes.loads()
    here = loads[core.id]
    known = homes.profiles.known
    by_client = core.sessions.by_client
    proposals = tuple(
        ProposalView(
            one.client,
            one.better.to,
            one.better.similarity,
            one.better.there,
            one.better.gain,
            homes.problem_of(by_client[one.client], one.better.to),
        )
        for one in homes.proposals.values()
        if one.client in by_client
    )
    return HomesView(
        core.id,
        homes.settings.mode,
        len(core.sessions.by_connection),
        sum(len(session.wishes) for session in by_client.values()),
        here.times_mean,
        homes.similarity_mean,
        tuple(
            PeerView(broker, each.clients, each.subscriptions, loads[broker].times_mean, each.heard_at)
            for broker, each in known.items()
        ),
        proposals,
        homes.wished,
        homes.sent,
        homes.returned,
    )
