"""The claims of the location model, in the order of the ledger."""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.dynatops.location.management import HandOvers, LoadSpread, Management
from latecomer.experiments.dynatops.location.notification import ClusterSize, FreePeriod, Halves, Notifications

CLAIMS: tuple[Claim, ...] = (
    Management(),
    LoadSpread(),
    HandOvers(),
    Notifications(),
    ClusterSize(),
    FreePeriod(),
    Halves(),
)
