"""What `latecomer watch` says about a plan: whether demand has drifted away from it, and what to do then.

The work is that of `latecomer replan`. It is done only when demand has moved further than chance moves it, away from
the plan in force and from what was proposed last, and has then stayed where it is for some time (`Settling`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from latecomer.cli.plan import check_algorithm
from latecomer.cli.plan_files import LIVE, placed, read_network_words, read_plan_file
from latecomer.cli.plan_tables import percent
from latecomer.cli.plan_work import UNLIMITED, Order, known_algorithms
from latecomer.cli.replan_tables import ours, rule_of_thumb, verdict
from latecomer.cli.replan_work import Asked, Replan, make_replan, old_rates, with_old_topics
from latecomer.cli.watch_plans import Plans
from latecomer.model.demand import Demand
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan
from latecomer.model.topology import Topology, quoted
from latecomer.pipeline.drift import Finding, find_drift
from latecomer.pipeline.drift import Ints as Rates

PLAN = "--plan"
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What is said."""

    sentences: tuple[str, ...]
    proposal: Path | None = None
    """A plan that is better by more than it costs to get there."""
    finding: Finding | None = None
    replan: Replan | None = None


@dataclass(slots=True)
class Adviser:
    """Compares demand with the one that the plan in force was made for."""

    plan_file: Path
    network: str | None
    """One that runs; None: the one that the plan names."""
    token_file: Path | None
    asked: Asked
    folder: Path
    """Where proposals are written."""
    settle_us: int = 0
    """A plan is proposed when demand has not moved for so long."""
    told: Callable[[str], None] = lambda _: None
    _before: object = field(default=None, init=False)
    _advice: Advice = field(default=Advice(()), init=False)
    _settling: Settling = field(default_factory=lambda: Settling(), init=False)
    _open: tuple[Path, Plan] | None = field(default=None, init=False)
    """What was proposed last, while it is still good."""
    _replicas: object = field(default=None, init=False)
    """Of the plan in force."""

    def plan(self) -> Plan:
        """The one that was named, as it is now."""
        plan = read_plan_file(self.plan_file)
        self._check(plan, self.plan_file)
        return plan

    def _check(self, plan: Plan, file: Path) -> None:
        if plan.demand is None or not plan.demand.total():
            told = "does not say what demand it was made for, so nobody can say whether that has changed"
            raise SettingsError(PLAN, f"the plan {told}; make one with this version", source=str(file))
        if plan.algorithm == UNLIMITED:
            told = f"{UNLIMITED} is a yardstick that keeps no limits, so there is nothing to keep; use another plan"
            raise SettingsError("algorithm", told, source=str(file))
        check_algorithm(plan.algorithm, known_algorithms(), "algorithm", str(file))

    def advise(self, demand: Demand, until_us: int = 0) -> Advice:
        """What to say about the demand up to an instant; the same as before if nothing has changed."""
        plans = Plans(self.plan_file, self.folder)
        about = demand, until_us, plans.stamp()
        if about == self._before:
            return self._advice
        try:
            self._advice = self._look(demand, until_us, plans)
            about = demand, until_us, plans.stamp()  # with a proposal that was just written
        except LatecomerError as error:
            # A plan that is being replaced, or a network that does not answer now, is no reason to stop counting.
            self._advice = Advice((f"The plan cannot be compared: {error}",), self._advice.proposal)
            return self._advice
        self._before = about
        return self._advice

    def _look(self, demand: Demand, until_us: int, plans: Plans) -> Advice:
        force = plans.in_force()
        plan = force.plan
        self._check(plan, force.file)
        self._replicas = plan.replicas
        assert plan.demand is not None
        words = plan.topology if self.network is None else f"{LIVE}{self.network}"
        network = read_network_words(words, self.token_file)
        inside, strangers = _inside(demand, network)
        said = (force.sentence(), *((_strangers(strangers),) if strangers else ()))
        if not inside.total():
            return self._keep((*said, "Nobody has asked for anything yet that the plan could be compared with."))
        order = Order(words, network, with_old_topics(inside, plan)[0], plan.limits, plan.distance)
        try:
            before, after = old_rates(order, plan), order.problem().rates
            if before is None:
                return self._keep((*said, "The plan was made for other brokers; make a new one for this network."))
            steady_us = self._settling.steady_us(after, inside.requests, until_us)
            finding = find_drift(before, after, plan.demand.requests, inside.requests)
            if not finding.drifted:
                return self._keep((*said, as_planned(finding)), finding)
            said = (*said, drifted(finding))
            if self._still_good(order, after, inside.requests):
                assert self._open is not None
                return Advice((*said, f"The plan to apply is still {self._open[0]}."), self._open[0], finding)
            if steady_us < self.settle_us:
                return self._wait(said, steady_us, finding)
            found, _, _ = make_replan(order, plan, self.asked, self.told)
        except SettingsError as error:
            raise placed(error, None, force.file, {}) from None
        return self._propose(said, finding, found, plans)

    def _still_good(self, order: Order, now: Rates, requests: int) -> bool:
        """Whether demand is where the last proposal was made for."""
        if self._open is None or self._open[1].demand is None:
            return False
        proposed = old_rates(order, self._open[1])
        return proposed is not None and not find_drift(proposed, now, self._open[1].demand.requests, requests).drifted

    def _wait(self, said: tuple[str, ...], steady_us: int, finding: Finding) -> Advice:
        times = f"it has kept still for {steady_us // SECOND_US} s, and {self.settle_us // SECOND_US} s are waited for"
        told = f"Demand is still moving, so nothing is proposed yet: {times} (--settle)."
        if self._open is not None:
            told += f" {self._open[0]} was made for demand that is no longer so."
        return Advice((*said, told), None, finding)

    def _propose(self, said: tuple[str, ...], finding: Finding, found: Replan, plans: Plans) -> Advice:
        sentences = (*said, rule_of_thumb(found), ours(found), verdict(found))
        if found.recommendation == found.offers[0].name and not found.plan.moves:
            return self._keep(sentences, finding, found)
        if self._open is None or self._open[1].replicas != found.plan.replicas:
            self._open = plans.propose(found.plan), found.plan
        file = self._open[0]
        return Advice(
            (*sentences, f"The plan is in {file}. Apply it with: latecomer apply {file}"), file, finding, found
        )

    def _keep(self, said: tuple[str, ...], finding: Finding | None = None, found: Replan | None = None) -> Advice:
        """Nothing is proposed; what was proposed before is no longer advised, but its file stays as it is."""
        if self._open is not None and self._open[1].replicas != self._replicas:
            said = (*said, f"{self._open[0]} is no longer advised.")
        self._open = None
        return Advice(said, None, finding, found)


