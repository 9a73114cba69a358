"""What an operator may set: one schema, from which the file, the checks, the documentation and the example come.

Every field has a default that works, and below it the sentence that the reference page shows. Units come last in a
name. What only makes sense together is checked in `settings_check`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from latecomer.core.routing import Routing
from latecomer.core.settings import BrokerSettings
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.toml_text import SIZE_MAX, Shape, TomlText, decode_text, sentence
from latecomer.runtime.settings_hand_over import HandOverSection
from latecomer.runtime.settings_homes import HomesSection
from latecomer.runtime.settings_section import Amount, Count, Port, Seconds, Section, Text
from latecomer.runtime.settings_store import StoreSection

Kind: TypeAlias = Literal["tcp", "tls", "ws", "wss"]
PORTS: dict[Kind, int] = {"tcp": 1883, "tls": 8883, "ws": 8083, "wss": 8084}
LINK_PORT = 1884
ADMIN_OFFSET = 2000
"""The admin interface listens so many ports above the first listener, unless the settings say otherwise."""

PORT_MAX = 65_535

KiB, MiB = 1024, 1024 * 1024


class BrokerSection(Section, frozen=True):
    """Who this broker is, and where it keeps what must outlive it."""

    id: Text = "broker"
    """Name of this broker, different from all others in the network."""
    network: Text = "latecomer"
    """Name of the network; brokers of another one are refused."""
    data: Path = Path("latecomer-data")
    """Directory for everything that is kept. Made with mode 0700 if it is not there."""
    durability: Literal["power", "process", "none"] = "power"
    """What an acknowledged message survives: a power cut, the end of the process, or neither."""
    spin_us: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 150
    """How long the broker waits awake for the next message while messages come quickly, instead of being woken up for
    it; 0: never. It stops by itself where that does not pay."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged. `debug` has a line for each client that connects, subscribes, unsubscribes or leaves, with
    the reason."""
    sys_interval_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    """How often the broker's own figures are published under `$SYS/broker`, to clients of this broker that subscribe to
    them; 0: never."""


class Listener(Section, frozen=True):
    """Where clients connect, one table for each place."""

    kind: Kind = "tcp"
    """`tcp` and `tls` speak MQTT, `ws` and `wss` MQTT over WebSocket; `tls` and `wss` are encrypted."""
    host: Text = "127.0.0.1"
    """Address to listen on; `0.0.0.0` and `::` mean all."""
    port: Port | None = None
    """Left out: 1883 for `tcp`, 8883 for `tls`, 8083 for `ws`, 8084 for `wss`. 0 takes any free port."""
    public_address: Text | None = None
    """`HOST:PORT` under which clients find this listener, as brokers tell it to clients that they send here. Left out:
    `host` and `port`, unless `host` means all addresses; then clients are told no address."""
    path: str = "/mqtt"
    """Path of the WebSocket."""
    origins: tuple[str, ...] = ()
    """Web sites whose pages may open the WebSocket, as `https://example.org`; without any, only programs that send no
    `Origin` and pages of the broker's own host may."""
    hosts: tuple[str, ...] = ()
    """Names under which the WebSocket may be addressed (`Host`, without port). Without any: numbers and `localhost`;
    besides, any name by pages in `origins`, and by programs that send no `Origin` if the address is not loopback."""
    certificate: Path | None = None
    """Certificate chain, PEM; left out: `tls.certificate`."""
    key: Path | None = None
    """Its private key, PEM, without passphrase; left out: `tls.key`."""
    client_ca: Path | None = None
    """Authorities whose client certificates are accepted; left out: `tls.client_ca`."""
    require_client_certificate: bool = False
    """Refuse clients without a certificate. A client with a certificate and no user name is the user whom its common
    name names."""

    @property
    def encrypted(self) -> bool:
        return self.kind in ("tls", "wss")

    @property
    def number(self) -> int:
        """The port that is meant."""
        return PORTS[self.kind] if self.port is None else self.port


class TlsSection(Section, frozen=True):
    """Certificates for all listeners that do not name their own. With `certificate` and `key` and without any
    `[[listeners]]`, the broker listens with TLS on port 8883, and no longer without on 1883."""

    certificate: Path | None = None
    """Certificate chain, PEM."""
    key: Path | None = None
    """Its private key, PEM, without passphrase."""
    client_ca: Path | None = None
    """Authorities whose client certificates are accepted, PEM."""


