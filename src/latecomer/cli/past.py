"""What `latecomer history` and `latecomer sub` say and hear of the past."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from paho.mqtt.client import MQTTMessage

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.history import NOT_SO_FAR
from latecomer.model.when import NAMES, Options, format_when, make_wish, parse_when

END_TOPIC = "$history/end"
NO_STORE = "no store keeps"
"""How every problem begins that is told when nobody has the topics, or nobody all of them."""
ADDED = ("published", "event")
"""User properties behind the publisher's own."""

Since = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="From this time on: -15m, -1h, -7d, 2026-11-16T06:00:00Z, or seconds since 1970."
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to this time.")]
Last = Annotated[str, typer.Option(metavar="N", help="Only the newest N events.")]
WHERE_HELP = "Content filter, as 'value > 30 and unit = \"C\"'."


class End(msgspec.Struct, frozen=True):
    """The word of the broker that the history is over."""

    filter: str = ""
    events: int = 0
    from_time: str = msgspec.field(default="", name="from")
    complete: bool = True
    stores: tuple[str, ...] = ()
    hops: int = 0
    problem: str = ""

    def incomplete(self, asked: Options) -> str:
        """What is missing, as a sentence; empty: nothing."""
        if self.complete:
            return ""
        if self.problem == NOT_SO_FAR and self.from_time:
            who = "this store has" if len(self.stores) < 2 else "these stores have"
            return f"the history is incomplete: {who} events only since {seconds(self.from_time)}; {asked_from(asked)}"
        why = self.problem or "the broker does not say why"
        # Where no store has the topics, there is no time from which the history would be complete.
        known = self.from_time and not why.startswith(NO_STORE)
        return f"the history is incomplete: {why}" + (f"; complete from {self.from_time} on" if known else "")

    def summary(self) -> str:
        if not self.stores:
            return f"{counted(self.events)}; no store was asked"
        names = " and ".join(self.stores)
        return f"{counted(self.events)} from {names}, {self.hops} hop{'' if self.hops == 1 else 's'} away"


def asked_from(options: Options) -> str:
    """From when on somebody wanted to know."""
    if not options.since:
        return f"you asked for the last {options.last}" if options.last else "you asked for everything"
    since_us = parse_when(options.since, time.time_ns() // 1000)
    return f"you asked from {seconds(format_when(since_us))}" if since_us else "you asked for everything"


def seconds(when: str) -> str:
    """An instant without fractions of a second."""
    return re.sub(r"\.[0-9]+Z$", "Z", when)


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
