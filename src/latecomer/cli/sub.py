"""`latecomer sub`: print what is published."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Annotated, Any, Literal

import typer
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from latecomer.cli.client import (
    NAP_SECONDS,
    V311,
    ClientId,
    Connection,
    Host,
    PasswordFile,
    Port,
    QoS,
    TlsCa,
    User,
    Where,
    reason,
)
from latecomer.cli.past import WHERE_HELP, Last, Since, Until, checked, end_of, incomplete, replayed
from latecomer.client.packets import no_properties
from latecomer.client.words import END_TOPIC, End, wishes
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.filters import make_filter
from latecomer.model.when import Options
from latecomer.sim.transcript import plain

Format = Literal["plain", "verbose", "json"]
PROPERTIES = ("ContentType", "ResponseTopic", "MessageExpiryInterval", "PayloadFormatIndicator")
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 0.5, 15.0


def sub(
    topics: Annotated[list[str], typer.Argument(metavar="FILTER...", help="Topic filters, with + and # as in MQTT.")],
    filter: Annotated[str | None, typer.Option("--where", "--filter", metavar="CONTENT", help=WHERE_HELP)] = None,
    host: Host = "localhost",
    port: Port = None,
    qos: QoS = 0,
    user: User = None,
    password_file: PasswordFile = None,
    tls_ca: TlsCa = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many messages; 0: never.")] = 0,
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Stop after this time; exit code 1 if --count was not reached."),
    ] = None,
    since: Since = "",
    until: Until = "",
    last: Last = "",
    format: Annotated[Format, typer.Option(help="Print the payload; topic and payload; or everything.")] = "plain",
    share: Annotated[
        str, typer.Option(metavar="GROUP", help="Shared subscription: each message goes to one member of the group.")
    ] = "",
    session: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**32 - 1,
            metavar="SECONDS",
            help="Keep the session of this --client-id for so long after a disconnect.",
        ),
    ] = None,
    v311: V311 = False,
    client_id: ClientId = "",
) -> None:
    """Subscribe, and print one line per message."""
    options = checked(since, until, last)
    if share and str(options):
        raise SettingsError("--share", "has no history: leave out --since, --until and --last")
    if session is not None and not client_id:
        raise SettingsError("--session", "needs --client-id: it is the name under which messages wait")
    subscriber = Subscriber(
        Where(
            host=host, port=port, user=user, password_file=password_file, tls_ca=tls_ca, v311=v311,
            client_id=client_id, session_seconds=session,
        ),
        requests(topics, filter, share, v311), filter, qos, Printer(format), count, options,
    )  # fmt: skip
    try:
        enough = subscriber.run(wait)
    except KeyboardInterrupt:
        if count:
            raise
        enough = True  # the usual end of an endless subscription
    subscriber.connection.close()
    if not enough:
        print(f"latecomer: {subscriber.got} of {count} messages in {wait:g} s", file=sys.stderr)
        raise typer.Exit(1)


def requests(topics: list[str], content: str | None, share: str, v311: bool) -> list[str]:
    """Topic filters as they are sent; MQTT 3.1.1 has the content filter behind a question mark."""
    if any(sign in share for sign in "/+#"):
        raise SettingsError("--share", f"{share!r} must not have '/', '+' or '#' in it")
    asked = []
    for topic in topics:
        wanted = make_filter(topic, content or "")
        text = f"{topic} ? {content}" if content and v311 and wanted.where is not None else topic
        asked.append(f"$share/{share}/{text}" if share else text)
    return asked


class Printer:
    """One line per message; on a terminal nothing in it can be mistaken for an order to the terminal."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self.out = sys.stdout.buffer
        self.tty = sys.stdout.isatty()

    def __call__(self, message: MQTTMessage) -> None:
        if self.format == "json":
            line = as_json(message).encode()
        else:
            line = self._safe(bytes(message.payload))
            if self.format == "verbose":
                line = plain(message.topic).encode() + b" " + line  # a topic may hold a line feed
        self.out.write(line + b"\n")
        self.out.flush()

    def _safe(self, text: bytes) -> bytes:
        return plain(text.decode("utf-8", "backslashreplace")).encode() if self.tty else text


def as_json(message: MQTTMessage) -> str:
    """Everything a message says, on one line; only printable characters."""
    return printable(json.dumps(as_dict(message), ensure_ascii=False))


