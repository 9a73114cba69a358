"""What brokers say about clients that would be better elsewhere, side by side; nothing is asked of Spark here.

Where re-homing is off, brokers say nothing about it: then their subscriptions are asked for, and judged here by the
same rule.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.doors import Door, call
from latecomer.cli.overlay_tables import ROWS, plain_table, rest
from latecomer.cli.stores import WIDE
from latecomer.core.homes.judging import better_home, loads_of
from latecomer.core.homes.profiles import Known
from latecomer.core.homes.settings import HomesSettings
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import NUMBER_MAX, BrokerId, ClientId
from latecomer.runtime.admin_views import Page, SubscriptionView
from latecomer.runtime.homes_views import HomesView, ProposalView
from latecomer.sim.transcript import plain

PART = 1000
Wanted: TypeAlias = dict[ClientId, dict[str, None]]
"""What each client wants, in words."""
COLUMNS = ("broker", "mode", "clients", "subscriptions", "load", "similarity", "better elsewhere", "sent", "came back")


def asked(doors: Sequence[Door]) -> tuple[list[HomesView], list[str]]:
    """What each broker says, and a sentence for each that does not answer."""
    views: list[HomesView] = []
    wanted: dict[BrokerId, Wanted] = {}
    silent: list[str] = []
    for door in doors:
        try:
            view = call(door, "homes", HomesView)
            if view.mode == "off":
                wanted[view.broker] = _wanted_at(door)
            views.append(view)
        except LatecomerError as error:
            silent.append(str(error))
    views.sort(key=lambda view: view.broker)
    return (judged(views, wanted) if len(wanted) == len(views) else views), silent


def _wanted_at(door: Door) -> Wanted:
    """What each client of a broker wants, but for shared subscriptions."""
    found: Wanted = {}
    after = ""
    while True:
        page = call(door, "subscriptions", Page[SubscriptionView], {"after": after, "limit": str(PART)})
        for one in page.items:
            if not one.share:
                found.setdefault(one.client, {})[f"{one.filter} ? {one.content}"] = None
        after = page.next
        if not after:
            return found


def judged(views: Sequence[HomesView], wanted: Mapping[BrokerId, Wanted]) -> list[HomesView]:
    """The same with load, similarity and proposals, from what clients want; by the settings that are the defaults."""
    numbers: dict[str, int] = {}
    ids = {
        broker: {client: [numbers.setdefault(text, len(numbers)) for text in texts] for client, texts in here.items()}
        for broker, here in wanted.items()
    }
    holders = {broker: Counter(chain.from_iterable(here.values())) for broker, here in ids.items()}
    known = {
        view.broker: Known(1, 1, view.clients, held.total(), NUMBER_MAX, dict.fromkeys(held))
        for view in views
        for held in (holders[view.broker],)
    }
    return [_judged(view, ids[view.broker], holders[view.broker], known) for view in views]


def _judged(
    view: HomesView, wanted: Mapping[ClientId, list[int]], holders: Counter[int], known: Mapping[BrokerId, Known]
) -> HomesView:
    here, others = view.broker, {broker: each for broker, each in known.items() if broker != view.broker}
    loads = loads_of(here, (view.clients, known[here].subscriptions), others)
    found: list[ProposalView] = []
    similarities = 0.0
    for client, numbers in wanted.items():
        similarity = sum(holders[number] > 1 for number in numbers) / len(numbers)
        similarities += similarity
        better = better_home(here, similarity, numbers, others, loads, None, HomesSettings().gain)
        if better is not None:
            found.append(ProposalView(client, better.to, similarity, better.there, better.gain))
    found.sort(key=lambda one: (-one.gain, one.client))
    return replace(
        view,
        load=loads[here].times_mean,
        similarity=similarities / len(wanted) if wanted else None,
        proposals=tuple(found),
        wished=len(found),
    )


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
    numbers = (f"{view.load:.2f}", similarity, *(f"{count:,}" for count in counts))
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
    return "it will be sent" if view.mode == "move" else f"latecomer sessions move {one.client} {one.to} --gently"


def remarks(views: Sequence[HomesView]) -> list[str]:
    """What else there is to say."""
    found = []
    off = [view.broker for view in views if view.mode == "off"]
    if off:
        where = ", ".join(off[:5]) + (f" and {len(off) - 5} more" if len(off) > 5 else "")
        found.append(f"Re-homing is off at {where}: set homes.mode to 'advise' or 'move' there.")
    if off and len(off) < len(views):
        found.append("These brokers neither give clients to the others nor get any.")
    unheard = [view.broker for view in views if view.mode != "off" and not view.peers]
    if unheard:
        where = ", ".join(unheard[:5]) + (f" and {len(unheard) - 5} more" if len(unheard) > 5 else "")
        found.append(f"Nobody has told {where} yet what clients elsewhere want: that takes up to two updates.")
    elif not any(view.wished for view in views):
        found.append("Every client is where it should be.")
    return found
