"""How fast a broker is, next to Mosquitto, amqtt and NATS, in one run.

The broker has one core and the load generator another. Rounds are interleaved: every broker once per round. README.md
says how it is measured, `scenarios.py` what.

    python -m bench.broker [--quick] [--brokers latecomer,mosquitto] [--scenario '1-1.*'] [--rounds N] [--json FILE]
    python -m bench.broker --broker mine='mybroker --port {port} --data {data}'
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.book import BenchError
from bench.broker.brokers import Amqtt, Broker, Latecomer, Mosquitto, Nats, Other, make_certificate
from bench.broker.measure import Bench, Contender, Fleet, Result, compile_load, rounds
from bench.broker.report import Report, line_key, ratio
from bench.broker.scenarios import Feature, Line, Scenario, features, lines, scenarios
from bench.frame import options_for, parsed, run, say_end, two_cores

SPARE_FILES = 500
"""Open files that a broker needs besides those of the connections held."""

Item = Scenario | Feature | Line
Group = tuple[Item, list[Contender], int]


def arguments() -> argparse.Namespace:
    about, quick = "The speed of MQTT brokers side by side.", "fewer scenarios, rounds and seconds"
    parser = options_for("broker", about, rounds=5, quick_rounds=2, quick=quick)
    parser.add_argument("--seconds", type=float, help="how long a turn lasts (0.5; quick: 0.2)")
    parser.add_argument(
        "--scenario", action="append", metavar="GLOB", help="only those with such a name; may be repeated"
    )
    parser.add_argument(
        "--brokers",
        metavar="A,B",
        help="only these, out of mosquitto, amqtt, nats, nats-mqtt, latecomer, before, --broker",
    )
    parser.add_argument("--broker", action="append", default=[], metavar="NAME=COMMAND", help="with {port} and {data}")
    parser.add_argument("--latecomer", metavar="PROGRAM", help="the program whose verb `broker` is measured")
    parser.add_argument(
        "--before",
        metavar="REV|DIR",
        help="a revision of it, or a folder with its sources, measured as `before` in the same run",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where amqtt is installed, once")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios and stop")
    options = parsed(parser)
    if any("=" not in other for other in options.broker):
        parser.error("--broker must be NAME=COMMAND")
    return options


def all_brokers(options: argparse.Namespace) -> list[Broker]:
    cache = options.cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latecomer-bench"
    beside = Path(sys.executable).with_name("latecomer")
    program = options.latecomer or (str(beside) if beside.exists() else shutil.which("latecomer") or "latecomer")
    others: list[Broker] = [Other(*text.split("=", 1)) for text in options.broker]
    before = [Latecomer(sources(options.before, cache), "before")] if options.before else []
    return [Mosquitto(), Amqtt(cache), Nats(mqtt=False), Nats(mqtt=True), *before, Latecomer((program,)), *others]


def sources(before: str, cache: Path) -> tuple[str, ...]:
    """The words that start another revision, with this interpreter and what is installed beside it."""
    tree = Path(before)
    if not tree.is_dir():
        tree = checked_out(before, cache)
    if not (tree / "src" / "latecomer").is_dir():
        raise BenchError(
            f"--before: {before} has no src/latecomer; name a revision, or a folder that is a working copy"
        )
    return "env", f"PYTHONPATH={tree.resolve() / 'src'}", sys.executable, "-m", "latecomer"


def checked_out(revision: str, cache: Path) -> Path:
    """The sources of a revision of this repository, once for each."""
    git = ("git", "-C", str(Path(__file__).parents[2]))
    try:
        asked = [*git, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
        found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        tree = cache / f"revision-{found[:12]}"
        if not tree.is_dir():
            packed = subprocess.run([*git, "archive", found, "src"], capture_output=True, check=True).stdout
            cache.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(dir=cache))
            subprocess.run(["tar", "-x", "-C", str(unfinished)], input=packed, check=True)
            unfinished.rename(tree)
    except (OSError, subprocess.CalledProcessError):
        raise BenchError(
            f"--before: {revision} is neither a folder nor a revision that git can hand out here"
        ) from None
    return tree


def chosen_brokers(options: argparse.Namespace, console: Console) -> list[Broker]:
    """Those asked for that can be had; a line for each that cannot."""
    known = {broker.name: broker for broker in all_brokers(options)}
    names = options.brokers.split(",") if options.brokers else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BenchError(f"no broker is called {unknown[0]}; there are {', '.join(known)}")
    have = []
    for name in names:
        with console.status(f"looking for {name}"):
            why = known[name].missing()
        if why:
            console.print(f"{name} is left out: {why}")
        else:
            have.append(known[name])
    if not have:
        raise BenchError("no broker is left to be measured")
    return have


def scenario_group(scenario: Scenario, brokers: list[Broker], number: int) -> Group:
    able = [
        broker
        for broker in brokers
        if broker.name not in scenario.without and not broker.refuses(scenario.variant, scenario.load)
    ]
    contenders = [Contender(broker, scenario.load, scenario.variant) for broker in able]
    return scenario, contenders, min(number, scenario.rounds_max)


def feature_group(feature: Feature, brokers: list[Broker], number: int) -> Group:
    contenders = []
    for broker in brokers:
        sides = (("without", feature.base, feature.base_variant), ("with", feature.load, feature.variant))
        if not any(broker.refuses(variant, load) for _, load, variant in sides):
            contenders += [Contender(broker, load, variant, role) for role, load, variant in sides]
    return feature, contenders, number


def line_group(line: Line, brokers: list[Broker], number: int) -> Group:
    contenders = []
    for broker in brokers:
        # What a broker cannot keep safe is measured as it is, beside both of those that can choose.
        able = [durable for durable in line.durable if not broker.refuses(line.variant(durable), line.load)]
        if not able and not broker.refuses(line.variant(False), line.load):
            able = [False]
        for durable in able:
            role = line_key("", durable).strip()
            contenders.append(Contender(broker, line.load, line.variant(durable), role))
    return line, contenders, number


def groups(options: argparse.Namespace, brokers: list[Broker], tls: bool) -> list[Group]:
    def wanted(item: Item) -> bool:
        if options.scenario:
            return any(fnmatch(item.name, pattern) for pattern in options.scenario)
        return item.quick or not options.quick

    made = [scenario_group(scenario, brokers, options.rounds) for scenario in scenarios() if wanted(scenario)]
    made += [feature_group(f, brokers, options.rounds) for f in features() if wanted(f) and (tls or not f.variant.tls)]
    made += [line_group(line, brokers, options.rounds) for line in lines() if wanted(line)]
    return [group for group in made if group[1]]


def measure(fleet: Fleet, todo: list[Group], report: Report, console: Console) -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(len(contenders) * number for _, contenders, number in todo))
        for item, contenders, number in todo:

            def tick(key: str, name: str = item.name) -> None:
                progress.update(task, description=f"{name}: {key}")
                progress.advance(task)

            hold = min(item.hold, files - SPARE_FILES) if isinstance(item, Scenario) else 0
            found = rounds(fleet, contenders, number, hold, tick)
            if isinstance(item, Scenario):
                report.scenarios.append((item, found))
            elif isinstance(item, Feature):
                report.features.append((item, found))
            else:
                report.lines.append((item, found))


def as_json(report: Report) -> str:
    """Every round of everything, with what it was measured on."""
    machine = {"machine": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}
    everything: list[tuple[Item, dict[str, list[Result]]]] = [*report.scenarios, *report.features, *report.lines]
    results = [
        {
            "scenario": item.name,
            "title": item.title,
            "results": {
                key: [{"error": result.error, **result.raw} for result in results] for key, results in found.items()
            },
            "ratios": {
                f"{broker} {metric}": ratio(found.get(broker), found.get("mosquitto"), metric)
                for broker in report.compared()
                for metric in (item.targets if isinstance(item, Scenario) else ())
            },
        }
        for item, found in everything
    ]
    return json.dumps({**machine, "results": results}, indent=1)


def bench(options: argparse.Namespace, console: Console) -> int:
    brokers = chosen_brokers(options, console)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    broker_core, load_core = two_cores()
    if broker_core is None:
        console.print("only one core: broker and load share it, and ratios mean little")
    report = Report([broker.name for broker in brokers])
    began = time.monotonic()
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="latecomer-bench-") as name:
        folder = Path(name)
        load, tls = compile_load(folder)
        certificate = make_certificate(folder)
        tls = tls and certificate is not None
        if not tls:
            console.print("TLS is left out: it needs the program openssl, and its headers for load.c")
        seconds = options.seconds or (0.2 if options.quick else 0.5)
        setup = Bench(load, folder, certificate, broker_core, load_core, seconds, seconds / 5)
        fleet = Fleet(setup)
        try:
            measure(fleet, groups(options, brokers, tls), report, console)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            fleet.keep([])
    report.show(console)
    say_end(console, began, interrupted=interrupted)
    if options.json:
        options.json.write_text(as_json(report))
    return 130 if interrupted else 0


def list_names(console: Console) -> int:
    items: list[Item] = [*scenarios(), *features(), *lines()]
    for item in items:
        console.print(f"{item.name:24} {item.title}", markup=False)
    return 0


def main() -> int:
    options = arguments()
    return run(list_names if options.list else partial(bench, options))
