"""What `latecomer watch` says about a plan: whether demand has drifted away from it, and what to do then.

The work is that of `latecomer replan`. It is done only when demand has moved further than chance moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from latecomer.cli.plan import check_algorithm
from latecomer.cli.plan_files import LIVE, placed, read_network_words, read_plan_file, write_text
from latecomer.cli.plan_tables import percent
from latecomer.cli.plan_work import UNLIMITED, Order, known_algorithms
from latecomer.cli.replan_tables import ours, rule_of_thumb, verdict
from latecomer.cli.replan_work import Asked, Replan, make_replan, old_rates, with_old_topics
from latecomer.model.demand import Demand
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan, write_plan
from latecomer.model.topology import Topology, quoted
from latecomer.pipeline.drift import Finding, find_drift

PLAN = "--plan"


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
    """Compares demand with the one that a plan was made for. The plan is read anew when its file has changed."""

    plan_file: Path
    network: str | None
    """One that runs; None: the one that the plan names."""
    token_file: Path | None
    asked: Asked
    out: Path
    """Where a proposal is written."""
    told: Callable[[str], None] = lambda _: None
    _before: tuple[Demand, int] | None = field(default=None, init=False)
    _advice: Advice = field(default=Advice(()), init=False)

    def plan(self) -> Plan:
        """As it is now."""
        plan = read_plan_file(self.plan_file)
        if plan.demand is None or not plan.demand.total():
            told = "does not say what demand it was made for, so nobody can say whether that has changed"
            raise SettingsError(PLAN, f"the plan {told}; make one with this version", source=str(self.plan_file))
        if plan.algorithm == UNLIMITED:
            told = f"{UNLIMITED} is a yardstick that keeps no limits, so there is nothing to keep; use another plan"
            raise SettingsError("algorithm", told, source=str(self.plan_file))
        check_algorithm(plan.algorithm, known_algorithms(), "algorithm", str(self.plan_file))
        return plan

    def advise(self, demand: Demand) -> Advice:
        """What to say about this demand; the same as before if nothing has changed."""
        about = demand, _changed_ns(self.plan_file)
        if about == self._before:
            return self._advice
        try:
            self._advice = self._look(demand)
        except LatecomerError as error:
            # A plan that is being replaced, or a network that does not answer now, is no reason to stop counting.
            self._advice = Advice((f"The plan cannot be compared: {error}",), self._advice.proposal)
            return self._advice
        self._before = about
        return self._advice

    def _look(self, demand: Demand) -> Advice:
        plan = self.plan()
        assert plan.demand is not None
        words = plan.topology if self.network is None else f"{LIVE}{self.network}"
        network = read_network_words(words, self.token_file)
        inside, strangers = _inside(demand, network)
        said = (_strangers(strangers),) if strangers else ()
        if not inside.total():
            return self._keep((*said, "Nobody has asked for anything yet that the plan could be compared with."))
        order = Order(words, network, with_old_topics(inside, plan)[0], plan.limits, plan.distance)
        try:
            before, after = old_rates(order, plan), order.problem().rates
            if before is None:
                return self._keep((*said, "The plan was made for other brokers; make a new one for this network."))
            finding = find_drift(before, after, plan.demand.requests, inside.requests)
            if not finding.drifted:
                return self._keep((*said, as_planned(finding)), finding)
            found, _, _ = make_replan(order, plan, self.asked, self.told)
        except SettingsError as error:
            raise placed(error, None, self.plan_file, {}) from None
        return self._propose(said, finding, found)

    def _propose(self, said: tuple[str, ...], finding: Finding, found: Replan) -> Advice:
        sentences = (*said, drifted(finding), rule_of_thumb(found), ours(found), verdict(found))
        if found.recommendation == found.offers[0].name and not found.plan.moves:
            return self._keep(sentences, finding, found)
        write_text(self.out, "--state", write_plan(found.plan))
        return Advice((*sentences, f"The plan is in {self.out}."), self.out, finding, found)

    def _keep(self, said: tuple[str, ...], finding: Finding | None = None, found: Replan | None = None) -> Advice:
        """Nothing is proposed, nor is what was proposed before."""
        with suppress(OSError):
            self.out.unlink(missing_ok=True)
        return Advice(said, None, finding, found)


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


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
