"""`latecomer overlay show`, `apply` and `abort`: the ring of a running network."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import Refused, call, found_doors
from latecomer.cli.overlay import make_overlay_problem, overlay, seconds_of
from latecomer.cli.overlay_tables import plain_table, print_overlay
from latecomer.cli.overlay_work import Counted, Seen, Tell, demand_of, look, propose, stand_of
from latecomer.cli.plan import libraries
from latecomer.cli.plan_files import read_text
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.overlay_plan import OverlayPlan
from latecomer.model.positions import Positions, read_positions
from latecomer.sim.transcript import plain

PATIENCE = 60.0
MEASURE = 5.0
FINGERS_SHOWN = 6


class Planned(msgspec.Struct, frozen=True):
    """What `apply --json` prints if nothing is changed."""

    places: dict[str, int]
    plan: OverlayPlan | None


class Applied(msgspec.Struct, frozen=True):
    """What `apply --json` prints."""

    places: dict[str, int]
    plan: OverlayPlan | None
    seconds: float
    before: Counted
    after: Counted


@overlay.command("show")
def show(
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show where the brokers of a running network stand on the ring, and what that costs."""
    seen = look(found_doors(network, config or [], admin or [], token_file))
    if as_json:
        print_json(list(seen.views.values()))
    else:
        _print(Console(highlight=False, markup=False), seen)
    _complain(seen)


