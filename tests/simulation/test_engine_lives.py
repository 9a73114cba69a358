"""The engine of real stores in simulated lives: on files that forget what was not synced, it answers as the simulator's
stores do, whatever becomes of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import pytest

from latecomer.history import Engine, EngineSettings
from latecomer.model.event import Event
from latecomer.model.history import Page, Query, Slice
from latecomer.sim.chaos import Life
from latecomer.sim.history_chaos import HistoryChaos
from latecomer.sim.store import SimStore
from tests.simulation.lossy_store import LossyStoreFiles

SETTINGS = EngineSettings(keep_us=0, segment_us=10_000_000, reserve_bytes=0)
WIDTH_MIN_US = 10_000_000
FIRST = 30
"""From here on every block has a store that loses power."""
SEEDS = 20
BLOCK = 5


@dataclass(slots=True)
class MirroredStore(SimStore):
    """Everything is also done by the engine, and it is the engine that answers."""

    folders: Iterator[Path] = field(kw_only=True)
    closing: ExitStack = field(kw_only=True)
    folder: Path | None = None
    files: LossyStoreFiles = field(default_factory=LossyStoreFiles)
    engine: Engine | None = None
    appended: int = 0
    cuts: int = 0

    def append(self, event: Event) -> bool:
        new = SimStore.append(self, event)
        assert self._open().append([event]) == new, "an event that is kept is not kept twice"
        self.appended += 1
        return new

    def read(self, query: Query, now: int, events_max: int, bytes_max: int) -> Page:
        page = self._open().read(query, now, events_max, bytes_max)
        expected = SimStore.read(self, query, now, events_max, bytes_max)
        shared = min(len(page.events), len(expected.events))
        assert page.events[:shared] == expected.events[:shared]
        assert (page.next is None and not page.events) <= (not expected.events)
        return page

    def survey(self, topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
        assert width_us >= WIDTH_MIN_US
        slices = self._open().survey(topics, since_us, until_us, width_us)
        assert slices == SimStore.survey(self, topics, since_us, until_us, width_us)
        return slices

    def take_back(self, origin: str, epoch: int, after: int, since_us: int) -> int:
        count = self._open().take_back(origin, epoch, after, since_us)
        assert count == SimStore.take_back(self, origin, epoch, after, since_us)
        return count

    def trim(self, before_us: int) -> None:
        """The engine lets go by whole segments, when it sees fit: not here."""

    def crashed(self, random: Random) -> None:
        """The power is gone as well."""
        if self.engine is not None:
            into = next(self.folders)
            self.files.cut(into, Random(self.appended))
            self.engine, self.folder, self.files = None, into, LossyStoreFiles()
            self.cuts += 1

    def _open(self) -> Engine:
        if self.engine is None:
            self.folder = self.folder or next(self.folders)
            self.engine = Engine.open(self.folder, SETTINGS, vfs=self.files)
            self.closing.callback(self.engine.close)
        return self.engine


def lived(seed: int, folder: Path) -> tuple[Life, list[MirroredStore]]:
    folders = (folder / str(number) for number in count())
    stores: list[MirroredStore] = []
    with ExitStack() as closing:

        def new_store() -> SimStore:
            stores.append(MirroredStore(folders=folders, closing=closing))
            return stores[-1]

        return HistoryChaos(seed, None, new_store).run(), stores


@pytest.mark.parametrize("start", range(FIRST, FIRST + SEEDS, BLOCK))
def test_the_engine_keeps_the_promises(start: int, tmp_path: Path) -> None:
    appended = cuts = 0
    for seed in range(start, start + BLOCK):
        life, stores = lived(seed, tmp_path / str(seed))
        assert [str(violation) for violation in life.violations] == [], f"seed {seed}"
        appended += sum(store.appended for store in stores)
        cuts += sum(store.cuts for store in stores)
    assert appended > 100
    assert cuts
