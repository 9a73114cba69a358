"""Step 3 of planning §5.3: every topic's votes times its weight, added up; the M highest are the stores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.planner.greedy import votes_for
from latecomer.planner.problem import NO_LIMIT, Problem

Ints = npt.NDArray[np.int64]


def ranking(problem: Problem, votes: Ints) -> Ints:
    """[N] the weighted sum of all votes, without the common divisor of the weights."""
    # Exact: no entry exceeds all requests times all entry weights, and that a problem has checked.
    found: Ints = problem.weights @ votes
    return found


def chosen(problem: Problem, rank: Ints) -> tuple[int, ...]:
    """S: who is pinned, then the highest of those who may; in order of choice.

    Decision: when fewer than M have votes, the lowest indices without votes follow. And a broker is passed over when
    the stores still to choose could not make up for it: in room, in requests, in failure domains, in stores that are
    large enough for a topic. In the paper's problem, with equal stores, that never happens.
    """
    order = np.argsort(-rank, kind="stable").tolist()
    pinned = frozenset(problem.pinned_stores)  # asked, never walked
    found = [broker for broker in order if broker in pinned]
    waiting = [broker for broker in order if broker not in pinned and problem.open[broker]]
    count = max(problem.stores - len(found), 0)
    if _all_alike(problem):
        return tuple(found + waiting[:count])
    passed: list[int] = []
    while waiting and len(found) < problem.stores:
        broker = waiting.pop(0)
        enough = _can_be_enough(problem, [*found, broker], passed + waiting, problem.stores - len(found) - 1)
        (found if enough else passed).append(broker)
    return tuple((found + passed)[: max(problem.stores, len(pinned))])


def _all_alike(problem: Problem) -> bool:
    """Whether stores differ in nothing but their place."""
    alone = len(np.unique(problem.domain)) == len(problem.domain)
    equal = all((row == row[0]).all() for row in (problem.capacity, problem.rate_limit))
    return alone and equal


def _can_be_enough(problem: Problem, taken: list[int], others: list[int], more: int) -> bool:
    """Whether `taken` and so many of the others can keep every limit that is a sum or a count."""
    room = _best(problem.capacity, taken, others, more)
    if room < int((problem.size * problem.replicas).sum()):
        return False
    limits = np.where(problem.rate_limit == NO_LIMIT, problem.total_rate, problem.rate_limit)
    if _best(limits, taken, others, more) < problem.total_rate:
        return False
    for size in np.unique(problem.size).tolist():
        wanted = int(problem.replicas[problem.size >= size].max())
        here = np.unique(problem.domain[[broker for broker in taken if problem.capacity[broker] >= size]])
        there = np.unique(problem.domain[[broker for broker in others if problem.capacity[broker] >= size]])
        if len(here) + min(more, len(np.setdiff1d(there, here))) < wanted:
            return False
    return True


def _best(values: Ints, taken: list[int], others: list[int], more: int) -> int:
    rest = np.sort(values[others])[::-1][:more]
    return int(values[taken].sum()) + int(rest.sum())


def stores_by_votes(problem: Problem, votes: Ints) -> tuple[int, ...]:
    """S from the votes [T, N] of all topics."""
    return chosen(problem, ranking(problem, votes))


def stores_of_aggregate(problem: Problem) -> tuple[int, ...]:
    """S without differentiation among topics: one greedy for all requests together (planning §6, "rnd").

    Decision: the runs have M picks each, as M stores for one class of content are wanted (planning §5.2).
    """
    together = problem.rates.sum(axis=0, keepdims=True)
    return chosen(problem, votes_for(problem, together, np.array([problem.stores], np.int64))[0])
