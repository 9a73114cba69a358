"""How Spark carries out the queries of tests: interpreted where they have a handful of rows, or as users have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

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
"""What users have. A whole job of every kind runs so, here or in a process of its own."""


@contextmanager
def shipped(spark: SparkSession) -> Iterator[SparkSession]:
    """The Spark of the tests, as users have it."""
    try:
        for key, value in SHIPPED.items():
            spark.conf.set(key, value)
        yield spark
    finally:
        for key, value in LIGHT.items():
            spark.conf.set(key, value)
