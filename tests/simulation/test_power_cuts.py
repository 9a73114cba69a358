"""The disk when the power goes, when there is no room, and when writing or syncing fails: at every moment."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import apsw
import pytest

from latecomer.core.effects import Drop, Put, Trim
from latecomer.model.errors import SettingsError
from latecomer.runtime import disk as disk_module
from latecomer.runtime.disk import Disk, DiskFailed, DiskFull, Durability
from latecomer.sim.disk import Disk as SimDisk
from tests.simulation.lossy_disk import ApswEngine, LossyFiles, LossyVFS, broken, broken_sync, full

TYPES = {"mailbox": bytes, "client": int, "outbox": str}
CUTS = 40 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))
SUBMISSIONS = 120

Writes = list[Put | Drop | Trim]


def random_writes(random: Random) -> Writes:
    writes: Writes = []
    for _ in range(random.randint(1, 4)):
        group = f"c{random.randrange(3)}"
        match random.randrange(5):
            case 0:
                writes.append(Drop("outbox", "", random.randrange(30)))
            case 1:
                writes.append(Trim("mailbox", group, random.randrange(40)))
                writes.append(Put("client", "", group, random.randrange(1000)))
            case 2:
                size = random.choice((10, 300, 6000))
                writes.append(Put("mailbox", group, random.randrange(60), random.randbytes(size)))
            case _:
                writes.append(Put("outbox", "", random.randrange(30), "o" * random.randrange(900)))
    return writes


@dataclass(slots=True)
class Story:
    """A disk on lossy files, what it was given, and what it said."""

    folder: Path
    durability: Durability = Durability.POWER
    files: LossyFiles = field(default_factory=LossyFiles)
    vfs: LossyVFS = field(init=False)
    disk: Disk = field(init=False)
    given: list[Writes] = field(default_factory=list)
    answers: list[BaseException | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vfs = LossyVFS(self.files)
        connect = partial(ApswEngine, vfs=self.vfs)
        self.disk = Disk.open(self.folder, TYPES, self.durability, connect=connect, clock_us=lambda: 0)

    def tell(self, random: Random, submissions: int) -> None:
        """Submit in bursts, until all is told or the disk has failed."""
        while len(self.given) < submissions:
            futures = []
            for _ in range(random.randint(1, 4)):
                self.given.append(random_writes(random))
                futures.append(self.disk.write(self.given[-1]))
            for future in futures:
                self.answers.append(future.exception())
            if isinstance(self.answers[-1], DiskFailed):
                break

    def found(self, into: Path) -> SimDisk:
        """The state after a power cut; every row is sound, and the life is a later one even without a clock."""
        with Disk.open(into, TYPES, clock_us=lambda: 0) as disk:
            assert disk.boot > self.disk.boot
            assert [problem for problem in disk.problems if problem.table] == []
            return SimDisk(disk.take())

    @property
    def acknowledged(self) -> int:
        """How many submissions from the first on were."""
        return next((i for i, answer in enumerate(self.answers) if answer is not None), len(self.answers))

    def prefix_of(self, state: SimDisk) -> int | None:
        """After how many submissions the disk looked like this; the last such number, None if it never did."""
        model = SimDisk()
        matching = 0 if same(model, state) else None
        for number, writes in enumerate(self.given, 1):
            model.apply(writes)
            if same(model, state):
                matching = number
        return matching


def same(left: SimDisk, right: SimDisk) -> bool:
    """Tables without groups are none."""
    return {k: v for k, v in left.tables.items() if v} == {k: v for k, v in right.tables.items() if v}


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "CHECKPOINT_PAGES", 40)


def cut(folder: Path, seed: int, durability: Durability) -> tuple[Story, int | None]:
    """Run into a power cut; the story, and after how many submissions the disk was as it is found afterwards."""
    random = Random(seed)
    story = Story(folder / f"{seed}", durability)
    goes_at = story.files.operations + random.randrange(20, 500)
    story.files.fault = lambda number, kind: broken() if number >= goes_at else None
    story.tell(random, SUBMISSIONS)
    story.files.fault = lambda number, kind: broken()
    story.disk.close()
    after = folder / f"{seed}-after"
    story.files.cut(after, random)
    return story, story.prefix_of(story.found(after))


@pytest.mark.parametrize("seed", range(CUTS))
def test_a_power_cut_loses_nothing_acknowledged(seed: int, tmp_path: Path) -> None:
    story, found = cut(tmp_path, seed, Durability.POWER)
    assert found is not None, "the state is none that ever was: a transaction was torn"
    assert found >= story.acknowledged


def test_without_sync_a_power_cut_loses_and_is_seen_to(tmp_path: Path) -> None:
    """The harness would notice: with durability `process` acknowledged writes go. What stays is still consistent."""
    lost = 0
    for seed in range(10):
        story, found = cut(tmp_path, seed, Durability.PROCESS)
        assert found is not None
        lost += max(0, story.acknowledged - found)
    assert lost > 0


def test_the_cuts_cover_checkpoints_and_commits(tmp_path: Path) -> None:
    """Guards the guard: the file itself is written during a story, not only its journal."""
    story = Story(tmp_path / "disk")
    story.tell(Random(1), SUBMISSIONS)
    before = len(story.files.durable[str(tmp_path / "disk" / "broker.db")])
    assert before > 4096 * 10
    assert story.files.kinds.count("sync") > SUBMISSIONS // 4
    story.disk.close()


# --- no room ---


def full_once(at: int, number: int, kind: str) -> apsw.Error | None:
    return full() if number == at and kind != "sync" else None


def test_no_room_at_any_write_is_said_and_survived(tmp_path: Path) -> None:
    dry = Story(tmp_path / "dry")
    begin = dry.files.operations
    dry.tell(Random(5), 25)
    end = dry.files.operations
    dry.disk.close()
    refused = 0
    for at in range(begin + 1, end + 1):
        story = Story(tmp_path / f"{at}")
        story.files.fault = partial(full_once, at)
        story.tell(Random(5), 25)
        assert {type(answer) for answer in story.answers} <= {type(None), DiskFull}, repr(story.answers[-1])
        refused += sum(answer is not None for answer in story.answers)
        story.disk.close()
        model = SimDisk()
        for writes, answer in zip(story.given, story.answers, strict=True):
            if answer is None:
                model.apply(writes)
        assert same(story.found(tmp_path / f"{at}"), model)
    assert refused > 0


def test_what_was_refused_for_room_can_be_submitted_again(tmp_path: Path) -> None:
    story = Story(tmp_path / "disk")
    story.files.fault = lambda number, kind: full() if kind != "sync" else None
    writes: Writes = [Put("outbox", "", 1, "x"), Drop("outbox", "", 2)]
    assert isinstance(story.disk.write(writes).exception(), DiskFull)
    assert isinstance(story.disk.write(writes).exception(), DiskFull)
    story.files.fault = lambda number, kind: None
    assert story.disk.write(writes).exception() is None
    story.disk.close()
    assert story.found(tmp_path / "disk").tables == {"outbox": {"": {1: "x"}}}


def test_no_room_to_open_is_a_sentence(tmp_path: Path) -> None:
    files = LossyFiles()
    files.fault = lambda number, kind: full() if kind != "sync" else None
    with pytest.raises(SettingsError, match=r"data: .* has no room left"):
        Disk.open(tmp_path / "disk", TYPES, connect=partial(ApswEngine, vfs=LossyVFS(files)))


# --- failure ---


def fail_at(at: int, number: int, kind: str) -> apsw.Error | None:
    """That operation fails and no other: a second attempt would seem to succeed."""
    if number != at:
        return None
    return broken_sync() if kind == "sync" else broken()


def test_a_failed_write_or_sync_stops_the_disk_for_good(tmp_path: Path) -> None:
    dry = Story(tmp_path / "dry")
    begin = dry.files.operations
    dry.tell(Random(6), 25)
    end = dry.files.operations
    dry.disk.close()
    for at in range(begin + 1, end + 1):
        story = Story(tmp_path / f"{at}")
        story.files.fault = partial(fail_at, at)
        story.tell(Random(6), 25)
        last = story.disk.write([Put("client", "", "last", 1)]).exception()
        assert isinstance(last, DiskFailed)
        after_failure = story.files.operations
        story.disk.close()
        assert story.files.operations == after_failure, "a failed disk was touched again"
        story.files.cut(tmp_path / f"{at}-after", Random(at))
        found = story.prefix_of(story.found(tmp_path / f"{at}-after"))
        assert found is not None
        assert found >= story.acknowledged


def test_an_error_while_opening_or_closing_harms_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path / "disk")
    story.tell(Random(7), 20)
    story.files.cut(tmp_path / "cut", Random(1))  # with a journal, so that opening has something to do
    story.disk.close()
    refused = failed = 0
    for at in range(1, 1000):
        folder = shutil.copytree(tmp_path / "cut", tmp_path / f"{at}")
        files = LossyFiles(fault=partial(fail_at, at))
        try:
            disk = Disk.open(folder, TYPES, connect=partial(ApswEngine, vfs=LossyVFS(files)))
        except SettingsError as error:
            assert error.key == "data"  # noqa: PT017
            refused += 1
        else:
            disk.close()
            failed += disk.failed is not None
        state = story.found(shutil.copytree(folder, tmp_path / f"{at}-after"))
        assert same(state, story.found(tmp_path / "disk"))
        if files.operations < at:
            break
    assert refused > 0
    assert failed > 0
