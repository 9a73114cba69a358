"""`latecomer traffic`: publishers and latecomers for a network that has none yet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from latecomer.cli.demo_progress import progress
from latecomer.cli.demo_traffic import AT_FIRST, DISTRICTS, TOPICS, Broken, People, Tally
from latecomer.cli.doors import NETWORK_FILE
from latecomer.cli.live_network import read_live
from latecomer.model.errors import SettingsError
from latecomer.model.topics import topic_covers
from latecomer.runtime.network_file import read_network


def traffic(
    network: Annotated[Path, typer.Option(metavar="DIR", help="The data folder of 'latecomer up'.")] = Path(
        "latecomer-data"
    ),
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="How often the past is asked for.")] = 600,
    seed: Annotated[int, typer.Option(help="Another seed: other people, with the same habits.")] = 1,
) -> None:
    """Make traffic to try things with: districts of a city publish, and latecomers ask for their past."""
    file = network / NETWORK_FILE
    if not file.is_file():
        raise SettingsError("--network", f"{network} is not the data folder of 'latecomer up'; start a network with it")
    place, live = read_network(file), read_live(str(network))
    if not any(topic_covers(kept.topics, TOPICS) or topic_covers(TOPICS, kept.topics) for kept in live.kept):
        raise SettingsError("--network", f"no store keeps {TOPICS}; start the network with --store 'b1={TOPICS}'")
    console = Console(highlight=False)
    with progress(console) as told:
        people = People(place, time.time_ns() // 1000)
        try:
            people.begin(lambda done: told("publishing", done, AT_FIRST))
            tally = people.ask(requests, seed, lambda done: told("latecomers ask", done, requests))
        finally:
            people.close()
    check(tally)
    console.print(
        f"{len(DISTRICTS)} districts published to {TOPICS}. {tally.requests:,} latecomers asked for the past of one "
        f"and got {tally.events:,} events, each once and in order, from stores "
        f"{tally.hops / tally.requests:.2f} hops away.",
        width=min(console.width, 110),
    )


def check(tally: Tally) -> None:
    """Whether everybody got what was acknowledged before."""
    if tally.lost or tally.repeated or tally.disordered:
        told = f"{tally.lost} lost, {tally.repeated} repeated, {tally.disordered} out of order"
        raise Broken(f"of {tally.events:,} events that latecomers asked for: {told}")
