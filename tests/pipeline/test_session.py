"""The session: settings that are refused, and what one is told."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from latecomer.model.errors import SettingsError
from latecomer.pipeline.session import SparkSettings, cores


@pytest.mark.parametrize("master", ["", "local[0]", "http://here", "spark://", "local[two]", "local [2]"])
def test_a_master_that_is_none_is_named(master: str) -> None:
    with pytest.raises(SettingsError, match=r"--master.*local\[\*\]"):
        SparkSettings(master).check()


@pytest.mark.parametrize("memory", ["4", "g", "0g", "4GB", "-1g"])
def test_a_memory_that_is_none_is_named(memory: str) -> None:
    with pytest.raises(SettingsError, match=r"--memory.*900m"):
        SparkSettings(memory=memory).check()


@pytest.mark.parametrize("master", ["local", "local[3]", "local[*]", "spark://a:7077", "sc://a:15002", "yarn"])
def test_what_spark_knows_is_let_through(master: str) -> None:
    SparkSettings(master).check()


def test_cores_of_a_local_master() -> None:
    assert [cores("local"), cores("local[3]")] == [1, 3]
    assert cores("local[*]") >= 1


def test_a_session_is_quiet_and_knows_no_other_time_zone(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sql("SELECT CAST(TIMESTAMP'1970-01-01 00:00:01' AS BIGINT) AS second").first() == (1,)
