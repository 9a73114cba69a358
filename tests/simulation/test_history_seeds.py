"""Fault seeds of late subscribers and stores in bulk, and a look at what they draw: a generator that never breaks
anything proves nothing (P12)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import V5, V311
from latecomer.model.record import Kind, Record
from latecomer.sim.chaos import Life
from latecomer.sim.disk import Disk
from latecomer.sim.history_chaos import HistoryChaos, live_history
from latecomer.sim.history_ledger import Episode
from latecomer.sim.soak import judge
from latecomer.sim.transcript import Digest, message_name
from tests.simulation.blocks import blocks
from tests.simulation.test_mqtt_seeds import told

SEEDS, FEW = 100, 20
"""With LATECOMER_TEST_ALL=1, and without."""
BLOCK = 10
DRAWS = 150
"""Seeds within which everything that can happen has."""
TRAVELS = range(100, 110)
"""Lives of readers that move: ten in a row, of which some have many moves and some few."""
DIGESTED = (1, 4)

PRINT_DIGESTS = """
import sys
from latecomer.sim.history_chaos import live_history
from latecomer.sim.transcript import Digest
for seed in map(int, sys.argv[1:]):
    digest = Digest()
    live_history(seed, digest)
    print(digest.value())
"""


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [verdict for seed in range(start, start + BLOCK) if (verdict := judge(seed, "history")).violations]
    assert not failed, "\n".join(map(told, failed))


def test_the_same_in_processes_that_hash_differently() -> None:
    printed = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", PRINT_DIGESTS, *map(str, DIGESTED)]
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True, timeout=300)
        printed.append(done.stdout.splitlines())
    here = []
    for seed in DIGESTED:
        digest = Digest()
        live_history(seed, digest)
        here.append(digest.value())
    assert printed == [here, here]
    assert len(set(here)) == len(DIGESTED), "different seeds are different runs"


# -- the generator -----------------------------------------------------------------------------------------------------


class Watched(HistoryChaos):
    """A life that counts what happens in it."""

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.seen = seen
        super().__init__(seed, None)
        self.world.observe(self)

    def _fault(self, kind: str) -> None:
        self.seen[f"fault {kind}"] += 1
        super()._fault(kind)

    def noted(self, record: Record) -> None:
        self.seen[record.kind] += 1
        if record.kind is Kind.TABLED:
            self.seen[f"{record.kind} {record.detail}"] += 1

    def sent(self, now: int, sender: str, receiver: str, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            self.seen[message_name(type(frame))] += 1

    def crashed(self, broker: str, disk: Disk, keeps_disk: bool) -> None:
        self.seen["crash"] += 1

    def run(self) -> Life:
        life = super().run()
        ledger = self.ledger
        self.seen["complete"] += ledger.complete
        self.seen["incomplete"] += ledger.incomplete
        self.seen["plain answers"] += self.questions.answered
        self.seen["moved"] += self.moves.count
        self.seen["asked at its return"] += self.returns.asked
        for episodes in ledger.episodes.values():
            for episode in episodes:
                self._count(episode)
        return life

    def _count(self, episode: Episode) -> None:
        seen, stretch = self.seen, episode.wish.stretch
        seen[f"version {episode.client.version}"] += 1
        seen[f"QoS {episode.wish.qos}"] += 1
        seen["asked again"] += episode.asks > 1
        if stretch is None:
            seen["live only"] += 1
            return
        for name in ("since_us", "ago_us", "until_us", "last"):
            seen[name] += getattr(stretch, name) > 0
        if 0 < episode.marker_index < len(episode.arrivals):
            seen["history and live"] += 1
        if episode.marker is not None:
            seen["several stores"] += len(episode.marker.stores) > 1
            seen["far away"] += episode.marker.hops > 1


EXPECTED = {
    *(f"fault {kind}" for kind in Watched(0, Counter())._faults),
    *(f"version {version}" for version in (V311, V5)),
    *("QoS 0", "QoS 1", "QoS 2", "asked again", "live only", "since_us", "ago_us", "until_us", "last"),
    *("history and live", "several stores", "far away", "complete", "incomplete", "plain answers", "crash", "moved"),
    "asked at its return",
    *(Kind.KEEPING, Kind.NOT_KEEPING, Kind.REQUESTED, Kind.SERVED, Kind.RECALLED, Kind.REPLAYED, Kind.DROPPED),
    *(f"tabled {verdict}" for verdict in ("closer", "equal", "further", "withdrawn")),
    *("store-advertise", "store-withdraw", "settled", "request", "response", "response-end", "credit"),
    *("keeping", "compare", "compared"),
}


@pytest.mark.parametrize("part", [0.9, pytest.param(1.0, marks=pytest.mark.long)])
def test_everything_that_can_go_wrong_does(part: float) -> None:
    """Every fault strikes, every message about the past travels, and every way of asking is taken. A few seeds draw
    most of that; the rarest needs many, so all of it is a long test."""
    seen: Counter[str] = Counter()
    for seed in range(DRAWS):
        Watched(seed, seen).run()
        missing = sorted(name for name in EXPECTED if not seen[name])
        if len(missing) <= (1 - part) * len(EXPECTED):
            break
    else:
        pytest.fail(f"not within {DRAWS} seeds: {missing}")
    assert seen["complete"] > seen["incomplete"], "most answers can be held to their word"


def test_histories_go_on_where_their_readers_go() -> None:
    under_way = 0
    for seed in TRAVELS:
        life = HistoryChaos(seed, None, travelling=True)
        assert not life.run().violations, f"seed {seed}"
        under_way += life.travels.under_way
    assert under_way >= len(TRAVELS), "most readers should move while their history is replayed"
