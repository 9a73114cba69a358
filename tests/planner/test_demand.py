"""Demand as a file: JSON and CSV, and a sentence for everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.demand import Demand, read_demand, write_demand
from latecomer.model.errors import SettingsError

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def test_json() -> None:
    demand = read_demand(
        '{"rates": {"a": {"1": 2.5}, "b": {}}, "sizes": {"a": 9}, "window_s": 60, "requests": 150}', "d"
    )
    assert demand == Demand(("a", "b"), {"a": {"1": 2.5}, "b": {}}, sizes={"a": 9}, window_s=60, requests=150)
    assert (demand.rate("a"), demand.rate("b"), demand.total()) == (2.5, 0, 2.5)


def test_csv() -> None:
    demand = read_demand("topic,broker,rate\nx/y,1,2.5\n\nx/y,2,0\nz,1,1e-3\n", "d")
    assert demand == Demand(("x/y", "z"), {"x/y": {"1": 2.5, "2": 0}, "z": {"1": 0.001}})


RATES = st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(0, 1e9), max_size=3), min_size=1, max_size=4)


@given(rates=RATES)
def test_what_is_written_is_read(rates: dict[str, dict[str, float]]) -> None:
    demand = Demand(tuple(rates), rates, publications=rates, sizes=dict.fromkeys(rates, 5))
    assert read_demand(write_demand(demand), "d") == demand


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "topics: demand without topics"),
        ("{", "demand: not a demand"),
        ('{"rates": {}}', "topics: demand without topics"),
        ('{"rates": {"a": {"1": -1}}}', "rates.a.1: a rate of -1"),
        ('{"rates": {"a": {"1": 1e300}}}', "rates.a.1: a rate of 1e"),
        ('{"rates": {"a": {"1": "x"}}}', "not a demand: Expected `float`"),
        ('{"rates": {"": {}}}', "topics: a topic has an empty name"),
        ('{"topics": ["a", "a"], "rates": {}}', "topics: the topic 'a' is named twice"),
        ('{"topics": ["a"], "rates": {"b": {}}}', "rates.b: the topic 'b' is not among the topics"),
        ('{"topics": ["a"], "rates": {}, "publications": {"b": {}}}', "publications.b: the topic 'b'"),
        ('{"rates": {"a": {}}, "sizes": {"a": 0}}', "sizes.a: a size of 0 bytes"),
        ('{"rates": {"a": {}}, "sizes": {"b": 1}}', "sizes.b: the topic 'b'"),
        ('{"rates": {"a": {}}, "window_s": -1}', "window_s: a window of -1"),
        ('{"rates": {"a": {}}, "requests": -1}', "requests: -1 requests"),
        ('{"rates": {"a": {}}, "rate": 1}', "unknown field `rate`"),
        ("a,b\n", "d:1: demand: the first line must be topic,broker,rate"),
        ("topic,broker,rate\na,1\n", "d:2: demand: 2 columns"),
        ("topic,broker,rate\na,1,fast\n", "d:2: demand: 'fast' is not a rate"),
        ("topic,broker,rate\na,1,nan\n", "rates.a.1: a rate of nan"),
        ("topic,broker,rate\na,1,1\na,1,2\n", "d:3: demand: the topic 'a' has two rates at '1'"),
    ],
)
def test_a_sentence_for_everything_else(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_demand(text, "d")
    assert told in str(caught.value)
    assert str(caught.value).startswith("d:")


@given(text=st.text(max_size=60))
def test_any_text_is_a_demand_or_a_settings_error(text: str) -> None:
    for whole in (text, "{" + text, "topic,broker,rate\n" + text):
        try:
            read_demand(whole, "d").check()
        except SettingsError as error:
            told = str(error)
        else:
            told = "d:"
        assert told.startswith("d:")
