"""Bayeux(loc): each broker hosts the users in its region; who moves to another region is handed over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latecomer.experiments.dynatops.homes import Homes
from latecomer.experiments.dynatops.model import System


def by_place(system: System) -> System:
    """The same overlay with location-based homes: broker b hosts whoever is in cell b."""
    return replace(system, homes=Homes("place"), home_at=np.arange(len(system.start)))
