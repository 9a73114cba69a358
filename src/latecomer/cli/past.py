"""What `latecomer history` and `latecomer sub` say and hear of the past."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from paho.mqtt.client import MQTTMessage

from latecomer.client.words import End, read_end, read_notes
from latecomer.model.errors import SettingsError
from latecomer.model.when import Options, make_wish

Since = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="From this time on: -15m, -1h, -7d, 2026-11-16T06:00:00Z, or seconds since 1970."
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to this time.")]
Last = Annotated[str, typer.Option(metavar="N", help="Only the newest N events.")]
WHERE_HELP = "Content filter, as 'value > 30 and unit = \"C\"'."


def checked(since: str, until: str, last: str) -> Options:
    """The options, once it is certain that a broker can understand them."""
    options = Options(since.strip(), until.strip(), last.strip())
    try:
        make_wish(options, time.time_ns() // 1000)
    except SettingsError as error:
        raise SettingsError(f"--{error.key}", error.problem.removeprefix(f"{error.key}: ")) from None
    return options


def incomplete(end: End, asked: Options) -> str:
    """What is missing, as a sentence; empty: nothing."""
    return end.incomplete(asked, time.time_ns() // 1000)


def end_of(message: MQTTMessage) -> End:
    return read_end(bytes(message.payload))


def replayed(message: MQTTMessage) -> tuple[str, str] | None:
    """When a message of the past was published, and which event it is; None: it is of the present."""
    notes = read_notes(getattr(message.properties, "UserProperty", ()))
    return (notes.published, notes.event) if notes.past else None
