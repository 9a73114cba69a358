"""`latecomer overlay`: where brokers would stand on a ring, so that events meet few brokers that do not want them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.doors import found_doors
from latecomer.cli.log_options import ClassesFile, Depth, Since, Until
from latecomer.cli.overlay_log import Churn, LogWindow, measured_overlay
from latecomer.cli.overlay_work import look, stand_at
from latecomer.cli.plan import check_picture, libraries, progress, tell_written
from latecomer.cli.plan_files import read_demand_file, read_text, write_text
from latecomer.cli.spark_options import MASTER, MEMORY, Conf, Master, Memory, opened
from latecomer.model.delays import PARTS as DELAY_PARTS
from latecomer.model.delays import Delays, read_delays
from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.overlay_plan import OverlayAlgorithm, OverlayPlan
from latecomer.model.positions import BROKERS_MAX, Positions, by_hash, read_positions, write_positions
from latecomer.model.subscriptions import by_broker, read_subscriptions
from latecomer.model.topology import quoted
from latecomer.sim.durations import read_duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.planner.overlay.problem import OverlayProblem

overlay = typer.Typer(help="Plan where brokers stand on a ring, and have them stand there.", add_completion=False)

PERIOD = "1h"
DELAYS_MAX = 2_000
"""Brokers for which a file has delays of all pairs."""
DELAY_WEIGHT_MAX = 1e6
RING_HELP = "JSON: where brokers stand now (see docs/reference/overlay-files.md); else at the hashes of their names."


Published = Annotated[
    Path | None, typer.Option(metavar="FILE", help="How often topics are published: CSV topic,broker,rate or JSON.")
]
Subscribed = Annotated[Path | None, typer.Option(metavar="FILE", help="CSV broker,topic or client,broker,topic.")]
Numbered = Annotated[
    int | None, typer.Option(metavar="N", help="Brokers b1 … bN at the hashes of their names; instead of --ring.")
]
Period = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long the positions will be kept, such as 10h: what a move must pay in."),
]
DelayWeight = Annotated[
    float,
    typer.Option(
        metavar="W",
        help="What a hop, or 1 ms with --delays, weighs beside a message to a relay; inf: only delay counts.",
    ),
]
DelayFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="CSV from,to,ms: measured delays between brokers, instead of hops.")
]


class Planned(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    plan: OverlayPlan
    positions: Positions


@overlay.callback()
def group() -> None:
    """Plan where brokers stand on a ring, and have them stand there."""


@overlay.command("plan")
def plan(
    demand: Published = None,
    subscriptions: Subscribed = None,
    from_log: Annotated[
        Path | None, typer.Option(metavar="LOGDIR", help="Instead: measure both in this event log, on Spark.")
    ] = None,
    classes: ClassesFile = None,
    depth: Depth = None,
    since: Since = "",
    until: Until = "",
    ring: Annotated[Path | None, typer.Option(metavar="FILE", help=RING_HELP)] = None,
    network: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Instead of --ring: as this running network has it, the folder of 'up'."),
    ] = None,
    brokers: Numbered = None,
    period: Period = PERIOD,
    delay_weight: DelayWeight = 1.0,
    delays: DelayFile = None,
    algorithm: Annotated[
        OverlayAlgorithm, typer.Option(help="best searches further than the paper's greedy.")
    ] = "best",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the positions there, as --ring reads them.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PICTURE", help="Draw ring and trees, before and after: .svg, .png or .pdf.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Find positions on a ring with fewer relays and hops, and say what getting there costs.

    A plan on paper; 'latecomer overlay apply' has the brokers of a network that routes by rendezvous stand there.
    """
    check_picture(plot)
    seconds = seconds_of(period)
    _check_ring(ring, brokers, network)
    with libraries():
        from latecomer.planner.overlay.explain import plan_overlay
    with progress() as told:
        if from_log is not None:
            told("event log")
            order = LogWindow(from_log, classes, depth, since, until)
            asked, wanted, churn = _measured(order, demand, subscriptions, lambda: opened(master, memory, conf))
        else:
            (asked, wanted), churn = _input(demand, subscriptions), None
        stand = _stand(ring, network, asked) or by_hash(_named(brokers, asked, wanted))
        measured = None if delays is None else _delays(delays, tuple(stand.positions))
        problem = make_overlay_problem(stand, asked, wanted, seconds, delay_weight, measured)
        import numpy as np

        start, by_chance = np.array(stand.numbers()), np.array(stand.consistent_hashing())
        found, end = plan_overlay(problem, start, by_chance, algorithm=algorithm, told=told)
        after = stand.rearranged(end.tolist())
        if plot is not None:
            told("picture")
            with libraries():
                from latecomer.cli.overlay_plot import draw
            draw(plot, problem, start, end)
    if out is not None:
        write_text(out, "--out", write_positions(after))
    if json:
        print_json(Planned(found, after))
    else:
        _print(found, seconds, churn, out, plot)


