"""Parquet files that differ only in what Java's hashes decided become the same."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.pipeline.footer import settle, settled

PLAIN, RLE, DICTIONARY = 0, 3, 8
"""As the format numbers them; written as twice that."""


def written(path: Path, *, rows: int = 500, **options: object) -> Path:
    """Columns of all kinds, in several row groups; encodings stand as pyarrow has them."""
    table = pa.table(
        {
            "word": [f"w{number % 7}" for number in range(rows)],
            "number": list(range(rows)),
            "truth": [number % 3 == 0 for number in range(rows)],
            "real": [number / 7 for number in range(rows)],
            "many": [[number] * (number % 4) for number in range(rows)],
            "nothing": pa.nulls(rows, pa.string()),
        },
        metadata={"note": "ö" * 200},
    )
    pq.write_table(table, path, row_group_size=max(1, rows // 3), **options)
    return path


def encodings(path: Path) -> list[tuple[str, ...]]:
    found = pq.read_metadata(path)
    columns = range(found.num_columns)
    return [found.row_group(group).column(at).encodings for group in range(found.num_row_groups) for at in columns]


def turned(data: bytes, order: tuple[int, ...]) -> bytes:
    """The file as another process would have written it."""
    head = bytes([0x19, 0x35])  # the next field is a list, of three numbers
    known = head + bytes(sorted(2 * number for number in (PLAIN, RLE, DICTIONARY)))
    assert known in data
    return data.replace(known, head + bytes(2 * number for number in order))


@pytest.mark.parametrize("rows", [0, 500])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_only_the_order_changes(tmp_path: Path, rows: int, version: str) -> None:
    path = written(tmp_path / "a.parquet", rows=rows, data_page_version=version)
    table, before = pq.read_table(path), encodings(path)
    settle(path)
    assert pq.read_table(path).equals(table)
    assert list(map(sorted, encodings(path))) == list(map(sorted, before))
    first = path.read_bytes()
    settle(path)
    assert path.read_bytes() == first


def test_however_they_stood_they_stand_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet")
    settle(path)
    wanted = path.read_bytes()
    seen = set()
    for order in permutations((PLAIN, RLE, DICTIONARY)):
        path.write_bytes(turned(wanted, order))
        seen.add(path.read_bytes())
        settle(path)
        assert path.read_bytes() == wanted
    assert len(seen) == 6


def test_what_is_no_parquet_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not at all")
    with pytest.raises(ValueError, match="is no Parquet file"):
        settle(path)
    assert path.read_bytes() == b"not at all"
    with pytest.raises(ValueError, match="kind 13"):
        settled(bytes([0x1D]))
