"""What `latecomer pub` and `latecomer sub` share: one connection to a broker, and sentences for all that can go wrong.

paho is driven from the caller's own thread: a keyboard interrupt ends whatever is going on, and nothing is
called back while somebody else is at work.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from paho.mqtt.client import (
    MQTT_ERR_SUCCESS,
    Client,
    ConnectFlags,
    DisconnectFlags,
    MQTTMessage,
)
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from latecomer.client.journey import GONE_FOR_GOOD
from latecomer.client.packets import no_properties
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.sim.transcript import plain

ANSWER_SECONDS = 10
KEEP_ALIVE_SECONDS = 60
NAP_SECONDS = 0.2
"""How long a wait may oversleep what TLS has read ahead."""

HINTS = {
    0x84: "try the other version of the protocol, with or without --v311",
    0x85: "choose another --client-id",
    0x86: "check --user and --password-file",
    0x87: "check --user and --password-file, and what this user may do there",
    0x8A: "ask whoever runs the broker",
    0x8C: "this broker wants another way to log in",
    0x8E: "somebody else has connected with this --client-id",
    0x95: "the message is larger than this broker takes",
    0x97: "a limit of the broker is reached; try again later",
    0x9A: "this broker keeps no retained messages; leave out --retain",
    0x9B: "choose a lower --qos",
    0x9E: "this broker has no shared subscriptions; leave out --share",
}

CONNECTION = "Connection"

Host = Annotated[str, typer.Option(metavar="NAME", help="The broker's machine.", rich_help_panel=CONNECTION)]
Port = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Its port.",
        show_default="1883, or 8883 with --tls-ca",
        rich_help_panel=CONNECTION,
    ),
]
QoS = Annotated[int, typer.Option(min=0, max=2, help="At most once, at least once, exactly once.")]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Log in as this user.", rich_help_panel=CONNECTION)]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The password is the first line of this file.", rich_help_panel=CONNECTION),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Use TLS, and trust the authorities in this PEM file.", rich_help_panel=CONNECTION
    ),
]
V311 = Annotated[bool, typer.Option("--v311", help="Use MQTT 3.1.1 instead of 5.", rich_help_panel=CONNECTION)]
ClientId = Annotated[
    str,
    typer.Option(
        metavar="ID", help="Client identifier.", show_default="a new one each time", rich_help_panel=CONNECTION
    ),
]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which broker, and as whom."""

    host: str = "localhost"
    port: int | None = None
    user: str | None = None
    password_file: Path | None = None
    tls_ca: Path | None = None
    v311: bool = False
    client_id: str = ""
    session_seconds: int | None = None
    """None: a clean start, and nothing is kept afterwards."""

    @property
    def number(self) -> int:
        return self.port or (8883 if self.tls_ca else 1883)

    def __str__(self) -> str:
        return f"{self.host}:{self.number}"


