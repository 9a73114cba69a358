"""*Storing*: the figures of the first paper."""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.storing.placement import Placement

CLAIMS: tuple[Claim, ...] = (Placement(),)
