"""*Storing*: the figures of the first paper."""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.storing.placement import Placement
from latecomer.experiments.storing.sentences import Sentences

CLAIMS: tuple[Claim, ...] = (Placement(), Sentences())
