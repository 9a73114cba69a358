"""The cold tier by example: the table that others see, what is not read, what is hostile, broken or cut short."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from latecomer.history import cold_catalogue, cold_files, cold_scan, cold_write
from latecomer.history.cold import ColdDamage, ColdError, ColdTier
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.history import Query, key_of
from latecomer.model.ids import EventId

HOUR_US = 3_600_000_000
START_US = int(datetime(2026, 11, 16, 22, tzinfo=UTC).timestamp()) * 1_000_000
EVERYTHING = Query(Filter("#"))


def event(number: int, topic: str = "sensors/a/temp", at_us: int | None = None, origin: str = "b1") -> Event:
    payload = json.dumps({"value": number}).encode()
    extras = Extras(content_type="application/json", user=(("unit", "K"), ("unit", "C")))
    return Event(
        EventId(origin, 1, number),
        topic,
        "thermometer",
        START_US + number * 1_000_000 if at_us is None else at_us,
        payload=payload,
        extras=extras,
    )


def write(tier: ColdTier, events: Iterable[Event], start_us: int = START_US) -> int:
    return tier.write(start_us, start_us + HOUR_US - 1, events)


def read(tier: ColdTier, query: Query = EVERYTHING) -> list[Event]:
    page = tier.read(query, 0, 10_000, 10**9, 10**9)
    assert page.next is None
    return list(page.events)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("part-*.parquet"))


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_write, "GROUP_ROWS", 10)


# --- a table for others ---


def test_it_is_one_hive_table_without_our_code(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path), writer="b1")
    for hour in range(4):  # two before midnight, two after
        at_us = START_US + hour * HOUR_US
        write(tier, [event(10 * hour + n, t, at_us + n) for n, t in enumerate(["sensors/a/x", "doors/1"])], at_us)
    (tmp_path / "class=sensors" / "day=2026-11-16" / "_part-somebody.parquet.unfinished").write_bytes(b"half")
    table = ds.dataset(tmp_path, format="parquet", partitioning="hive")
    assert table.count_rows() == 8
    evening = (ds.field("class") == "sensors") & (ds.field("day") == "2026-11-16")
    assert len(list(table.get_fragments(filter=evening))) == 2, "whole directories are left out"
    rows = table.to_table(filter=evening).sort_by("seq").to_pylist()
    assert [row["seq"] for row in rows] == [0, 10]
    first = rows[0]
    assert (first["origin"], first["epoch"], first["topic"], first["publisher"]) == (
        "b1",
        1,
        "sensors/a/x",
        "thermometer",
    )
    assert first["published"] == datetime(2026, 11, 16, 22, tzinfo=UTC)
    assert first["expires"] is None
    assert first["user"] == [{"name": "unit", "value": "K"}, {"name": "unit", "value": "C"}]
    assert json.loads(first["attributes"]) == {"value": 0, "unit": "C"}
    assert (first["payload"], first["content_type"]) == (b'{"value": 0}', "application/json")


def test_rows_are_sorted_compressed_and_have_statistics_and_checksums(tmp_path: Path, small_groups: None) -> None:
    write(ColdTier(str(tmp_path)), [event(n) for n in reversed(range(25))])
    (path,) = files(tmp_path)
    found = pq.ParquetFile(path)
    assert found.read(["seq"]).column("seq").to_pylist() == list(range(25))
    assert [found.metadata.row_group(n).num_rows for n in range(3)] == [10, 10, 5]
    for n in range(found.metadata.num_columns):
        assert found.metadata.row_group(0).column(n).compression == "ZSTD"
    assert found.metadata.row_group(1).column(0).statistics.min == datetime(2026, 11, 16, 22, 0, 10, tzinfo=UTC)


def test_large_events_make_small_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_write, "GROUP_BYTES", 3_000)
    events = [
        Event(EventId("b1", 1, n), "a", published_us=n, payload=bytes(size))
        for n, size in enumerate([1000] * 5 + [9000])
    ]
    tier = ColdTier(str(tmp_path))
    tier.write(0, HOUR_US, events)
    assert [pq.read_metadata(files(tmp_path)[0]).row_group(n).num_rows for n in range(4)] == [2, 2, 1, 1]
    assert read(tier) == events


# --- what is not read ---


def test_only_row_groups_that_can_have_something_are_read(tmp_path: Path, small_groups: None) -> None:
    writer = ColdTier(str(tmp_path))
    events = [event(n, f"sensors/{'ab'[n // 50]}/temp") for n in range(100)]
    write(writer, events)
    write(writer, [event(1000 + n, "doors/1", START_US + HOUR_US + n) for n in range(100)], START_US + HOUR_US)

    def halves(query: Query, found: int) -> int:
        tier = ColdTier(str(tmp_path))
        assert len(read(tier, query)) == found
        return tier.groups_read

    assert halves(EVERYTHING, 200) == 2 * 20
    assert halves(Query(Filter("sensors/#")), 100) == 2 * 10, "by class"
    assert halves(Query(Filter("sensors/a/#")), 50) == 2 * 5, "by topic"
    assert halves(Query(Filter("windows/#")), 0) == 0
    middle = Query(Filter("#"), START_US + 25_000_000, START_US + 34_000_000)
    assert halves(middle, 10) == 2 * 2, "by time"
    assert halves(Query(Filter("sensors/#"), after=key_of(events[94])), 5) == 2 * 1, "where an answer goes on"
    assert halves(Query(Filter("sensors/#"), last=5), 5) == 2 * 1, "the last so many"
    # Keys and topics of a row group are looked at without its payloads.
    assert halves(Query(parse_filter("sensors/+/none")), 0) == 10


def test_the_next_page_costs_nothing_and_footers_are_read_once(
    tmp_path: Path, small_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ColdTier(str(tmp_path)), [event(n) for n in range(10)])
    opened: list[str] = []
    original = cold_files.Place.open

    def counted(self: cold_files.Place, path: str) -> Any:
        opened.append(path)
        return original(self, path)

    monkeypatch.setattr(cold_files.Place, "open", counted)
    tier = ColdTier(str(tmp_path))
    page = tier.read(EVERYTHING, 0, 3, 10**6)
    assert len(opened) == 3, "the footer, keys and topics, the rest"
    for _ in range(3):
        assert page.next is not None
        page = tier.read(Query(Filter("#"), after=page.next), 0, 3, 10**6)
    assert page.next is None
    assert len(opened) == 3


def test_what_is_remembered_is_bounded(tmp_path: Path, small_groups: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_catalogue, "CACHE_BYTES", 1)
    monkeypatch.setattr(cold_catalogue, "FOOTERS_MAX", 1)
    tier = ColdTier(str(tmp_path))
    events = [event(n, f"{'ab'[n % 2]}/x") for n in range(40)]
    write(tier, events)
    assert read(tier) == events
    assert read(tier) == events


def test_a_page_ends_when_enough_was_looked_at(tmp_path: Path, small_groups: None) -> None:
    write(ColdTier(str(tmp_path)), [event(n, "sensors/b/temp" if n == 55 else "sensors/a/temp") for n in range(60)])
    tier = ColdTier(str(tmp_path))
    query = Query(parse_filter("sensors/+/temp ? value = 55"))
    pages = 0
    while True:
        before = tier.groups_read
        page = tier.read(query, 0, 10, 10**6, cold_scan.FILE_ROWS + 20)
        assert tier.groups_read - before <= 2 * 3
        pages += 1
        if page.next is None or page.events:
            break
        query = Query(query.filter, after=page.next)
    assert [found.id.seq for found in page.events] == [55]
    assert pages >= 2


# --- names from outside ---


@pytest.mark.parametrize(
    "topic",
    [
        "../../etc/passwd",
        "..",
        "/",
        "//x",
        "a\\b/c",
        "Ä/b",
        "C:/x",
        "a=b/day=1",
        "x" * 9000,
        "\u202e/x",
        "%2e%2e/x",
        " ",
    ],
)
def test_hostile_topics_stay_inside(topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "tier"
    tier = ColdTier(str(folder), writer="../b\0" + "1" * 300)
    write(tier, [event(1, topic)])
    assert list(tmp_path.iterdir()) == [folder]
    (path,) = files(folder)
    assert len(path.relative_to(folder).parts) == 3
    assert all(part.isascii() and len(part) < 256 for part in path.relative_to(folder).parts)
    assert read(ColdTier(str(folder)), Query(Filter(topic))) == [event(1, topic)]
    assert read(tier, Query(Filter("another"))) == []


def test_twins_of_a_name_have_directories_of_their_own(tmp_path: Path) -> None:
    topics = ["sensors", "Sensors", "SENSORS", "é", "e\u0301", "ｓensors"]
    tier = ColdTier(str(tmp_path))
    write(tier, [event(n, topic) for n, topic in enumerate(topics)])
    assert len({path.name.lower() for path in tmp_path.iterdir()}) == len(topics)


def test_depth_decides_what_a_class_is(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path), depth=2)
    events = [event(n, topic) for n, topic in enumerate(["a", "a/b", "a/b/c", "a/c"])]
    write(tier, events)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["class=a", "class=a%2Fb", "class=a%2Fc"]
    # Whoever reads need not know.
    assert read(ColdTier(str(tmp_path)), Query(Filter("a/#"))) == events
    assert read(ColdTier(str(tmp_path)), Query(Filter("+/b/#"))) == events[1:3]


# --- writing again, and several writers ---


def test_a_slot_written_again_is_a_union(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path), writer="b1")
    assert write(tier, [event(1), event(3)]) == 2
    (path,) = files(tmp_path)
    before = path.stat()
    assert write(tier, [event(3)]) == 2
    assert path.stat().st_mtime_ns == before.st_mtime_ns, "nothing new, nothing written"
    assert write(ColdTier(str(tmp_path), writer="b1"), [event(2), event(1), event(4, "doors/1")]) == 4
    assert [found.id.seq for found in read(tier)] == [1, 2, 3, 4]
    assert write(tier, []) == 4


def test_two_stores_share_a_tier(tmp_path: Path) -> None:
    first, second = (ColdTier(str(tmp_path), writer=name, fresh_s=0) for name in ("b1", "B1"))
    assert write(first, [event(1), event(2)]) == 2
    assert write(second, [event(2), event(3)]) == 2
    assert len(files(tmp_path)) == 2
    for tier in (first, second):
        assert [found.id.seq for found in read(tier)] == [1, 2, 3]
        (slice,) = tier.survey("#", 0, START_US + HOUR_US, HOUR_US)
        assert slice.count == 3
    assert first.drop_before(START_US + HOUR_US) == 2, "only what is its own"
    assert [found.id.seq for found in read(second)] == [2, 3]


def test_a_file_that_another_store_replaced_or_removed_is_no_damage(tmp_path: Path) -> None:
    first, second = (ColdTier(str(tmp_path), writer=name, fresh_s=10**9) for name in ("b1", "b2"))
    write(second, [event(1)])
    assert len(read(first)) == 1
    first._catalogue._cache.clear()  # as if other files had been read meanwhile
    write(second, [event(n) for n in range(5)])
    assert len(read(first)) == 5
    first._catalogue._cache.clear()
    assert second.drop_before(START_US + HOUR_US) == 5
    assert read(first) == []
    assert first.damaged == []


# --- damage ---


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_a_damaged_file_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    writer = ColdTier(str(tmp_path))
    write(writer, [event(n, f"{name}/x") for n, name in enumerate("abcd")])
    whole = {path.parts[-3]: path for path in files(tmp_path)}
    (tmp_path / "copy").write_bytes(whole["class=a"].read_bytes())
    damage(whole["class=a"], 10)  # a page
    damage(whole["class=b"], -2)  # the footer
    whole["class=c"].write_bytes(b"")
    tier = ColdTier(str(tmp_path), fresh_s=0)
    assert [found.topic for found in read(tier)] == ["d/x"]
    assert len(tier.damaged) == 3
    assert all(type(found) is ColdDamage and "restore it from a copy" in str(found) for found in tier.damaged)
    assert tier.status()[0] == 2, "of two files not even the footer can be read"
    shutil.copy(tmp_path / "copy", whole["class=a"])
    assert [found.topic for found in read(tier)] == ["a/x", "d/x"]
    assert len(tier.damaged) == 2


def test_of_a_damaged_file_the_whole_row_groups_are_served_and_saved(tmp_path: Path, small_groups: None) -> None:
    write(ColdTier(str(tmp_path), writer="b1"), [event(n) for n in range(30)])
    (path,) = files(tmp_path)
    damage(path, pq.read_metadata(path).row_group(1).column(0).data_page_offset + 30)
    tier = ColdTier(str(tmp_path), writer="b1")
    rest = [*range(10), *range(20, 30)]
    assert [found.id.seq for found in read(tier)] == rest
    assert len(tier.damaged) == 1
    broken = path.read_bytes()
    assert write(tier, [event(15)]) == 21
    assert [found.id.seq for found in read(tier)] == sorted([*rest, 15])
    assert tier.damaged == []
    assert path.with_name(f"_{path.name}.damaged").read_bytes() == broken
    assert ds.dataset(tmp_path, format="parquet", partitioning="hive").count_rows() == 21


def test_a_row_that_fails_its_checksum_is_taken_from_another_store(tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        write(ColdTier(str(tmp_path), writer=name), [event(n) for n in range(3)])
    path, other = files(tmp_path)
    table = pq.ParquetFile(path).read()
    payloads = [b"forged" if n == 1 else value for n, value in enumerate(table.column("payload").to_pylist())]
    at = table.schema.get_field_index("payload")
    pq.write_table(table.set_column(at, table.schema.field(at), [payloads]), path)
    tier = ColdTier(str(tmp_path), fresh_s=0)
    assert read(tier) == [event(n) for n in range(3)]
    assert len(tier.damaged) == 1
    other.unlink()
    assert read(tier) == [event(0), event(2)]


def test_a_table_of_somebody_else_is_told(tmp_path: Path) -> None:
    write(ColdTier(str(tmp_path)), [event(1)])
    (path,) = files(tmp_path)
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["body"]), path)
    tier = ColdTier(str(tmp_path))
    assert read(tier) == []
    assert "no column body" in str(tier.damaged[0])


# --- cut short ---


def test_a_crash_while_writing_leaves_nothing_half_visible(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path), writer="b1")
    write(tier, [event(1)])
    program = (
        "import os, sys\n"
        "from latecomer.history.cold_write import Writer\n"
        "from latecomer.history.cold import ColdTier\n"
        "from latecomer.model.event import Event\n"
        "from latecomer.model.ids import EventId\n"
        "Writer._check = lambda *_: os._exit(9)\n"
        "start_us = int(sys.argv[2])\n"
        "event = Event(EventId('b1', 1, 2), 'sensors/a/temp', published_us=start_us)\n"
        f"ColdTier(sys.argv[1], writer='b1').write(start_us, start_us + {HOUR_US - 1}, [event])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(START_US)]
    assert subprocess.run(command, check=False).returncode == 9
    assert len(list(tmp_path.rglob("_*.unfinished"))) == 1
    (
        of_another := files(tmp_path)[0].with_name("_part-" + "0" * 20 + "-" + "0" * 20 + "-b2.parquet.unfinished")
    ).touch()
    assert ds.dataset(tmp_path, format="parquet", partitioning="hive").count_rows() == 1
    assert read(ColdTier(str(tmp_path))) == [event(1)]
    again = ColdTier(str(tmp_path), writer="b1")
    assert write(again, [event(1), event(2)]) == 2
    assert list(tmp_path.rglob("_*")) == [of_another]


def test_what_reads_back_differently_does_not_come_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ColdTier(str(tmp_path))
    write(tier, [event(1)])
    fill = cold_write._fill
    monkeypatch.setattr(cold_write, "_fill", lambda file, table, order, sums: fill(file, table, order.slice(1), sums))
    with pytest.raises(ColdError, match="not what is read back: 1 rows instead of 2"):
        write(tier, [event(2)])
    monkeypatch.undo()
    assert list(tmp_path.rglob("_*")) == []
    assert read(tier) == [event(1)]
    assert write(tier, [event(2)]) == 2


def test_reach_is_known_without_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, other = (ColdTier(str(tmp_path), writer=name, fresh_s=0) for name in ("b1", "b2"))
    assert tier.reach() is None
    write(other, [event(1)])
    assert tier.reach() == (event(1).published_us, event(1).published_us), "as long as there is nothing, it looks"
    write(other, [event(3)])
    write(tier, [event(2)])
    looks: list[bool] = []
    listing = cold_files.Place.list

    def counted(self: cold_files.Place) -> Any:
        looks.append(True)
        return listing(self)

    monkeypatch.setattr(cold_files.Place, "list", counted)
    for _ in range(3):
        assert tier.reach() is not None
    assert len(looks) <= 1
    assert len(read(tier)) == 3
    assert tier.reach() == (event(1).published_us, event(3).published_us)
    assert tier.status()[0] == 3


def test_letting_go_removes_files_and_empty_directories(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path / "tier"))
    for hour in range(4):
        write(tier, [event(hour, at_us=START_US + hour * HOUR_US)], START_US + hour * HOUR_US)
    assert tier.drop_before(START_US + 3 * HOUR_US) == 3
    assert tier.reach() == (START_US + 3 * HOUR_US, START_US + 3 * HOUR_US)
    assert [path.name for path in (tmp_path / "tier" / "class=sensors").iterdir()] == ["day=2026-11-17"]
    assert tier.drop_before(START_US + 4 * HOUR_US) == 1
    assert list((tmp_path / "tier").iterdir()) == []
    assert (tier.reach(), tier.status()) == (None, (0, 0))


# --- places ---


def test_a_place_by_uri(tmp_path: Path) -> None:
    write(ColdTier(f"file://{tmp_path}/tier"), [event(1)])
    assert read(ColdTier(str(tmp_path / "tier"))) == [event(1)]


def test_a_place_without_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_files, "OBJECT_STORES", ("mock",))
    tier = ColdTier("mock:///tier")
    assert write(tier, [event(1)]) == 1
    assert write(tier, [event(2)]) == 2
    assert read(tier) == [event(1), event(2)]
    assert tier._catalogue.leftovers("") == []
    assert tier.drop_before(START_US + HOUR_US) == 2
    assert read(tier) == []


@pytest.mark.parametrize("path", ["nowhere://x/y", "file://relative"])
def test_a_place_that_cannot_be(path: str) -> None:
    with pytest.raises(ColdError, match=r"cannot be a cold tier: .*; name a directory"):
        ColdTier(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ColdError, match=r"cannot be (written|read): .*try again"):
        write(ColdTier(str(tmp_path / "file" / "tier")), [event(1)])


def test_a_place_out_of_reach_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ColdTier(str(tmp_path)), [event(1)])
    tier = ColdTier(str(tmp_path))

    def unplugged(self: cold_files.Place, path: str) -> Any:
        raise OSError("the cable is out")  # as Arrow does it: without a number

    monkeypatch.setattr(cold_files.Place, "open", unplugged)
    with pytest.raises(ColdError, match=r"cannot be read: the cable is out; .*try again"):
        read(tier)
    assert tier.damaged == []
    monkeypatch.undo()
    assert read(tier) == [event(1)]


def test_no_message_tells_a_key() -> None:
    with pytest.raises(ColdError) as caught:
        ColdTier("nowhere://user:secret@host/tier")
    assert "secret" not in str(caught.value)


def test_without_arrow_it_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "from latecomer.model.errors import LatecomerError\n"
        "try:\n"
        "    import latecomer.history.cold\n"
        "except LatecomerError as error:\n"
        "    sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install pyarrow" in done.stderr
