"""Files that a job is to read, looked at before Spark starts: are they there, and are they whole?

Libraries are loaded where they are needed, so that a file that is missing is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from latecomer.model.errors import SettingsError

GLOB = "\\[]{}*?"
"""What Spark would take for a pattern in the name of a file."""
PARQUET_MAGIC = b"PAR1"
"""What every Parquet file begins and ends with."""
LOOKED_AT_MOST = 1000
"""Files of a folder; a footer is read in about a millisecond."""


def check_inputs(files: Iterable[str | Path], *, here: bool = True) -> None:
    """A SettingsError if one of them is missing, or is a Parquet file that was cut short.

    Patterns and addresses such as `s3a://…` are left to Spark; so is everything if it is not read from `here`.
    """
    for file in map(str, files) if here else ():
        path = Path(file)
        if not path.exists():
            if "://" in file or any(sign in file for sign in GLOB):
                continue
            raise SettingsError("", "there is no such file", source=file)
        for each in parquet_files(path):
            _check_whole(each)


def input_bytes(files: Iterable[str | Path]) -> int | None:
    """How much there is to read; None: some of it is not here, so nobody knows."""
    found = 0
    for path in map(Path, files):
        if path.is_dir():
            found += sum(one.stat().st_size for one in path.glob("**/*") if one.is_file())
        elif path.is_file():
            found += path.stat().st_size
        else:
            return None
    return found


def parquet_files(path: Path) -> Iterator[Path]:
    """The Parquet files that Spark would read there; those that it leaves out begin with a dot or an underscore."""
    if path.is_dir():
        found = sorted(one for one in path.glob("**/*.parquet") if one.is_file() and one.name[0] not in "._")
        yield from found[:LOOKED_AT_MOST]
    elif path.suffix == ".parquet" or _begins_as_parquet(path):
        yield path


def nanosecond_columns(file: str) -> frozenset[str]:
    """Columns of a Parquet file or folder that are timestamps in nanoseconds, which Spark hands out as numbers.

    Nothing is known about a file that is not here.
    """
    first = next(parquet_files(Path(file)), None) if Path(file).exists() else None
    if first is None:
        return frozenset()
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = pq.read_schema(first)
    return frozenset(one.name for one in fields if pa.types.is_timestamp(one.type) and one.type.unit == "ns")


def _begins_as_parquet(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def _check_whole(file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(file)
    except (pa.ArrowException, ValueError) as error:
        told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise SettingsError(
            "", f"is not a whole Parquet file ({told}); copy or write it again", source=str(file)
        ) from None