class Neighbour(Section, frozen=True):
    """Brokers that this one has a link with, one table for each. Both ends name one another."""

    id: Text
    """The neighbour's `broker.id`."""
    host: Text | None = None
    """Where to call it; left out: it calls us. When both ends have a host, either may call."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = LINK_PORT
    """Its `link.port`."""
    cost_us: Count = 1000
    """What crossing the link costs, in microseconds; the tree avoids dear links."""


class LinkSection(Section, frozen=True):
    """Links to other brokers. Who is at the other end is proved by a shared secret, by certificates, or both."""

    host: Text = "127.0.0.1"
    """Address to listen on for neighbours."""
    port: Port | None = None
    """Left out: 1884 if there are neighbours, and no listening otherwise. 0 takes any free port."""
    neighbours: tuple[Neighbour, ...] = ()
    """The brokers this one has links with."""
    secret: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Secret that all brokers of the network share, at least 16 characters. A file is the better place for it."""
    secret_file: Path | None = None
    """File with the secret, mode 0600."""
    certificate: Path | None = None
    """Certificate chain of this broker, PEM: with `key` and `ca`, links are encrypted and both ends show
    certificates, which must name the `broker.id`."""
    key: Path | None = None
    """Its private key, PEM, without passphrase."""
    ca: Path | None = None
    """Authorities that sign the brokers' certificates, PEM."""
    insecure: bool = False
    """Links without secret and without certificates: anybody on this machine can pose as a broker. Only between
    loopback addresses."""
    heartbeat_s: Seconds = 0.5
    """A silent link says it is alive this often; three silences in a row mean that the connection is dead."""
    hold_s: Seconds = 2.0
    """How long a broken connection may take to come back before the link counts as down."""
    challenge_s: Seconds = 5.0
    """A connection that has not proved who it is by then is closed."""
    reconnect_min_s: Seconds = 0.1
    """First pause before a neighbour is called again; it doubles with each failure."""
    reconnect_max_s: Seconds = 5.0
    """Longest pause before a neighbour is called again."""
    send_buffer_bytes: Count = 64 * MiB
    """Bytes that wait for one link; a neighbour that takes nothing while so much waits is disconnected."""
    receive_bytes: Count = 16 * MiB
    """Bytes of one frame that a neighbour may send."""
    receive_frames: Count = 512
    """Frames taken from one link before other work gets its turn."""

    @property
    def number(self) -> int | None:
        """The port that is meant; None: nobody is listened for."""
        return self.port if self.port is not None else LINK_PORT if self.neighbours else None


class Limits(Section, frozen=True):
    """What one client, one address or all together may take. Beyond a limit the answer is a refusal with a reason
    code, never silence."""

    connections: Count = 10_000
    """Connections at the same time; fewer if the system's limit on open files does not allow as many."""
    connections_per_address: Amount = 0
    """Connections from one address at the same time; 0: any number, since many clients may share an address."""
    connection_rate: Amount = 1000
    """New connections per second; 0: any number."""
    connect_s: Seconds = 5.0
    """A connection whose CONNECT is not complete by then is closed."""
    connect_bytes: Count = 64 * KiB
    """Bytes of the CONNECT packet: the most that is kept for somebody unknown."""
    packet_s: Seconds = 20.0
    """A packet that was begun must be complete by then."""
    packet_bytes: Annotated[int, msgspec.Meta(ge=1024, le=268_435_460)] = MiB
    """Bytes of any other packet (Maximum Packet Size)."""
    keep_alive_max_s: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 300
    """Longest keep alive. MQTT 5 clients are told it as Server Keep Alive."""
    keep_alive_allow_longer: bool = True
    """Accept MQTT 3.1.1 clients with a longer keep alive, or with none, as they are; otherwise they are refused,
    because they cannot be told. Many clients ask for none, so they are accepted unless you say no."""
    topic_levels: Annotated[int, msgspec.Meta(ge=1, le=128)] = 128
    """Levels of a topic or topic filter."""
    topic_bytes: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 1024
    """Bytes of a topic or topic filter."""
    subscriptions_per_client: Count = 1000
    """Subscriptions of one session."""
    groups_per_client: Amount = 100
    """Shared subscriptions of one session; 0: none."""
    group_name_bytes: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 256
    """Bytes of the name of a shared subscription, the part of `$share/name/filter` between the slashes."""
    recalls_per_client: Count = 16
    """Histories that one session may have under way."""
    wildcards_per_filter: Amount = 8
    """`+` in one topic filter."""
    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 1024
    """QoS 1 and 2 publications that one client may have unacknowledged (Receive Maximum). State per publication is
    small, and a publisher far away would wait for round trips with fewer."""
    inflight: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 20_000
    """QoS 1 and 2 messages that are sent to one client and not acknowledged; fewer if it asks for fewer."""
    topic_alias_max: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 64
    """Topic aliases of one connection, in either direction."""
    queue_messages: Count = 65_536
    """Messages waiting for one client; the oldest is dropped, counted and noted beyond."""
    queue_bytes: Count = 16 * MiB
    """Bytes waiting for one client, likewise."""
    retained_messages: Count = 1_000_000
    """Retained messages of the broker."""
    retained_bytes: Count = 1024 * MiB
    """Bytes of all of them."""
    retained_per_user: Count = 10_000
    """Retained messages that one user set."""
    retained_bytes_per_user: Count = 64 * MiB
    """Bytes of all of them."""
    sessions: Count = 100_000
    """Sessions, connected or waiting for their client."""
    sessions_per_user: Count = 100_000
    """Sessions of one user; all anonymous clients count as one."""
    session_expiry_max_s: Count = 7 * 24 * 3600
    """Longest time a session waits for its client; also for MQTT 3.1.1 clients without clean session."""
    write_buffer_bytes: Count = 256 * KiB
    """Bytes handed to one connection ahead of what the network takes."""
    stall_ms: Count = 30_000
    """A client that takes nothing for this long while something waits is disconnected; its queue stays."""


