"""A replan on the terminal: what could be done, what it takes, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from latecomer.cli.plan_tables import ROWS, far, listed, percent, quality, traffic, unit
from latecomer.model.plan import Distance, Move
from latecomer.runtime.amounts import show_size
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.cli.replan_work import Replan
    from latecomer.planner.problem import Problem
    from latecomer.planner.replan import Offer

BROKEN = 3
"""Broken limits that are told; --json has all."""


def print_replan(console: Console, found: Replan, problem: Problem) -> None:
    distance = found.plan.distance
    keep = found.offers[0]
    console.print(Text(plain(found.plan.topology), style="bold"), end="", soft_wrap=True)
    what, mean, spent = unit(distance), far(keep.hops_mean, distance), traffic(keep.cost_per_s, distance)
    _say(console, f": under the new demand the old plan has mean {mean} {what}, {spent} requests·{what}/s")
    console.print(offer_table(found))
    for text in keep.broken[:BROKEN]:
        _say(console, f"  The old plan cannot stay: {plain(text)}.")
    if found.plan.moves:
        console.print(move_table(found.plan.moves, problem, distance, found.response_bytes))
    _say(console, f"  {conversion(found.response_bytes, what)}")
    _say(console, f"  {rule_of_thumb(found)}")
    _say(console, f"  {ours(found)}")
    console.print(Text(verdict(found), style="bold"), soft_wrap=True)
    if found.plan.moves:
        for text in quality(found.plan, problem):
            _say(console, text)


def offer_table(found: Replan) -> Table:
    distance = found.plan.distance
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    sized = any(one.bytes for one in found.offers)
    columns = [
        "",
        unit(distance),
        "gain",
        "saved/s",
        "moves",
        *(["bytes"] if sized else []),
        "cost",
        "paid in",
        "stores",
    ]
    for position, column in enumerate(columns):
        words, last = position in (0, len(columns) - 1), position == len(columns) - 1
        table.add_column(column, justify="left" if words else "right", overflow="fold", no_wrap=not last)
    for one in found.offers:
        style = "bold" if one.name == found.recommendation else ""
        cells = (
            one.name,
            far(one.hops_mean, distance),
            _signed(one.gain),
            traffic(one.gain_per_s, distance),
            str(len(one.moves)),
            *([show_size(one.bytes) if one.bytes else ""] if sized else []),
            traffic(one.way, distance),
            _payback(one),
            listed((*(f"+{store}" for store in one.opened), *(f"-{store}" for store in one.closed))),
        )
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table


def move_table(moves: tuple[Move, ...], problem: Problem, distance: Distance, response: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    for position, column in enumerate(("topic", "from", "to", unit(distance), "bytes", "cost")):
        table.add_column(column, justify="left" if position < 3 else "right", overflow="fold")
    broker = {name: index for index, name in enumerate(problem.brokers)}
    for move in moves[:ROWS]:
        size = show_size(move.bytes) if move.bytes else "?"
        if move.source is None:
            table.add_row(plain(move.topic), "(new)", plain(move.target), "", "", "")
            continue
        apart = int(problem.distance[broker[move.source], broker[move.target]])
        spent = apart * (move.bytes / response if response else 1.0)
        shown = f"{apart}" if distance == "hops" else f"{apart / 1000:,.3f}"
        table.add_row(plain(move.topic), plain(move.source), plain(move.target), shown, size, traffic(spent, distance))
    if len(moves) > ROWS:
        table.add_row(f"and {len(moves) - ROWS} more")
    return table


# --- sentences ---


def conversion(response: int, what: str) -> str:
    """How bytes become requests."""
    units = f"Saved and cost are requests·{what}."
    if response:
        size = show_size(response)
        return f"{units} A move counts as (its bytes / {size}) requests over its {what}, as a response has {size}."
    told = f"A move counts as one request over its {what}, as if every response carried a whole topic"
    return f"{units} {told}; say --response SIZE when they are smaller."


def rule_of_thumb(found: Replan) -> str:
    """The paper's."""
    if found.drift is None:
        return "Rule of thumb (planning §6.2): the plan does not say what demand it was made for, so nothing is known."
    popularity, locality = percent(found.drift.popularity), percent(found.drift.locality)
    why = f"popularity moved {popularity} (worth it from 50 %), locality {locality} (necessary above 25 %)"
    return f"Rule of thumb (planning §6.2): {why}: {found.rule_of_thumb}."


def ours(found: Replan) -> str:
    """Gain over the horizon against the way."""
    best = next(one for one in found.offers if one.name == found.recommendation)
    what, distance, days = unit(found.plan.distance), found.plan.distance, show_time(found.horizon_s)
    if best is found.offers[0]:
        if any(one.net > best.net for one in found.offers):
            least = "1 % is the least, 8 % with new stores"
            return f"Ours: what is on offer gains too little ({least}), or makes losses worse where they come first."
        return f"Ours: nothing on offer gains more over {days} than it costs."
    if found.offers[0].broken:
        return f"Ours: of what keeps the limits, {best.name} is best over {days}."
    saved = traffic(best.gain_per_s * found.horizon_s, distance)
    spent = traffic(best.way, distance)
    told = f"Ours: {best.name} saves {saved} requests·{what} over {days} and costs {spent}"
    return f"{told}; it is paid for {'in ' if best.payback_s else ''}{_payback(best)}."


def verdict(found: Replan) -> str:
    best = next(one for one in found.offers if one.name == found.recommendation)
    if best is found.offers[0]:
        return "Recommendation: keep the plan." if not best.moves else "Recommendation: only what new topics need."
    count = f"{len(best.moves)} move{'' if len(best.moves) == 1 else 's'}"
    what = count if best.name == count else f"{best.name}, {count}"
    changed = f"for {percent(best.gain)} less" if best.gain >= 0 else f"at {percent(-best.gain)} more"
    return f"Recommendation: {what} {changed} traffic."


def show_time(seconds: float) -> str:
    """`11 s`, `2.5 h`, `7 d`: the largest unit of which there is one; nothing is shorter than a second."""
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.3g} {name}"
    return f"{seconds:.3g} s" if seconds >= 1 else "1 s"


def _payback(one: Offer) -> str:
    if one.payback_s is None:
        return "never" if one.moves else ""
    return "at once" if one.payback_s == 0 else show_time(one.payback_s)


def _signed(gain: float) -> str:
    return percent(gain) if gain >= 0 else f"-{percent(-gain)}"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
