"""How much evidence a demand needs: against samples drawn from a demand that is known."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest

from latecomer.model.demand import Demand
from latecomer.model.evidence import evidence


def demand_of(counts: dict[tuple[str, str], int], window_s: float = 100.0) -> Demand:
    rates: dict[str, dict[str, float]] = {}
    for (topic, broker), count in counts.items():
        rates.setdefault(topic, {})[broker] = count / window_s
    return Demand(tuple(rates), rates, window_s=window_s, requests=sum(counts.values()))


@pytest.mark.parametrize(("topics", "brokers", "requests"), [(4, 5, 500), (10, 10, 2000), (3, 3, 100)])
def test_what_is_expected_to_be_misplaced_is_misplaced(topics: int, brokers: int, requests: int) -> None:
    chance = Random(7)
    places = [(f"t{topic}", f"b{broker}") for topic in range(topics) for broker in range(brokers)]
    shares = [1 / (1 + position) for position in range(len(places))]
    total = sum(shares)
    found, told = [], []
    for _ in range(60):
        counts = Counter(chance.choices(places, shares, k=requests))
        off = sum(abs(counts[place] / requests - share / total) for place, share in zip(places, shares, strict=True))
        found.append(off / 2)
        told.append(evidence(demand_of(dict(counts))).misplaced)
    assert sum(told) / 60 == pytest.approx(sum(found) / 60, rel=0.15)


def test_what_is_missing_is_said_in_requests_and_in_time() -> None:
    few = demand_of({(f"t{topic}", f"b{broker}"): 3 for topic in range(5) for broker in range(5)}, window_s=60)
    found = evidence(few)
    assert (found.requests, found.places, found.missing) == (75, 25, found.needed - 75)
    assert found.missing_s == pytest.approx(found.missing / 75 * 60)
    assert evidence(few, 0.5).missing == 0
    enough = demand_of({(f"t{topic}", f"b{broker}"): 30 for topic in range(5) for broker in range(5)}, window_s=600)
    assert evidence(enough).missing == 0
    assert evidence(enough).misplaced < 0.1


@pytest.mark.parametrize("requests", [1, 7, 40, 333])
def test_what_is_accepted_is_enough(requests: int) -> None:
    chance = Random(requests)
    counts = Counter(chance.choices([("t", f"b{broker}") for broker in range(30)], k=requests))
    found = evidence(demand_of(dict(counts)))
    if found.misplaced < 1:
        assert evidence(demand_of(dict(counts)), found.misplaced + 1e-9).missing == 0


def test_nothing_is_no_evidence() -> None:
    found = evidence(Demand(("t",), {}))
    assert (found.misplaced, found.missing_s) == (1.0, math.inf)
    assert found.missing > 0


def test_one_place_alone_needs_a_few_requests_all_the_same() -> None:
    assert evidence(demand_of({("t", "b"): 1})).missing > 0
    assert evidence(demand_of({("t", "b"): 20})).missing == 0
