"""Which brokers a network has and where they stand: generated, from a topology, or from a `network.toml`.

docs/reference/network.md has every key of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.toml_text import SIZE_MAX, TomlText, choose, decode_text, sentence
from latecomer.model.toml_text import Shape as FileShape
from latecomer.model.topology import DEFAULT_LATENCY_US, MAX_LATENCY_US, Link, Node, Topology
from latecomer.model.topology_formats import parse_graphml, parse_jsonl, pick
from latecomer.model.topology_generators import line, ring, star, tree
from latecomer.runtime.settings import ADMIN_OFFSET

BASE_PORT = 1883
LINK_OFFSET, WEBSOCKET_OFFSET = 1000, 3000
"""Ports of the first broker, counted from the base port; those of the others follow."""
BROKERS_MAX = 1000

RoutingKind = Literal["forwarding", "hierarchy", "rendezvous"]
Shape = Literal["ring", "line", "star", "tree", "full"]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Seat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one broker stands."""

    id: BrokerId
    host: str = "127.0.0.1"
    port: Port
    link_port: Port
    admin_port: Port
    websocket_port: Port
    store: tuple[str, ...] = ()
    """Topic filters of the events that this broker keeps."""

    def ports(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("port", "link_port", "admin_port", "websocket_port")}


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers, links, and the settings they share."""

    name: str
    brokers: tuple[Seat, ...]
    links: tuple[Link, ...]
    settings: Mapping[str, Any] = {}

    def neighbours(self, broker: BrokerId) -> list[tuple[Seat, int]]:
        """Each with the cost of the link to it."""
        seats = {seat.id: seat for seat in self.brokers}
        ends = [(link.b if link.a == broker else link.a, link) for link in self.links if broker in (link.a, link.b)]
        return [(seats[other], link.latency_us) for other, link in ends]


class _SeatInFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    host: str = "127.0.0.1"
    port: Port | None = None
    link_port: Port | None = None
    admin_port: Port | None = None
    websocket_port: Port | None = None
    store: tuple[str, ...] = ()


class _LinkInFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    a: str
    b: str
    cost_us: Annotated[int, msgspec.Meta(ge=1, le=MAX_LATENCY_US)] = DEFAULT_LATENCY_US


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brokers: list[_SeatInFile]
    links: list[_LinkInFile] = []
    name: str = "latecomer"
    base_port: Port = BASE_PORT
    settings: dict[str, Any] = {}


_SHAPE = FileShape("a network file", tables={"": _File, "brokers": _SeatInFile, "links": _LinkInFile})


def shaped(shape: Shape, brokers: int) -> Topology:
    """A network of `b1` … `bN`; a ring of two is a line."""
    if not 1 <= brokers <= BROKERS_MAX:
        raise SettingsError("--brokers", f"must be from 1 to {BROKERS_MAX}, not {brokers}")
    if shape == "full":
        nodes = line(brokers).nodes
        links = tuple(Link(a.id, b.id) for a, b in combinations(nodes, 2))
        return Topology(name=f"full-{brokers}", nodes=nodes, links=links)
    if shape == "tree":
        return tree(brokers, 2)
    if shape == "star":
        return star(brokers)
    return ring(brokers) if shape == "ring" and brokers > 2 else line(brokers)


def read_topology(file: Path, name: str | None = None) -> Topology:
    """One network out of a JSON Lines or GraphML file."""
    if file.suffix == ".graphml":
        return parse_graphml(_text(file), str(file))
    networks = parse_jsonl(_text(file), str(file))
    if name is not None:
        return pick(networks, name)
    if len(networks) != 1:
        some = ", ".join(repr(network.name) for network in networks[:5])
        raise SettingsError("--name", f"{file} has {len(networks)} networks, say which: {some} …")
    return networks[0]


def placed(topology: Topology, base_port: int = BASE_PORT, host: str = "127.0.0.1") -> Network:
    """The brokers of a topology on this machine, on consecutive ports."""
    seats = tuple(_seat(_SeatInFile(node.id, host), base_port, i) for i, node in enumerate(topology.nodes))
    return _checked(Network(name=topology.name, brokers=seats, links=topology.links), "topology")


def read_network(file: Path, base_port: int | None = None) -> Network:
    """A `network.toml`; ports that it leaves open follow from the base port."""
    with file.open("rb") as opened:
        text = TomlText(decode_text(opened.read(SIZE_MAX + 1), str(file), "network file"), str(file))
    text.check_numbers(finite=True)
    try:
        found = msgspec.convert(text.data, _File)
    except msgspec.ValidationError as error:
        raise sentence(text, _SHAPE, str(error)) from None
    base = base_port or found.base_port
    network = Network(
        name=found.name,
        brokers=tuple(_seat(seat, base, i) for i, seat in enumerate(found.brokers)),
        links=tuple(Link(link.a, link.b, link.cost_us) for link in found.links),
        settings=found.settings,
    )
    return _checked(network, str(file))


def write_network(network: Network) -> str:
    """As a `network.toml` that says everything."""
    return toml(
        {
            "name": network.name,
            "settings": dict(network.settings),
            "brokers": [_written(seat) for seat in network.brokers],
            "links": [{"a": link.a, "b": link.b, "cost_us": link.latency_us} for link in network.links],
        }
    )


def with_stores(network: Network, said: Sequence[str], amounts: Mapping[str, str]) -> Network:
    """The same network with stores: `said` has `BROKER=TOPICS` for each of their topic filters; `amounts` are settings
    of all stores. A broker that is named keeps what it is named with, and no longer what it kept before."""
    topics: dict[BrokerId, tuple[str, ...]] = {}
    for each in said:
        broker, sign, topic_filter = each.partition("=")
        if not sign or not topic_filter:
            raise SettingsError("--store", f"{each!r} must name a broker and its topics, as in 'b2=sensors/#'")
        if all(seat.id != broker for seat in network.brokers):
            known = choose(broker, [seat.id for seat in network.brokers])
            raise SettingsError("--store", f"there is no broker {broker!r}; {known}")
        topics[broker] = (*topics.get(broker, ()), topic_filter)
    seats = tuple(
        msgspec.structs.replace(seat, store=topics[seat.id]) if seat.id in topics else seat for seat in network.brokers
    )
    settings = dict(network.settings)
    if amounts:
        before = settings.get("store", {})
        settings["store"] = {**(before if isinstance(before, dict) else {}), **amounts}
    return msgspec.structs.replace(network, brokers=seats, settings=settings)


def with_routing(network: Network, kind: str | None) -> Network:
    """The same network, whose brokers route that way; None: as they do."""
    if kind is None:
        return network
    settings = dict(network.settings)
    core = settings.get("core", {})
    before = core.get("routing", {}) if isinstance(core, dict) else {}
    same = before if isinstance(before, dict) and before.get("kind") == kind else {}
    settings["core"] = {**(core if isinstance(core, dict) else {}), "routing": {**same, "kind": kind}}
    return msgspec.structs.replace(network, settings=settings)


def _written(seat: Seat) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(seat)
    if not seat.store:
        del written["store"]
    return written


def _seat(seat: _SeatInFile, base: int, position: int) -> Seat:
    first = base + position
    if first + WEBSOCKET_OFFSET > 65535:
        raise SettingsError("--base-port", f"{base} leaves no room: the last port would be {first + WEBSOCKET_OFFSET}")
    return Seat(
        id=seat.id,
        host=seat.host,
        port=seat.port or first,
        link_port=seat.link_port or first + LINK_OFFSET,
        admin_port=seat.admin_port or first + ADMIN_OFFSET,
        websocket_port=seat.websocket_port or first + WEBSOCKET_OFFSET,
        store=seat.store,
    )


def _checked(network: Network, source: str) -> Network:
    if not 1 <= len(network.brokers) <= BROKERS_MAX:
        raise SettingsError("brokers", f"must be from 1 to {BROKERS_MAX}, not {len(network.brokers)}", source=source)
    taken: dict[tuple[str, int], str] = {}
    for seat in network.brokers:
        if not _ID.fullmatch(seat.id):
            # Its folder carries this name.
            raise SettingsError("brokers.id", f"{seat.id!r} must be letters, digits, '.', '_' and '-'", source=source)
        for what, port in seat.ports().items():
            mine = f"{what} of {seat.id}"
            other = taken.setdefault((seat.host, port), mine)
            if other != mine:
                raise SettingsError(f"brokers.{what}", f"{port} is {other} and {mine}", source=source)
    nodes = tuple(Node(seat.id) for seat in network.brokers)
    try:
        Topology(name=network.name, nodes=nodes, links=network.links).check()
    except SettingsError as error:
        raise error.at("links", source=source) from None
    return network


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError("", "is not a text file in UTF-8", source=str(file)) from None


# -- writing TOML


def toml(table: Mapping[str, Any]) -> str:
    """A settings file; the standard library can only read them."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Plain values first: what follows a header belongs to it."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not _is_table(value)]
    for name, value in table.items():
        here = (*path, name)
        dotted = ".".join(map(_key, here))
        if isinstance(value, Mapping):
            lines += ["", f"[{dotted}]", *_lines(value, here)]
        elif _is_table(value):
            for row in value:
                lines += ["", f"[[{dotted}]]", *_lines(row, here)]
    return lines


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too; DEL is the one character that only TOML forbids.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")
    return str(value)
