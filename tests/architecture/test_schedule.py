"""The tables by which tests are divided among workers name what there is."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.architecture.repository import ROOT
from tests.schedule import DIVIDED, EXAMPLES_LEAST, EXAMPLES_PART, GROUPS, LONGEST, fewer_examples, group


def test_the_tables_name_files_that_exist() -> None:
    named = [name for name in LONGEST if name not in GROUPS] + [place for places in GROUPS.values() for place in places]
    assert [name for name in (*named, *DIVIDED) if not (ROOT / name).exists()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_whatever_uses_spark_shares_one_java_process() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"\bspark: SparkSession\b", path.read_text(encoding="utf-8"))
    ]
    assert users
    assert {group(f"{file}::test") for file in users} == {"spark"}


@pytest.mark.parametrize("file", ["tests/unit/test_topics.py", "tests/network/test_links.py"])
def test_other_files_are_groups_of_their_own(file: str) -> None:
    assert group(f"{file}::test[a::b]") == file


@pytest.mark.parametrize("file", DIVIDED)
def test_files_whose_tests_share_nothing_are_handed_out_test_by_test(file: str) -> None:
    assert group(f"{file}::test[a]") != group(f"{file}::test[b]")
    assert not re.search(r"scope=", (ROOT / file).read_text(encoding="utf-8")), "a fixture is shared"


@pytest.mark.parametrize(("said", "tried"), [(400, 400 // EXAMPLES_PART), (30, EXAMPLES_LEAST), (3, 3)])
def test_hypothesis_tries_fewer_examples(said: int, tried: int) -> None:
    examples = []

    @settings(max_examples=said, database=None)
    @given(st.integers())
    def test(number: int) -> None:
        examples.append(number)

    item = SimpleNamespace(function=test)
    fewer_examples(cast("Any", [item, item]))  # a test with two parameters is two items of one function
    test()
    assert len(examples) == tried
