"""The dual of the placement problem, as loops over arrays.

Relaxed are "each topic of each broker is served once" (price `lam[t, b]`) and "topic t has between least[t] and
most[t] replicas" (price `mu[t]`, which pays for the count that is cheapest at this price). What remains falls apart by
candidate: at each the best topics that fit, then the best stores. A candidate is asked for
`worth[t, c] = Σ_b min(0, rate·distance − lam) − mu[t]`; the sum over the chosen, plus what the prices pay, is a lower
bound of every plan whatever the prices are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import inner, kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

ENOUGH = 1e-4
"""Steps shorter than this part of the first change nothing any more."""


class Dual(NamedTuple):
    """What prices do not change. Candidates are numbered among themselves."""

    rates: Floats
    """[T, N]"""
    distance: npt.NDArray[Any]
    """[C, N]"""
    near: npt.NDArray[np.int32]
    """[N, C]: candidates from the nearest on."""
    far: npt.NDArray[Any]
    """[N, C]: their distances."""
    size: Ints
    capacity: Ints
    replicas: Ints
    """[T] about how many replicas there will be; only the length of steps follows from it."""
    least: Ints
    most: Ints
    """[T] the fewest and the most replicas; equal where counts are fixed."""
    stores: int
    must: Marks
    """[C]: 1 is a store, −1 is none, 0 is open."""
    forced: Marks
    """[T, C]: 1 is a replica, −1 is none, 0 is open."""


@kernel
def worths(dual: Dual, lam: Any, mu: Any, rates: Any, out: Any) -> None:
    """`out[t, c]`, in the numbers that the prices are in: floats to search, integers to be sure."""
    topics, brokers = rates.shape
    candidates = dual.near.shape[1]
    for t in range(topics):
        for c in range(candidates):
            out[t, c] = -mu[t]
        for b in range(brokers):
            rate, price = rates[t, b], lam[t, b]
            if rate == 0:
                continue
            for h in range(candidates):
                saved = rate * dual.far[b, h] - price
                if saved >= 0:
                    break
                out[t, dual.near[b, h]] += saved


@inner
def fill(dual: Dual, worth: Floats, chosen: Floats, value: Floats) -> None:
    """The best load of every candidate: `chosen[t, c]` in 0..1, `value[c]` its worth.

    Where sizes differ the last topic may be cut (Dantzig), which only lowers the value.
    """
    ratio = np.empty(worth.shape[0])
    for c in range(worth.shape[1]):
        value[c] = _fill_one(dual, worth, chosen, c, ratio)


@inner
def _fill_one(dual: Dual, worth: Floats, chosen: Floats, c: int, ratio: Floats) -> float:
    room = dual.capacity[c]
    total = 0.0
    for t in range(worth.shape[0]):
        chosen[t, c] = 0.0
        ratio[t] = worth[t, c] / dual.size[t] if dual.size[t] > 0 else worth[t, c] * 1e30
        if dual.forced[t, c] == 1:
            chosen[t, c] = 1.0
            total += worth[t, c]
            room -= dual.size[t]
        if dual.forced[t, c] != 0:
            ratio[t] = 0.0
    for t in np.argsort(ratio, kind="mergesort"):
        if ratio[t] >= 0.0 or room < 0 or (room == 0 and dual.size[t] > 0):
            break
        part = 1.0 if dual.size[t] <= room else room / dual.size[t]
        chosen[t, c] = part
        total += part * worth[t, c]
        room -= dual.size[t]
    return total


# --- the ascent ---


@kernel
def fill_exactly(dual: Dual, worth: Ints, value: Ints) -> None:
    """No load of candidate c is worth less than `value[c]`. Integers throughout.

    With one size the best topics that fit are the answer. Otherwise a price p per unit of room is, whatever p is:
    −p·room + Σ min(0, worth + p·size); p is what the topic pays that does not fit any more.
    """
    topics, candidates = worth.shape
    ratio = np.empty(topics)
    for c in range(candidates):
        room = dual.capacity[c]
        total = 0
        for t in range(topics):
            ratio[t] = worth[t, c] / dual.size[t] if dual.size[t] > 0 else -1e300
            if dual.forced[t, c] == 1:
                total += worth[t, c]
                room -= dual.size[t]
        left = room
        price = 0
        for t in np.argsort(ratio, kind="mergesort"):
            if dual.forced[t, c] != 0 or worth[t, c] >= 0:
                continue
            if dual.size[t] > left:
                price = -(worth[t, c] // dual.size[t])
                break
            left -= dual.size[t]
        total -= price * max(room, 0)
        for t in range(topics):
            if dual.forced[t, c] == 0:
                total += min(0, worth[t, c] + price * dual.size[t])
        value[c] = total


@kernel
def pick(dual: Dual, value: Any, taken: Bools) -> Any:
    """Choose the stores: those that must be, then the best of the others; a store without worth is none."""
    total = value[0] - value[0]
    left = dual.stores
    for c in range(value.size):
        taken[c] = dual.must[c] == 1
        if taken[c]:
            total += value[c]
            left -= 1
    for c in np.argsort(value, kind="mergesort"):
        if left <= 0 or value[c] >= 0:
            break
        if dual.must[c] == 0:
            taken[c] = True
            total += value[c]
            left -= 1
    return total


@inner
def cheapest(dual: Dual, t: int, price: Any) -> int:
    """The count of replicas that the price pays least for."""
    return int(dual.least[t] if price >= 0 else dual.most[t])


@inner
def slopes(dual: Dual, lam: Floats, mu: Floats, chosen: Floats, taken: Bools, slope: Floats, counts: Floats) -> None:
    """The subgradient: `slope[t, b]` = 1 − how often b is served, `counts[t]` = k[t] − replicas chosen."""
    topics, brokers = dual.rates.shape
    for t in range(topics):
        kept = 0.0
        for b in range(brokers):
            slope[t, b] = 1.0
        for c in range(taken.size):
            part = chosen[t, c]
            if not taken[c] or part <= 0.0:
                continue
            kept += part
            for b in range(brokers):
                if dual.rates[t, b] * dual.distance[c, b] < lam[t, b]:
                    slope[t, b] -= part
        if mu[t] == 0.0:
            counts[t] = min(max(kept, dual.least[t]), dual.most[t]) - kept
        else:
            counts[t] = cheapest(dual, t, mu[t]) - kept


@kernel
def ascend(
    dual: Dual,
    lam: Floats,
    mu: Floats,
    upper: float,
    iterations: int,
    alpha: float,
    patience: int,
    visits: Floats,
) -> tuple[float, int]:
    """Deflected subgradient ascent with Polyak's steps, in place; returns the bound and the steps made.

    `lam` and `mu` become the best prices found. Prices are measured in hops (lam/rate), so popular topics do not drown
    the others. `visits[t, c]` sums up how much each replica was wanted, the later the more: where good plans are.
    """
    topics, brokers = dual.rates.shape
    candidates = dual.near.shape[1]
    worth, chosen = np.empty((topics, candidates)), np.empty((topics, candidates))
    value, taken = np.empty(candidates), np.empty(candidates, np.bool_)
    slope, counts = np.empty((topics, brokers)), np.empty(topics)
    way, mu_way = np.zeros((topics, brokers)), np.zeros(topics)
    best_lam, best_mu = lam.copy(), mu.copy()
    best, stalled, steps, shrunk = -np.inf, 0, 0, 1.0
    for _ in range(iterations):
        steps += 1
        worths(dual, lam, mu, dual.rates, worth)
        fill(dual, worth, chosen, value)
        bound = pick(dual, value, taken) + lam.sum()
        for t in range(topics):
            bound += mu[t] * cheapest(dual, t, mu[t])
        _note(chosen, taken, visits)
        stalled = 0 if bound > best + 1e-5 * abs(best) else stalled + 1
        if bound > best:
            best = bound
            best_lam[:] = lam
            best_mu[:] = mu
        if stalled >= patience:
            stalled = 0
            shrunk *= 0.7
            lam[:] = best_lam
            mu[:] = best_mu
            way[:] = 0.0
            mu_way[:] = 0.0
            if shrunk < ENOUGH or best >= upper:
                break
            continue
        slopes(dual, lam, mu, chosen, taken, slope, counts)
        if not _step(dual, lam, mu, slope, counts, way, mu_way, alpha * shrunk * max(upper - bound, 1e-6 * upper)):
            break
    lam[:] = best_lam
    mu[:] = best_mu
    return best, steps


@inner
def _note(chosen: Floats, taken: Bools, visits: Floats) -> None:
    for t in range(chosen.shape[0]):
        for c in range(taken.size):
            visits[t, c] = 0.98 * visits[t, c] + 0.02 * (chosen[t, c] if taken[c] else 0.0)


@inner
def _step(
    dual: Dual,
    lam: Floats,
    mu: Floats,
    slope: Floats,
    counts: Floats,
    way: Floats,
    mu_way: Floats,
    ascent: float,
) -> bool:
    """Go along the deflected slope; False when there is none. Prices stay between 0 and the farthest candidate's."""
    topics, brokers = dual.rates.shape
    candidates = dual.near.shape[1]
    norm = 0.0
    for t in range(topics):
        mu_way[t] = counts[t] + 0.6 * mu_way[t]
        norm += _scale(dual, t) * mu_way[t] ** 2
        for b in range(brokers):
            way[t, b] = slope[t, b] + 0.6 * way[t, b]
            norm += dual.rates[t, b] * way[t, b] ** 2
    if norm <= 0.0:
        return False
    step = ascent / norm
    for t in range(topics):
        before = mu[t]
        mu[t] += step * _scale(dual, t) * mu_way[t]
        if dual.least[t] < dual.most[t] and before * mu[t] < 0.0:
            mu[t] = 0.0  # a free count has its kink there
        for b in range(brokers):
            rate = dual.rates[t, b]
            lam[t, b] = min(max(lam[t, b] + step * rate * way[t, b], 0.0), rate * dual.far[b, candidates - 1])
    return True


@inner
def _scale(dual: Dual, t: int) -> float:
    """A replica's price moves like that of a tenth of the requests that it serves."""
    return float(dual.rates[t].sum() / (10.0 * max(dual.replicas[t], 1)))
