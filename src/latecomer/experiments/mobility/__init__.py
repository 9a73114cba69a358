"""*Mobility*: clients that move from broker to broker, counted; the figures of the fourth paper."""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.mobility.commute import Afterwards, Average, HomePeak, Migration, OverTime, Peak
from latecomer.experiments.mobility.examples import Examples
from latecomer.experiments.mobility.pervasive import Pervasive
from latecomer.experiments.mobility.random import Locality, LogSize, Population
from latecomer.experiments.mobility.sentences import Concurrency, Model, Optimised, Shares

CLAIMS: tuple[Claim, ...] = (
    Average(),
    Peak(),
    Migration(),
    Population(),
    Locality(),
    LogSize(),
    Pervasive(),
    Optimised(),
    OverTime(),
    Model(),
    Concurrency(),
    HomePeak(),
    Shares(),
    Afterwards(),
    Examples(),
)
