"""The paper's analytical model (§4, equations 1 to 5): messages, not hops, from rates and lengths of time.

    cost   = migration + events                                               (1)
    migration = Σ over subscriptions of 1 + coverage(new) + coverage(old)     (2)
    events = Σ rates · perceived disconnection                                (3)
    perceived disconnection = T2 + T3, for standard                           (4)
    events = (3) − events found in the log, for logging                       (5)

*prefetching* makes the perceived disconnection T2', *home-broker* T2 and all the time that the client is connected
elsewhere, without any migration. The message that makes the migration atomic (§4) is counted, once for each move;
coverage is 1 without covering.
"""

from __future__ import annotations

import numpy as np

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.ground import Ground
from latecomer.experiments.mobility.play import Played
from latecomer.experiments.mobility.publications import PERIOD_S, matching
from latecomer.experiments.mobility.traffic import relays
from latecomer.experiments.mobility.tree import FloatArray

ATOMIC = 1


def migration(subscriptions: int, covered_new: bool = False, covered_old: bool = False) -> int:
    """Equation 2, for subscriptions that are all covered or not."""
    return subscriptions * (1 + (not covered_new) + (not covered_old))


def events(rate: float, perceived_s: float, logged: float = 0.0) -> float:
    """Equations 3 and 5."""
    return rate * perceived_s - logged


def rates(ground: Ground) -> FloatArray:
    """Publications a second that match each move's client."""
    matched = matching()[:, ground.publications.published].sum(axis=1)
    found: FloatArray = matched[ground.of_moves()] / PERIOD_S
    return found


def predicted(ground: Ground, algorithm: Algorithm, played: Played) -> float:
    """Messages of all moves, by equation 1, with the lengths of time that the simulation found."""
    moves = ground.movements
    rate = rates(ground)
    t2 = moves.came - moves.left
    came = moves.came < ground.length_s
    if algorithm.arrival() == "attach":
        away = relays(ground)
        matched = matching()[:, ground.publications.published].sum(axis=1) / PERIOD_S
        connected = float((matched[away.subscription] * (away.until - away.since)).sum())
        disconnected = came & (moves.new != moves.starts[moves.client])
        return connected + float((rate * t2)[disconnected].sum())
    moved = came & (moves.new != moves.old)
    each = migration(1) + ATOMIC
    if algorithm.departure((0,)):
        return float(moved.sum()) * each + float((rate * (played.ahead - moves.left))[moved].sum())
    t3 = np.zeros(len(t2))
    t3[played.fetched] = np.maximum(played.transfers.end - moves.came[played.fetched], 0)
    stored = float((rate * (t2 + t3))[moved].sum()) - float(played.logged.sum())
    return float(moved.sum()) * each + stored
