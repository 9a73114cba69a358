"""The broker's disk by example: what is written is found, in what order it is reported, and where it ends."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from latecomer.core.effects import Drop, Put, Trim
from latecomer.core.tables import TABLES
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime import disk as disk_module
from latecomer.runtime.disk import Disk, DiskFailed, DiskFull, Durability
from latecomer.runtime.disk_rows import SqliteEngine

TYPES = {"outbox": bytes, "client": int}


def contents(folder: Path) -> object:
    with Disk.open(folder, TYPES) as disk:
        assert disk.problems == []
        return disk.take()


# --- what is written is found ---


@pytest.mark.parametrize("durability", [Durability.POWER, Durability.PROCESS])
def test_what_is_written_is_found(durability: Durability, tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES, durability) as disk:
        assert disk.take() == {}
        disk.write([Put("outbox", "", 1, b"one"), Put("outbox", "", 2, b"two"), Put("client", "", "ann", 1)]).result()
        disk.write([Put("client", "", "ann", 2), Drop("outbox", "", 2)]).result()
    assert contents(tmp_path / "data") == {"outbox": {"": {1: b"one"}}, "client": {"": {"ann": 2}}}


def test_tables_are_released(tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write([Put("client", "", "ann", 1)]).result()
    with Disk.open(tmp_path / "data", TYPES) as disk:
        assert disk.take() == {"client": {"": {"ann": 1}}}
        assert disk.tables == {}


def test_names_are_any_text_and_numbers_are_no_names(tmp_path: Path) -> None:
    names = ["", "../../x", "a\0b", "a\0", "Ann", "ann", "ＡNN", "é", "e\u0301", "x" * 5000, "%", "'; DROP TABLE row"]
    rows: list[Put | Drop | Trim] = [Put("client", name, key, i) for i, name in enumerate(names) for key in (name, 7)]
    rows.append(Put("client", "", "7", -1))
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write(rows).result()
    expected: dict[str, dict[int | str, int]] = {name: {name: i, 7: i} for i, name in enumerate(names)}
    expected[""]["7"] = -1
    assert contents(tmp_path / "data") == {"client": expected}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["broker.db", "data", "lock"]


def test_trim_takes_numbers_below_and_no_names(tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write([Put("client", "g", key, 0) for key in (-5, 1, 2, 3, "1", "z")]).result()
        disk.write([Put("client", "h", 1, 0), Trim("client", "g", 3)]).result()
    assert contents(tmp_path / "data") == {"client": {"g": {3: 0, "1": 0, "z": 0}, "h": {1: 0}}}


def test_writes_of_one_batch_count_in_order(tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write([Put("client", "", 1, 1), Put("client", "", 2, 1)]).result()
        disk.write(
            [
                Trim("client", "", 5),
                Put("client", "", 1, 2),
                Put("client", "", 3, 2),
                Trim("client", "", 3),
                Put("client", "", 4, 2),
                Drop("client", "", 4),
                Drop("client", "", 5),
                Put("client", "", 5, 2),
            ]
        ).result()
    assert contents(tmp_path / "data") == {"client": {"": {3: 2, 5: 2}}}


def test_more_rows_than_a_statement_holds(tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write([Put("client", "", key, key) for key in range(5000)]).result()
        disk.write([Drop("client", "", key) for key in range(0, 5000, 2)]).result()
    assert contents(tmp_path / "data") == {"client": {"": {key: key for key in range(1, 5000, 2)}}}


def test_the_tables_of_the_core(tmp_path: Path) -> None:
    event = Event(EventId("b1", 1, 2), "a/b", "c", 3, True, payload=b"payload")
    with Disk.open(tmp_path / "data", TABLES) as disk:
        disk.write([Put("outbox", "", 2, event), Put("parked", "", 2, ("b2",)), Put("seen", "", "b1", (1, 2))]).result()
    with Disk.open(tmp_path / "data", TABLES) as disk:
        assert disk.take() == {"outbox": {"": {2: event}}, "parked": {"": {2: ("b2",)}}, "seen": {"": {"b1": (1, 2)}}}


def test_a_value_is_taken_as_it_is_now(tmp_path: Path) -> None:
    value = [1]
    with Disk.open(tmp_path / "data", {"t": list[int]}) as disk:
        future = disk.write([Put("t", "", 1, value)])
        value.append(2)
        future.result()
    with Disk.open(tmp_path / "data", {"t": list[int]}) as disk:
        assert disk.take() == {"t": {"": {1: [1]}}}


def test_what_cancels_out_does_not_touch_the_disk(tmp_path: Path) -> None:
    with Disk.open(tmp_path / "data", TYPES) as disk:
        disk.write([Put("client", "", 0, 0)]).result()
        journal = tmp_path / "data" / "broker.db-wal"
        before = journal.read_bytes()
        disk.write([Put("client", "", 1, 1), Drop("client", "", 1), Put("client", "", 2, 1), Trim("client", "", 0)])
        disk.write([Drop("client", "", 2)]).result()
        disk.write([Put("client", "", 1, 1), Drop("client", "", 1)]).result()
        if len(journal.read_bytes()) != len(before):  # the first two may have been two batches
            before = journal.read_bytes()
            disk.write([Put("client", "", 3, 1), Drop("client", "", 3)]).result()
        assert journal.read_bytes() == before


def test_the_journal_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "CHECKPOINT_PAGES", 20)
    with Disk.open(tmp_path / "data", TYPES) as disk:
        for number in range(2000):
            disk.write([Put("outbox", "", number % 50, bytes(500))]).result()
        assert (tmp_path / "data" / "broker.db-wal").stat().st_size < 2 * 1024 * 1024


def test_a_table_without_a_type_is_our_mistake(tmp_path: Path) -> None:
    """It could not be read again."""
    with Disk.open(tmp_path / "data", TYPES) as disk, pytest.raises(AssertionError, match="other"):
        disk.write([Put("other", "", 1, 1)])


# --- lives ---


def test_every_opening_has_a_larger_boot(tmp_path: Path) -> None:
    boots = []
    for now in (1000, 500, 500, 5000, 10):
        with Disk.open(tmp_path / "data", TYPES, clock_us=lambda now=now: now) as disk:  # type: ignore[misc]
            boots.append(disk.boot)
    assert boots == [1000, 1001, 1002, 5000, 5001]


def test_without_durability_nothing_is_kept(tmp_path: Path) -> None:
    answers: list[Exception | None] = []
    with Disk.open(tmp_path / "data", TYPES, Durability.NONE, clock_us=lambda: 77) as disk:
        disk.submit([Put("client", "", "ann", 1)], answers.append)
        assert answers == [None]
        assert disk.write([Put("client", "", "ann", 1)]).done()
        assert disk.boot == 77
        assert disk.space() > 0
        assert disk.waiting == 0
    assert list(tmp_path.iterdir()) == []


# --- reports ---


def test_reports_come_in_order_and_once_per_batch(tmp_path: Path) -> None:
    calls = 0
    seen: list[int] = []
    threads = set()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()

        def deliver(report: object) -> None:
            nonlocal calls
            calls += 1
            loop.call_soon_threadsafe(report)  # type: ignore[arg-type]

        def done(number: int, error: Exception | None) -> None:
            assert error is None
            seen.append(number)
            threads.add(threading.current_thread())
            if number == 499:
                finished.set()

        with Disk.open(tmp_path / "data", TYPES) as disk:
            disk.deliver = deliver
            for number in range(500):
                disk.submit([Put("client", "", number, number)], lambda error, n=number: done(n, error))  # type: ignore[misc]
            await finished.wait()
            assert disk.waiting == 0

    asyncio.run(story())
    assert seen == list(range(500))
    assert threads == {threading.current_thread()}
    assert calls < 250


def test_closing_commits_what_was_submitted(tmp_path: Path) -> None:
    disk = Disk.open(tmp_path / "data", TYPES)
    futures = [disk.write([Put("client", "", number, number)]) for number in range(3000)]
    disk.close()
    disk.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert contents(tmp_path / "data") == {"client": {"": {number: number for number in range(3000)}}}
    assert not (tmp_path / "data" / "broker.db-wal").exists()


class SmallEngine(SqliteEngine):
    """Has no room for large values while `full`."""

    full = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._execute = self.execute
        self.execute = self._run

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
        if self.full and any(isinstance(value, bytes) and len(value) > 100 for value in values):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._execute(sql, values)


def test_nothing_is_written_past_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was submitted before a refusal was heard is refused as well, and can be submitted again in order."""
    reports: SimpleQueue[Callable[[], None]] = SimpleQueue()
    answers: list[Exception | None] = []
    disk = Disk.open(tmp_path / "data", TYPES, connect=SmallEngine)
    disk.deliver = reports.put
    disk.submit([Put("outbox", "", 1, bytes(200)), Put("client", "", "ann", 1)], answers.append)
    first = reports.get()
    disk.submit([Put("client", "", "ann", 2)], answers.append)
    second = reports.get()
    first()
    disk.submit([Put("client", "", "ann", 3)], answers.append)
    third = reports.get()
    second()
    third()
    assert [type(answer) for answer in answers] == [DiskFull] * 3
    monkeypatch.setattr(SmallEngine, "full", False)
    disk.submit([Put("outbox", "", 1, bytes(200)), Put("client", "", "ann", 1)], answers.append)
    disk.submit([Put("client", "", "ann", 2)], answers.append)
    disk.close()
    while not reports.empty():
        reports.get()()
    assert answers[3:] == [None, None]
    assert contents(tmp_path / "data") == {"outbox": {"": {1: bytes(200)}}, "client": {"": {"ann": 2}}}


