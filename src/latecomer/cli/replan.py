"""`latecomer replan`: a plan under new demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.plan import check_algorithm, check_picture, libraries, progress, tell_written
from latecomer.cli.plan_files import (
    placed,
    read_demand_file,
    read_limits,
    read_network_words,
    read_plan_file,
    write_text,
)
from latecomer.cli.plan_options import NETWORK_HELP, DemandFile, Out, Plot, Replicas
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Plan, write_plan
from latecomer.model.topology import Topology, quoted
from latecomer.runtime.amounts import duration_us, size_bytes

if TYPE_CHECKING:
    from latecomer.cli.replan_work import Mode


def replan(
    plan: Annotated[Path, typer.Option(metavar="PLAN.json", help="What is there now.")],
    demand: DemandFile,
    topology: Annotated[
        str | None, typer.Option(metavar="NETWORK", help=f"Else the one that the plan names. {NETWORK_HELP}")
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML or JSON; else the limits of the plan.")
    ] = None,
    replicas: Replicas = None,
    reassign: Annotated[bool, typer.Option("--reassign", help="Only that: stores stay where they are.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Only that: stores may move, too.")] = False,
    moves: Annotated[int | None, typer.Option(min=0, metavar="N", help="At most so many replicas are copied.")] = None,
    horizon: Annotated[str, typer.Option(metavar="TIME", help="How long the new demand will last.")] = "7d",
    response: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Mean size of a response; else a whole topic.")
    ] = None,
    out: Out = None,
    plot: Plot = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Say what a plan is still worth under new demand, what a better one gains, and what getting there costs."""
    _check_mode(full=full, reassign=reassign, moves=moves)
    check_picture(plot)
    horizon_s, response_bytes = _amounts(horizon, response)
    old, asked = read_plan_file(plan), read_demand_file(demand)
    wishes = read_limits(limits, {"replica_rule": replicas}, old.limits)
    words = topology or old.topology
    network = _network(words, old, plan, named=topology is not None)
    mode: Mode = "full" if full else "reassign" if reassign else "moves" if moves is not None else "any"
    with libraries():
        from latecomer.cli.plan_work import UNLIMITED, Order, known_algorithms
        from latecomer.cli.replan_work import Asked, make_replan, with_old_topics
    if old.algorithm == UNLIMITED:
        told = f"{UNLIMITED} is a yardstick that keeps no limits, so there is nothing to keep; make a plan by another"
        raise SettingsError("algorithm", told, source=str(plan))
    check_algorithm(old.algorithm, known_algorithms(), "algorithm", str(plan))
    all_asked, missing = with_old_topics(asked, old)
    with progress() as tell:
        try:
            order = Order(words, network, all_asked, wishes, old.distance)
            found, problem, placement = make_replan(
                order, old, Asked(mode, moves, horizon_s, response_bytes), tell
            )  # fmt: skip
        except SettingsError as error:
            raise placed(error, demand, limits or plan, {}) from None
        if plot is not None:
            tell("picture")
            with libraries():
                from latecomer.cli.plan_plot import draw
            draw(plot, network, found.plan, problem, placement)
    if out is not None:
        write_text(out, "--out", write_plan(found.plan))
    if json:
        print_json(found)
        return
    from latecomer.cli.replan_tables import print_replan

    console = Console()
    print_replan(console, found, problem)
    if missing:
        told_missing = (
            f"{len(missing)} topics of the plan are" if len(missing) > 1 else f"Topic {quoted(missing[0])} is"
        )
        console.print(
            f"{told_missing} not in the demand; nobody asks, and it is still kept.", highlight=False, markup=False
        )
    tell_written(console, out, plot)


def _check_mode(*, full: bool, reassign: bool, moves: int | None) -> None:
    if full and reassign:
        raise SettingsError("--full", "stores move or stay; leave out --full or --reassign")
    if full and moves is not None:
        raise SettingsError("--moves", "a full plan has no budget; leave out --full")


def _amounts(horizon: str, response: str | None) -> tuple[float, int]:
    try:
        seconds = duration_us(horizon) / 1e6
    except ValueError as error:
        raise SettingsError("--horizon", str(error)) from None
    if not seconds:
        raise SettingsError("--horizon", "must be longer than nothing, as in 7d")
    if response is None:
        return seconds, 0
    try:
        size = size_bytes(response)
    except ValueError as error:
        raise SettingsError("--response", str(error)) from None
    if not size:
        raise SettingsError("--response", "must be at least one byte")
    return seconds, size


def _network(words: str, old: Plan, plan: Path, *, named: bool) -> Topology:
    """The network of the plan, which must still have its brokers."""
    try:
        network = read_network_words(words)
    except SettingsError as error:
        if named:
            raise
        raise SettingsError(
            "topology", f"{error.problem} (the plan says so; name another with --topology)", source=str(plan)
        ) from None
    known = frozenset(network.ids())  # asked, never walked
    gone = [broker for broker in old.stores if broker not in known]
    if gone:
        told = f"the plan has a store at {quoted(gone[0])}, which is not in the network {quoted(network.name)}"
        raise SettingsError("stores", told, source=str(plan))
    return network
