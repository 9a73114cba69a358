"""Bayeux(loc+PNS): of the brokers that fit an entry of its table, a broker takes the nearest (proximity neighbours)."""

from __future__ import annotations

from latecomer.experiments.dynatops.comparators.bayeux import tapestry
from latecomer.experiments.dynatops.overlay import Floats, Ints, Overlay


def near_tapestry(ids: Ints, keys: Ints, delay: Floats) -> Overlay:
    """`delay` [B, B]: broker b is at place b, so that near brokers are near places."""
    return tapestry(ids, keys, delay)
