"""Where Spark runs: the options that all verbs on Spark share, and a session made from them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from latecomer.cli.extras import needed
from latecomer.model.errors import LatecomerError, SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "LATECOMER_SPARK"
SPARK = "Spark"

Master = Annotated[
    str,
    typer.Option(
        metavar="SPARK",
        envvar=MASTER_VARIABLE,
        help="local[*], spark://HOST:7077, yarn, k8s://…, or sc://HOST:15002 for Spark Connect.",
        rich_help_panel=SPARK,
    ),
]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory of Spark's driver, such as 900m or 4g.", rich_help_panel=SPARK)
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.", rich_help_panel=SPARK
    ),
]
MASTER = "local[*]"
MEMORY = "4g"


@contextmanager
def opened(
    master: str = MASTER, memory: str = MEMORY, conf: Sequence[str] | None = None, input_bytes: int | None = None
) -> Iterator[SparkSession]:
    """A Spark session; what goes wrong in it is told in a sentence. How much it will read decides how Java is run."""
    told = dict(_pair(text) for text in conf or ())
    with spark_libraries():
        from latecomer.pipeline.failure import FAILURES, reason
        from latecomer.pipeline.session import SparkSettings, session
    with session(SparkSettings(master, memory, told, input_bytes=input_bytes)) as spark:
        try:
            yield spark
        except FAILURES as error:
            why = reason(error)  # asked now: the Java process that knows it ends with the session
            if os.environ.get("LATECOMER_TRACEBACK"):
                traceback.print_exc()
            raise LatecomerError(f"Spark failed: {why} (LATECOMER_TRACEBACK=1 shows all of it)") from None


@contextmanager
def progress(first: str, *, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """What is being computed: a clock on a terminal; anywhere else nothing, or `lines`."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:

        def line(what: str) -> None:
            if lines:
                console.print(f"{what} …", soft_wrap=True)

        line(first)
        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description:<16}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(first, total=None)
        yield lambda what: bar.update(task, description=what)


def check_first(master: str, files: Sequence[str | Path] = ()) -> int | None:
    """What can be known before libraries are loaded and Spark starts: is the cluster there, and are the files?

    Returns how many bytes there are to read in them; None: nobody knows. With Spark Connect files are read on another
    machine, so that nothing can be said about them here.
    """
    from latecomer.pipeline.inputs import check_inputs, input_bytes
    from latecomer.pipeline.reachable import check_reachable

    check_inputs(files, here=not master.startswith("sc://"))
    check_reachable(master)
    return input_bytes(files)


def spark_libraries() -> AbstractContextManager[None]:
    """What Spark needs."""
    return needed("spark")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise SettingsError("--spark-conf", f"{text!r} is not like spark.executor.memory=4g")
    return key, value