@dataclass(slots=True)
class Settling:
    """For how long demand has been where it is."""

    rates: Rates | None = None
    requests: int = 0
    since_us: int = 0

    def steady_us(self, rates: Rates, requests: int, now_us: int) -> int:
        """The time since demand last moved further than chance moves it. Compared is with where it was then, not with
        the look before: what moves slowly moves as well."""
        before = self.rates
        if before is None or before.shape != rates.shape or find_drift(before, rates, self.requests, requests).drifted:
            self.rates, self.requests, self.since_us = rates, requests, now_us
        return now_us - self.since_us


def drifted(finding: Finding) -> str:
    """How far, against chance."""
    parts = [
        f"{what} has drifted: {percent(moved)} of the requests {how}, where chance alone moves up to {percent(chance)}"
        for what, how, moved, chance, is_so in (
            (
                "popularity",
                "are for other topics",
                finding.moved.popularity,
                finding.chance.popularity,
                finding.popularity,
            ),
            ("locality", "come from elsewhere", finding.moved.locality, finding.chance.locality, finding.locality),
        )
        if is_so
    ]
    told = "; ".join(parts)
    return f"{told[:1].upper()}{told[1:]} (known by {finding.requests:,} requests)."


def as_planned(finding: Finding) -> str:
    moved, chance = finding.moved, finding.chance
    topics = (
        f"{percent(moved.popularity)} of the requests are for other topics (chance: up to {percent(chance.popularity)})"
    )
    return (
        f"Demand is as planned: {topics}, {percent(moved.locality)} come from elsewhere ({percent(chance.locality)})."
    )


def _inside(demand: Demand, network: Topology) -> tuple[Demand, tuple[BrokerId, ...]]:
    """The demand at the brokers of the network, and who else there is."""
    known = frozenset(network.ids())  # asked, never walked
    others = {broker for rows in (demand.rates, demand.publications) for row in rows.values() for broker in row} - known
    if not others:
        return demand, ()
    rates, publications = (
        {topic: {broker: rate for broker, rate in row.items() if broker in known} for topic, row in rows.items()}
        for rows in (demand.rates, demand.publications)
    )
    return msgspec.structs.replace(demand, rates=rates, publications=publications), tuple(sorted(others))


def _strangers(brokers: tuple[BrokerId, ...]) -> str:
    first = quoted(brokers[0])
    who = f"Broker {first} is" if len(brokers) == 1 else f"{len(brokers)} brokers, the first {first}, are"
    return f"{who} not in the network of the plan, and not compared; make a plan for the network as it is."