def printable(text: str) -> str:
    """JSON in which every character can be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def as_dict(message: MQTTMessage) -> dict[str, Any]:
    """Everything a message says."""
    told: dict[str, Any] = {"topic": message.topic}
    try:
        told["payload"] = message.payload.decode("utf-8")
    except UnicodeDecodeError:
        told["payload_base64"] = base64.b64encode(message.payload).decode()
    told |= {"qos": message.qos, "retain": message.retain}
    properties = message.properties
    if properties is not None:
        for name in PROPERTIES:
            if hasattr(properties, name):
                told[_snake(name)] = getattr(properties, name)
        if hasattr(properties, "CorrelationData"):
            told["correlation_data_base64"] = base64.b64encode(properties.CorrelationData).decode()
        told["user_properties"] = [list(pair) for pair in getattr(properties, "UserProperty", [])]
    return told


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


class Subscriber:
    """Subscribed as long as there is a broker; tries again when the connection breaks."""

    def __init__(
        self,
        where: Where,
        topics: list[str],
        content: str | None,
        qos: int,
        printer: Printer,
        count: int,
        past: Options,
    ) -> None:
        self.topics = topics
        self.past = past
        self.awaited = len(topics) if str(past) else 0
        """How often the broker has still to say that the history of a filter is over."""
        self.seen: dict[str, None] = {}
        """Events of the past that were printed: after a broken connection the history begins anew."""
        self.content = content
        self.qos = qos
        self.printer = printer
        self.count = count
        self.got = 0
        self.connection = Connection(where, self._take)

    def run(self, seconds: float | None) -> bool:
        """Did as many messages come as were asked for?"""
        until = None if seconds is None else time.monotonic() + seconds
        self.connection.open()
        self._subscribe()
        while not self._enough():
            if until is not None and time.monotonic() > until:
                return not self.count
            try:
                self.connection.loop(NAP_SECONDS)
            except LatecomerError as error:
                if not self.connection.worth_trying_again:
                    raise
                self._again(str(error), until)
        return True

    def _enough(self) -> bool:
        return bool(self.count) and self.got >= self.count

    def _take(self, message: MQTTMessage) -> None:
        if message.topic == END_TOPIC:
            self._past_over(end_of(message))
        elif not self._enough() and not self._known(message):
            self.got += 1
            self.printer(message)

    def _known(self, message: MQTTMessage) -> bool:
        """Whether it was printed before the connection broke."""
        found = replayed(message)
        if found is None or not self.awaited:
            return False
        known = found[1] in self.seen
        self.seen[found[1]] = None
        return known

    def _past_over(self, end: End) -> None:
        self.awaited = max(0, self.awaited - 1)
        if not self.awaited:
            self.seen.clear()
        told = incomplete(end, self.past) or f"{end.summary()}; from here on live"
        print(f"latecomer: {plain(told)}", file=sys.stderr, flush=True)

    def _subscribe(self) -> None:
        connection, where = self.connection, self.connection.where
        connection.granted = []
        if self.awaited:
            self.awaited = len(self.topics)  # the history begins anew
        if where.v311:
            before = f"$history/{self.past}/" if self.awaited else ""
            connection.client.subscribe([(before + topic, self.qos) for topic in self.topics])
        else:
            properties = no_properties(PacketTypes.SUBSCRIBE)
            for pair in wishes(self.past) if self.awaited else ():
                properties.UserProperty = pair  # paho appends
            if self.content:
                properties.UserProperty = ("filter", self.content)
            options = SubscribeOptions(qos=self.qos)
            connection.client.subscribe([(topic, options) for topic in self.topics], properties=properties)
        connection.wait(lambda: bool(connection.granted), f"the broker at {where} does not answer a subscription")
        for topic, code in zip(self.topics, connection.granted, strict=False):
            if code.is_failure:
                words = reason(code, connection.granted_properties)
                raise LatecomerError(f"the broker at {where} refused {plain(topic)!r}: {words}")

    def _again(self, why: str, until: float | None) -> None:
        """Connect and subscribe anew, more and more patiently."""
        print(f"latecomer: {why}; trying again", file=sys.stderr, flush=True)
        pause = AGAIN_SECONDS
        while until is None or time.monotonic() + pause < until:
            time.sleep(pause)
            try:
                self.connection.open()
                self._subscribe()
            except LatecomerError:
                if not self.connection.worth_trying_again:
                    raise
                pause = min(pause * 2, AGAIN_SECONDS_MAX)
            else:
                return
        if until is not None:
            time.sleep(max(0.0, until - time.monotonic()))