class AccessSection(Section, frozen=True):
    """Who may connect, and who may do what."""

    anonymous: Literal["loopback", "allow", "deny"] = "loopback"
    """Clients without a user name: from this machine only, from everywhere, or not at all."""
    users_file: Path | None = None
    """Users and their passwords, as `latecomer user` writes it; mode 0600."""
    rules_file: Path | None = None
    """Access rules; left out: everybody who is let in may publish and subscribe to everything but `$` topics, and read
    `$SYS`. An empty file means that nobody may do anything."""
    failures: Count = 10
    """Wrong passwords in a row from one address before it has to wait (reason 0x9F)."""
    failure_forgiven_s: Seconds = 6.0
    """One of them is forgiven each time so much time has passed."""


class AdminSection(Section, frozen=True):
    """The HTTP interface for operators: state, metrics, commands."""

    enabled: bool = True
    """Offer it."""
    host: Text = "127.0.0.1"
    """Address to listen on."""
    port: Port | None = None
    """Port to listen on. Left out: the port of the first listener plus 2000, so 3883 beside 1883 (minus 2000 where that
    is more than 65535). 0 takes any free port. The address is written to `admin-address` in the data directory."""
    token: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """What every request must carry as bearer token, at least 16 characters. A file is the better place for it."""
    token_file: Path | None = None
    """File with the token, mode 0600. Without `token` and `token_file` one is drawn by chance and written to
    `admin-token` in the data directory."""
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Names under which the interface may be addressed, besides `host`: the `Host` of a request without its port."""
    origins: tuple[str, ...] = ()
    """Web sites whose pages may call the interface, as `https://example.org`."""


class EventLogSection(Section, frozen=True):
    """The event log: what happened at this broker, as Parquet, without payloads."""

    enabled: bool = True
    """Write it."""
    directory: Path | None = None
    """Where; left out: `events` in the data directory."""
    segment_rows: Count = 100_000
    """Records in one segment."""
    segment_s: Seconds = 60.0
    """A segment is completed at the latest after this."""
    segment_bytes: Count = 32 * MiB
    """Bytes of the records in one segment, before they are compressed."""
    keep_segments: Amount = 1000
    """So many segments are kept, the oldest removed beyond; 0: all."""
    keep_bytes: Amount = 4096 * MiB
    """Bytes of all segments together, the oldest removed beyond; 0: any number."""


class Settings(Section, frozen=True):
    """Everything."""

    broker: BrokerSection = BrokerSection()
    listeners: tuple[Listener, ...] = ()
    """Without any: `tcp` on 127.0.0.1:1883, or `tls` on 127.0.0.1:8883 if there is a `tls.certificate`."""
    tls: TlsSection = TlsSection()
    link: LinkSection = LinkSection()
    limits: Limits = Limits()
    access: AccessSection = AccessSection()
    admin: AdminSection = AdminSection()
    event_log: EventLogSection = EventLogSection()
    store: StoreSection = StoreSection()
    hand_over: HandOverSection = HandOverSection()
    homes: HomesSection = HomesSection()
    core: BrokerSettings = BrokerSettings()
    """Inner workings: times in microseconds, sizes in events unless their names say otherwise."""

    def listening(self) -> tuple[Listener, ...]:
        """The listeners that are meant, each with its own certificates and port."""
        tls = self.tls
        listeners = self.listeners or (Listener(kind="tls" if tls.certificate else "tcp"),)
        return tuple(
            msgspec.structs.replace(
                listener,
                port=listener.number,
                certificate=listener.certificate or tls.certificate,
                key=(listener.key or tls.key) if listener.certificate is None else listener.key,
                client_ca=listener.client_ca or tls.client_ca,
            )
            if listener.encrypted
            else msgspec.structs.replace(listener, port=listener.number)
            for listener in listeners
        )

    @property
    def admin_port(self) -> int:
        """The port of the admin interface that is meant; 0: any free one."""
        if self.admin.port is not None:
            return self.admin.port
        first = self.listening()[0].number
        return first and (first + ADMIN_OFFSET if first + ADMIN_OFFSET <= PORT_MAX else first - ADMIN_OFFSET)

    def core_settings(self) -> BrokerSettings:
        """What the core is told; some of it stands in other sections."""
        return msgspec.structs.replace(
            self.core,
            network=self.broker.network,
            heartbeat_us=round(self.link.heartbeat_s * 1_000_000),
            hold_us=round(self.link.hold_s * 1_000_000),
            mailbox_max=self.limits.queue_messages,
            hand_over=self.hand_over.core_settings(),
            homes=self.homes.core_settings(),
        )

    def neighbours(self) -> dict[BrokerId, int]:
        """Cost of the link to each neighbour, as the core takes it."""
        return {neighbour.id: neighbour.cost_us for neighbour in self.link.neighbours}

    @property
    def events(self) -> Path:
        """Where the event log is written."""
        return self.event_log.directory or self.broker.data / "events"

    @property
    def store_directory(self) -> Path:
        """Where the store keeps its events."""
        return self.store.directory or self.broker.data / "store"


ELSEWHERE = {
    "network": "broker.network",
    "heartbeat_us": "link.heartbeat_s",
    "hold_us": "link.hold_s",
    "mailbox_max": "limits.queue_messages",
    "hand_over": "hand_over",
    "homes": "homes",
}
"""Fields of the core's settings that an operator sets under another name."""

