"""The command `latecomer`: one module per verb, and one place where errors become sentences.

A verb is a function with typer annotations in a module of its own; naming it in VERBS adds it.
A verb says "no" by raising `typer.Exit(1)`, and "I cannot" by raising a `LatecomerError`.

Exit codes
    0    done
    1    done, and the answer is no: a seed failed, a promise was broken
    2    the request cannot be carried out; one line on standard error says why
    130  interrupted from the keyboard
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

from latecomer import __version__
from latecomer.cli.broker import broker
from latecomer.cli.demo import demo
from latecomer.cli.pub import pub
from latecomer.cli.simulate import simulate
from latecomer.cli.soak import soak_verb
from latecomer.cli.sub import sub
from latecomer.cli.up import up
from latecomer.cli.user import user
from latecomer.model.errors import LatecomerError

Verb = Callable[..., None] | typer.Typer

NO, CANNOT, INTERRUPTED = 1, 2, 130

VERBS: list[tuple[str, Verb]] = [
    ("broker", broker),
    ("demo", demo),
    ("pub", pub),
    ("sub", sub),
    ("up", up),
    ("user", user),
    ("simulate", simulate),
    ("soak", soak_verb),
]
"""What follows `latecomer` on the command line, in the order of `latecomer --help`."""


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(VERBS, sys.argv[1:]))


def run(verbs: Sequence[tuple[str, Verb]], arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; only a bug of ours leaves as a traceback."""
    try:
        result = application(verbs)(args=list(arguments), prog_name="latecomer", standalone_mode=False)
        sys.stdout.flush()
    except LatecomerError as error:
        return complain(str(error))
    except typer.TyperException as error:
        return complain(error.format_message() + where_to_read(error))
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


def application(verbs: Sequence[tuple[str, Verb]]) -> typer.Typer:
    """The typer application with exactly these verbs."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(latecomer)
    for name, verb in verbs:
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, name=name)
        else:
            app.command(name)(verb)
    return app


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
