"""A plan on the terminal: who keeps what, what that costs, and how far it is from the best possible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from latecomer.model.plan import Distance, Plan, Prediction
from latecomer.runtime.amounts import show_size
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.planner.explain import StoreRow, TopicRow
    from latecomer.planner.legality import Placement
    from latecomer.planner.problem import Problem

ROWS = 20
"""Of a table on the terminal; the plan file has all."""
NAMES = 6
"""Of topics or stores in one cell."""
REFUSALS = 8
RATE_UNIT = 1_000_000


def unit(distance: Distance) -> str:
    return "hops" if distance == "hops" else "ms"


def far(value: float, distance: Distance) -> str:
    """A mean distance: hops, or milliseconds."""
    return f"{value:.3f}" if distance == "hops" else f"{value / 1000:,.3f}"


def traffic(value: float, distance: Distance) -> str:
    """Requests times distance, per second or not."""
    shown = value if distance == "hops" else value / 1000
    return f"{shown:,.2f}" if abs(shown) < 1e5 else f"{shown:,.0f}"


def percent(share: float) -> str:
    """Digits where they matter: 0.04 %, 1.3 %, 127 %."""
    value = 100 * share
    return f"{value:.2g} %" if 0 < value < 0.1 else f"{value:.1f} %" if value < 100 else f"{value:,.0f} %"


def quality(plan: Plan, problem: Problem) -> list[str]:
    """What is proved of the plan, in sentences: its cost, and its cost after a loss where that was asked for."""
    mine, among = plan.prediction, scope(plan, problem)
    if mine.gap is None:
        found = ["How far this is from the best possible is not known."]
    elif mine.optimal:
        found = [f"No plan with {among} costs less."]
    else:
        found = [f"This costs at most {percent(mine.gap)} more than the best plan with {among}."]
        if plan.algorithm != "best":
            found[0] += " --algorithm best looks further."
    if plan.limits.survive_loss or plan.limits.objectives[:1] == ("worst-loss",):
        found.insert(0, _after_loss(mine, among))
    return found


def _after_loss(mine: Prediction, among: str) -> str:
    if mine.loss_bound is None or mine.loss_cost is None or mine.loss_unserved:
        return "Whether another plan costs less after the loss of its worst store is not known."
    above = (mine.loss_cost - mine.loss_bound) / mine.loss_bound if mine.loss_bound > 0 else 0.0
    if mine.loss_cost <= mine.loss_bound:
        return f"After the loss of its worst store, no plan with {among} costs less."
    if mine.loss_bound <= 0:
        return "Whether another plan costs less after the loss of its worst store is not known."
    return f"After the loss of its worst store it costs at most {percent(above)} more than the best plan with {among}."


def scope(plan: Plan, problem: Problem) -> str:
    """Among which plans it was compared: `at most 3 stores of 2 topics, these replica counts and your other limits`."""
    limits, capacity = plan.limits, problem.capacity[problem.open]
    stores = f"at most {_many(problem.stores, 'store')}"
    if limits.capacity or limits.capacity_bytes or limits.capacities_bytes:
        same = bool((capacity == capacity[0]).all())
        unit = _many(int(capacity[0]), "topic") if problem.unit == "topics" else show_size(int(capacity[0]))
        stores += f" of {unit}" if same else " of these capacities"
    parts = [stores]
    if not problem.free:
        parts.append("these replica counts")
    elif limits.min_replicas > 1:
        parts.append(f"at least {limits.min_replicas} replicas of each topic")
    names = ("request_rate", "request_rates", "domains", "pinned_stores", "pinned_topics", "barred")
    if any(getattr(limits, name) for name in names) or (problem.free and limits.replicas):
        parts.append("your other limits")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# --- the plan ---


def print_plan(
    console: Console, plan: Plan, problem: Problem, placement: Placement, rows: tuple[list[StoreRow], list[TopicRow]]
) -> None:
    stores, topics = rows
    size = f"{_many(len(plan.brokers), 'broker')}, {_many(len(plan.replicas), 'topic')}"
    counts = f"{size}, {plan.prediction.rate:,.6g} requests/s"
    console.print(Text(plain(plan.topology), style="bold"), end="", soft_wrap=True)
    console.print(
        f": {counts}; {_many(len(plan.stores), 'store')} by {plan.algorithm}", highlight=False, soft_wrap=True
    )
    console.print(store_table(problem, stores, plan.distance))
    console.print(topic_table(problem, placement, topics, plan.distance))
    console.print(comparison(plan))
    print_rest(console, plan, problem)


def store_table(problem: Problem, rows: list[StoreRow], distance: Distance) -> Table:
    table = _table("store", "keeps", "of", "topics", "requests/s", f"mean {unit(distance)}", words=(0, 3))
    for row in rows[:ROWS]:
        table.add_row(
            plain(problem.brokers[row.store]),
            _units(row.used, problem.unit),
            _units(int(problem.capacity[row.store]), problem.unit),
            listed(problem.topics[topic] for topic in row.topics),
            f"{row.load / RATE_UNIT:,.3f}",
            far(row.cost / row.load, distance) if row.load else "",
        )
    _rest(table, len(rows), "stores")
    return table


def topic_table(problem: Problem, placement: Placement, rows: list[TopicRow], distance: Distance) -> Table:
    table = _table("topic", "weight", "requests/s", "replicas", "at", f"mean {unit(distance)}", words=(0, 4))
    total = max(1, problem.total_rate)
    for row in rows[:ROWS]:
        places = placement.replicas[row.topic]
        table.add_row(
            plain(problem.topics[row.topic]),
            percent(row.rate / total),
            f"{row.rate / RATE_UNIT:,.3f}",
            str(len(places)),
            listed(problem.brokers[place] for place in places),
            far(row.cost / row.rate, distance) if row.rate else "",
        )
    _rest(table, len(rows), "topics")
    return table


def comparison(plan: Plan) -> Table:
    """This plan beside the others and the bound."""
    what = unit(plan.distance)
    table = _table("algorithm", "stores", f"mean {what}", f"requests·{what}/s", "above the bound", words=(0,))
    mine = plan.prediction
    for one in (*plan.others, mine):
        style = "bold" if one is mine else ""
        above = percent(one.gap) if one.gap is not None else "no limits kept" if one.algorithm == "grd_opt" else ""
        cells = (
            _named(one),
            str(one.stores),
            far(one.hops_mean, plan.distance),
            traffic(one.cost, plan.distance),
            above,
        )
        table.add_row(*(Text(cell, style=style) for cell in cells))
    if mine.bound is not None:
        mean = far(mine.bound / mine.rate, plan.distance) if mine.rate else ""
        table.add_row("lower bound", "", mean, traffic(mine.bound, plan.distance), "")
    return table


def print_rest(console: Console, plan: Plan, problem: Problem) -> None:
    """After a loss, refusals, notes, and how good it is."""
    say = {"highlight": False, "soft_wrap": True, "markup": False}
    mine, what = plan.prediction, unit(plan.distance)
    if mine.loss_store is not None and mine.loss_cost is not None:
        served = mine.rate - (mine.loss_unserved or 0)
        mean = far(mine.loss_cost / served if served else 0.0, plan.distance)
        now = far(mine.hops_mean, plan.distance)
        lost = f"; {mine.loss_unserved:,.6g} requests/s cannot be answered" if mine.loss_unserved else ""
        told = f"If {plain(mine.loss_store)} fails, the worst loss: mean distance {mean} {what} (now {now}){lost}."
        console.print(f"  {told}", **say)  # type: ignore[arg-type]
    for text in plan.refusals[:REFUSALS]:
        remark(console, text)
    if len(plan.refusals) > REFUSALS:
        remark(console, f"and {len(plan.refusals) - REFUSALS} more such copies (--out has all)")
    for note in plan.notes:
        remark(console, note)
    for text in quality(plan, problem):
        console.print(Text(text, style="bold"), soft_wrap=True)


def remark(console: Console, text: str) -> None:
    """Indented, also where a terminal wraps it; in a file it is one line."""
    if console.is_terminal:
        console.print(Padding(Text(plain(text)), (0, 0, 0, 2)))
    else:
        console.print(f"  {plain(text)}", highlight=False, soft_wrap=True, markup=False)


# --- words ---


def listed(names: Iterable[str]) -> str:
    shown = [plain(name) for name in names]
    return " ".join(shown[:NAMES]) + (f" +{len(shown) - NAMES}" if len(shown) > NAMES else "")


def _named(prediction: Prediction) -> str:
    return "rnd (mean)" if prediction.algorithm == "rnd" and prediction.loss_store is None else prediction.algorithm


def _units(units: int, kind: str) -> str:
    return show_size(units) if kind == "bytes" else f"{units:,}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _rest(table: Table, count: int, what: str) -> None:
    if count > ROWS:
        table.add_row(f"and {count - ROWS:,} {what} more")


def _table(*columns: str, words: tuple[int, ...]) -> Table:
    """Numbers to the right; the columns in `words` are text."""
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position in words else "right", overflow="fold")
    return table
