"""The process that writes the event log: records and runs in, segments out, and nothing lost that it took."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from latecomer.eventlog import Files, Keep, SegmentWriter, apart, read_records
from latecomer.messages.mqtt import V5, V311, Publish
from latecomer.model.record import Kind, Record
from latecomer.runtime.journal import COMMAND
from latecomer.runtime.journal_process import (
    HEAD_BYTES,
    PART_ROWS,
    Frames,
    Item,
    Orders,
    Segments,
    Status,
    opened,
)
from latecomer.wire.mqtt import encode


def records(count: int, start_us: int = 0, broker: str = "b1") -> list[Record]:
    return [
        Record(at_us, broker, Kind.DELIVERED, f"b1.1.{at_us}", "c", "a/b", hops=1)
        for at_us in range(start_us, start_us + count)
    ]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def orders(directory: Path, **changes: Any) -> Orders:
    given = Orders(os.fsencode(directory), "b1", 1, rows_max=100_000, seconds_max=60.0, keep=Keep(), retry_s=5.0)
    return msgspec.structs.replace(given, **changes)


class Bench:
    """Segments with a clock by hand, and everything they reported."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.now = 0.0
        self.reports: list[Status] = []
        self.segments = Segments(orders(directory, **changes), self.reports.append, lambda: self.now)

    def take(self, items: list[Record]) -> None:
        self.segments.take([*items])

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.segments.tend()


# --- segments ---


def test_what_is_taken_is_written_and_reported(tmp_path: Path) -> None:
    bench, given = Bench(tmp_path), records(2 * PART_ROWS + 7)
    bench.take(given[:10])
    bench.take(given[10:])
    assert bench.reports == []
    assert bench.segments.finish()
    assert bench.segments.finish()
    assert list(read_records(tmp_path)) == given
    assert bench.reports[-1] == Status(settled=len(given), written=len(given))
    assert len(names(tmp_path)) == 1


def test_nothing_taken_nothing_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.later(1000)
    assert bench.segments.wait_s() is None
    assert bench.segments.finish()
    assert (names(tmp_path), bench.reports) == ([], [])


def test_segments_by_rows(tmp_path: Path) -> None:
    bench, given = Bench(tmp_path, rows_max=700), records(2000)
    bench.take(given[:699])
    assert names(tmp_path) == []
    bench.take(given[699:])
    assert len(names(tmp_path)) == 2
    assert bench.segments.status == Status(settled=699, written=1400), "the second batch is not settled in part"
    assert bench.segments.finish()
    assert len(names(tmp_path)) == 3
    assert list(read_records(tmp_path)) == given
    assert bench.segments.status == Status(settled=2000, written=2000)


def test_segments_by_bytes(tmp_path: Path) -> None:
    """Rows may be long: a hundred thousand of them are no bound on memory or on a file."""
    bench = Bench(tmp_path, bytes_max=1)
    bench.take(records(PART_ROWS - 1))
    assert names(tmp_path) == [], "rows are looked at when there are enough of them to be packed"
    bench.take(records(PART_ROWS + 2, PART_ROWS - 1))
    assert len(names(tmp_path)) == 2
    assert bench.segments.finish()
    assert len(names(tmp_path)) == 3
    assert list(read_records(tmp_path)) == records(2 * PART_ROWS + 1)


