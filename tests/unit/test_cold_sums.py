"""The sums in cold files by example: what is read for a survey, when they are not believed, and what is remembered."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from latecomer.history import cold_catalogue, cold_sums, cold_survey, cold_write
from latecomer.history.cold import ColdError, ColdTier
from latecomer.history.cold_rows import BARE
from latecomer.history.cold_sums import FOOTER_KEY, HOUR_US, Sums
from latecomer.history.digest import digest_of
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query, Slice
from latecomer.model.ids import EventId

START_US = 500_000 * HOUR_US
SECOND_US = 1_000_000
ALWAYS = (0, START_US + 24 * HOUR_US)


def event(number: int, topic: str = "sensors/a", hour: int = 0) -> Event:
    return Event(EventId("b1", 1, number), topic, published_us=START_US + hour * HOUR_US + number * SECOND_US)


def write(tier: ColdTier, events: Iterable[Event], hours: int = 1) -> None:
    slots: dict[int, list[Event]] = {}
    for one in events:
        slots.setdefault(one.published_us - one.published_us % (hours * HOUR_US), []).append(one)
    for start_us, some in slots.items():
        tier.write(start_us, start_us + hours * HOUR_US - 1, some)


def added(events: Iterable[Event], width_us: int = HOUR_US) -> tuple[Slice, ...]:
    found: dict[int, Slice] = {}
    for one in events:
        start_us = one.published_us - one.published_us % width_us
        old = found.get(start_us, Slice(start_us, 0, 0))
        found[start_us] = Slice(start_us, old.count + 1, (old.digest + digest_of(one.id)) % 2**64)
    return tuple(found[start_us] for start_us in sorted(found))


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("part-*.parquet"))


def has_sums(path: Path) -> bool:
    return FOOTER_KEY in (pq.read_metadata(path).metadata or {})


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_write, "GROUP_ROWS", 10)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is read of row groups, from now on."""
    read: list[list[str]] = []
    original = cold_catalogue.Catalogue._table

    def told(self: cold_catalogue.Catalogue, part: Any, group: int, names: list[str]) -> Any:
        read.append(names)
        return original(self, part, group, names)

    monkeypatch.setattr(cold_catalogue.Catalogue, "_table", told)
    return read


# --- what is read ---


def test_hours_come_from_footers_which_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event(n, f"sensors/{'ab'[n % 2]}", n % 4) for n in range(100)]
    write(ColdTier(str(tmp_path)), events)
    tier = ColdTier(str(tmp_path))
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events)
    looks: list[Any] = []
    monkeypatch.setattr(pq, "read_metadata", looks.append)
    monkeypatch.setattr(cold_catalogue, "FOOTERS_MAX", 0)
    for width_us in (HOUR_US, 3 * HOUR_US):
        assert tier.survey("sensors/b", *ALWAYS, width_us) == added(events[1::2], width_us)
    assert tier.groups_read == len(looks) == 0


def test_ten_seconds_take_keys_and_topics_of_row_groups_of_that_time(
    tmp_path: Path, small_groups: None, columns: list[list[str]]
) -> None:
    events = [event(n) for n in range(100)]
    write(ColdTier(str(tmp_path)), events)
    tier = ColdTier(str(tmp_path))
    span = (START_US + 30 * SECOND_US, START_US + 50 * SECOND_US)
    for _ in range(2):
        assert tier.survey("#", *span, 10 * SECOND_US) == added(events[30:50], 10 * SECOND_US)
    assert columns == [BARE, BARE]
    # What a request has read is enough for a survey, but not the other way round: it has to look at expiries.
    assert len(tier.read(Query(Filter("#"), START_US, START_US + 39 * SECOND_US), 0, 1000, 10**6, 10**6).events) == 40
    del columns[:]
    assert tier.survey("#", START_US, START_US + 40 * SECOND_US, 10 * SECOND_US) == added(events[:40], 10 * SECOND_US)
    assert columns == []


def test_an_hour_that_is_cut_is_walked_and_the_others_are_not(tmp_path: Path, small_groups: None) -> None:
    events = [event(n, hour=n // 20) for n in range(100)]
    write(ColdTier(str(tmp_path)), events)
    tier = ColdTier(str(tmp_path))
    since_us, until_us = events[10].published_us, events[90].published_us
    assert tier.survey("#", since_us, until_us, HOUR_US) == added(events[10:90])
    assert tier.groups_read == 2


def test_slots_side_by_side_in_an_hour_are_added_up(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path))
    half = HOUR_US // 2
    events = [event(1), event(2), event(1900), event(1901)]
    tier.write(START_US, START_US + half - 1, events[:2])
    tier.write(START_US + half, START_US + HOUR_US - 1, events[2:3])
    assert ColdTier(str(tmp_path)).survey("#", *ALWAYS, HOUR_US) == added(events[:3])
    before = tier.groups_read
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events[:3])
    assert tier.groups_read == before
    # One slot that both overlap: what it has may be theirs.
    tier.write(START_US, START_US + HOUR_US - 1, [events[0], events[3]])
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events)
    assert tier.groups_read > before


# --- without sums ---


def test_too_many_topics_have_no_sums_and_are_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_sums, "TOPICS_MAX", 3)
    few, many = ([event(n, f"{name}/{n}") for n in range(count)] for name, count in (("few", 3), ("many", 4)))
    write(ColdTier(str(tmp_path)), [*few, *many[3:]])
    assert [has_sums(path) for path in files(tmp_path)] == [True, True]
    tier = ColdTier(str(tmp_path))
    write(tier, many)
    assert [has_sums(path) for path in files(tmp_path)] == [True, False]
    monkeypatch.setattr(cold_catalogue, "CACHE_BYTES", 0)
    for _ in range(2):
        assert tier.survey("few/#", *ALWAYS, HOUR_US) == added(few)
        assert tier.survey("many/#", *ALWAYS, HOUR_US) == added(many)
    assert tier.groups_read == 1


