"""`latecomer watch`: demand that is kept current while a network writes its log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from latecomer.cli.log_options import ClassesFile, Depth, classes_of
from latecomer.cli.plan import libraries
from latecomer.cli.plan_options import LiveNetwork, TokenFile
from latecomer.cli.spark_options import MASTER, Conf, Master, Memory, opened, spark_libraries
from latecomer.cli.watch_tables import Show, shown
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.runtime.amounts import duration_us, size_bytes

if TYPE_CHECKING:
    from latecomer.cli.watch_advice import Adviser
    from latecomer.pipeline.classes import Classes
    from latecomer.pipeline.watch_job import Glance, Wish

MEMORY = "2g"
SETTLE_PERIODS = 3
SECOND_US = 1_000_000


def watch(
    log: Annotated[Path, typer.Argument(metavar="LOGDIR", help="A folder of segments, or the data folder of 'up'.")],
    state: Annotated[Path, typer.Option(metavar="DIR", help="Counts, checkpoint and demand.json are kept there.")],
    classes: ClassesFile = None,
    depth: Depth = None,
    period: Annotated[
        str, typer.Option(metavar="TIME", help="Length of a period: requests are counted per period.")
    ] = "10m",
    grace: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait this long for a broker that writes nothing; else one period."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the newest period in the exponential filter.")] = 0.3,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN.json", help="Say when demand has drifted away from this plan.")
    ] = None,
    network: LiveNetwork = None,
    token_file: TokenFile = None,
    horizon: Annotated[str, typer.Option(metavar="TIME", help="How long the new demand is expected to last.")] = "7d",
    response: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Mean size of a response; else a whole topic.")
    ] = None,
    settle: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Propose a plan when demand has kept still for so long; else three periods."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Count what is there, and end.")] = False,
    seconds: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time.")] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Look for new segments this often.")] = "2s",
    segments: Annotated[int, typer.Option(min=1, metavar="N", help="Segments counted at a time, at most.")] = 64,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Keep demand current while a network writes its log, and say when a new plan pays."""
    if plan is None and (network is not None or token_file is not None):
        raise SettingsError("--network", "is needed to compare demand with a plan; name that with --plan")
    ended = _end(seconds)
    period_s = _period(period)
    settle_us = SETTLE_PERIODS * period_s * SECOND_US if settle is None else _time("--settle", settle, zero=True)
    adviser = None
    if plan is not None:
        adviser = _adviser(plan, network, token_file, horizon, response, state, 0 if once else settle_us)
    with spark_libraries():
        from latecomer.pipeline.watch_job import Wish
    wish = Wish(
        folder=log.resolve(),
        classes=_classes(classes, depth, adviser),
        period_s=period_s,
        permille=_permille(alpha),
        grace_us=period_s * SECOND_US if grace is None else _time("--grace", grace, zero=True),
        segments=segments,
        every_s=_time("--every", every) / SECOND_US,
    )
    _check_apart(wish.folder, state.resolve())
    with shown(Console()) as show:
        try:
            _watch(wish, state, adviser, show, once=once, ended=ended, spark=(master, memory, conf))
        except KeyboardInterrupt:
            if once or seconds is not None:
                raise  # not all that was asked for


def _watch(
    wish: Wish,
    folder: Path,
    adviser: Adviser | None,
    show: Show,
    *,
    once: bool,
    ended: Callable[[], bool],
    spark: tuple[str, str, list[str] | None],
) -> None:
    from latecomer.pipeline.watch_job import await_folder, watch
    from latecomer.pipeline.watch_state import taken

    if once and not wish.folder.exists():
        raise LatecomerError(f"{wish.folder}: does not exist, and --once does not wait for it; name an event log")
    with taken(folder, wish.options()) as state:
        if not await_folder(wish.folder, ended, show.tell):
            return
        show.tell("starting Spark")
        found = None
        with opened(*spark) as session:
            # With --once demand is looked at when all is counted: what lies between is no demand that anybody has.
            for found, last in _with_last(watch(session, state, wish, once=once, ended=ended), wait=once):
                advice = None
                if adviser is not None and found.demand is not None and found.span is not None and (last or not once):
                    advice = adviser.advise(found.demand, found.span.until_us)
                show.glance(found, advice)
    if found is not None and found.demand is None:
        told = "no whole period of the log is over" if found.total.rows else "there was nothing in the log"
        show.tell(f"{told}, so no demand was written; a shorter --period, or more of a log, helps")


def _with_last(found: Iterator[Glance], *, wait: bool) -> Iterator[tuple[Glance, bool]]:
    """With whether it is the last one; to know that one must `wait` for the next."""
    before: Glance | None = None
    for each in found:
        if not wait:
            yield each, False
        elif before is not None:
            yield before, False
        before = each
    if wait and before is not None:
        yield before, True


# -- options


def _adviser(
    plan: Path,
    network: str | None,
    token_file: Path | None,
    horizon: str,
    response: str | None,
    folder: Path,
    settle_us: int,
) -> Adviser:
    horizon_s = _time("--horizon", horizon) / SECOND_US
    response_bytes = 0 if response is None else _size("--response", response)
    with libraries():
        from latecomer.cli.replan_work import Asked
        from latecomer.cli.watch_advice import Adviser
    found = Adviser(plan, network, token_file, Asked("any", None, horizon_s, response_bytes), folder, settle_us)
    found.plan()  # what is wrong with it is told at once
    return found


def _classes(file: Path | None, depth: int | None, adviser: Adviser | None) -> Classes:
    """What was said; else the topics of the plan."""
    if file is not None or depth is not None or adviser is None:
        return classes_of(file, depth)
    from latecomer.pipeline.classes import named

    return named(adviser.plan().replicas, str(adviser.plan_file))


def _time(option: str, written: str, *, zero: bool = False) -> int:
    try:
        found = duration_us(written)
    except ValueError as error:
        raise SettingsError(option, str(error)) from None
    if not found and not zero:
        raise SettingsError(option, "must be longer than nothing, as in 10m")
    return found


def _size(option: str, written: str) -> int:
    try:
        found = size_bytes(written)
    except ValueError as error:
        raise SettingsError(option, str(error)) from None
    if not found:
        raise SettingsError(option, "must be at least one byte")
    return found


def _period(written: str) -> int:
    found = _time("--period", written)
    if found % SECOND_US:
        raise SettingsError("--period", f"{written!r} is not a number of whole seconds; write 1s or more")
    return found // SECOND_US


def _permille(alpha: float) -> int:
    if not (math.isfinite(alpha) and 0.001 <= alpha <= 1):
        raise SettingsError("--alpha", f"{alpha:g} is no weight; it must be from 0.001 to 1")
    return round(alpha * 1000)


def _end(seconds: str | None) -> Callable[[], bool]:
    if seconds is None:
        return lambda: False
    until = time.monotonic() + _time("--for", seconds) / SECOND_US
    return lambda: time.monotonic() >= until


def _check_apart(log: Path, state: Path) -> None:
    """Counts in the folder that is looked at would be found there, and counted again and again."""
    if state.is_relative_to(log) or log.is_relative_to(state):
        raise SettingsError("--state", f"{state} and the log {log} are one inside the other; name a folder beside it")
