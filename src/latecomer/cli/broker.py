"""`latecomer broker`: one broker, from its settings until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.doors import NETWORK_FILE
from latecomer.cli.store_options import Capacity, Keep, store_amounts
from latecomer.model.errors import SettingsError
from latecomer.runtime.assignment import told
from latecomer.runtime.node import Node
from latecomer.runtime.settings import Settings, load

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings, as docs/reference/settings.md says.")
]


def broker(
    config: ConfigFile = None,
    port: Annotated[int | None, typer.Option(help="Listen here, on 127.0.0.1.", min=0, max=65_535)] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(help="Offer the admin interface here.", min=0, max=65_535, show_default="port of clients + 2000"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Directory for everything that is kept.")] = None,
    id: Annotated[str | None, typer.Option(help="Name of this broker.")] = None,
    durability: Annotated[str | None, typer.Option(help="power, process or none.")] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPICS", help="Keep the history of these topics, as 'sensors/#'; may be repeated."),
    ] = None,
    keep: Keep = None,
    capacity: Capacity = None,
    check: Annotated[bool, typer.Option("--check", help="Say whether the settings can work, and stop.")] = False,
) -> None:
    """Start a broker that any MQTT client can use."""
    overrides: dict[str, object] = {}
    if port is not None:
        overrides["listeners"] = [{"kind": "tcp", "port": port}]
    if admin_port is not None:
        overrides["admin.port"] = admin_port
    if data is not None:
        overrides["broker.data"] = data
    if id is not None:
        overrides["broker.id"] = id
    if durability is not None:
        overrides["broker.durability"] = durability
    if store:
        overrides["store.topics"] = store
    overrides |= {f"store.{key}": value for key, value in store_amounts(keep, capacity).items()}
    settings = load(config, overrides)
    look_at(settings, amounts=bool(keep or capacity))
    if check:
        typer.echo(f"the settings of broker {settings.broker.id!r} can work")
        if sentence := told(settings):
            typer.echo(sentence)
        return
    set_up_log(settings.broker.log_level)
    run(settings, None if config is None else lambda: load(config, overrides))


def look_at(settings: Settings, *, amounts: bool) -> None:
    """What an operator may have got wrong on the command line."""
    data = settings.broker.data
    if (data / NETWORK_FILE).exists():
        problem = f"{data} is the folder of a network of 'latecomer up'; name another one with --data"
        raise SettingsError("broker.data", problem)
    if amounts and not settings.store.topics:
        problem = "--keep and --capacity are for a store, and this broker keeps no topics unless a plan assigns some"
        typer.echo(f"latecomer: {problem}; name them with --store", err=True)


TIME = "%Y-%m-%d %H:%M:%S"
"""As the log has it."""
SWITCH_S = 0.0005
"""How long a thread keeps the interpreter from the event loop, or the loop from the disk's thread."""


COLLECT = (100_000, 20, 50)
"""The collector looks for cycles when so many more objects exist. Events and packets are no part of any; with Python's
700, looking for cycles among those under way was a sixth of the work when publishers had 500 of them."""


def run(settings: Settings, reread: Callable[[], Settings] | None = None) -> None:
    """Serve until told to stop; `reread` says what the settings file says now."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()  # modules live as long as the process: a walk over them each time would stop the loop for 30 ms
    gc.set_threshold(*COLLECT)
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, reread))
    except ImportError:
        asyncio.run(serve(settings, reread))


async def serve(settings: Settings, reread: Callable[[], Settings] | None = None) -> None:
    node = Node(settings)
    node.reread = reread
    await node.run(announce)


def announce(node: Node) -> None:
    """One line when clients can connect; the first address is the one to use."""
    where = ", ".join(node.addresses)
    typer.echo(f"{time.strftime(TIME)} {node.settings.broker.id} is ready: {where}")
    typer.echo(f"  durability {node.settings.broker.durability}, data in {node.settings.broker.data}")
    store, topics = node.settings.store, node.assigner.topics
    if topics:
        limits = ", ".join((f"for {_said(store.keep, ' s')}", f"up to {_said(store.capacity, ' bytes')}"))
        typer.echo(f"  keeps {', '.join(topics)} {limits}")
    sys.stdout.flush()


def _said(amount: str | float, unit: str) -> str:
    return amount if isinstance(amount, str) else f"{amount:g}{unit}"


class OneLine(logging.Formatter):
    """One line per entry, whatever a client wrote into a name (bad input 32)."""

    def format(self, record: logging.LogRecord) -> str:
        return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in super().format(record))


def set_up_log(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(max(root.level, logging.INFO))  # its debugging is not ours