def test_nobody_else_can_read_the_log(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bench = Bench(tmp_path / "log")
        bench.take(records(1))
        assert bench.segments.finish()
    finally:
        os.umask(before)
    (segment,) = (tmp_path / "log").iterdir()
    assert (segment.parent.stat().st_mode & 0o777, segment.stat().st_mode & 0o777) == (0o700, 0o600)


def test_segments_by_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.later(100)
    bench.take(records(3))
    assert bench.segments.wait_s() == 60
    bench.later(59)
    bench.take(records(1, 3))
    assert (bench.segments.wait_s(), names(tmp_path)) == (1, [])
    bench.later(1)
    assert list(read_records(tmp_path)) == records(4)
    bench.take(records(2, 4))
    assert bench.segments.wait_s() == 60
    bench.later(60)
    assert len(names(tmp_path)) == 2
    assert bench.segments.status == Status(settled=6, written=6)


def test_names_are_those_of_the_segment_writer(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "journal", broker="b/é", boot=12)
    bench.take(records(2, 77))
    assert bench.segments.finish()
    with SegmentWriter(tmp_path / "writer", "b/é", boot=12) as writer:
        writer.extend(records(2, 77))
    assert names(tmp_path / "journal") == names(tmp_path / "writer")


def test_a_life_continues_and_the_next_replaces_nothing(tmp_path: Path) -> None:
    for boot in (1, 1, 2):
        bench = Bench(tmp_path, boot=boot)
        bench.take(records(2))
        assert bench.segments.finish()
    assert len(list(read_records(tmp_path))) == 6
    assert [name.rpartition("-")[2] for name in names(tmp_path)] == [
        "00000001.parquet",
        "00000002.parquet",
        "00000001.parquet",
    ]


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Keep(), 6),
        (Keep(segments=2), 2),
        (Keep(segments=9), 6),
        (Keep(bytes=1), 1),
        (Keep(bytes=1 << 30), 6),
        (Keep(seconds=3), 4),
        (Keep(seconds=100, segments=3), 3),
    ],
)
def test_old_segments_go(tmp_path: Path, keep: Keep, left: int) -> None:
    """Six segments, one each second; what belongs to others stays."""
    other = Bench(tmp_path, broker="b2")
    other.take(records(1, broker="b2"))
    assert other.segments.finish()
    (tmp_path / "notes-of-somebody.parquet").touch()
    for second in range(6):
        bench = Bench(tmp_path, boot=second, keep=keep)
        bench.take(records(10, second * 1_000_000))
        assert bench.segments.finish()
    (tmp_path / "notes-of-somebody.parquet").unlink()
    found = [record for record in read_records(tmp_path) if record.broker == "b1"]
    assert found == [record for second in range(6 - left, 6) for record in records(10, second * 1_000_000)]
    assert len(names(tmp_path)) == left + 1


# --- what goes wrong ---


def broken(number: int) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, rows_max=10)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", broken(errno.ENOSPC))
        bench.take(records(25))
        assert bench.segments.full
        assert bench.segments.wait_s() == 5
        bench.later(4)
        assert bench.segments.status.failures == 1, "it does not try all the time"
        bench.later(1)
        assert bench.segments.status.failures == 2
        assert "No space left on device; make room" in bench.segments.status.problem
        assert names(tmp_path) == []
    bench.later(5)
    assert not bench.segments.full
    assert bench.segments.status == Status(written=20, failures=2)
    assert bench.segments.finish()
    assert list(read_records(tmp_path)) == records(25)
    assert bench.segments.status == Status(settled=25, written=25, failures=2)


def test_a_disk_that_stays_full_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", broken(errno.ENOSPC))
    bench = Bench(tmp_path, retry_s=0.001)
    bench.take(records(25))
    assert not bench.segments.finish()
    assert (bench.segments.status.settled, names(tmp_path)) == (0, [])


