"""Bayeux's trees on the ring that DYNATOPS has, to tell what comes from the overlay: nobody ever moves."""

from __future__ import annotations

from latecomer.experiments.dynatops.model import System
from latecomer.experiments.dynatops.overlay import Configuration, Overlay


def bayeux_on_chord(ring: Overlay, start: Configuration) -> System:
    """Users stay where they are, and so do brokers."""
    assert ring.ring is not None, "not a ring"
    return System(ring, start)
