"""The job on real check-ins: what is known of the data, and what the page about it says.

The data is not part of the repository: it lies in $LATECOMER_SHARED_DATA, or beside the checkout in ../shared/data.
Where it is absent these tests are skipped, and with LATECOMER_TEST_ALL=1 they fail.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.pipeline.checkins_formats import open_rows
from latecomer.pipeline.checkins_sums import summed
from latecomer.pipeline.stages.checkin_figures import pair_counts, visit_counts
from latecomer.pipeline.stages.checkins import Region, checkins
from latecomer.pipeline.stages.pairs import pairs
from latecomer.pipeline.stages.stays import stays

NOW_US = 1_700_000_000_000_000
REPOSITORY = Path(__file__).resolve().parents[2]


def shared(name: str) -> str:
    folder = Path(os.environ.get("LATECOMER_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    path = folder / name
    if not path.is_file():
        told = f"{path} is not there; set LATECOMER_SHARED_DATA to the folder of the shared data"
        (pytest.fail if os.environ.get("LATECOMER_TEST_ALL") == "1" else pytest.skip)(told)
    return str(path)


@pytest.mark.long
def test_foursquare_us(spark: SparkSession) -> None:
    rows = open_rows(spark, [shared("foursquare_us_checkins.parquet")], now_us=NOW_US)
    visits = stays(checkins(rows, Region())).persist()
    sums = summed(visit_counts(visits).toArrow().to_pylist(), pair_counts(pairs(visits)).toArrow().to_pylist())
    counts = {name: sums.all_groups(name) for name in sums.groups[0]}
    checked_in = sums.checkins
    visits.unpersist()
    # As the description of the data has them: users, and moves from cell to cell.
    assert (checked_in, counts["users"], counts["lingers"]) == (185_871, 4_969, 40_056)
    page = (REPOSITORY / "docs" / "papers" / "dynatops-checkins.md").read_text(encoding="utf-8")
    table = [[word.strip() for word in line.split("|")] for line in page.splitlines() if line.count("|") > 3]
    shown = {row[1]: row[2] for row in reversed(table)}  # the first table has the whole data in its first column
    assert shown["check-ins"] == f"{checked_in:,}"
    for name in ("users", "visits", "pairs"):
        assert shown[name] == f"{counts[name]:,}"
    assert shown["pairs seen once"] == f"{100 * counts['pairs_seen_once'] / counts['pairs']:.1f} %"
    assert shown["linger under a day"] == f"{100 * counts['under_day'] / counts['lingers']:.1f} %"
    assert shown["linger over a week"] == f"{100 * counts['over_week'] / counts['lingers']:.1f} %"
