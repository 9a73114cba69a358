"""Tables 1 to 3: the job of `latecomer checkins` on Spark, DuckDB and Polars; what Spark costs before it does anything.

All engines read the same Parquet files and must find the same. Every user has four friends in the list, so that which
four are followed is not a matter of anybody's hash.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from bench.book import BenchError, Book, span, table, times
from bench.pipeline.figures import check_same
from bench.pipeline.processes import Told, answer, child, step
from bench.pipeline.scale import both, gigabytes

CHECKINS, FIXED, TUNING = "check-ins", "fixed", "tuning"
ENGINES = ("spark", "duckdb", "polars")
USERS, PER_USER, MONTHS = 40_000, 75, 7
"""Of one portion: the 3 million check-ins of 40 thousand users of the dynatops paper."""
NOW_US = 1_800_000_000_000_000
MEMORY = "4g"
MORE_MEMORY = ("8g", "16g")
"""For DuckDB, where what Spark has is not enough."""
EMPTY_JOBS = 20
TUNINGS = {
    "partitions = cores (ours)": {},
    "partitions = 2 × cores": {"spark.sql.shuffle.partitions": "{twice}"},
    "200 partitions": {"spark.sql.shuffle.partitions": "200"},
}
SMALL_MEMORY = "1g"


def portion_name(portion: float) -> str:
    return f"{portion:g}×, {portion * USERS * PER_USER:,.0f} check-ins"


def write_data(book: Book, folder: Path, portion: float, cores: int) -> Path:
    """Check-ins by `latecomer synth`, and a list in which everybody has four friends."""
    place = folder / f"checkins-{portion:g}"
    if place.is_dir():
        return place
    users = max(10, round(USERS * portion))
    book.say(f"making up {portion_name(portion)}")
    hidden = folder / f".checkins-{portion:g}"
    child(["synth", str(hidden), str(users), str(cores)])
    made = hidden / "synth" / "latest"
    (hidden / "friends").mkdir()
    seats = np.random.default_rng(5).permutation(users)
    friends = np.concatenate([np.roll(seats, 1), np.roll(seats, 3)])
    pq.write_table(pa.table({"user": np.tile(seats, 2), "friend": friends}), hidden / "friends" / "friends.parquet")
    shutil.move(str((made / "checkins").resolve()), hidden / "checkins")
    shutil.rmtree(hidden / "synth")
    hidden.rename(place)
    return place


# --- measuring ---


def compare(
    book: Book, folder: Path, portions: Sequence[float], rounds: int, cores: int, engines: Sequence[str] = ENGINES
) -> None:
    for portion in portions:
        place = write_data(book, folder, portion, cores)
        row = portion_name(portion)
        for number in range(rounds):
            found: dict[str, Any] = {}
            for at in range(len(engines)):
                engine = engines[(at + number) % len(engines)]
                told = _measured(book, row, engine, place, cores)
                for part, one in told.steps.items():
                    book.note((CHECKINS, row, f"{engine}, {part}"), one.seconds)
                    book.note((CHECKINS, row, f"{engine}, {part}, cpu"), one.cpu_s)
                book.note((CHECKINS, row, f"{engine}, peak"), told.peak_bytes)
                found[engine] = json.loads(told.answers["found"])
            check_same(found)
            one_of_them = found[engines[0]]
            book.note((CHECKINS, row, "rows"), one_of_them["rows_read"])
            book.note((CHECKINS, row, "visits"), one_of_them["visits"])
            book.note((CHECKINS, row, "events"), one_of_them["subscribed"] + one_of_them["unsubscribed"])


def _measured(book: Book, row: str, engine: str, place: Path, cores: int) -> Told:
    """With the memory that Spark has; where DuckDB ends for the lack of it, with more, and that is noted."""
    for memory in (MEMORY, *MORE_MEMORY):
        book.say(f"{engine}, {row}" + ("" if memory == MEMORY else f", {memory}"))
        try:
            told = child([engine, str(place), str(cores), memory], POLARS_MAX_THREADS=str(cores))
        except BenchError as error:
            if engine != "duckdb" or "Out of Memory" not in str(error) or memory == MORE_MEMORY[-1]:
                raise
            continue
        if memory != MEMORY:
            book.note((CHECKINS, row, f"{engine}, gigabytes"), float(memory[:-1]))
        break
    return told


def fixed(book: Book, rounds: int, cores: int) -> None:
    for _ in range(rounds):
        book.say("Spark with nothing to do")
        told = child(["nothing", str(cores)])
        for part, one in told.steps.items():
            often = EMPTY_JOBS if part.endswith("warm") else 1
            book.note((FIXED, part, "seconds"), one.seconds / often)
            book.note((FIXED, part, "cpu"), one.cpu_s / often)
            book.note((FIXED, part, "bytes"), one.peak_bytes)


def tune(book: Book, folder: Path, portion: float, cores: int) -> None:
    place = write_data(book, folder, portion, cores)
    for memory in (MEMORY, SMALL_MEMORY):
        book.say(f"settings of Spark, {memory}")
        told = child(["tune", str(place), str(cores), memory])
        for part, one in told.steps.items():
            book.note((TUNING, part, "seconds"), one.seconds)
            book.note((TUNING, part, "cpu"), one.cpu_s)
            book.note((TUNING, part, "bytes"), one.peak_bytes)


# --- in the child ---


def synth_child(folder: str, users: str, cores: str) -> None:
    from latecomer.pipeline.calibration import built_in
    from latecomer.pipeline.session import SparkSettings, session
    from latecomer.pipeline.synth_job import synthesize

    count = int(users)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with session(SparkSettings(f"local[{cores}]", MEMORY, scratch=Path(folder))) as spark:
        synthesize(
            spark,
            built_in(),
            Path(folder) / "synth",
            users=count,
            months=MONTHS,
            start="2010-08-01",
            checkins=count * PER_USER,
        )


def engine_child(engine: str, place: str, cores: str, memory: str) -> None:
    """Once cold, with what the engine needs to come up; once more in the same process."""
    with ExitStack() as stack:
        with step("start"):
            run = _opened(engine, Path(place), int(cores), memory, stack)
        with step("cold"):
            first = run()
        with step("warm"):
            second = run()
        check_same({"cold": first, "warm": second})
        answer(found=json.dumps(second))


def _opened(engine: str, place: Path, cores: int, memory: str, stack: ExitStack) -> Callable[[], dict[str, Any]]:
    data = str(place / "checkins"), str(place / "friends")
    if engine == "duckdb":
        from bench.pipeline import checkins_duckdb

        database = stack.enter_context(checkins_duckdb.opened(str(place / ".spill"), f"{memory[:-1]}GB", cores))
        return lambda: checkins_duckdb.analyse(database, *data, NOW_US)
    if engine == "polars":
        from bench.pipeline import checkins_polars

        return lambda: checkins_polars.analyse(*data, NOW_US)
    from bench.pipeline import checkins_spark
    from latecomer.pipeline.inputs import input_bytes
    from latecomer.pipeline.session import SparkSettings, session

    settings = SparkSettings(f"local[{cores}]", memory, scratch=place, input_bytes=input_bytes(data))  # as the verb
    spark = stack.enter_context(session(settings))
    return lambda: checkins_spark.analyse(spark, *data, NOW_US)


def nothing_child(cores: str) -> None:
    from latecomer.pipeline.session import SparkSettings, session

    with ExitStack() as stack:
        with step("start of a session"):
            spark = stack.enter_context(session(SparkSettings(f"local[{cores}]", MEMORY)))
        with step("first empty job"):
            spark.range(1).count()
        with step("empty job, warm"):
            for _ in range(EMPTY_JOBS):
                spark.range(1).count()
        with step("first job through Python"):
            spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
        with step("job through Python, warm"):
            for _ in range(EMPTY_JOBS):
                spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
        with step("end of the session"):
            stack.close()


def tune_child(place: str, cores: str, memory: str) -> None:
    from bench.pipeline import checkins_spark
    from latecomer.pipeline.session import SparkSettings, session

    data = str(Path(place) / "checkins"), str(Path(place) / "friends")
    with session(SparkSettings(f"local[{cores}]", memory, scratch=Path(place))) as spark:
        checkins_spark.analyse(spark, *data, NOW_US)  # warm
        for name, settings in TUNINGS.items() if memory == MEMORY else (("ours", {}),):
            before = {key: spark.conf.get(key) for key in settings}
            for key, value in settings.items():
                spark.conf.set(key, value.format(twice=2 * int(cores)))
            with step(f"{name}, {memory} of memory"):
                checkins_spark.analyse(spark, *data, NOW_US)
            for key, old in before.items():
                assert old is not None
                spark.conf.set(key, old)


# --- showing ---


def compare_table(book: Book, portions: Sequence[float]) -> Table:
    made = table(
        "1. check-ins end to end, each engine in a process of its own: time / processor time",
        ["size", "engine"],
        ["start", "cold", "warm", "check-ins per processor second, warm", "times DuckDB's, warm", "peak memory"],
    )
    for portion in portions:
        row = portion_name(portion)
        rows = book.get((CHECKINS, row, "rows"))
        if rows is None:
            continue
        for engine in ENGINES:
            spent = book.get((CHECKINS, row, f"{engine}, warm, cpu"))
            more = book.get((CHECKINS, row, f"{engine}, gigabytes"))
            made.add_row(
                f"{portion:g}×: {rows:,.0f} rows" if engine == ENGINES[0] else "",
                engine if more is None else f"{engine}, which needs {more:.0f} GB",
                *(both(book, (CHECKINS, row, f"{engine}, {part}")) for part in ("start", "cold", "warm")),
                "–" if not spent else f"{rows / spent:,.0f}",
                times(book, (CHECKINS, row, f"{engine}, warm, cpu"), (CHECKINS, row, "duckdb, warm, cpu")),
                gigabytes(book.get((CHECKINS, row, f"{engine}, peak"))),
            )
    return made


def fixed_table(book: Book) -> Table:
    made = table("2. Spark with nothing to do", ["step"], ["time", "processor time", "memory"])
    _add_steps(made, book, FIXED)
    return made


def tuning_table(book: Book, portion: float) -> Table:
    title = f"3. Spark's settings: the job of table 1 at {portion:g}×, warm"
    made = table(title, ["setting"], ["time", "processor time", "peak memory"])
    _add_steps(made, book, TUNING)
    return made


def _add_steps(made: Table, book: Book, name: str) -> None:
    """A row for each step of this table."""
    for table_, part, column in book.figures:
        if table_ == name and column == "seconds":
            figures = (book.get((name, part, unit)) for unit in ("seconds", "cpu"))
            made.add_row(part, *map(span, figures), gigabytes(book.get((name, part, "bytes"))))
