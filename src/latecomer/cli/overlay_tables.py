"""A plan of positions on the terminal: what it brings, what it costs, who moves, and which trees change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.plan_tables import percent, remark
from latecomer.model.overlay_plan import OverlayPlan
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.cli.overlay_log import Churn

UNPRICED = ("ssbr-greedy", "fewest hops", "least cost")
ROWS = 20
"""Of a table on the terminal; --json has all."""


def print_overlay(console: Console, plan: OverlayPlan, period_s: float, churn: Churn | None) -> None:
    head = f"{plan.brokers:,} brokers, {plan.topics:,} topics, {period_s:,.6g} s; {plan.algorithm}"
    console.print(head, style="bold", highlight=False, soft_wrap=True)
    console.print(comparison(plan))
    for sentence in quality(plan):
        remark(console, sentence)
    if churn is not None:
        remark(
            console,
            f"In {churn.window_s:,.0f} s of the log, {churn.began:,} subscriptions began and {churn.ended:,} ended.",
        )
    if plan.moves:
        console.print(move_table(plan))
        console.print(topic_table(plan))


def comparison(plan: OverlayPlan) -> Table:
    delay = "hops" if plan.delay_in == "hops" else f"delay,\n{plan.delay_in}"
    table = plain_table("", "to\nrelays", "to sub-\nscribers", delay, "cost", "change", "longest\npath", "movers")
    before = plan.rows[0].cost
    for row in plan.rows:
        change = f"{100 * (row.cost - before) / before:+.1f} %" if before and row is not plan.rows[0] else ""
        table.add_row(
            row.name,
            *(f"{value:,.6g}" for value in (row.external, row.internal, row.delay, row.cost)),
            change,
            f"{row.longest:,}",
            f"{row.movers:,}",
        )
    return table


def quality(plan: OverlayPlan) -> list[str]:
    """What the plan is worth, in sentences."""
    after = plan.rows[1]
    if plan.moves:
        told = f"Moving {after.movers:,} brokers costs {plan.price:,.6g} messages once (eq. 11 of the paper)"
        found = [f"{told} and saves {plan.benefit:,.6g} in the period: {plan.gain:,.6g} are gained."]
    else:
        found = ["Staying is best: no other positions save more in the period than getting there costs."]
        if not plan.worth_computing:
            found[0] += " So few messages are sent that it was not worth computing."
    if plan.bound_is == "optimum":
        found.append(f"No positions cost less than {plan.bound:,.6g}, whatever it costs to get there.")
    elif plan.gap is None:
        found.append("How far the least cost that was found is from the best possible is not known.")
    else:
        told = f"The least cost that was found is at most {percent(plan.gap)} above the best possible"
        found.append(f"{told}: no positions cost less than {plan.bound:,.6g}, which counts hops alone.")
    found.append(f"{', '.join(UNPRICED[:-1])} and {UNPRICED[-1]} do not look at what moving costs.")
    return found


def move_table(plan: OverlayPlan) -> Table:
    table = plain_table("broker", "from", "to", "its cost before", "after")
    for move in plan.moves[:ROWS]:
        table.add_row(
            plain(move.broker),
            str(move.before),
            str(move.after),
            f"{move.cost_before:,.6g}",
            f"{move.cost_after:,.6g}",
        )
    rest(table, len(plan.moves), "brokers")
    return table


def topic_table(plan: OverlayPlan) -> Table:
    table = plain_table("topic", "publications", "subscribing\nbrokers", "relays", "after", "mean\nhops", "after")
    for change in plan.changes[:ROWS]:
        table.add_row(
            plain(change.topic),
            f"{change.publications:,.6g}",
            f"{change.subscribers:,}",
            f"{change.relays_before:,}",
            f"{change.relays_after:,}",
            f"{change.hops_before:.2f}",
            f"{change.hops_after:.2f}",
        )
    rest(table, len(plan.changes), "topics")
    return table


def plain_table(*columns: str) -> Table:
    """Words to the left in the first column, numbers to the right in the others."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table


def rest(table: Table, count: int, what: str) -> None:
    """How many rows a table does not show."""
    if count > ROWS:
        table.add_row(f"… {count - ROWS:,} more {what}", *[""] * (len(table.columns) - 1))
