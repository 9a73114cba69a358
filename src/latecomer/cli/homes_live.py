"""What brokers say about clients that would be better elsewhere, side by side; nothing is asked of Spark here."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.doors import Door, call
from latecomer.cli.overlay_tables import ROWS, plain_table, rest
from latecomer.cli.stores import WIDE
from latecomer.model.errors import LatecomerError
from latecomer.runtime.homes_views import HomesView, ProposalView
from latecomer.sim.transcript import plain

COLUMNS = ("broker", "mode", "clients", "subscriptions", "load", "similarity", "better elsewhere", "sent", "came back")


def asked(doors: Sequence[Door]) -> tuple[list[HomesView], list[str]]:
    """What each broker says, and a sentence for each that does not answer."""
    views: list[HomesView] = []
    silent: list[str] = []
    for door in doors:
        try:
            views.append(call(door, "homes", HomesView))
        except LatecomerError as error:
            silent.append(str(error))
    return sorted(views, key=lambda view: view.broker), silent


def print_homes(views: Sequence[HomesView]) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
    table = Table(box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("broker", "mode") else "right", overflow="fold")
    for view in views:
        table.add_row(*map(plain, row_of(view)))
    console.print(table)
    proposals = sorted(
        ((view, one) for view in views for one in view.proposals), key=lambda each: (-each[1].gain, each[1].client)
    )
    if proposals:
        console.print(_table(proposals))
    for sentence in remarks(views):
        console.print(sentence, soft_wrap=True)


def row_of(view: HomesView) -> tuple[str, ...]:
    similarity = "" if view.similarity is None else f"{view.similarity:.2f}"
    counts = (view.wished, view.sent, view.returned)
    numbers = (f"{view.load:.2f}", similarity, *(f"{count:,}" if view.mode != "off" else "" for count in counts))
    return (view.broker, view.mode, f"{view.clients:,}", f"{view.subscriptions:,}", *numbers)


def _table(proposals: Sequence[tuple[HomesView, ProposalView]]) -> Table:
    table = plain_table("client", "from", "to", "similarity", "there", "gain", "")
    for view, one in proposals[:ROWS]:
        numbers = (f"{one.similarity:.2f}", f"{one.there:.2f}", f"{one.gain:.2f}")
        table.add_row(plain(one.client), plain(view.broker), plain(one.to), *numbers, plain(_state(view, one)))
    rest(table, len(proposals), "clients")
    return table


def _state(view: HomesView, one: ProposalView) -> str:
    if one.problem:
        return one.problem
    return "it will be sent" if view.mode == "move" else f"latecomer sessions move {one.client} {one.to}"


def remarks(views: Sequence[HomesView]) -> list[str]:
    """What else there is to say."""
    found = []
    off = [view.broker for view in views if view.mode == "off"]
    if off:
        where = ", ".join(off[:5]) + (f" and {len(off) - 5} more" if len(off) > 5 else "")
        found.append(f"Re-homing is off at {where}: set homes.mode to 'advise' or 'move' there.")
    unheard = [view.broker for view in views if view.mode != "off" and not view.peers]
    if unheard:
        where = ", ".join(unheard[:5]) + (f" and {len(unheard) - 5} more" if len(unheard) > 5 else "")
        found.append(f"Nobody has told {where} yet what clients elsewhere want: that takes up to two updates.")
    elif not off and not any(view.wished for view in views):
        found.append("Every client is where it should be.")
    return found