def _print(found: OverlayPlan, seconds: float, churn: Churn | None, out: Path | None, plot: Path | None) -> None:
    from latecomer.cli.overlay_tables import print_overlay

    console = Console()
    print_overlay(console, found, seconds, churn)
    tell_written(console, out, plot)


def _check_ring(*given: object) -> None:
    if sum(each is not None for each in given) > 1:
        raise SettingsError("--brokers", "--ring, --network and --brokers each say who is there; name one of them")


def _stand(ring: Path | None, network: Path | None, demand: Demand) -> Positions | None:
    """Where brokers stand now, if anybody says so."""
    if network is not None:
        return stand_at(look(found_doors(network, [], [], None)).one, demand.topics)
    return None if ring is None else read_positions(read_text(ring, "--ring"), str(ring))


def make_overlay_problem(
    stand: Positions,
    demand: Demand,
    subscriptions: dict[BrokerId, list[str]],
    period_s: float,
    delay_weight: float = 1.0,
    delays: Delays | None = None,
) -> OverlayProblem:
    """The planner's problem; errors name the option."""
    import numpy as np

    from latecomer.planner.overlay.problem import make_problem

    if DELAY_WEIGHT_MAX < delay_weight < math.inf:
        told = f"{delay_weight:g} is more than {DELAY_WEIGHT_MAX:,.0f}; write inf where only delay counts"
        raise SettingsError("--delay-weight", told)
    published = demand.publications or demand.rates
    for topic, row in published.items():
        for broker in row:
            if broker not in stand.positions:
                told = f"the broker {quoted(broker)} of {quoted(topic)} is not on the ring; add it or correct it"
                raise SettingsError("--demand", told)
    counts = {topic: math.fsum(published.get(topic, {}).values()) * period_s for topic in demand.topics}
    for topic in stand.topics:
        if topic not in counts:
            raise SettingsError("--ring", f"the topic {quoted(topic)} has a point on the ring, but no publications")
    try:
        return make_problem(
            stand.ring(),
            tuple(stand.positions),
            subscriptions,
            counts,
            delay_weight=delay_weight,
            points=stand.topics,
            delays=None if delays is None else np.array(delays, np.int64),
            delay_parts=1 if delays is None else DELAY_PARTS,
        )
    except SettingsError as error:
        raise error.at(f"--{error.key.replace('_', '-')}") from None


def _delays(file: Path, brokers: tuple[BrokerId, ...]) -> Delays:
    if len(brokers) > DELAYS_MAX:
        raise SettingsError("--delays", f"{len(brokers):,} brokers; delays are for up to {DELAYS_MAX:,}")
    return read_delays(read_text(file, "--delays"), str(file), brokers)


def _input(demand: Path | None, subscriptions: Path | None) -> tuple[Demand, dict[BrokerId, list[str]]]:
    if demand is None:
        raise SettingsError("--demand", "say how often topics are published: --demand, or --from-log to measure it")
    if subscriptions is None:
        raise SettingsError("--subscriptions", "say who wants what: --subscriptions, or --from-log to measure it")
    wanted = read_subscriptions(read_text(subscriptions, "--subscriptions"), str(subscriptions))
    return read_demand_file(demand), by_broker(wanted)


def _measured(
    order: LogWindow,
    demand: Path | None,
    subscriptions: Path | None,
    session: Callable[[], AbstractContextManager[SparkSession]],
) -> tuple[Demand, dict[BrokerId, list[str]], Churn]:
    if demand is not None or subscriptions is not None:
        raise SettingsError("--from-log", "the log has both; leave out --demand and --subscriptions")
    found = measured_overlay(order, session)
    wanted = {broker: list(topics) for broker, topics in found.subscriptions.items()}
    return found.demand, wanted, Churn(found.began, found.ended, found.window_s)


def _named(brokers: int | None, demand: Demand, subscriptions: dict[BrokerId, list[str]]) -> Sequence[BrokerId]:
    """b1 … bN, or all that subscribe or publish."""
    if brokers is not None:
        if not 2 <= brokers <= BROKERS_MAX:
            raise SettingsError("--brokers", f"a ring of {brokers}; it must have from 2 to {BROKERS_MAX:,} brokers")
        return [f"b{number}" for number in range(1, brokers + 1)]
    found = dict.fromkeys(subscriptions)
    for row in (demand.publications or demand.rates).values():
        found |= dict.fromkeys(row)
    if len(found) < 2:
        told = f"a ring of {len(found)}: there is nothing to arrange; name more brokers with --ring or --brokers"
        raise SettingsError("--subscriptions", told)
    return list(found)


def seconds_of(text: str, option: str = "--period") -> float:
    try:
        micros = read_duration(text)
    except ValueError as error:
        raise SettingsError(option, str(error)) from None
    if not micros:
        raise SettingsError(option, "must be longer than nothing")
    return micros / 1_000_000
