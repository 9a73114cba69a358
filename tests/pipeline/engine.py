"""How Spark carries out the queries of tests: interpreted where they have a handful of rows, or as users have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.schedule import EVERYTHING

LIGHT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Planned once, and interpreted: to compile a query takes longer than to run it over a handful of rows."""
SHIPPED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""What users have. With LATECOMER_TEST_ALL=1 a whole job of every kind runs so, without it one measurement does."""


@contextmanager
def shipped(spark: SparkSession, *, always: bool = False) -> Iterator[SparkSession]:
    """The Spark of the tests, as users have it if all tests run, or always."""
    if not (EVERYTHING or always):
        yield spark
        return
    try:
        for key, value in SHIPPED.items():
            spark.conf.set(key, value)
        yield spark
    finally:
        for key, value in LIGHT.items():
            spark.conf.set(key, value)
