"""*Planning*: the worked examples and the figures of the second paper."""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.planning.drift import LocalityDrift, PopularityDrift
from latecomer.experiments.planning.examples import Example, Rounds
from latecomer.experiments.planning.failures import Failures
from latecomer.experiments.planning.locality import Locality
from latecomer.experiments.planning.popularity import Popularity
from latecomer.experiments.planning.replication import Replication
from latecomer.experiments.planning.sentences import Sentences

CLAIMS: tuple[Claim, ...] = (
    Example(),
    Rounds(),
    Replication(),
    Popularity(),
    Locality(),
    Failures(),
    PopularityDrift(),
    LocalityDrift(),
    Sentences(),
)