class Connection:
    """A connection to one broker; `loop` lets it work, and raises a sentence when it ends."""

    def __init__(self, where: Where, on_message: Callable[[MQTTMessage], None] | None = None) -> None:
        self.where = where
        self.acknowledged: dict[int, ReasonCode] = {}
        """By packet identifier; who asks takes it out."""
        self.granted: list[ReasonCode] = []
        self.granted_properties: Properties | None = None
        self._connack: tuple[ReasonCode, Properties | None] | None = None
        self._goodbye: tuple[ReasonCode, Properties | None] | None = None
        self.client = self._client(where)
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_publish = self._published
        self.client.on_subscribe = self._subscribed
        if on_message is not None:
            self.client.on_message = lambda client, userdata, message: on_message(message)

    def _client(self, where: Where) -> Client:
        keeps = where.session_seconds is not None
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=where.client_id,
            protocol=MQTTProtocolVersion.MQTTv311 if where.v311 else MQTTProtocolVersion.MQTTv5,
            clean_session=not keeps if where.v311 else None,
            reconnect_on_failure=False,
        )
        client.connect_timeout = ANSWER_SECONDS
        if where.user is not None:
            client.username_pw_set(where.user, _password(where.password_file))
        elif where.password_file is not None:
            raise SettingsError("--password-file", "needs --user")
        if where.tls_ca is not None:
            client.tls_set_context(_tls(where.tls_ca))
        return client

    # -- life

    def open(self) -> None:
        """Connect, and wait for the broker's word."""
        where, keeps = self.where, self.where.session_seconds
        self._connack = self._goodbye = None
        more: dict[str, Any] = {}
        if not where.v311:
            properties = no_properties(PacketTypes.CONNECT)
            if keeps is not None:
                properties.SessionExpiryInterval = keeps
            more = {"clean_start": keeps is None, "properties": properties}
        try:
            self.client.connect(where.host, where.number, KEEP_ALIVE_SECONDS, **more)
        except (OSError, ValueError) as error:
            raise LatecomerError(cannot_reach(where, error)) from None
        self.wait(lambda: self._connack is not None, f"{where} takes connections, but does not answer like a broker")
        assert self._connack is not None
        code, properties_back = self._connack
        if code.is_failure:
            raise LatecomerError(f"the broker at {where} refused the connection: {reason(code, properties_back)}")

    def close(self) -> None:
        """Say goodbye, as far as that is still possible."""
        if self.client.disconnect() == MQTT_ERR_SUCCESS:
            until = time.monotonic() + 1
            while self.client.want_write() and time.monotonic() < until:
                self.client.loop(NAP_SECONDS)

    @property
    def worth_trying_again(self) -> bool:
        """After an ending: is it worth trying again?"""
        return self._goodbye is None or self._goodbye[0].value not in GONE_FOR_GOOD

    def loop(self, seconds: float, also: Sequence[int] = ()) -> None:
        """Work until something has come, from the broker or from one of the files in `also`; `seconds` at most."""
        sock = self.client.socket()
        if also and sock is not None:
            files = [*also, sock.fileno()]
            writes = files[-1:] if self.client.want_write() else []
            select.select(files, writes, [], min(seconds, NAP_SECONDS))
            seconds = 0
        result = self.client.loop(seconds)
        if result == MQTT_ERR_SUCCESS or (self._connack is not None and self._connack[0].is_failure):
            return
        if self._goodbye is not None and self._goodbye[0].is_failure and self._connack is not None:
            raise LatecomerError(f"the broker at {self.where} ended the connection: {reason(*self._goodbye)}")
        if self._connack is None:
            other = "without" if self.where.tls_ca else "with"
            raise LatecomerError(
                f"{self.where} hung up instead of answering; perhaps that port is to be used {other} TLS (--tls-ca)"
            )
        raise LatecomerError(f"the connection to {self.where} broke")

    def wait(self, done: Callable[[], bool], otherwise: str) -> None:
        """Work until it is done; `otherwise` is the sentence when the broker stays silent."""
        until = time.monotonic() + ANSWER_SECONDS
        while not done():
            if time.monotonic() > until:
                raise LatecomerError(f"{otherwise} (waited {ANSWER_SECONDS} s)")
            self.loop(NAP_SECONDS)

    # -- what paho calls

    def _connected(
        self, client: Client, userdata: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self._connack = (code, properties)

    def _disconnected(
        self, client: Client, userdata: object, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._goodbye = (code, properties)

    def _published(
        self, client: Client, userdata: object, mid: int, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.acknowledged[mid] = code

    def _subscribed(
        self, client: Client, userdata: object, mid: int, codes: list[ReasonCode], properties: Properties | None
    ) -> None:
        self.granted = codes
        self.granted_properties = properties


# -- words


def reason(code: ReasonCode, properties: Properties | None = None) -> str:
    """A reason code in words, with the broker's own and with what could be done."""
    told = getattr(properties, "ReasonString", "") if properties is not None else ""
    words = code.getName().lower()
    if told:
        words += f" ({plain(told)})"
    hint = HINTS.get(code.value)
    return f"{words}; {hint}" if hint else words


def cannot_reach(where: Where, error: Exception) -> str:
    """Why there is no connection, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {where} is not to be trusted: {error.verify_message}; --tls-ca names whom to trust"
    if isinstance(error, ssl.SSLError | ConnectionResetError) and where.tls_ca is not None:
        return f"{where} does not speak TLS as expected ({_short(error)}); without --tls-ca it is not used"
    if isinstance(error, socket.gaierror):
        return f"there is no host {where.host!r}; --host names the broker's machine"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer within {ANSWER_SECONDS} s; check --host, --port and what lies between"
    if isinstance(error, OSError):
        return (
            f"no broker at {where} ({_short(error)}); start one with 'latecomer broker --port {where.number}', "
            "or a network with 'latecomer up'"
        )
    return f"cannot connect to {where}: {error}"


def _short(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


def _password(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise SettingsError("--password-file", f"{file} is not a text file") from None
    if not lines or not lines[0]:
        raise SettingsError("--password-file", f"{file} has no password in its first line")
    return lines[0]


def _tls(authority: Path) -> ssl.SSLContext:
    authority.open("rb").close()  # a missing file is told with its name; ssl leaves it out
    try:
        return ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError:
        raise SettingsError("--tls-ca", f"{authority} has no certificates in PEM format") from None
