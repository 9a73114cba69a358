"""One point of the paper's figures, measured: all algorithms on the same ground, counted move by move.

What the paper leaves out is a field with a default; the claims sweep it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np

from latecomer.experiments.grid import Measures, Setting
from latecomer.experiments.mobility.algorithms.registry import ALGORITHMS, DRAWN
from latecomer.experiments.mobility.cost_model import predicted
from latecomer.experiments.mobility.ground import Ground, Publishers, ground
from latecomer.experiments.mobility.movements import HOUR_S, MINUTE_S, START_H, Edge, Name
from latecomer.experiments.mobility.play import Conditions, Played, play
from latecomer.experiments.mobility.tables import Routing
from latecomer.experiments.mobility.traffic import (
    EVENT_HOPS,
    MESSAGES,
    MIGRATION,
    TOLD,
    Counted,
    Traffic,
    traffic,
    under_way,
)
from latecomer.experiments.mobility.tree import FloatArray

RUNS = 20
"""Most seeds: the intervals are narrow."""
SERIES_RUNS = 100
"""The same for series, whose correlations vary more."""
SPEED = 20.0
"""Messages a second on a link: what gives the paper's one tenth of the clients in transfer at once (M11)."""
LENGTH_H = 3.5
"""16:00 to 19:30, when the last commuter is home."""
PEAK_H = 17.0
"""When the half hour begins that the paper calls the peak."""
HALF_HOUR_S = 30 * MINUTE_S
LAST_HOP = "client "
"""Before the name of a measure: the same with the hop to the client counted."""
SERIES_MIN = 5
"""Minutes of a step of Fig. 5."""
FILES = (
    "algorithms",
    "cost_model.py",
    "ground.py",
    "interest.py",
    "move.py",
    "movements.py",
    "play.py",
    "publications.py",
    "tables.py",
    "traffic.py",
    "transfers.py",
    "transfers_kernels.py",
    "tree.py",
    "wandering.py",
)


class Wandering(Setting, frozen=True, kw_only=True):
    """A scenario with everything that decides what it costs."""

    SOURCES: ClassVar[tuple[str, ...]] = (
        "model/topology_generators.py",
        *(f"experiments/mobility/{file}" for file in FILES),
    )

    scenario: Name = "commute"
    clients: int = 800
    algorithms: tuple[str, ...] = DRAWN
    locality: int | None = None
    """Per cent of the clients that have the same interest; None: each has any."""
    log_size: int = 1000
    log_transferred: bool = False
    """Whether a log also has what was sent to the broker because a client came."""
    speed: float = SPEED
    """Messages a second on a link, in each direction."""
    hop_s: float = 0.05
    """Until a message has passed a link."""
    length_h: float = LENGTH_H
    edge: Edge = "reflect"
    publishers: Publishers = "given"
    gap_s: float = 1.0
    """*pervasive*: disconnected between two brokers for so long."""
    routing: Routing = "plain"
    counted: Counted = "hops"
    accuracy: float = 1.0
    """How often the first guess of a destination is right."""
    destinations: int = 1
    """How many guesses there are; a prefetching algorithm uses as many as it says."""
    series: bool = False
    """Also what is sent in every five minutes."""

    def runs(self, asked: int) -> int:
        return min(asked, SERIES_RUNS if self.series else RUNS)

    def ground(self, seed: int) -> Ground:
        return ground(
            self.scenario,
            self.clients,
            seed,
            length_s=self.length_h * HOUR_S,
            locality=self.locality,
            edge=self.edge,
            gap_s=self.gap_s,
            accuracy=self.accuracy,
            destinations=self.destinations,
            publishers=self.publishers,
        )

    def conditions(self) -> Conditions:
        # A hand-off in *pervasive* is a handful of messages: nobody waits for anybody.
        return Conditions(
            speed=self.speed,
            hop_s=self.hop_s,
            log_size=self.log_size,
            log_transferred=self.log_transferred,
            routing=self.routing,
            crowded=self.scenario != "pervasive",
        )

    def measure(self, seed: int) -> Measures:
        found = self.ground(seed)
        measures: Measures = {"moves": float((found.movements.came < found.length_s).sum())}
        for name in self.algorithms:
            played = play(found, ALGORITHMS[name], self.conditions())
            for measure, value in self.measured(found, name, played).items():
                measures[f"{measure}_{name}"] = value
        return measures

    def measured(self, found: Ground, name: str, played: Played) -> Measures:
        """Of one algorithm."""
        algorithm = ALGORITHMS[name]
        home = algorithm.arrival() == "attach"
        edges = self._edges()
        sent = traffic(found, played, edges, home=home, counted=self.counted)
        whole = sent.unicast[-1]
        fetched = found.movements.came[played.fetched]
        waited = played.transfers.end - fetched
        measures: Measures = {
            "overhead": sent.overhead(),
            "unicast": float(whole),
            "multicast": float(sent.multicast[-1]),
            "total": float(whole + sent.multicast[-1]),
            "migration": _percent(sent.parts[MIGRATION], whole),
            "told": _percent(sent.parts[TOLD], whole),
            "event": _percent(sent.parts[EVENT_HOPS], whole),
            "concurrent": 100 * played.transfers.most / self.clients,
            "wait": float(waited.sum()) / max(float((found.movements.came < found.length_s).sum()), 1.0),
            "messages": float(sent.parts[MESSAGES] + sent.relayed),
            "model": predicted(found, algorithm, played),
            "logged": float(played.logged.sum()),
        }
        to_client = {"overhead": sent.with_last_hop().overhead()}
        if self.scenario == "commute":
            measures |= self._peaks(sent, edges)
            to_client |= self._peaks(sent.with_last_hop(), edges)
        measures |= {f"{LAST_HOP}{measure}": value for measure, value in to_client.items()}
        if self.series:
            measures |= self._series(sent, played, edges)
        return measures

    def _edges(self) -> FloatArray:
        """By the half hour where the time of day matters, and by the minute where every one does."""
        length = self.length_h * HOUR_S
        if self.scenario != "commute":
            return np.array([0.0, length])
        return np.arange(0.0, length + 1, MINUTE_S if self.series else HALF_HOUR_S)

    def _peaks(self, sent: Traffic, edges: FloatArray) -> Measures:
        """In the half hour that the paper names, and in the one that has most."""
        halves = np.searchsorted(edges, np.arange(0.0, edges[-1] + 1, HALF_HOUR_S)).tolist()
        overheads = [sent.overhead(first, last) for first, last in pairwise(halves)]
        highest = int(np.argmax(overheads))
        return {
            "peak": overheads[round(2 * (PEAK_H - START_H))],
            "highest": overheads[highest],
            "highest_at": START_H + highest / 2,
        }

    def _series(self, sent: Traffic, played: Played, edges: FloatArray) -> Measures:
        """Fig. 5: hops a minute, in steps, and transfers under way in the middle of each."""
        steps = list(range(0, len(edges) - 1, SERIES_MIN))
        middles = edges[[start + SERIES_MIN // 2 for start in steps]] + MINUTE_S / 2
        clients = under_way(played, middles)
        measures: Measures = {}
        for number, start in enumerate(steps):
            end = min(start + SERIES_MIN, len(edges) - 1)
            for kind, sums in (("unicast", sent.unicast), ("multicast", sent.multicast)):
                measures[f"{kind}_{number:03}"] = float(sums[end] - sums[start]) / (end - start)
            measures[f"transfers_{number:03}"] = float(clients[number])
        return measures


def _percent(part: float, whole: float) -> float:
    return 100 * float(part) / float(whole) if whole else 0.0
