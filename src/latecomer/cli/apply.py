"""`latecomer apply`: a running network brought to a plan, without losing anything on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from latecomer.cli.apply_work import (
    Step,
    Survey,
    Work,
    check_plan,
    check_room,
    few,
    left_over,
    steps_to,
    survey,
    unplanned,
)
from latecomer.cli.as_json import print_json
from latecomer.cli.live_network import KEY, Live, read_live
from latecomer.cli.plan_files import read_plan_file, read_text, write_text
from latecomer.model.applied import Applied, plan_id, read_record, write_record
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan
from latecomer.runtime.amounts import duration_us, show_size
from latecomer.sim.transcript import plain

NETWORK_HELP = (
    "Address of an admin interface, as http://127.0.0.1:3883, or the data folder of a broker or of 'latecomer up'."
)
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="As 'latecomer plan --out' writes it.")]
Network = Annotated[str, typer.Option(metavar="URL|DIR", help=NETWORK_HELP)]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the admin token.", show_default="admin-token in latecomer-data"),
]


def apply(
    plan: PlanFile,
    network: Network = "latecomer-data",
    token_file: TokenFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")] = False,
    parallel: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Stores that are filled at a time.")] = 2,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Withdraw nothing: what is kept elsewhere stays there.")
    ] = False,
    withdraw: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPICS",
            help="Withdraw these as well, which the plan does not name, when it is done; may be repeated.",
        ),
    ] = None,
    patience: Annotated[
        str, typer.Option(metavar="TIME", help="How long nothing may happen before this gives up.")
    ] = "60s",
    json: Annotated[
        bool, typer.Option("--json", help="Print what is done, or would be, as JSON, and nothing else.")
    ] = False,
) -> None:
    """Bring a running network to a plan: fill stores, let them answer, and only then withdraw the old ones."""
    wanted = read_plan_file(plan, "PLAN")
    patience_s = _seconds(patience)
    live = read_live(network, token_file)
    if not live.running:
        told = f"{network} is a network that is only described; name the address of a broker, or the data folder"
        raise SettingsError(KEY, f"{told} of 'latecomer up'")
    odd = check_plan(wanted, str(plan), live)
    found = survey(live, wanted, sizes=True)
    retired = check_withdraw(withdraw or [], wanted)
    steps = steps_to(wanted, live, found, retired, keep_old=keep_old)
    check_room(steps, found)
    console = Console(highlight=False, markup=False, quiet=json)
    for sentence in (*odd, *_remarks(wanted, live, found, retired)):
        console.print(plain(sentence), soft_wrap=True)
    show(console, steps)
    if steps and not yes:
        console.print("Nothing was changed. Add --yes to do this.")
        if json:
            print_json({"steps": steps})
        return
    with _progress() as tell:
        work = Work(live, wanted, plan_id(wanted), parallel, patience_s, tell)
        applied = carry_out(plan, work, steps, found)
    if json:
        typer.echo(write_record(applied), nl=False)
    else:
        console.print(f"The network is as the plan says. What was done is in {applied_file(plan)}.", soft_wrap=True)


def _seconds(patience: str) -> float:
    try:
        seconds = duration_us(patience) / 1e6
    except ValueError as error:
        raise SettingsError("--patience", str(error)) from None
    if seconds < 1:
        raise SettingsError("--patience", "must be at least 1s")
    return seconds


def check_withdraw(topics: Sequence[str], plan: Plan) -> list[str]:
    for name in topics:
        if name in plan.replicas:
            raise SettingsError("--withdraw", f"{name!r} is a topic of the plan, which says where it is kept")
    return list(topics)


def _remarks(plan: Plan, live: Live, found: Survey, retired: Sequence[str]) -> Iterator[str]:
    for broker in live.absent:
        old = [kept.topics for kept in live.kept if kept.broker == broker and plan.replicas.get(kept.topics)]
        if old:
            yield f"{broker} keeps {few(old)} and is not there now: run this again when it is back."
    if others := unplanned(plan, found, retired):
        yield f"The plan says nothing of {few(others)}: that stays where it is (--withdraw ends it)."
    for name in retired:
        if all(found.named(broker, name) is None for broker in found.stores):
            yield f"Nobody keeps {name}."
        if over := left_over(plan, found, name):
            yield f"{over:,} events of {name} are of no topic of the plan: nobody will be asked for them any more."
    if nowhere := [topic for topic, stores in plan.replicas.items() if not stores]:
        yield f"The plan keeps {few(nowhere)} nowhere: that stays where it is."


def show(console: Console, steps: Sequence[Step]) -> None:
    if not steps:
        console.print("There is nothing to do: every store of the plan has what it is to keep.")
        return
    table = Table(box=SIMPLE_HEAD)
    for column in ("", "what", "broker", "topics", "from", "events", "size"):
        table.add_column(column, justify="right" if column in ("", "events", "size") else "left", overflow="fold")
    for number, step in enumerate(steps, 1):
        fill = step.what == "fill"
        sources = few(step.sources) or "nobody keeps it yet"
        amounts = (sources, f"{step.events:,}", show_size(step.bytes)) if fill else ("", "", "")
        table.add_row(str(number), step.what, plain(step.broker), plain(few(step.topics)), *map(plain, amounts))
    console.print(table)


def carry_out(plan: Path, work: Work, steps: Sequence[Step], found: Survey) -> Applied:
    """Take the steps. What was there before is written down first, what was done at the end, whichever end that is."""
    applied = _begun(plan, work, steps, found)
    if applied.ended_us and not steps:
        return applied
    write_text(applied_file(plan), "PLAN", write_record(msgspec.structs.replace(applied, ended_us=0)))
    done = False
    try:
        work.run(steps)
        done = True
    except KeyboardInterrupt:
        _say_how_far(work, steps)
        raise
    except LatecomerError:
        if work.done:
            _say_how_far(work, steps)
        raise
    finally:
        ended: dict[str, object] = {"steps": (*applied.steps, *work.done)}
        if done:
            after = survey(work.live, work.plan)
            kept = {broker: after.topics(broker) for broker in after.stores}
            ended |= {"ended_us": time.time_ns() // 1000, "after": kept}
        applied = msgspec.structs.replace(applied, **ended)
        write_text(applied_file(plan), "PLAN", write_record(applied))
    return applied


def _say_how_far(work: Work, steps: Sequence[Step]) -> None:
    said = f"{len(work.done)} of {len(steps)} steps were done, and stay; nothing is lost"
    Console(stderr=True, highlight=False, markup=False).print(
        f"{said}. Run the same command again to go on.", soft_wrap=True
    )


Told = Callable[[str, BrokerId, tuple[str, ...], int, int], None]


@contextmanager
def _progress() -> Iterator[Told]:
    """What is being done: bars on a terminal, else a line for each step."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:

        def line(what: str, broker: BrokerId, topics: tuple[str, ...], events: int, expected: int) -> None:
            if what != "filling":
                console.print(plain(f"{what} {broker}: {few(topics)}"), soft_wrap=True)

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[said]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        tasks: dict[BrokerId, TaskID] = {}

        def bar(what: str, broker: BrokerId, topics: tuple[str, ...], events: int, expected: int) -> None:
            if broker not in tasks:
                tasks[broker] = bars.add_task("", total=None, said="")
            ended = what in ("filled", "withdraw")
            total = max(events, expected, 1)
            said = f"{events:,} events" if what != "withdraw" else ""
            description = plain(f"{what} {broker}: {few(topics)}")
            bars.update(
                tasks[broker], description=description, total=total, completed=total if ended else events, said=said
            )

        yield bar


# -- what was done


def applied_file(plan: Path) -> Path:
    return plan.with_suffix(".applied.json")


def measured_file(plan: Path) -> Path:
    return plan.with_suffix(".measured.json")


def read_applied(plan: Path, wanted: Plan) -> Applied | None:
    """What is written beside a plan, if it is about this one."""
    file = applied_file(plan)
    if not file.exists():
        return None
    found = read_record(read_text(file, "PLAN"), str(file), Applied)
    return found if found.plan == plan_id(wanted) else None


def _begun(plan: Path, work: Work, steps: Sequence[Step], found: Survey) -> Applied:
    """What was there before; an interrupted run has written that down already, and what it has done."""
    earlier = read_applied(plan, work.plan)
    if earlier is not None and not (earlier.ended_us and steps):
        return earlier
    before = {broker: found.topics(broker) for broker in found.stores}
    links = tuple((link.a, link.b) for link in work.live.topology.links)
    return Applied(work.id, work.live.name, time.time_ns() // 1000, 0, before, before, (), links)