@overlay.command("apply")
def apply(
    ring: Annotated[
        Path | None,
        typer.Argument(metavar="RING.json", help="As 'overlay plan --out' writes it; else planned from live counters."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")] = False,
    period: Annotated[str, typer.Option(metavar="TIME", help="How long the positions will be kept, as 10h.")] = "1h",
    measure: Annotated[
        float, typer.Option(metavar="S", min=0, help="Count for so many seconds before and after.")
    ] = MEASURE,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Plan and apply again each time so long has passed, until Ctrl-C.")
    ] = "",
    patience: Annotated[float, typer.Option(metavar="S", min=1, help="How long it may take, in seconds.")] = PATIENCE,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Have brokers change their positions on the ring, while they go on serving.

    Nothing is lost and nothing comes twice: events that are under way wait for the new trees, and are sent again.
    """
    doors = found_doors(network, config or [], admin or [], token_file)
    console = Console(highlight=False, markup=False, quiet=as_json)
    if every and (ring is not None or not yes):
        raise SettingsError("--every", "plans from live counters and applies; leave out RING.json, and add --yes")
    pause_s = seconds_of(every, "--every") if every else 0.0
    while True:
        _apply(look(doors), ring, period, console, measure, patience, yes=yes, as_json=as_json)
        if not pause_s:
            return
        time.sleep(pause_s)


def _apply(
    seen: Seen,
    ring: Path | None,
    period: str,
    console: Console,
    measure: float,
    patience: float,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Once."""
    plan, wanted = _wanted(seen, ring, period, console)
    stand = {place.broker: place.position for place in seen.one.places}
    places = {broker: position for broker, position in wanted.positions.items() if broker in stand}
    strangers = [broker for broker in wanted.positions if broker not in stand]
    if strangers:
        raise SettingsError("RING.json", f"{', '.join(strangers[:4])}: no broker of this network has this name")
    moved = [broker for broker in stand if places.get(broker, stand[broker]) != stand[broker]]
    console.print(f"{len(moved)} of {len(stand)} brokers move." if moved else "No broker moves.")
    if moved and not yes:
        console.print("Nothing was changed. Add --yes to do this.")
    if not moved or not yes:
        if as_json:
            print_json(Planned(stand | places, plan))
        return
    with _status("counting") as tell:
        before = _count(seen, measure)
        tell("proposing")
        seconds = propose(seen, stand | places, patience, tell)
        tell("counting")
        after = _count(look(list(seen.doors.values())), measure)
    if as_json:
        print_json(Applied(places, plan, seconds, before, after))
        return
    console.print(f"All brokers use the new positions, after {seconds:.2f} s.")
    _compare(console, before, after, plan)


@overlay.command("abort")
def abort(
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Withdraw positions that have been proposed and are not in force yet."""
    seen = look(found_doors(network, config or [], admin or [], token_file))
    proposers = [broker for broker, view in seen.views.items() if view.proposing]
    for broker in proposers:
        call(seen.doors[broker], "overlay-abort", dict[str, str], body={})
        typer.echo(f"the proposal of {broker} is withdrawn")
    if not proposers:
        raise Refused("nobody has proposed positions; to go back to earlier ones, apply them")


def _wanted(seen: Seen, ring: Path | None, period: str, console: Console) -> tuple[OverlayPlan | None, Positions]:
    if ring is not None:
        return None, read_positions(read_text(ring, "RING.json"), str(ring))
    stand = stand_of(seen)
    if not stand.topics:
        raise LatecomerError("brokers have counted no publications and no subscriptions yet; name a RING.json")
    demand, subscriptions = demand_of(seen, stand)
    seconds = seconds_of(period)
    with libraries():
        import numpy as np

        from latecomer.planner.overlay.explain import plan_overlay
    problem = make_overlay_problem(stand, demand, subscriptions, seconds)
    start, by_chance = np.array(stand.numbers()), np.array(stand.consistent_hashing())
    plan, end = plan_overlay(problem, start, by_chance, algorithm="best", told=lambda what: None)
    print_overlay(console, plan, seconds, None)
    return plan, stand.rearranged(end.tolist())


def _count(seen: Seen, seconds: float) -> Counted:
    before = look(list(seen.doors.values())).counted()
    time.sleep(seconds)
    return look(list(seen.doors.values())).counted().since(before)


def _compare(console: Console, before: Counted, after: Counted, plan: OverlayPlan | None) -> None:
    table = plain_table("", "events", "relays of each", "hops to a subscriber")
    for name, counted in (("counted before", before), ("counted after", after)):
        table.add_row(name, f"{counted.published:,}", _shown(counted.relays_each), _shown(counted.hops_each))
    console.print(table)
    if plan is not None and plan.rows[0].external:
        change = 100 * (plan.rows[1].external / plan.rows[0].external - 1)
        console.print(f"Predicted: messages to relays {change:+.0f} %, from the root of each slot down.")


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _print(console: Console, seen: Seen) -> None:
    view, counted = seen.one, seen.counted()
    if not view.ring:
        console.print("There is no ring now: some broker lacks the link to its successor, so all use the agreed tree.")
    else:
        console.print(f"A ring of {len(view.places)} brokers; the longest way from a root has {view.longest} links.")
    console.print(f"Positions: {'hashes of names' if view.stamp == 'none' else view.stamp}.")
    table = plain_table("broker", "position", "slots", "fingers", "published", "wanted slots", "relayed")
    for place in view.places:
        own = seen.views.get(place.broker)
        fingers = ", ".join(place.fingers[:FINGERS_SHOWN]) + (" …" if len(place.fingers) > FINGERS_SHOWN else "")
        told = ("–", "–", "–") if own is None else (
            f"{sum(own.published.values()):,}",
            f"{len(own.wanted):,}{' + all' if own.wants_across else ''}",
            f"{own.relayed:,}",
        )  # fmt: skip
        shown = f"{place.position}{'' if place.agreed else ' (hash)'}"
        table.add_row(plain(place.broker), shown, str(place.slots), plain(fingers), *told)
    console.print(table)
    relays, hops = _shown(counted.relays_each), _shown(counted.hops_each)
    console.print(f"{counted.published:,} events published, each relayed {relays} times; {hops} hops to a subscriber.")
    for broker, view in seen.views.items():
        if view.proposing:
            waits = ", ".join(view.waits_for) or "nobody"
            console.print(plain(f"{broker} proposes other positions and waits for {waits}."))
        elif view.outcome:
            console.print(plain(f"The last proposal of {broker}: {view.outcome}."))


def _complain(seen: Seen) -> None:
    for sentence in seen.silent:
        typer.echo(f"latecomer: {plain(sentence)}", err=True)
    if seen.silent:
        raise typer.Exit(1)


@contextmanager
def _status(what: str) -> Iterator[Tell]:
    """What is under way, on a terminal."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with console.status(f"{what} …") as status:
        yield lambda text: status.update(plain(f"{text} …"))
