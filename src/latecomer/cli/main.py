"""The command `latecomer`: one module per verb, and one place where errors become sentences.

A verb is a function with typer annotations in a module of its own; naming it in VERBS adds it. Only the module of the
verb that is asked for is loaded: `latecomer pub` needs no broker, and no broker needs the simulator.
A verb says "no" by raising `typer.Exit(1)`, and "I cannot" by raising a `LatecomerError`.

Exit codes
    0    done
    1    done, and the answer is no: a seed failed, a promise was broken
    2    the request cannot be carried out; one line on standard error says why
    3    done, and the history that was asked for is not complete; standard error says what is missing
    130  interrupted from the keyboard
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, NamedTuple, NoReturn

import typer

from latecomer import __version__
from latecomer.cli.help import Command, Group, epilog_of, panel_of, plain_error
from latecomer.model.errors import LatecomerError

NO, CANNOT, INTERRUPTED = 1, 2, 130


class Later(NamedTuple):
    """A verb whose module is loaded when it is asked for."""

    module: str
    name: str
    help: str
    """As the verb itself would say; for the list of all verbs."""

    def load(self) -> Callable[..., None] | typer.Typer:
        verb: Callable[..., None] | typer.Typer = getattr(import_module(self.module), self.name)
        return verb


Verb = Callable[..., None] | typer.Typer | Later

VERBS: list[tuple[str, Verb]] = [
    (
        "demo",
        Later(
            "latecomer.cli.demo",
            "demo",
            "Try everything in a minute: a network, traffic, its log on Spark, a plan, and what applying it brought.",
        ),
    ),
    ("broker", Later("latecomer.cli.broker", "broker", "Start a broker that any MQTT client can use.")),
    ("pub", Later("latecomer.cli.pub", "pub", "Publish a message, a file, or every line of standard input.")),
    ("sub", Later("latecomer.cli.sub", "sub", "Subscribe, and print one line per message.")),
    (
        "history",
        Later(
            "latecomer.cli.history",
            "history",
            "Print what was published in the past, oldest first; exit code 3 if something is missing.",
        ),
    ),
    (
        "stores",
        Later(
            "latecomer.cli.stores",
            "stores",
            "Show who keeps the history of which topics, how complete it is, and who asked for it.",
        ),
    ),
    (
        "sessions",
        Later(
            "latecomer.cli.sessions",
            "sessions",
            "Show where each client's session is and what waits for it; move, release or end one.",
        ),
    ),
    (
        "drain",
        Later(
            "latecomer.cli.drain",
            "drain",
            "Move all sessions of a broker to others, at a pace, so that it can be stopped.",
        ),
    ),
    (
        "join",
        Later("latecomer.cli.join", "join", "Add a broker to a network that runs, without a restart of the others."),
    ),
    (
        "leave",
        Later(
            "latecomer.cli.leave",
            "leave",
            "Take a broker out of a network that runs, for good, without a restart of the others.",
        ),
    ),
    ("store", Later("latecomer.cli.store", "store", "Check the files of a store, or say what is in them.")),
    ("up", Later("latecomer.cli.up", "up", "Start a network of brokers here, and keep it running until Ctrl-C.")),
    (
        "traffic",
        Later(
            "latecomer.cli.traffic",
            "traffic",
            "Make traffic to try things with: districts of a city publish, and latecomers ask for their past.",
        ),
    ),
    ("user", Later("latecomer.cli.user", "user", "Add, remove and list the users of a broker.")),
    (
        "analyze",
        Later(
            "latecomer.cli.analyze",
            "analyze",
            "Turn a network's event log into tables and a report: demand, popularity, distances, churn, movement.",
        ),
    ),
    (
        "plan",
        Later(
            "latecomer.cli.plan",
            "plan",
            "Plan where stores go and which topics each keeps, and say how far that is from the best possible.",
        ),
    ),
    (
        "replan",
        Later(
            "latecomer.cli.replan",
            "replan",
            "Say what a plan is still worth under new demand, what a better one gains, and what getting there costs.",
        ),
    ),
    (
        "apply",
        Later(
            "latecomer.cli.apply",
            "apply",
            "Bring a running network to a plan: fill stores, let them answer, and only then withdraw the old ones.",
        ),
    ),
    (
        "verify",
        Later(
            "latecomer.cli.verify",
            "verify",
            "Check whether an applied plan shortened distances as predicted (exit 1 if not).",
        ),
    ),
    (
        "watch",
        Later(
            "latecomer.cli.watch",
            "watch",
            "Keep demand current while a network writes its log, and say when a new plan pays.",
        ),
    ),
    (
        "overlay",
        Later(
            "latecomer.cli.overlay_live", "overlay", "Plan where brokers stand on a ring, and have them stand there."
        ),
    ),
    (
        "homes",
        Later("latecomer.cli.homes", "homes", "Say which clients would be better at which broker."),
    ),
    (
        "checkins",
        Later(
            "latecomer.cli.checkins",
            "checkins",
            "Turn check-ins into cells, visits, linger times, repeats, subscriptions and movement, and count them.",
        ),
    ),
    (
        "synth",
        Later("latecomer.cli.synth", "synth", "Make up check-ins that are like real ones, as many as are wanted."),
    ),
    (
        "movement",
        Later(
            "latecomer.cli.movement",
            "movement",
            "Learn where clients turn up next, test it on weeks that it has not seen, and export it for brokers.",
        ),
    ),
    (
        "movement-model",
        Later(
            "latecomer.cli.movement_model",
            "movement_model",
            "Show which movement model running brokers use; load another one, or remove it.",
        ),
    ),
    (
        "story",
        Later(
            "latecomer.cli.story",
            "story",
            "Six simulated brokers, and the story of how they find, lose and find each other again.",
        ),
    ),
    ("simulate", Later("latecomer.cli.simulate", "simulate", "Run a network of brokers in virtual time.")),
    (
        "reproduce",
        Later("latecomer.cli.reproduce", "reproduce", "Draw the papers' figures anew, and judge their claims."),
    ),
    (
        "soak",
        Later(
            "latecomer.cli.soak",
            "soak_verb",
            "Live many random networks under faults; every failure names the command that replays it.",
        ),
    ),
]
"""What follows `latecomer` on the command line, in the order of `latecomer --help`."""


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(VERBS, sys.argv[1:]))


def run(verbs: Sequence[tuple[str, Verb]], arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; only a bug of ours leaves as a traceback."""
    try:
        result = application(verbs, asked_for(arguments or completed()))(
            args=list(arguments), prog_name="latecomer", standalone_mode=False
        )
        sys.stdout.flush()
    except LatecomerError as error:
        return complain(str(error))
    except typer.TyperException as error:
        return complain(plain_error(error.format_message()) + where_to_read(error))
    except BrokenPipeError:
        return nobody_listens()
    except OSError as error:
        if error.filename is None:
            raise
        return complain(f"{error.filename}: {error.strerror}")
    except (KeyboardInterrupt, typer.Abort):
        return complain("interrupted", INTERRUPTED)
    if result == INTERRUPTED:  # typer has already turned the KeyboardInterrupt into this number
        return complain("interrupted", INTERRUPTED)
    return result if isinstance(result, int) else 0


