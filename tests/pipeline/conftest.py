"""One small Spark for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from latecomer.pipeline.session import SparkSettings, session
from tests.pipeline.engine import LIGHT

SETTINGS = SparkSettings(
    "local[2]",
    "1g",
    {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        **LIGHT,
    },
    input_bytes=0,
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session(SETTINGS) as found:
        yield found
