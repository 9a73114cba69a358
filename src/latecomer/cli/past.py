"""What `latecomer history` and `latecomer sub` say and hear of the past."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from paho.mqtt.client import MQTTMessage

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.when import NAMES, Options, make_wish

END_TOPIC = "$history/end"
ADDED = ("published", "event")
"""User properties behind the publisher's own."""

Since = Annotated[
    str, typer.Option(metavar="TIME", help="From then on: -15m, -1h, -7d, 2026-11-16T06:00:00Z, seconds since 1970.")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to then.")]
Last = Annotated[str, typer.Option(metavar="N", help="Only the newest N of them.")]


class End(msgspec.Struct, frozen=True):
    """The word of the broker that the history is over."""

    filter: str = ""
    events: int = 0
    from_time: str = msgspec.field(default="", name="from")
    complete: bool = True
    stores: tuple[str, ...] = ()
    hops: int = 0
    problem: str = ""

    def incomplete(self) -> str:
        """What is wrong with it, as a sentence; empty: nothing."""
        if self.complete:
            return ""
        why = self.problem or "the broker does not say why"
        return f"the history is incomplete: {why}" + (f"; complete from {self.from_time} on" if self.from_time else "")

    def summary(self) -> str:
        if not self.stores:
            return f"{counted(self.events)}; no store was asked"
        names = " and ".join(self.stores)
        return f"{counted(self.events)} from {names}, {self.hops} hop{'' if self.hops == 1 else 's'} away"


def counted(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"


def checked(since: str, until: str, last: str) -> Options:
    """The options, once it is certain that a broker can understand them."""
    options = Options(since.strip(), until.strip(), last.strip())
    try:
        make_wish(options, time.time_ns() // 1000)
    except SettingsError as error:
        raise SettingsError(f"--{error.key}", error.problem.removeprefix(f"{error.key}: ")) from None
    return options


def wishes(options: Options) -> list[tuple[str, str]]:
    """As user properties of a SUBSCRIBE packet."""
    return [(name, text) for name in NAMES if (text := getattr(options, name))]


def end_of(message: MQTTMessage) -> End:
    try:
        return msgspec.json.decode(message.payload, type=End)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LatecomerError(
            f"the broker ends the history with {message.payload[:80]!r}, which is no such word"
        ) from None


def user_properties(message: MQTTMessage) -> Sequence[tuple[str, str]]:
    found: Sequence[tuple[str, str]] = getattr(message.properties, "UserProperty", ())
    return found


def replayed(message: MQTTMessage) -> tuple[str, str] | None:
    """When a message of the past was published, and which event it is; None: it is of the present."""
    last = user_properties(message)[-2:]
    if tuple(name for name, _ in last) != ADDED:
        return None
    return last[0][1], last[1][1]
