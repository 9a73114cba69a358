"""Drift, and what is not drift."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from latecomer.pipeline.drift import as_requests, find_drift

TOPICS, BROKERS = 12, 6


def shape(seed: int = 1) -> npt.NDArray[np.float64]:
    chance = np.random.default_rng(seed)
    weight = 1 / np.arange(1, TOPICS + 1)
    table = weight[:, None] * chance.dirichlet(np.ones(BROKERS), TOPICS)
    return np.asarray(table / table.sum())


def sample(shares: npt.NDArray[np.float64], requests: int, seed: int) -> npt.NDArray[np.int64]:
    drawn = np.random.default_rng(seed).multinomial(requests, shares.ravel())
    return drawn.reshape(shares.shape).astype(np.int64) * 1000


@pytest.mark.parametrize("known", [0, 300])
@pytest.mark.parametrize("requests", [10, 40, 400])
def test_noise_is_no_drift(known: int, requests: int) -> None:
    shares = shape()
    wrong = 0
    for seed in range(20):
        old = sample(shares, known, seed) if known else (shares * 1e9).astype(np.int64)
        finding = find_drift(old, sample(shares, requests, 1000 + seed), known, requests)
        assert finding.moved.locality > 0.02  # it does look moved
        wrong += finding.drifted
    assert wrong <= 2  # two looks, each wrong once in 200


def test_requests_from_elsewhere_are_drift_of_locality() -> None:
    shares = shape()
    new = sample(np.roll(shares, 2, axis=1), 400, 7)
    finding = find_drift(sample(shares, 400, 8), new, 400, 400)
    assert finding.locality
    assert not finding.popularity


def test_other_topics_are_drift_of_popularity() -> None:
    # The same brokers for all topics: only the weights change.
    weight = 1 / np.arange(1, TOPICS + 1)
    even = np.outer(weight / weight.sum(), np.full(BROKERS, 1 / BROKERS))
    finding = find_drift(sample(even, 400, 1), sample(even[::-1], 400, 2), 400, 400)
    assert finding.popularity
    assert not finding.locality


def test_few_requests_say_nothing() -> None:
    shares = shape()
    finding = find_drift(sample(shares, 400, 1), sample(np.roll(shares, 2, axis=1), 3, 2), 400, 3)
    assert not finding.drifted


def test_nothing_asked_is_no_drift() -> None:
    nothing = np.zeros((TOPICS, BROKERS), np.int64)
    assert not find_drift(sample(shape(), 100, 1), nothing, 100, 0).drifted


def test_as_requests_keeps_the_number() -> None:
    rates = sample(shape(), 10_000, 3)
    for requests in (1, 7, 999):
        assert as_requests(rates, requests).sum() == requests
        assert (as_requests(rates, requests) >= 0).all()
