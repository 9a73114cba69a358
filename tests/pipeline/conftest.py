"""One small Spark for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from latecomer.pipeline.session import QUICK, SparkSettings, session
from tests.pipeline.engine import LIGHT

SETTINGS = SparkSettings(
    "local[2]",
    "1g",
    {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.extraJavaOptions": QUICK,
        # For every column Spark would be told, and remember, which line of Python asked for it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **LIGHT,
    },
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session(SETTINGS) as found:
        yield found
