"""`latecomer history`: what was published, from whoever keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from latecomer.cli.client import (
    NAP_SECONDS,
    ClientId,
    Connection,
    Host,
    PasswordFile,
    Port,
    TlsCa,
    User,
    Where,
    reason,
)
from latecomer.cli.history_output import Format, Output, check_output, open_output
from latecomer.cli.past import WHERE_HELP, Last, Since, Until, checked, end_of, incomplete, replayed
from latecomer.client.packets import no_properties
from latecomer.client.words import END_TOPIC, End, counted, wishes
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.filters import make_filter
from latecomer.model.when import Options
from latecomer.sim.transcript import plain

INCOMPLETE = 3
QOS = 1
"""What is acknowledged cannot get lost on the way, and the broker does not send faster than it is taken."""
SEND_NO_RETAINED = 2


def history(
    topic: Annotated[str, typer.Argument(metavar="FILTER", help="Topic filter, with + and # as in MQTT.")],
    since: Since = "",
    until: Until = "",
    last: Last = "",
    where: Annotated[str | None, typer.Option("--where", "--filter", metavar="CONTENT", help=WHERE_HELP)] = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = "text",
    output: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            metavar="FILE",
            help="Write to this file; an existing one is replaced.",
            show_default="standard output",
        ),
    ] = None,
    host: Host = "localhost",
    port: Port = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_ca: TlsCa = None,
    client_id: ClientId = "",
) -> None:
    """Print what was published in the past, oldest first; exit code 3 if something is missing."""
    options = checked(since, until, last)
    make_filter(topic, where or "")
    if topic.startswith("$share/"):
        raise SettingsError("FILTER", "a shared subscription has no history; leave out $share and the group")
    check_output(format, output)
    place = Where(
        host=host, port=port, user=user, password_file=password_file, tls_ca=tls_ca, client_id=client_id
    )  # fmt: skip
    reader = Reader(place, topic, where, options)
    end = reader.run(format, output)
    if (sentence := incomplete(end, reader.options)) != "":
        print(f"latecomer: {plain(sentence)}", file=sys.stderr)
        raise typer.Exit(INCOMPLETE)
    if sys.stderr.isatty():
        print(f"latecomer: {plain(end.summary())}", file=sys.stderr)


class Reader:
    """Subscribed until the broker says that the history is over."""

    def __init__(self, where: Where, topic: str, content: str | None, options: Options) -> None:
        self.topic = topic
        self.content = content
        # Asking for all of it is asking since the beginning of time.
        self.options = options if str(options) else Options(since="0")
        self.events = 0
        self.published = ""
        self.end: End | None = None
        self.problem = ""
        self.output: Output | None = None
        self.connection = Connection(where, self._take)

    def run(self, format: Format, file: Path | None) -> End:
        self.connection.open()
        try:
            self.output = open_output(format, file)
            try:
                self._subscribe()
                self._read(quiet=file is None and sys.stdout.isatty())
            finally:
                self.output.close()
        finally:
            self.connection.close()
        assert self.end is not None
        return self.end

    def _read(self, *, quiet: bool) -> None:
        with progress(quiet) as show:
            while self.end is None:
                try:
                    self.connection.loop(NAP_SECONDS)
                except LatecomerError as error:
                    if self.end is not None:
                        return
                    raise LatecomerError(f"{error} after {counted(self.events)}{self._goes_on()}") from None
                if self.problem:
                    raise LatecomerError(self.problem)
                show(f"{counted(self.events)}, up to {self.published}" if self.events else "waiting for a store")

    def _goes_on(self) -> str:
        return f"; go on with --since {self.published}" if self.published else "; try again"

    def _take(self, message: MQTTMessage) -> None:
        if self.end is not None:
            return  # of the present
        if message.topic == END_TOPIC:
            try:
                self.end = end_of(message)
            except LatecomerError as error:
                self.problem = str(error)
            return
        found = replayed(message)
        if found is None:
            self.problem = f"the broker at {self.connection.where} sends no history: it does not know of stores"
            return
        assert self.output is not None
        self.events += 1
        self.published = found[0]
        self.output.take(message, *found)

    def _subscribe(self) -> None:
        connection, where = self.connection, self.connection.where
        properties: Any = no_properties(PacketTypes.SUBSCRIBE)
        for pair in wishes(self.options):
            properties.UserProperty = pair  # paho appends
        if self.content:
            properties.UserProperty = ("filter", self.content)
        options = SubscribeOptions(qos=QOS, retainHandling=SEND_NO_RETAINED)
        connection.client.subscribe([(self.topic, options)], properties=properties)
        connection.wait(lambda: bool(connection.granted), f"the broker at {where} does not answer a subscription")
        code = connection.granted[0]
        if code.is_failure:
            words = reason(code, connection.granted_properties)
            raise LatecomerError(f"the broker at {where} refused {plain(self.topic)!r}: {words}")


@contextmanager
def progress(quiet: bool) -> Iterator[Any]:
    """A line on standard error that says how far it is, if somebody looks at it and sees nothing else."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text: bar.update(task, description=plain(text))