# --- room ---


def test_the_reserve_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        f_frsize = 4096
        f_blocks = 1_000_000
        f_bavail = 20_000

    monkeypatch.setattr(os, "statvfs", lambda path: Found)
    monkeypatch.setattr(disk_module, "LOOK_EVERY_S", 0)
    with Disk.open(tmp_path / "data", TYPES) as disk:
        assert disk.space() == 20_000 * 4096 - 64 * 1024 * 1024
        Found.f_blocks = 100_000  # 2 % are less than 64 MiB
        assert disk.space() == 18_000 * 4096
        Found.f_bavail = 2_000
        assert disk.space() == 0
        assert disk.write([Put("client", "", 1, 1)]).exception() is None  # work under way goes on
    with Disk.open(tmp_path / "other", TYPES, reserve_bytes=1) as disk:
        assert disk.space() == 2_000 * 4096 - 1


LIMITED = """
import resource, sys
from pathlib import Path
from latecomer.core.effects import Put
from latecomer.runtime.disk import Disk, DiskFailed
disk = Disk.open(Path(sys.argv[1]), {"t": bytes})
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
number = 0
while (error := disk.write([Put("t", "", number, bytes(10_000))]).exception()) is None:
    number += 1
again = disk.write([Put("t", "", number, b"")]).exception()
disk.close()
print(number, type(error).__name__, type(again).__name__)
"""


