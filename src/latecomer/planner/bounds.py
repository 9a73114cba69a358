"""Lower bounds: what no plan can be better than. Proven with integers, so a gap of zero means optimal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from latecomer.planner.lagrange import Certificate, Prices, certify, prices_for
from latecomer.planner.legality import Infeasible, infeasible
from latecomer.planner.problem import Problem

Kind: TypeAlias = Literal["lagrangian", "tree", "optimal"]

ITERATIONS = 3000
FEWEST_ITERATIONS = 800
STEPS = 30_000_000_000
"""Topics × brokers × candidates × iterations, above which iterations become fewer."""


@dataclass(frozen=True, slots=True)
class Bound:
    """No placement costs less than `value`. Rate limits and failure domains are not asked, which can only lower it."""

    value: int
    kind: Kind
    iterations: int = 0

    def gap(self, cost: int) -> float:
        """How much more `cost` is, as a part of the bound; zero when the bound is met."""
        return (cost - self.value) / self.value if self.value > 0 else float(cost > self.value)


def bound(problem: Problem, upper: int | None = None, *, iterations: int | None = None) -> Bound:
    """A bound from prices; `upper`, the cost of a known placement, makes its steps the right length."""
    if reasons := infeasible(problem):
        raise Infeasible(reasons)
    prices = prices_for(problem)
    certificate = raise_prices(problem, prices, upper, iterations)
    return bound_of(certificate, upper, prices.steps)


def raise_prices(problem: Problem, prices: Prices, upper: int | None, iterations: int | None = None) -> Certificate:
    """Ascend and certify. Without a known cost the aim is a little above what was reached."""
    if iterations is None:
        iterations = affordable(problem, prices, ITERATIONS, FEWEST_ITERATIONS)
    if upper is not None:
        prices.ascend(upper, iterations)
        return certify(prices, problem)
    aim = max(1, 2 * int(prices.lam.sum()))
    for _ in range(3):
        prices.ascend(aim, iterations // 3)
        aim = max(1, certify(prices, problem).value * 21 // 20)
    return certify(prices, problem)


def affordable(problem: Problem, prices: Prices, most: int, fewest: int) -> int:
    """Iterations: fewer the more each of them is to do."""
    work = problem.rates.size * len(prices.candidates)
    return max(fewest, min(most, STEPS // max(1, work)))


def bound_of(certificate: Certificate, upper: int | None, steps: int) -> Bound:
    """A cost is not negative, and not below a bound that reached it."""
    value = max(0, certificate.value)
    if upper is not None and value >= upper:
        return Bound(upper, "optimal", steps)
    return Bound(value, "lagrangian", steps)
