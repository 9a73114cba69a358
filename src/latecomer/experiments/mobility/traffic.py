"""What was sent when, as sums over spans of time: unicast next to multicast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from latecomer.experiments.mobility.ground import Ground
from latecomer.experiments.mobility.play import COLUMNS, Played
from latecomer.experiments.mobility.publications import matching
from latecomer.experiments.mobility.tree import FloatArray, IntArray

Counted = Literal["hops", "messages"]
MESSAGES, HOPS, MIGRATION, TOLD, EVENT_HOPS, EVENTS = range(len(COLUMNS))


@dataclass(frozen=True, slots=True)
class Relays:
    """Spans in which a client is connected elsewhere than at home, and every event is sent on to it."""

    subscription: IntArray
    since: FloatArray
    until: FloatArray
    hops: IntArray


def relays(ground: Ground) -> Relays:
    moves = ground.movements
    home = moves.starts[moves.client]
    far = ground.hops(home, moves.new)
    away = (far > 0) & (moves.came < ground.length_s)
    until = np.minimum(ground.next_left, ground.length_s)
    return Relays(ground.of_moves()[away], moves.came[away], until[away], far[away])


@dataclass(frozen=True, slots=True)
class Traffic:
    """Summed up to each of some times."""

    unicast: FloatArray
    multicast: FloatArray
    to_clients: FloatArray
    """Deliveries to clients, each a hop that is in neither of them."""
    relayed_to_clients: FloatArray
    """Those of them that end what a home-broker has sent."""
    parts: IntArray
    """Sums of COLUMNS over the whole run."""
    relayed: int
    """Events that home-brokers sent on to connected clients."""

    def with_last_hop(self) -> Traffic:
        """The same with the hop to the client: it belongs to the multicast, or to what a home-broker has sent."""
        return Traffic(
            self.unicast + self.relayed_to_clients,
            self.multicast + self.to_clients - self.relayed_to_clients,
            self.to_clients,
            self.relayed_to_clients,
            self.parts,
            self.relayed,
        )

    def overhead(self, first: int = 0, last: int = -1) -> float:
        """Unicast next to multicast between two of the times."""
        return float(
            (self.unicast[last] - self.unicast[first]) / max(self.multicast[last] - self.multicast[first], 1e-9)
        )


def traffic(ground: Ground, played: Played, edges: FloatArray, *, home: bool, counted: Counted = "hops") -> Traffic:
    """Everything until each edge.

    Sending stored events takes from the beginning to the end of their transfer; all else is sent at once.
    """
    moves, length = ground.movements, ground.length_s
    column, of_events = (HOPS, EVENT_HOPS) if counted == "hops" else (MESSAGES, EVENTS)
    came = moves.came < length
    unicast = _until(edges, moves.left, played.departed[:, column])
    unicast += _until(edges, played.ready[came], (played.arrived[:, column] - played.arrived[:, of_events])[came])
    unicast += _over(edges, played.transfers.begin, played.transfers.end, played.arrived[played.fetched, of_events])
    relayed = np.zeros(len(edges))
    extra = np.zeros(len(edges))
    if home:
        spans = relays(ground)
        for number, edge in enumerate(edges.tolist()):
            found = ground.wanted.between(spans.subscription, spans.since, np.clip(edge, spans.since, spans.until))
            relayed[number] = found.sum()
            unicast[number] += (found * spans.hops).sum() if counted == "hops" else found.sum()
        extra = relayed + _over(
            edges, played.transfers.begin, played.transfers.end, played.arrived[played.fetched, EVENTS]
        )
    multicast = _until(edges, ground.publications.times, played.multicast)
    interested = matching()[ground.subscriptions].sum(axis=0)
    to_clients = _until(edges, ground.publications.times, interested[ground.publications.events])
    parts = played.departed[moves.left < length].sum(axis=0) + played.arrived[came].sum(axis=0)
    return Traffic(unicast, multicast, to_clients, extra, parts, int(relayed[-1]))


def under_way(played: Played, edges: FloatArray) -> IntArray:
    """How many transfers are under way at each time."""
    begin, end = np.sort(played.transfers.begin), np.sort(played.transfers.end)
    return np.searchsorted(begin, edges, side="right") - np.searchsorted(end, edges, side="right")


def _until(edges: FloatArray, times: FloatArray, amounts: IntArray) -> FloatArray:
    """What came before each edge."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(amounts[order], dtype=np.float64)])
    found: FloatArray = sums[np.searchsorted(times[order], edges)]
    return found


def _over(edges: FloatArray, begin: FloatArray, end: FloatArray, amounts: IntArray) -> FloatArray:
    """The same for what comes evenly between two times."""
    found = np.zeros(len(edges))
    length = np.maximum(end - begin, 1e-9)
    for number, edge in enumerate(edges.tolist()):
        found[number] = (amounts * np.clip((edge - begin) / length, 0, 1)).sum()
    return found
