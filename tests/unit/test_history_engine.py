"""The engine of a store: appending, reading, comparing, and what it says about itself."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from latecomer.history import Engine, EngineSettings, StoreBusy, StoreFull
from latecomer.history import lookup as lookup_module
from latecomer.history import pool as pool_module
from latecomer.history.files import Connection, Files
from latecomer.model.content import parse_content
from latecomer.model.errors import SettingsError
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Query, key_of
from latecomer.model.ids import NUMBER_MAX, EventId

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_790_000 * 1000 * SECOND - 1_790_000 * 1000 * SECOND % HOUR
SETTINGS = EngineSettings(reserve_bytes=0)
ALL = Query(Filter("#"))


def event(seq: int, topic: str = "t", at: int | None = None, origin: str = "b1", payload: bytes = b"") -> Event:
    return Event(EventId(origin, 1, seq), topic, "c", START + seq * SECOND if at is None else at, payload=payload)


def read(engine: Engine, query: Query = ALL, now_us: int = 0) -> list[Event]:
    """All of it in one page."""
    page = engine.read(query, now_us, 100_000, 1 << 30, 1_000_000)
    assert page.next is None
    return list(page.events)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "store", SETTINGS, durability="none") as engine:
        yield engine


# --- append ---


def test_what_was_appended_is_there_after_reopening(tmp_path: Path) -> None:
    full = Event(
        EventId("b", 2**62, 3), "a/ü", "me", START, True, {"x": 1.5, "y": "ü"}, b"\0\xff", 2, True, START + HOUR,
        Extras(1, "text/plain", "r", b"c", (("k", "v"), ("k", "w"))), (("g", "a/+", "b2"),),
    )  # fmt: skip
    with Engine.open(tmp_path / "s", SETTINGS, durability="power") as engine:
        assert engine.append([full, event(1), event(2)]) == 3
    with Engine.open(tmp_path / "s", SETTINGS, durability="process") as engine:
        assert read(engine) == [full, event(1), event(2)]
        assert engine.problems == ()


def test_known_ids_are_passed_over(engine: Engine) -> None:
    assert engine.append([]) == 0
    assert engine.append([event(1), event(1)]) == 1
    assert engine.append([event(0), event(1), event(2), event(2)]) == 2
    assert engine.append([event(0), event(1)]) == 0
    assert read(engine) == [event(0), event(1), event(2)]
    assert engine.status().events == 3
    (slice,) = engine.survey("t", START, START + HOUR, HOUR)
    assert slice.count == 3


def test_an_event_goes_where_its_time_is(engine: Engine, tmp_path: Path) -> None:
    late = event(5, at=START - 3 * HOUR)
    engine.append([event(1), event(2, at=START + HOUR), late])
    assert read(engine) == [late, event(1), event(2, at=START + HOUR)]
    assert len(list((tmp_path / "store").glob("*.db"))) == 3


def test_the_order_between_origins_is_that_of_their_names(engine: Engine) -> None:
    """Wherever clocks agree; also if a name came up later than another, and for names beyond the first plane."""
    names = ["z", "b10", "b2", "ü", "\U00010000", "\uffff", "a"]
    engine.append([event(1, origin=name, at=START) for name in names])
    assert [found.origin for found in read(engine)] == sorted(names)
    after = Key(START, "b2", 1, 1)
    assert [found.origin for found in read(engine, Query(Filter("t"), after=after))] == [
        "z",
        "ü",
        "\uffff",
        "\U00010000",
    ]


def test_the_ends_of_time(engine: Engine) -> None:
    """An event at the very last moment has no segment that could end behind it, and is not kept."""
    events = [event(1, at=0), event(2, at=NUMBER_MAX - 1)]
    assert engine.append([*events, event(3, at=NUMBER_MAX)]) == 2
    assert read(engine) == events
    assert read(engine, Query(Filter("#"), since_us=1, until_us=NUMBER_MAX)) == events[1:]
    largest = Event(EventId("b", NUMBER_MAX, NUMBER_MAX), "t", published_us=5)
    engine.append([largest])
    assert read(engine, Query(Filter("t"), last=2)) == [largest, events[1]]
    assert read(engine, Query(Filter("t"), last=1, until_us=5)) == [largest]


def test_a_busy_hour_is_cut(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, segment_bytes=20_000)
    events = [event(seq, payload=bytes(500)) for seq in range(300)]
    with Engine.open(tmp_path / "s", settings, durability="none") as engine:
        for at in range(0, 300, 10):
            engine.append(events[at : at + 10])
        assert len(list((tmp_path / "s").glob("*.db"))) > 5
        assert read(engine) == events
        engine.append([event(1000, at=START + 1)])
        assert engine.status().events == 301
    with Engine.open(tmp_path / "s", SETTINGS, durability="none") as engine:
        assert len(read(engine)) == 301
        assert engine.append(events) == 0


def test_another_length_of_segments_changes_nothing_that_is_there(tmp_path: Path) -> None:
    events = [event(seq, at=START + seq * 600 * SECOND) for seq in range(20)]
    for length in (HOUR, 7 * HOUR, 60 * SECOND):
        settings = msgspec.structs.replace(SETTINGS, segment_us=length)
        with Engine.open(tmp_path / "s", settings, durability="none") as engine:
            engine.append(events[::3] if length == HOUR else events)
            engine.append([event(900 + length // SECOND, at=START + 50 * SECOND)])
            assert engine.verify().problems == ()
    with Engine.open(tmp_path / "s", SETTINGS, durability="none") as engine:
        assert len(read(engine)) == 23


def test_few_files_are_open_at_once(engine: Engine, tmp_path: Path) -> None:
    events = [event(seq, at=START + seq * HOUR) for seq in range(40)]
    engine.append(events)
    assert read(engine) == events
    handles = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd_exists(fd)]
    ours = [path for path in handles if str(tmp_path) in path]
    assert len(ours) <= 3 * (pool_module.WRITERS_MAX + pool_module.READERS_MAX) + 2
    assert engine.append(events) == 0


def fd_exists(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


# --- read ---


def test_pages_go_on_where_the_last_one_ended(engine: Engine) -> None:
    events = [event(seq, payload=bytes(100)) for seq in range(10)]
    engine.append(events)
    first = engine.read(ALL, 0, 4, 1 << 20)
    assert (list(first.events), first.next) == (events[:4], key_of(events[3]))
    second = engine.read(msgspec.structs.replace(ALL, after=first.next), 0, 100, 500)
    assert 1 <= len(second.events) < 5, "as many as fit"
    third = engine.read(msgspec.structs.replace(ALL, after=second.next), 0, 100, 1)
    assert len(third.events) == 1, "but never none"
    rest = engine.read(msgspec.structs.replace(ALL, after=third.next), 0, 100, 1 << 20)
    assert rest.next is None
    assert [*first.events, *second.events, *third.events, *rest.events] == events


def test_a_rare_match_does_not_take_all_the_time_at_once(engine: Engine) -> None:
    engine.append([event(seq, payload=b'{"v": %d}' % seq) for seq in range(1000)])
    query = Query(Filter("t", parse_content("v = 990")))
    page = engine.read(query, 0, 10, 1 << 20, scan_max=300)
    assert page.events == ()
    assert page.next is not None
    assert page.next.seq < 400
    pages = 1
    while page.next is not None:
        page = engine.read(msgspec.structs.replace(query, after=page.next), 0, 10, 1 << 20, scan_max=300)
        pages += 1
        if page.events:
            break
    assert [found.id.seq for found in page.events] == [990]
    assert pages == 4


def test_hours_without_a_match_do_not_either(engine: Engine) -> None:
    engine.append([event(seq, at=START + seq * HOUR) for seq in range(30)])
    page = engine.read(Query(Filter("other")), 0, 10, 1 << 20, scan_max=lookup_module.SEGMENT_ROWS * 10)
    assert page.events == ()
    assert page.next is not None
    assert START + 9 * HOUR <= page.next.published_us < START + 10 * HOUR


def test_many_topics_are_read_by_time_and_few_by_topic(engine: Engine) -> None:
    events = [event(seq, f"t/{seq % 100}/{seq % 2}") for seq in range(1000)]
    engine.append(events)
    for pattern, wanted in {"t/+/0": 50, "t/7/#": 1, "t/#": 100, "t/+/+": 100}.items():
        found = read(engine, Query(Filter(pattern)))
        assert len(found) == wanted * 10
        assert read(engine, Query(Filter(pattern), last=7)) == found[-7:]
    engine.append([event(seq, f"u/{seq}") for seq in range(1000, 1100)])
    assert len(read(engine, Query(Filter("+/+/+")))) == 1000
    assert len(read(engine, Query(Filter("u/+")))) == 100


def test_what_has_expired_is_left_out_and_does_not_count(engine: Engine) -> None:
    lasting = [event(seq) for seq in range(5)]
    brief = [msgspec.structs.replace(event(seq), expires_us=START + 100) for seq in range(5, 8)]
    engine.append([*lasting, *brief])
    assert read(engine, now_us=START + 99) == [*lasting, *brief]
    assert read(engine, now_us=START + 100) == lasting
    assert read(engine, Query(Filter("#"), last=2), now_us=START + 100) == lasting[-2:]


def test_the_last_are_looked_for_within_bounds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.history.tiers.LAST_SCAN_MAX", 100)
    engine.append([event(seq, payload=b'{"v": %d}' % seq) for seq in range(500)])
    assert read(engine, Query(Filter("t", parse_content("v >= 450")), last=10))[0].id.seq == 490
    assert read(engine, Query(Filter("t", parse_content("v < 300")), last=10)) == []


def test_reading_goes_on_while_others_append(tmp_path: Path) -> None:
    """Every page is a sound piece of history, and nothing that was there before is missing."""
    with Engine.open(tmp_path / "s", SETTINGS, durability="process") as engine:
        events = [event(seq, f"t/{seq % 5}", payload=bytes(200)) for seq in range(4000)]
        engine.append(events[:1000])
        errors: list[BaseException] = []

        def append() -> None:
            try:
                for at in range(1000, 4000, 20):
                    engine.append(events[at : at + 20])
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=append)
        thread.start()
        while thread.is_alive():
            found = read(engine, Query(Filter("t/#")))
            assert found == events[: len(found)]
            assert len(found) >= 1000
            (slice,) = engine.survey("#", START, START + 2 * HOUR, 2 * HOUR)
            assert slice.count >= len(found)
        thread.join()
        assert errors == []
        assert read(engine) == events
        assert engine.problems == ()


# --- sums ---


def test_a_survey_of_whole_segments_or_pieces_of_them(engine: Engine) -> None:
    engine.append([event(seq, at=START + seq * 600 * SECOND) for seq in range(12)])
    day = 24 * HOUR
    (whole,) = engine.survey("#", 0, START + day, 10 * day)
    assert whole.count == 12
    parts = engine.survey("#", 0, START + day, 60 * SECOND)
    assert [part.count for part in parts] == [1] * 12
    assert sum(part.digest for part in parts) % 2**64 == whole.digest
    assert engine.survey("#", START + 1, START + 600 * SECOND, day) == ()
    assert engine.survey("other/#", 0, START + day, day) == ()


def test_status_of_all_and_of_some_topics(engine: Engine, tmp_path: Path) -> None:
    assert engine.status() == engine.status("#")
    engine.append([event(1, "a/x"), event(2, "b"), event(3, "a/y", at=START + 5 * HOUR)])
    status = engine.status()
    assert (status.events, status.oldest_us, status.newest_us) == (3, START + SECOND, START + 5 * HOUR)
    assert status.bytes == sum(
        path.stat().st_size for path in (tmp_path / "store").glob("*.db*") if "shm" not in path.name
    )
    some = engine.status("a/+")
    assert (some.events, some.oldest_us, some.newest_us) == (2, START + SECOND, START + 5 * HOUR)
    assert 0 < some.bytes < 200
    assert engine.status("nothing").events == 0


# --- files ---


def test_files_are_for_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Engine.open(folder, SETTINGS) as engine:
        engine.append([event(1)])
        read(engine)
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "1.db").chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        Engine.open(folder, SETTINGS)
    (folder / "1.db").chmod(0o600)
    folder.chmod(0o755)
    with pytest.raises(SettingsError, match="chmod 700"):
        Engine.open(folder, SETTINGS)


def test_a_store_is_used_by_one_at_a_time(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"in use by process {os.getpid()}; stop that first"):
        Engine.open(tmp_path / "store", SETTINGS)


def test_a_journal_without_its_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Engine.open(folder, SETTINGS).close()
    (folder / "7.db-wal").write_bytes(b"something")
    (folder / "7.db-wal").chmod(0o600)
    with pytest.raises(SettingsError, match="journal without its file"):
        Engine.open(folder, SETTINGS)


def test_what_cannot_be_a_directory_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"data: .* is a file; name a directory"):
        Engine.open(tmp_path / "file", SETTINGS)


@pytest.mark.parametrize(("segments", "later"), [(1, 1), (3, 3), (3, 2)])
def test_a_store_of_another_version_is_left_alone(segments: int, later: int, tmp_path: Path) -> None:
    """Also one that has been in use with both: two segments are not damaged in the same way."""
    with Engine.open(tmp_path / "s", SETTINGS) as engine:
        engine.append([event(hour, at=START + hour * HOUR) for hour in range(segments)])
    for number in range(1, later + 1):
        with sqlite3.connect(tmp_path / "s" / f"{number}.db") as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.db*")}
    with pytest.raises(SettingsError, match="use the version that wrote it"):
        Engine.open(tmp_path / "s", SETTINGS)
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.db*")} == before


# --- open files ---


def test_too_many_open_files_are_no_damage(tmp_path: Path) -> None:
    events = [event(hour, at=START + hour * HOUR) for hour in range(3)]
    with Engine.open(tmp_path / "s", SETTINGS, durability="none") as engine:
        engine.append(events)
    folder = tmp_path / "s"
    names = sorted(path.name for path in folder.glob("*.db"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    engine = Engine.open(folder, SETTINGS, durability="none")
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 40, limits[1]))
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for left in range(6):  # the file, its journal, the memory they share: each may be the one too many
            for _ in range(50):
                with suppress(StoreBusy):
                    read(engine)
                with suppress(StoreBusy):
                    engine.scrub()
                with suppress(StoreBusy):
                    engine.append([event(100 + left, at=START + HOUR + left)])
            os.close(held.pop())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for handle in held:
            os.close(handle)
    with engine:
        assert engine.problems == ()
        assert sorted(path.name for path in folder.glob("*.db")) == names
        assert [one for one in read(engine) if one.id.seq < 100] == events
        assert engine.append(events) == 0
        assert engine.verify().ok


def test_too_many_open_files_are_a_sentence(tmp_path: Path) -> None:
    class Exhausted(Files):
        gone = False

        def connect(self, path: Path, readonly: bool) -> Connection:
            if self.gone:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().connect(path, readonly)

    files = Exhausted(synced=False)
    with Engine.open(tmp_path / "s", SETTINGS, durability="none", vfs=files) as engine:
        engine.append([event(1)])
        files.gone = True
        with pytest.raises(StoreBusy, match="ulimit -n"):
            engine.append([event(2, at=START + HOUR)])
        with pytest.raises(StoreFull):
            read(engine)
        files.gone = False
        assert engine.append([event(2, at=START + HOUR)]) == 1
        assert len(read(engine)) == 2
    files.gone = True
    with pytest.raises(SettingsError, match="ulimit -n"):
        Engine.open(tmp_path / "s", SETTINGS, durability="none", vfs=files)


# --- room ---


def test_the_reserve_is_left_alone(tmp_path: Path) -> None:
    class Nearly(Files):
        left = 1000

        def free(self, directory: Path) -> int:
            return self.left

    files = Nearly(synced=False)
    settings = msgspec.structs.replace(SETTINGS, reserve_bytes=1000)
    with Engine.open(tmp_path / "s", settings, durability="none", vfs=files) as engine:
        engine.append([event(1)])
        files.left = 999
        with pytest.raises(StoreFull, match="make room"):
            engine.append([event(2)])
        assert read(engine) == [event(1)]
        files.left = 1000
        assert engine.append([event(2)]) == 1


SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from latecomer.history import Engine, EngineSettings, StoreFull
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId

engine = Engine.open(Path(sys.argv[1]), EngineSettings(reserve_bytes=0))
kept = []
try:
    for seq in range(3000):
        event = Event(EventId("b", 1, seq), "t", published_us=seq, payload=bytes(2000))
        engine.append([event])
        kept.append(event)
except StoreFull:
    print("full", len(kept))
assert list(engine.read(Query(Filter("t")), 0, 10000, 1 << 30).events) == kept
Path(sys.argv[2]).unlink()
print("again", engine.append([Event(EventId("b", 1, 3000), "t", published_us=3000, payload=bytes(2000))]))
engine.close()
"""


def test_a_full_disk_refuses_serves_and_goes_on(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True)
    if mount.returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        (small / "ballast").write_bytes(bytes(1_000_000))
        done = subprocess.run(
            [sys.executable, "-c", SMALL_DISK, str(small / "store"), str(small / "ballast")],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[0] == "full"
        assert int(done.stdout.split()[1]) > 50
        assert done.stdout.split()[2:] == ["again", "1"]
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)
