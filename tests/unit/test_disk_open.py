"""Opening a disk: whose files, which format, what is damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from latecomer.core.effects import Drop, Put
from latecomer.model.errors import SettingsError
from latecomer.runtime.disk import Disk
from latecomer.runtime.disk_repair import Problem
from latecomer.runtime.disk_rows import Key, SqliteEngine, Tables

TYPES = {"outbox": bytes, "client": int}
FLIPS = 100 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))


def rows() -> Tables:
    random = Random(1)
    outbox: dict[Key, object] = {i: random.randbytes(random.choice((20, 300, 300, 5000))) for i in range(120)}
    clients: dict[Key, object] = {f"client {i}": i for i in range(120)}
    return {"outbox": {"": outbox}, "client": {"": clients}}


def fill(folder: Path) -> None:
    with Disk.open(folder, TYPES) as disk:
        for table, groups in rows().items():
            for key, value in groups[""].items():
                disk.write([Put(table, "", key, value)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "broker.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def refused(folder: Path) -> str:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    with pytest.raises(SettingsError) as caught:
        Disk.open(folder, TYPES)
    assert caught.value.key == "data"
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"} == before
    return str(caught.value)


# --- whose ---


def test_nobody_else_can_read_what_is_made(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Disk.open(tmp_path / "data", TYPES) as disk:
            disk.write([Put("client", "", "ann", 1)]).result()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
            folder = stat.S_IMODE((tmp_path / "data").stat().st_mode)
    finally:
        os.umask(before)
    assert modes == {"broker.db": 0o600, "broker.db-wal": 0o600, "lock": 0o600}
    assert folder == 0o700


@pytest.mark.parametrize("name", ["broker.db", "broker.db-wal"])
def test_files_that_others_can_read_are_refused(name: str, data: Path) -> None:
    (data / name).touch()
    (data / name).chmod(0o640)
    assert f"chmod 600 {data / name}" in refused(data)


def test_a_directory_that_others_can_read_is_refused(data: Path) -> None:
    data.chmod(0o755)
    assert f"chmod 700 {data}" in refused(data)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"^data: .*cannot be made"):
        Disk.open(tmp_path / "file" / "data", TYPES)


def test_one_directory_is_for_one_broker(data: Path) -> None:
    with Disk.open(data, TYPES):
        with pytest.raises(SettingsError, match=rf"in use by process {os.getpid()}"):
            Disk.open(data, TYPES)
        program = (
            "import sys; from pathlib import Path; from latecomer.runtime.disk import Disk\n"
            "try: Disk.open(Path(sys.argv[1]), {})\n"
            "except Exception as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", program, str(data)], capture_output=True, text=True, check=True)
        assert f"in use by process {os.getpid()}" in done.stdout
    Disk.open(data, TYPES).close()


def test_nobody_else_reads_or_writes_an_open_disk(data: Path) -> None:
    with Disk.open(data, TYPES):
        other = sqlite3.connect(data / "broker.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("SELECT count(*) FROM row")
        other.close()


def test_a_disk_that_another_program_holds_is_refused(data: Path) -> None:
    other = sqlite3.connect(data / "broker.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SettingsError, match="in use by another program"):
        Disk.open(data, TYPES)
    other.close()


# --- which format ---


def test_a_newer_format_is_refused(data: Path) -> None:
    change(data, "PRAGMA user_version = 2")
    assert "has format 2 and this Latecomer knows 1" in refused(data)


def test_a_table_of_a_newer_version_is_refused(data: Path) -> None:
    with Disk.open(data, {**TYPES, "new": int}) as disk:
        disk.write([Put("new", "", 1, 1)]).result()
    with pytest.raises(SettingsError, match="a table 'new' that this Latecomer does not know"):
        Disk.open(data, TYPES)
    with Disk.open(data, {**TYPES, "new": int}) as disk:
        assert disk.take() == {**rows(), "new": {"": {1: 1}}}


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    change(tmp_path / "data", "CREATE TABLE row (x)")
    (tmp_path / "data" / "broker.db").chmod(0o600)
    assert "was not written by Latecomer" in refused(tmp_path / "data")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "broker.db").write_bytes(b"hello" * 1000)
    (tmp_path / "data" / "broker.db").chmod(0o600)
    assert "is not a database" in refused(tmp_path / "data")


def test_a_journal_without_its_file_is_refused(data: Path) -> None:
    (data / "broker.db").rename(data / "broker.db-wal")
    assert "is missing beside its journal" in refused(data)


# --- what is damaged ---


def test_a_row_that_cannot_be_decoded_is_kept_and_not_served(data: Path) -> None:
    with Disk.open(data, {**TYPES, "client": str}) as disk:
        assert disk.take() == {"outbox": rows()["outbox"]}
        assert [(p.table, p.group, p.key) for p in disk.problems] == [("client", "", f"client {i}") for i in range(120)]
        assert all("cannot be decoded" in problem.why for problem in disk.problems)
    with Disk.open(data, TYPES) as disk:
        assert disk.take() == {"outbox": rows()["outbox"]}
        assert disk.problems == []
    change(
        data, "CREATE TABLE found AS SELECT count(*) AS n FROM quarantine WHERE tab = 'client' AND why LIKE 'cannot%'"
    )
    connection = sqlite3.connect(data / "broker.db")
    assert connection.execute("SELECT n FROM found").fetchone() == (120,)
    connection.close()


def test_a_row_that_fails_its_checksum_is_kept_and_not_served(data: Path) -> None:
    change(
        data, "UPDATE row SET value = x'00' WHERE tab = 'outbox' AND key = 7", "UPDATE row SET grp = 'g' WHERE key = 8"
    )
    expected = rows()
    del expected["outbox"][""][7], expected["outbox"][""][8]
    with Disk.open(data, TYPES) as disk:
        assert disk.take() == expected
        assert disk.problems[:2] == [
            Problem("outbox", "", 7, "fails its checksum"),
            Problem("outbox", "g", 8, "fails its checksum"),
        ]
        assert "kept as damaged-1.db" in disk.problems[2].why
        disk.write([Put("outbox", "", 7, b"again")]).result()
    expected["outbox"][""][7] = b"again"
    with Disk.open(data, TYPES) as disk:
        assert disk.take() == expected
        assert disk.problems == []
    assert stat.S_IMODE((data / "damaged-1.db").stat().st_mode) == 0o600


def flip(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def outcome(folder: Path) -> str:
    """`refused`, `reported` or `harmless`; never a wrong value, never a row less without a word."""
    truth = rows()
    try:
        disk = Disk.open(folder, TYPES)
    except SettingsError:
        return "refused"
    with disk:
        found = disk.take()
    can_be_used(folder, found)
    missing = 0
    for table, groups in truth.items():
        there = found.get(table, {}).get("", {})
        assert there.items() <= groups[""].items(), "a wrong value is served"
        missing += len(groups[""]) - len(there)
    assert all(set(groups) == {""} for groups in found.values())
    if not disk.problems:
        assert missing == 0, "a row is missing, and nobody said so"
        return "harmless"
    if all(problem.table for problem in disk.problems[:-1]) and "a row fails" in disk.problems[-1].why:
        assert missing == len(disk.problems) - 1 or missing == 0, "sound rows went with the damaged ones"
    return "reported"


def can_be_used(folder: Path, found: Tables) -> None:
    """Every row can still be found by its key: once all are dropped, all are gone."""
    with Disk.open(folder, TYPES) as disk:
        assert disk.problems == []
        assert disk.take() == found
        disk.write([Drop(table, "", key) for table, groups in found.items() for key in groups[""]]).result()
    with Disk.open(folder, TYPES) as disk:
        assert disk.take() == {}, "a dropped row has returned"


def flipped(folder: Path, prepared: Path, name: str, flips: int) -> dict[str, int]:
    outcomes = {"refused": 0, "reported": 0, "harmless": 0}
    for seed in range(flips):
        copy = shutil.copytree(prepared, folder / f"{name}-{seed}")
        flip(copy / name, Random(seed))
        outcomes[outcome(copy)] += 1
        shutil.rmtree(copy)
    return outcomes


def test_flipped_bits_in_the_file_are_noticed_or_harmless(data: Path, tmp_path: Path) -> None:
    outcomes = flipped(tmp_path, data, "broker.db", FLIPS)
    assert outcomes["reported"] > FLIPS // 2
    assert outcomes["refused"] < FLIPS // 10


def test_flipped_bits_in_the_journal_are_noticed_or_harmless(tmp_path: Path) -> None:
    """The rows are in the journal alone, as after a crash."""
    kept: list[Callable[[], None]] = []

    class Crashing(SqliteEngine):
        def close(self) -> None:
            kept.append(super().close)

    disk = Disk.open(tmp_path / "data", TYPES, connect=Crashing)
    for table, groups in rows().items():
        for key, value in groups[""].items():
            disk.write([Put(table, "", key, value)]).result()
    shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    disk.close()
    for close in kept:
        close()
    assert outcome(shutil.copytree(tmp_path / "crashed", tmp_path / "sound")) == "harmless"
    outcomes = flipped(tmp_path, tmp_path / "crashed", "broker.db-wal", FLIPS // 2)
    assert outcomes["reported"] > FLIPS // 4
