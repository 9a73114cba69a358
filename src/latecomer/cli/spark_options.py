"""Where Spark runs: the options that all verbs on Spark share, and a session made from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

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
def opened(master: str = MASTER, memory: str = MEMORY, conf: Sequence[str] | None = None) -> Iterator[SparkSession]:
    """A Spark session; what goes wrong in it is told in a sentence."""
    told = dict(_pair(text) for text in conf or ())
    with spark_libraries():
        from pyspark.errors import PySparkException

        from latecomer.pipeline.session import SparkSettings, first_line, session
    try:
        with session(SparkSettings(master, memory, told)) as spark:
            yield spark
    except PySparkException as error:
        if os.environ.get("LATECOMER_TRACEBACK"):
            raise
        raise LatecomerError(f"Spark failed: {first_line(error)} (LATECOMER_TRACEBACK=1 shows all of it)") from error


def spark_libraries() -> AbstractContextManager[None]:
    """What Spark needs."""
    return needed("spark")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise SettingsError("--spark-conf", f"{text!r} is not like spark.executor.memory=4g")
    return key, value