def test_a_file_that_the_next_life_took_for_a_remnant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker was killed and is back, while the process of its former life still writes."""
    bench = Bench(tmp_path, retry_s=0.001)
    bench.take(records(3))
    link = os.link

    def link_too_late(*paths: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        Files(tmp_path, "b1", 2)
        link(*paths)

    monkeypatch.setattr(os, "link", link_too_late)
    assert bench.segments.finish()
    assert bench.segments.status.failures == 1
    assert list(read_records(tmp_path)) == records(3)


def test_a_directory_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    bench = Bench(tmp_path / "log", rows_max=1)
    bench.take(records(1))
    assert "cannot be used as an event log" in bench.segments.status.problem
    (tmp_path / "log").unlink()
    bench.later(5)
    assert list(read_records(tmp_path / "log")) == records(1)


def test_a_record_that_no_column_takes_is_lost_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    unfit = Record(0, "b1", Kind.STARTED, hops=1 << 40)
    bench.take([*records(5), unfit, *records(3, 5)])
    assert bench.segments.finish()
    assert list(read_records(tmp_path)) == records(8)
    assert bench.segments.status == Status(settled=9, written=8, lost=1)
    bench.take([unfit])
    assert bench.segments.finish()
    assert bench.segments.status == Status(settled=10, written=8, lost=2)


# --- runs ---


def published(*words: str, version: int = V311, qos: int = 0, size: int = 3) -> bytes:
    return b"".join(encode(Publish(word, b"x" * size, qos=qos, packet_id=7 if qos else 0), version) for word in words)


def counted(items: list[Item]) -> list[tuple[int, str, str, str, int]]:
    return [(r.at_us, r.kind.value, r.client, r.topic, r.count) for r in opened(items, "b1")]


def test_a_run_of_one_topic() -> None:
    assert counted([("c", b"a/b", 17, 3, 99)]) == [(99, "published", "c", "a/b", 17), (99, "delivered", "", "a/b", 51)]
    assert counted([("c", b"a/b", 17, 0, 99)]) == [(99, "published", "c", "a/b", 17)]
    assert counted([("", b"a/b", 17, 1, 99)]) == [(99, "delivered", "", "a/b", 17)]


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("size", [0, 100, 128, 20_000])
def test_a_run_of_many_topics(version: int, qos: int, size: int) -> None:
    frames = published("a", "é/b", "a", "a", version=version, qos=qos, size=size)
    assert counted([("c", frames, 2, 5)]) == [
        (5, "published", "c", "a", 3),
        (5, "published", "c", "é/b", 1),
        (5, "delivered", "", "a", 6),
        (5, "delivered", "", "é/b", 2),
    ]


def test_runs_of_one_instant_are_merged() -> None:
    assert counted([("c", b"a", 1, 2, 5), ("d", b"a", 1, 2, 5), ("c", published("a", "b"), 1, 5)]) == [
        (5, "published", "c", "a", 2),
        (5, "published", "d", "a", 1),
        (5, "published", "c", "b", 1),
        (5, "delivered", "", "a", 5),
        (5, "delivered", "", "b", 1),
    ]
    assert counted([("c", b"a", 1, 0, 5), ("c", b"a", 1, 0, 6), ("c", b"a", 1, 0, 6)]) == [
        (5, "published", "c", "a", 1),
        (6, "published", "c", "a", 2),
    ]


def test_runs_do_not_pass_records() -> None:
    between = Record(6, "b1", Kind.SUBSCRIBED, client="d", filter="#")
    found = counted([("c", b"a", 1, 0, 5), between, ("c", b"a", 1, 1, 7)])
    assert [(at_us, kind) for at_us, kind, *_ in found] == [
        (5, "published"),
        (6, "subscribed"),
        (7, "published"),
        (7, "delivered"),
    ]


# --- the process ---


def framed(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(HEAD_BYTES) + body


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_frames_however_the_stream_is_cut(size: int) -> None:
    given = [b"", b"a", b"bc" * 300]
    stream = b"".join(len(body).to_bytes(HEAD_BYTES) + body for body in given)
    frames = Frames()
    assert [frame for at in range(0, len(stream), size) for frame in frames.feed(stream[at : at + size])] == given


def started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_signals_are_for_the_broker_and_the_end_of_the_input_is_the_end(tmp_path: Path) -> None:
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(framed(orders(tmp_path, rows_max=2)) + framed(records(3)))
        process.stdin.flush()
        assert process.stdout.readline() != b"", "it is there"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        process.stdin.write(framed([("c", b"a", 2, 0, 9)]))
        process.stdin.close()
        reports = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert msgspec.json.decode(reports[-1], type=Status) == Status(settled=4, written=4)
    assert list(read_records(tmp_path)) == [
        *records(3),
        Record(9, "b1", Kind.PUBLISHED, client="c", topic="a", count=2),
    ]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_the_process_that_lives_long_never_loads_arrow(tmp_path: Path) -> None:
    """It would keep about 100 MB for good."""
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(framed(orders(tmp_path, rows_max=2)) + framed(records(4)))
        process.stdin.flush()
        while msgspec.json.decode(process.stdout.readline(), type=Status).written < 4:
            pass
        assert len(names(tmp_path)) == 2
        assert "libarrow" not in Path(f"/proc/{process.pid}/maps").read_text()
        process.stdin.close()
    assert process.returncode == 0


def test_segments_that_come_often_are_made_without_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight brokers that each loaded Arrow every second left no time for anything else."""
    monkeypatch.setattr("latecomer.eventlog.apart.os.fork", lambda: pytest.fail("it forked"))
    bench = Bench(tmp_path, rows_max=2, seconds_max=1.0)
    bench.take(records(2))
    assert len(names(tmp_path)) == 1


def test_a_child_that_is_killed_is_a_failure_and_the_rows_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, rows_max=2)
    with monkeypatch.context() as killed:
        killed.setattr(apart, "_make", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        bench.take(records(2))
    assert bench.segments.status.failures == 1
    assert "was ended by SIGKILL" in bench.segments.status.problem
    assert names(tmp_path) == [], "nothing that is half a segment"
    bench.later(5)
    assert list(read_records(tmp_path)) == records(2)


def test_an_input_that_ends_before_it_began() -> None:
    with started() as process:
        assert process.communicate()[0] == b""
    assert process.returncode == 0


FAILING = """
import errno, os, sys
from latecomer.runtime.journal_process import main
def full(handle):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
os.fsync = full
sys.exit(main())
"""


def test_a_broker_that_ends_while_the_disk_is_full(tmp_path: Path) -> None:
    """Nothing more is read then; the end is noticed all the same."""
    with subprocess.Popen([sys.executable, "-c", FAILING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.communicate(framed(orders(tmp_path, rows_max=2, retry_s=0.01)) + framed(records(3)), timeout=60)
    assert process.returncode == 1
    assert names(tmp_path) == []
