"""Broker selection of DYNATOPS §III-B in a few lines of numpy: what the stages on Spark are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Row = tuple[str, str, str]
"""client, broker, topic"""


@dataclass(frozen=True)
class Reference:
    clients: list[str]
    brokers: list[str]
    home: npt.NDArray[np.int64]
    """[U] number of the broker"""
    wants: npt.NDArray[np.bool_]
    """[U, P]"""
    similarity: npt.NDArray[np.float64]
    """[U, B]"""
    load: npt.NDArray[np.float64]
    """[B]"""
    near: npt.NDArray[np.bool_]
    """[B, B] in one cluster"""


def reference(rows: Sequence[Row], clusters: Mapping[str, str], form: str, *, own: bool) -> Reference:
    clients, topics = sorted({row[0] for row in rows}), sorted({row[2] for row in rows})
    brokers = sorted(clusters)
    home = np.array([brokers.index({row[0]: row[1] for row in rows}[client]) for client in clients])
    wants = np.zeros((len(clients), len(topics)), np.bool_)
    for client, _, topic in rows:
        wants[clients.index(client), topics.index(topic)] = True
    at = home[:, None] == np.arange(len(brokers))
    similarity = np.zeros(at.shape)
    for v in range(len(clients)):
        for b in range(len(brokers)):
            there = at[:, b].copy()
            there[v] &= own
            if not there.any():
                continue
            if form == "cheap":
                similarity[v, b] = (wants[there].any(axis=0) & wants[v]).sum() / wants[v].sum()
            else:
                similarity[v, b] = (wants[there] & wants[v]).sum() / wants[v].sum() / there.sum()
    held = np.array([wants[at[:, b]].sum() for b in range(len(brokers))])
    near = np.array([[clusters[one] == clusters[other] for other in brokers] for one in brokers])
    load = held / np.maximum(1, near @ held)
    return Reference(clients, brokers, home, wants, similarity, load, near)


def moves(found: Reference, load_weight: float | None, hysteresis: float) -> dict[str, tuple[str, str, float]]:
    """client → (home, better broker, gain); no broker of the cluster is left out."""
    better = {}
    weight = 0.2 * found.near.sum(axis=1) if load_weight is None else np.full(len(found.brokers), load_weight)
    utility = found.similarity - weight * found.load
    for v, client in enumerate(found.clients):
        here = found.home[v]
        others = [b for b in range(len(found.brokers)) if b != here and found.near[here, b]]
        if not others:
            continue
        best = max(others, key=lambda b: (utility[v, b], -b))
        gain = utility[v, best] - utility[v, here]
        if gain > hysteresis:
            better[client] = (found.brokers[here], found.brokers[best], float(gain))
    return better


def flips(rows: Sequence[Row], changes: Sequence[tuple[str, str, bool]]) -> tuple[int, int]:
    """(changes of clients, changes of brokers) when this happens one after the other."""
    home = {client: broker for client, broker, _ in rows}
    held = {(client, topic) for client, _, topic in rows}
    told = passed = 0
    for client, topic, began in changes:
        if ((client, topic) in held) == began:
            continue
        before = any(home[who] == home[client] and what == topic for who, what in held)
        held ^= {(client, topic)}
        after = any(home[who] == home[client] and what == topic for who, what in held)
        told += 1
        passed += before != after
    return told, passed
