"""`latecomer pub`: publish from the command line."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from paho.mqtt.client import MQTT_ERR_SUCCESS
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

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
from latecomer.client.packets import no_properties
from latecomer.model.errors import FilterError, LatecomerError, SettingsError
from latecomer.model.topics import check_topic

AHEAD = 200
"""Messages sent and not yet acknowledged, at most: a pipe must not fill the memory."""
CHUNK_BYTES = 65536


def pub(
    topic: Annotated[str, typer.Argument(help="Topic name, without wildcards.")],
    message: Annotated[
        str | None, typer.Argument(help="Payload; '' with --retain deletes the retained message.")
    ] = None,
    host: Host = "localhost",
    port: Port = None,
    qos: QoS = 0,
    retain: Annotated[bool, typer.Option("--retain", help="The broker keeps it for later subscribers.")] = False,
    user: User = None,
    password_file: PasswordFile = None,
    tls_ca: TlsCa = None,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A user property; content filters can use it."),
    ] = None,
    expiry: Annotated[
        int | None,
        typer.Option(min=0, max=2**32 - 1, metavar="SECONDS", help="Seconds until an undelivered message is dropped."),
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="Publish this many times; 0: until interrupted.")] = 1,
    interval: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Pause between messages.")] = 0,
    stdin: Annotated[bool, typer.Option("--stdin", help="One message per line of standard input.")] = False,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Publish the content of this file.")] = None,
    v311: V311 = False,
    client_id: ClientId = "",
) -> None:
    """Publish a message, a file, or every line of standard input."""
    try:
        check_topic(topic)
    except FilterError as error:
        raise error.at("TOPIC") from None
    properties = _properties(property or [], expiry, v311)
    payload = _payload(message, stdin, file, count)
    where = Where(
        host=host, port=port, user=user, password_file=password_file, tls_ca=tls_ca, v311=v311, client_id=client_id
    )
    connection = Connection(where)
    connection.open()
    publisher = Publisher(connection, topic, qos, retain, properties)
    if payload is None:
        publisher.lines(sys.stdin.buffer, interval)
    else:
        publisher.repeat(payload, count, interval)
    publisher.finish()
    connection.close()


class Publisher:
    """Sends to one topic, and keeps count of what the broker has answered."""

    def __init__(
        self, connection: Connection, topic: str, qos: int, retain: bool, properties: Properties | None
    ) -> None:
        self.connection = connection
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.waiting: dict[int, None] = {}

    def send(self, payload: bytes) -> None:
        info = self.connection.client.publish(self.topic, payload, self.qos, self.retain, self.properties)
        if info.rc != MQTT_ERR_SUCCESS:
            raise LatecomerError(f"the connection to {self.connection.where} broke")
        self.waiting[info.mid] = None
        self._settle()
        if len(self.waiting) >= AHEAD:
            self._until(AHEAD // 2)

    def repeat(self, payload: bytes, count: int, interval: float) -> None:
        sent = 0
        try:
            while True:
                self.send(payload)
                sent += 1
                if sent == count:
                    return
                self._pause(interval)
        except KeyboardInterrupt:
            if count:
                raise  # not all that was asked for

    def lines(self, source: BinaryIO, interval: float) -> None:
        for number, line in enumerate(self._read(source)):
            if number:
                self._pause(interval)
            self.send(line)

    def finish(self) -> None:
        """Nothing is left to be sent, and everything is acknowledged."""
        self._until(0)
        client = self.connection.client
        self.connection.wait(lambda: not client.want_write(), f"{self.connection.where} does not take what is sent")

    def _read(self, source: BinaryIO) -> Iterator[bytes]:
        """Lines as they come, while the connection is kept alive."""
        rest = b""
        while True:
            # Straight from the file: what a buffer has read ahead, no select() knows.
            if _readable(self.connection, source.fileno()):
                chunk = os.read(source.fileno(), CHUNK_BYTES)
                if not chunk:
                    break
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
        if rest:
            yield rest

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.connection.loop(min(left, NAP_SECONDS))
            self._settle()

    def _until(self, left: int) -> None:
        """Wait as long as the broker keeps answering."""
        while len(self.waiting) > left:
            before = len(self.waiting)
            self.connection.wait(
                lambda: any(mid in self.connection.acknowledged for mid in self.waiting),
                f"{self.connection.where} has not acknowledged {before} message{'' if before == 1 else 's'}",
            )
            self._settle()

    def _settle(self) -> None:
        for mid, code in self.connection.acknowledged.items():
            self.waiting.pop(mid, None)
            if code.is_failure:
                raise LatecomerError(f"the broker at {self.connection.where} refused a message: {reason(code)}")
        self.connection.acknowledged.clear()


def _readable(connection: Connection, file: int) -> bool:
    ready, _, _ = select.select([file], [], [], 0)
    if not ready:
        connection.loop(NAP_SECONDS, also=(file,))
    return bool(ready)


def _properties(pairs: list[str], expiry: int | None, v311: bool) -> Properties | None:
    if v311:
        for option, given in (("--property", bool(pairs)), ("--expiry", expiry is not None)):
            if given:
                raise SettingsError(option, "needs MQTT 5; leave out --v311")
        return None
    properties = no_properties(PacketTypes.PUBLISH)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError("--property", f"{pair!r} is not NAME=VALUE")
        properties.UserProperty = (name, value)  # paho appends
    if expiry is not None:
        properties.MessageExpiryInterval = expiry
    return properties


def _payload(message: str | None, stdin: bool, file: Path | None, count: int) -> bytes | None:
    """What to send each time; None: lines of standard input."""
    given = sum((message is not None, stdin, file is not None))
    if given != 1:
        raise SettingsError("MESSAGE", "say one of MESSAGE, --file and --stdin" if given else "is missing; or --stdin")
    if stdin:
        if count != 1:
            raise SettingsError("--count", "has no meaning with --stdin")
        return None
    return file.read_bytes() if file is not None else (message or "").encode()