def test_too_long_topics_have_no_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_sums, "BYTES_MAX", 200)
    events = [event(1, "a/" + "x" * 200), event(2, "b/x")]
    tier = ColdTier(str(tmp_path))
    write(tier, events)
    assert [has_sums(path) for path in files(tmp_path)] == [False, True]
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events)


def copied_with(path: Path, sums: bytes | None, rows: int) -> None:
    """As a tool does it that copies a table, or an older or newer version of this one."""
    table = pq.ParquetFile(path).read().slice(0, rows)
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != FOOTER_KEY}
    pq.write_table(table.replace_schema_metadata(metadata if sums is None else {**metadata, FOOTER_KEY: sums}), path)


def of_version(packed: bytes, version: int) -> bytes:
    fields = msgspec.msgpack.decode(b64decode(packed))
    return b64encode(msgspec.msgpack.encode([version, *fields[1:]]))


@pytest.mark.parametrize(
    ("kind", "rows", "believed"),
    [("same", 5, True), ("none", 5, False), ("same", 4, False), ("next version", 5, False), ("noise", 5, False)],
)
def test_sums_are_believed_if_they_can_be_of_these_rows(kind: str, rows: int, believed: bool, tmp_path: Path) -> None:
    events = [event(n) for n in range(5)]
    write(ColdTier(str(tmp_path)), events)
    (path,) = files(tmp_path)
    stored = pq.read_metadata(path).metadata[FOOTER_KEY]
    kinds = {"same": stored, "none": None, "next version": of_version(stored, 2), "noise": b"noise"}
    copied_with(path, kinds[kind], rows)
    tier = ColdTier(str(tmp_path))
    for _ in range(2):
        assert tier.survey("#", *ALWAYS, HOUR_US) == added(events[:rows])
    assert tier.groups_read == (0 if believed else 1)
    assert tier.damaged == []


def test_a_file_without_sums_gets_them_when_something_comes_late(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path), fresh_s=0)
    write(tier, [event(1)])
    (path,) = files(tmp_path)
    copied_with(path, None, 1)
    assert tier.survey("#", *ALWAYS, HOUR_US) == added([event(1)])
    write(tier, [event(2)])
    assert has_sums(path)
    assert tier.survey("#", *ALWAYS, HOUR_US) == added([event(1), event(2)])


# --- what is wrong ---


def test_what_is_known_to_be_damaged_is_missed(tmp_path: Path, small_groups: None) -> None:
    events = [event(n) for n in range(30)]
    write(ColdTier(str(tmp_path)), events)
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[pq.read_metadata(path).row_group(1).column(0).data_page_offset + 30] ^= 0x10
    path.write_bytes(data)
    tier = ColdTier(str(tmp_path))
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events), "nobody has looked"
    assert len(tier.read(Query(Filter("#")), 0, 1000, 10**6, 10**6).events) == 20
    for _ in range(2):
        assert tier.survey("#", *ALWAYS, HOUR_US) == added([*events[:10], *events[20:]])
    # What another store has of it counts, as it is served.
    write(ColdTier(str(tmp_path), writer="b2"), events[5:15])
    other = ColdTier(str(tmp_path))
    other.read(Query(Filter("#")), 0, 1000, 10**6, 10**6)
    assert other.survey("#", *ALWAYS, HOUR_US) == added([*events[:15], *events[20:]])


def test_a_file_with_wrong_sums_does_not_come_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = cold_write._fill
    wrong = Sums()
    wrong.add("sensors/b", event(1).published_us, event(1).id)
    monkeypatch.setattr(cold_write, "_fill", lambda file, table, order, sums: fill(file, table, order, wrong))
    with pytest.raises(ColdError, match="not what is read back"):
        write(ColdTier(str(tmp_path)), [event(1)])
    assert files(tmp_path) == []


def test_others_see_no_difference(tmp_path: Path) -> None:
    tier = ColdTier(str(tmp_path))
    write(tier, [event(n, f"{'ab'[n % 2]}/{n}", n % 3) for n in range(20)])
    assert all(has_sums(path) for path in files(tmp_path))
    table = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert table.num_rows == 20
    for path in files(tmp_path):
        for key, value in pq.read_metadata(path).metadata.items():
            assert (key + value).isascii(), "a value that is no text keeps some tools from reading the file"


# --- memory ---


def test_what_is_remembered_of_surveys_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_survey, "REMEMBERED_MAX", 10)
    monkeypatch.setattr(cold_catalogue, "SUMS_BYTES", 1000)
    tier = ColdTier(str(tmp_path))
    events = [event(n, f"sensors/{n}", n % 6) for n in range(60)]
    write(tier, events)
    for n in range(60):
        assert tier.survey(f"sensors/{n}", *ALWAYS, HOUR_US) == added([events[n]])
    assert tier.survey("#", *ALWAYS, HOUR_US) == added(events)
    surveyor, catalogue = tier._surveyor, tier._catalogue
    assert surveyor._size == sum(1 + len(some) for some in surveyor._known.values()) <= 10
    assert catalogue._sums_size == sum(len(some) for some in catalogue._sums.values()) <= 1000
    assert tier.drop_before(START_US + 24 * HOUR_US) == 60
    assert (catalogue._sums_size, len(catalogue._sums)) == (0, 0)
    assert tier.survey("#", *ALWAYS, HOUR_US) == ()
