"""Table 4: how many records a second become demand, tables and a report; and the data source beside plain Parquet."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.table import Table

from bench import pipeline_source
from bench.book import Book, span, table
from bench.pipeline.logs import DEPTH, LogSize, write_log
from bench.pipeline.processes import answer, child, step
from bench.pipeline.scale import gigabytes

INGESTION, SOURCE = "ingestion", "source"
MEMORY = "4g"
SEGMENT_ROWS = 100_000
AGAIN = "analyze, nothing new"
STEPS = {
    "demand, cold": "segments → demand and distances, cold",
    "demand, warm": "the same, warm",
    "analyze, all new": "latecomer analyze: all tables and the report",
    AGAIN: "the same again, nothing new in the log",
}


def measure_log(book: Book, folder: Path, size: LogSize, rounds: int, cores: int) -> None:
    place = write_log(folder, size)
    for _ in range(rounds):
        book.say(f"a log of {size.requests:,} requests")
        told = child(["ingest", str(place), str(cores)])
        for part, one in told.steps.items():
            book.note((INGESTION, part, "seconds"), one.seconds)
            book.note((INGESTION, part, "cpu"), one.cpu_s)
            book.note((INGESTION, part, "bytes"), one.peak_bytes)
        book.note((INGESTION, "all", "records"), told.answers["records"])


def measure_source(book: Book, folder: Path, rows: int, rounds: int, cores: int) -> None:
    book.say(f"the data source, {rows:,} rows")
    told = child(["source", str(folder / f"source-{rows}"), str(rows), str(rounds), str(cores)])
    for question, count, parquet_s, source_s in told.answers["lines"]:
        book.note((SOURCE, question, "parquet"), count / parquet_s)
        book.note((SOURCE, question, "source"), count / source_s)


# --- in the child ---


def ingest_child(place: str, cores: str) -> None:
    import shutil

    from latecomer.pipeline.classes import Classes
    from latecomer.pipeline.job import Wish, analyze
    from latecomer.pipeline.log import find_log
    from latecomer.pipeline.measure import measure
    from latecomer.pipeline.session import SparkSettings, session

    classes, out = Classes(depth=DEPTH), Path(place).parent / "analysis"
    with ExitStack() as stack:
        with step("start"):
            spark = stack.enter_context(session(SparkSettings(f"local[{cores}]", MEMORY, scratch=Path(place).parent)))
        for state in ("cold", "warm"):
            with step(f"demand, {state}"):
                found = measure(spark, find_log(Path(place)), classes)
        try:
            for state in ("all new", "nothing new"):
                with step(f"analyze, {state}"):
                    analyze(spark, Path(place), out, Wish(classes))
        finally:
            shutil.rmtree(out, ignore_errors=True)
    answer(records=found.rows)


def source_child(folder: str, rows: str, rounds: str, cores: str) -> None:
    from latecomer.pipeline.session import SparkSettings, session

    if not Path(folder).is_dir():
        pipeline_source.write_log(Path(folder), int(rows), SEGMENT_ROWS)
    with session(SparkSettings(f"local[{cores}]", MEMORY)) as spark:
        answer(lines=pipeline_source.measure(spark, Path(folder), int(rows), int(rounds)))


# --- showing ---


def log_table(book: Book) -> Table:
    records = book.get((INGESTION, "all", "records")) or 0
    made = table(
        f"4. a log of {records:,.0f} records",
        ["work"],
        ["time", "processor time", "records/s", "records per processor second", "peak memory"],
    )
    for part, name in STEPS.items():
        seconds, spent = (book.get((INGESTION, part, unit)) for unit in ("seconds", "cpu"))
        if seconds and spent:
            # Where nothing is new, no record is counted again.
            speeds = ("", "") if part == AGAIN else (f"{records / seconds:,.0f}", f"{records / spent:,.0f}")
            made.add_row(name, span(seconds), span(spent), *speeds, gigabytes(book.get((INGESTION, part, "bytes"))))
    return made


def source_table(book: Book) -> Table:
    made = table(
        '4b. spark.read.format("latecomer") beside Spark\'s own Parquet reader',
        ["question"],
        ["Parquet, rows/s", "source, rows/s", "source / Parquet"],
    )
    for table_, question, column in book.figures:
        if table_ == SOURCE and column == "parquet":
            plain, own = book.get((SOURCE, question, "parquet")), book.get((SOURCE, question, "source"))
            if plain and own:
                made.add_row(question, f"{plain:,.0f}", f"{own:,.0f}", f"{own / plain:.2f}")
    return made