def test_a_file_that_may_not_grow_stops_the_disk(tmp_path: Path) -> None:
    """The error of a limit (EFBIG) is no lack of room that passes; what was acknowledged is there afterwards."""
    assert hasattr(resource, "RLIMIT_FSIZE")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "data")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    number, error, again = done.stdout.split()
    assert (error, again) == (DiskFailed.__name__, DiskFailed.__name__)
    assert int(number) > 10
    assert (tmp_path / "data" / "broker.db-wal").stat().st_size > 0, "a failed disk was tidied up"
    with Disk.open(tmp_path / "data", {"t": bytes}) as disk:
        assert set(range(int(number))) <= set(disk.take()["t"][""])
        assert disk.problems == []


def test_a_full_file_system_refuses_and_goes_on(tmp_path: Path) -> None:
    """On a real small file system, where this user may make one."""
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("only root can mount a file system")
    try:
        with Disk.open(small / "data", TYPES) as disk:
            number = 0
            while (error := disk.write([Put("outbox", "", number, bytes(20_000))]).exception()) is None:
                number += 1
            assert isinstance(error, DiskFull)
            assert disk.space() <= 0
            assert isinstance(disk.write([Put("outbox", "", number, bytes(20_000))]).exception(), DiskFull)
            subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True, capture_output=True)
            assert disk.write([Put("outbox", "", number, bytes(20_000))]).exception() is None
        with Disk.open(small / "data", TYPES) as disk:
            assert sorted(disk.take()["outbox"][""], key=int) == list(range(number + 1))
            assert disk.problems == []
    finally:
        subprocess.run(["umount", str(small)], check=True, capture_output=True)