def asked_for(arguments: Sequence[str]) -> str:
    """The verb of a command line: its first word, as no option before it takes one."""
    return next((word for word in arguments if not word.startswith("-")), "")


def completed() -> list[str]:
    """The command line that a shell wants completed, as typer's completion scripts pass it on."""
    words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    return words.split()[1:]


def application(verbs: Sequence[tuple[str, Verb]], wanted: str) -> typer.Typer:
    """The typer application with exactly these verbs, of which `wanted` can be carried out."""
    app = typer.Typer(
        cls=Group,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes are in docs/reference/exit-codes.md. A verb says more with --help.",
    )
    app.callback(invoke_without_command=True)(latecomer)
    for name, verb in verbs:
        loaded = verb.load() if isinstance(verb, Later) and name == wanted else verb
        panel, epilog = panel_of(name), epilog_of(name)
        if isinstance(loaded, Later):
            app.command(name, help=loaded.help, rich_help_panel=panel)(_not_asked_for)
        elif isinstance(loaded, typer.Typer):
            for command in loaded.registered_commands:
                command.cls, command.epilog = Command, epilog_of(f"{name} {command.name}")
            app.add_typer(loaded, name=name, cls=Group, epilog=epilog, rich_help_panel=panel)
        else:
            app.command(name, cls=Command, epilog=epilog, rich_help_panel=panel)(loaded)
    return app


def _not_asked_for() -> None:
    raise AssertionError("a verb that was not asked for is only listed")


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"latecomer {__version__}")
        raise typer.Exit


def latecomer(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Publish/subscribe for subscribers who arrive late, wander off and change their minds."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def complain(sentence: str, code: int = CANNOT) -> int:
    print("latecomer:", "; ".join(sentence.splitlines()), file=sys.stderr)
    return code


def where_to_read(error: typer.TyperException) -> str:
    """A usage error knows which command it is about."""
    context = getattr(error, "ctx", None)
    return "" if context is None else f" See '{context.command_path} --help'."


def nobody_listens() -> int:
    """Standard output was closed, as by `| head`: end quietly, also at the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NO