SHAPE = Shape(
    "a settings file",
    tables={
        "": Settings,
        "broker": BrokerSection,
        "listeners": Listener,
        "tls": TlsSection,
        "link": LinkSection,
        "link.neighbours": Neighbour,
        "limits": Limits,
        "access": AccessSection,
        "admin": AdminSection,
        "event_log": EventLogSection,
        "store": StoreSection,
        "hand_over": HandOverSection,
        "homes": HomesSection,
        "core": BrokerSettings,
    },
    families={"core.routing": ("routing strategy", Routing)},
)


def load(path: Path | None = None, overrides: Mapping[str, object] | None = None, *, checked: bool = True) -> Settings:
    """The settings in a file, or the defaults; `overrides` are values by dotted key, as `limits.connections`.

    A relative path in the file counts from the directory of the file, any other (as `Path`) from the working directory.
    `checked=False` leaves out `settings_check.check`, which reads every file that the settings name.
    """
    if path is None:
        return loads("", overrides=overrides, checked=checked)
    from latecomer.runtime.settings_check import check_secrets  # as in `loads`

    settings = loads(_read(path), str(path), path.parent, overrides, checked=checked)
    if checked:
        check_secrets(settings, path)
    return settings


def loads(
    text: str,
    source: str | None = None,
    folder: Path = Path(),
    overrides: Mapping[str, object] | None = None,
    *,
    checked: bool = True,
) -> Settings:
    """The settings in a text; `source` is what errors call it, and relative paths in it count from `folder`."""
    from latecomer.runtime.settings_check import check  # it asks about settings, so it cannot come first

    parsed = TomlText(text, source)
    for key, value in (overrides or {}).items():
        parsed.override(key, value)
    settings = convert(parsed, folder)
    try:
        if checked:
            check(settings)
    except SettingsError as error:
        if error.source is not None:
            raise
        raise parsed.wrong(_places(error.key), error.problem) from None
    return settings


def convert(text: TomlText, folder: Path) -> Settings:
    """The settings, with every key known and every value of the right type."""

    def decode(kind: type, value: Any) -> Any:
        assert kind is Path
        if not isinstance(value, str | Path):
            raise TypeError("must be text: the name of a file or directory")
        return value if isinstance(value, Path) else folder / Path(value).expanduser()

    text.check_numbers(finite=True)
    core = text.at(("core",))
    for key, place in ELSEWHERE.items():
        if isinstance(core, dict) and key in core:
            raise text.wrong(("core", key), f"is set as {place}")
    try:
        settings = msgspec.convert(text.data, Settings, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise sentence(text, SHAPE, str(error)) from None
    cold = settings.store.cold
    if cold and "://" not in cold:
        store = msgspec.structs.replace(settings.store, cold=str(folder / Path(cold).expanduser()))
        settings = msgspec.structs.replace(settings, store=store)
    return settings


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only. A name other than `localhost` is not taken for one."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def http_address(host: str, port: int) -> str:
    """The address under which a program on this machine finds what listens there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _read(path: Path) -> str:
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError("", f"cannot be read: {error.strerror}", source=source) from None
    except ValueError:
        raise SettingsError("", "is not the name of a file", source=repr(source)) from None
    return decode_text(data, source, "settings file")


def _places(key: str) -> tuple[str | int, ...]:
    """`listeners[1].port` as ("listeners", 1, "port")."""
    return tuple(int(part) if part.isdigit() else part for part in key.replace("[", ".").replace("]", "").split("."))
