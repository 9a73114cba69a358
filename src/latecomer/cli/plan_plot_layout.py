"""Where brokers stand in a picture: on the map where they have coordinates, else as far apart as they are in hops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from latecomer.model.topology import Topology

Points = npt.NDArray[np.float64]
STRESS_MOST = 600
"""Brokers up to which positions are improved pair by pair; the first guess must do for more."""
ROUNDS = 200
LOCATED_LEAST = 0.6
"""The part of the brokers that must have coordinates for a map."""
APART = 0.035
"""Brokers closer than this part of the picture are pushed apart: two in one city are still two."""


def layout(topology: Topology, hops: npt.NDArray[Any]) -> Points:
    """[N, 2], about the unit square; the same for the same network, always."""
    on_map = sum(node.lat is not None for node in topology.nodes) >= LOCATED_LEAST * len(topology.nodes)
    points = _map(topology, hops) if on_map else _by_distance(np.asarray(hops, np.float64))
    return _apart(_fitted(points))


def _map(topology: Topology, hops: npt.NDArray[Any]) -> Points:
    """Longitudes shrink with the cosine of the mean latitude; who has no coordinates stands among its nearest."""
    known = [i for i, node in enumerate(topology.nodes) if node.lat is not None]
    mean = math.radians(sum(topology.nodes[i].lat or 0.0 for i in known) / len(known))
    points = np.zeros((len(topology.nodes), 2))
    for i in known:
        node = topology.nodes[i]
        points[i] = (node.lon or 0.0) * math.cos(mean), node.lat or 0.0
    for i in range(len(points)):
        if topology.nodes[i].lat is None:
            near = hops[i][known]
            points[i] = points[known][near == near.min()].mean(axis=0)
    return points


def _by_distance(hops: Points) -> Points:
    """Classical scaling, then stress majorisation (Gansner, Koren, North 2004): no chance in it."""
    points = _scaled(hops)
    if not 2 < len(hops) <= STRESS_MOST:
        return points
    weight = np.zeros_like(hops)
    np.divide(1.0, hops**2, out=weight, where=hops > 0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    for _ in range(ROUNDS):
        steps = points[:, None, :] - points[None, :, :]
        length = np.sqrt((steps**2).sum(axis=2))
        ratio = np.zeros_like(length)
        np.divide(weight * hops, length, out=ratio, where=length > 1e-9)
        pull = np.diag(ratio.sum(axis=1)) - ratio
        moved = inverse @ (pull @ points)
        done = float(np.abs(moved - points).max()) < 1e-4
        points = moved
        if done:
            break
    return points


def _scaled(hops: Points) -> Points:
    """The two directions in which the network is widest; a tiny spiral tells apart who is equal in both."""
    count = len(hops)
    if count == 1:
        return np.zeros((1, 2))
    centred = -0.5 * (hops**2 - (hops**2).mean(axis=0) - (hops**2).mean(axis=1)[:, None] + (hops**2).mean())
    values, vectors = np.linalg.eigh(centred)
    points: Points = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-6))
    for axis in range(2):  # an eigenvector has no sign of its own
        if points[np.abs(points[:, axis]).argmax(), axis] < 0:
            points[:, axis] *= -1
    turn = np.arange(count) * 2.399963  # the golden angle
    spiral = np.stack([np.cos(turn), np.sin(turn)], axis=1) * np.sqrt(np.arange(count) / count)[:, None]
    return np.round(points, 9) + 0.05 * spiral


def _fitted(points: Points) -> Points:
    """Into the unit square, with its proportions."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = float(max((high - low).max(), 1e-9))
    found: Points = (points - (low + high) / 2) / span + 0.5
    return found


def _apart(points: Points) -> Points:
    """Pairs that would cover each other step aside, a little each round."""
    count = len(points)
    least = min(APART, 0.6 / math.sqrt(count))
    moved = points.copy()
    turn = np.arange(count) * 2.399963
    away = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if count > STRESS_MOST:
        return moved
    for _ in range(60):
        steps = moved[:, None, :] - moved[None, :, :]
        length = np.sqrt((steps**2).sum(axis=2))
        np.fill_diagonal(length, 1.0)
        short = np.maximum(0.0, least - length)
        if not short.any():
            break
        same = length < 1e-6
        steps = np.where(same[:, :, None], away[:, None, :] - away[None, :, :], steps)
        length = np.maximum(np.sqrt((steps**2).sum(axis=2)), 1e-9)
        moved += 0.5 * (steps / length[:, :, None] * short[:, :, None]).sum(axis=1)
    return moved
