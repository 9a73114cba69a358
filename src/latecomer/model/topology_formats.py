"""Networks from files: JSON Lines (one network per line) and GraphML as the Topology Zoo writes it.

The text is the operator's, or somebody's from the Internet: whatever it holds, the answer is a topology or a
SettingsError that names the file and the line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any
from xml.etree.ElementTree import ParseError

import msgspec
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from latecomer.model.errors import SettingsError
from latecomer.model.topology import (
    DEFAULT_LATENCY_US,
    KEY,
    MAX_BROKERS,
    MAX_LATENCY_US,
    MAX_LINKS,
    Link,
    Node,
    Topology,
    quoted,
)

MAX_TEXT_BYTES = 64 * 1024 * 1024
US_PER_KM = 5
"""Light in fibre: 200,000 km/s."""
MIN_LATENCY_US = 100
"""Two routers in one building are 0 km apart, and still take a while to talk."""
_EARTH_RADIUS_KM = 6371.0088
_CLOSE_NAMES = 5
_NAME_CHARACTERS = 200
_MAX_DEPTH = 100

_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[str, msgspec.Meta(min_length=1)]
_Latitude = Annotated[float, msgspec.Meta(ge=-90, le=90)]
_Longitude = Annotated[float, msgspec.Meta(ge=-180, le=180)]


class _JsonNode(msgspec.Struct):
    id: _Id
    label: str | None = None
    lat: _Latitude | None = None
    lon: _Longitude | None = None


class _JsonLink(msgspec.Struct):
    source: _Id
    target: _Id
    latency_ms: Annotated[float, msgspec.Meta(ge=0, le=MAX_LATENCY_US / 1000)] | None = None
    km: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None


class _JsonNetwork(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_NAME_CHARACTERS)]
    nodes: Annotated[list[_JsonNode], msgspec.Meta(max_length=MAX_BROKERS)]
    links: Annotated[list[_JsonLink], msgspec.Meta(max_length=MAX_LINKS)]
    root: _Id | None = None


def parse_jsonl(text: str, source: str) -> list[Topology]:
    """The networks of a JSON Lines file, in its order; one in several parts is fine here, `check` tells."""
    decoder = msgspec.json.Decoder(_JsonNetwork)
    lines_by_name: dict[str, int] = {}
    found: list[Topology] = []
    # Only "\n" ends a line: a JSON string may hold the other characters that str.splitlines() breaks at.
    for number, line in enumerate(_bytes(text, source).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            network = decoder.decode(line)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
            raise SettingsError(KEY, f"not a network: {error}", source=source, line=number) from None
        earlier = lines_by_name.setdefault(network.name, number)
        if earlier != number:
            problem = f"network {quoted(network.name)} is already on line {earlier}"
            raise SettingsError(KEY, problem, source=source, line=number)
        found.append(_checked(_from_json(network), source, number))
    if not found:
        raise SettingsError(KEY, "holds no network", source=source)
    return found


def pick(topologies: Sequence[Topology], name: str) -> Topology:
    """The one network called `name`."""
    found = [topology for topology in topologies if topology.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(KEY, f"{len(found)} networks are named {quoted(name)}")
    # Case is the commonest slip ("abilene"), so it does not count against closeness.
    by_folded: dict[str, list[str]] = {}
    for topology in topologies:
        by_folded.setdefault(topology.name.casefold(), []).append(topology.name)
    wanted = name[:_NAME_CHARACTERS].casefold()
    close = [known for key in get_close_matches(wanted, by_folded, _CLOSE_NAMES) for known in by_folded[key]]
    hint = f"did you mean {', '.join(map(quoted, close[:_CLOSE_NAMES]))}?" if close else "none is close to it"
    raise SettingsError(KEY, f"none of {len(topologies)} networks is named {quoted(name)}; {hint}")


def parse_graphml(text: str, source: str) -> Topology:
    """One network from GraphML. Direction is ignored, parallel links become one, loops are dropped.

    It is named after the file, as the Topology Zoo names its networks; latency is the distance in fibre.
    """
    data = _bytes(text, source)
    reader = _GraphReader(source)
    # A target instead of a tree: memory follows the network, not the text, and each complaint knows its line.
    parser = XMLParser(target=reader, encoding="utf-8")
    reader.expat = parser.parser
    try:
        parser.feed(data)
        parser.close()
    except ParseError as error:
        problem = str(error).partition(": line")[0]  # the place is told in front
        raise SettingsError(KEY, f"not XML: {problem}", source=source, line=error.position[0]) from None
    except (DefusedXmlException, ValueError) as error:
        raise reader.wrong(f"refused: {error}") from None
    return reader.topology()


def _bytes(text: str, source: str) -> bytes:
    text = text.removeprefix("\ufeff")
    try:
        data = text.encode() if len(text) <= MAX_TEXT_BYTES else None
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise SettingsError(KEY, "not Unicode text", source=source, line=line) from None
    if data is None or len(data) > MAX_TEXT_BYTES:
        raise SettingsError(KEY, f"larger than {MAX_TEXT_BYTES // 1024**2} MiB", source=source)
    return data


def _checked(topology: Topology, source: str, line: int | None) -> Topology:
    try:
        topology.check(connected=False)
    except SettingsError as error:
        raise error.at(KEY, source=source, line=line) from None
    return topology


def _from_json(network: _JsonNetwork) -> Topology:
    nodes = tuple(_node(str(node.id), node.label or "", node.lat, node.lon) for node in network.nodes)
    links = tuple(Link(str(link.source), str(link.target), _json_latency_us(link)) for link in network.links)
    root = None if network.root is None else str(network.root)
    return Topology(name=network.name, nodes=nodes, links=links, root=root)


def _json_latency_us(link: _JsonLink) -> int:
    if link.latency_ms is not None:
        return round(link.latency_ms * 1000)
    return DEFAULT_LATENCY_US if link.km is None else _fibre_latency_us(link.km)


def _fibre_latency_us(km: float) -> int:
    return max(MIN_LATENCY_US, round(km * US_PER_KM))


def _node(id: str, label: str, lat: float | None, lon: float | None) -> Node:
    """Half a coordinate is none."""
    located = lat is not None and lon is not None
    return Node(id, label, lat if located else None, lon if located else None)


def _distance_km(a: Node, b: Node) -> float | None:
    """Great circle (haversine), or None where an end has no coordinates."""
    if a.lat is None or a.lon is None or b.lat is None or b.lon is None:
        return None
    north_a, north_b = math.radians(a.lat), math.radians(b.lat)
    east = math.radians(b.lon - a.lon)
    half = math.sin((north_b - north_a) / 2) ** 2
    half += math.cos(north_a) * math.cos(north_b) * math.sin(east / 2) ** 2
    return 2 * _EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, half)))


_FIELDS = {"label": "label", "latitude": "lat", "lat": "lat", "longitude": "lon", "lon": "lon"}
_RANGES = {"lat": 90.0, "lon": 180.0}


class _GraphReader:
    """What the XML parser calls for every element; keeps the nodes, and the links with their lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.expat: Any = None
        self._path: list[str] = []
        self._fields: dict[str, str] = {}  # key id -> our name of the field
        self._graphs = 0
        self._node_id = ""
        self._values: dict[str, str] = {}  # of the node being read
        self._field: str | None = None
        self._text: list[str] = []
        self._nodes: dict[str, Node] = {}
        self._links: dict[tuple[str, str], int] = {}  # ends -> line

    def wrong(self, problem: str, line: int | None = None) -> SettingsError:
        return SettingsError(KEY, problem, source=self.source, line=line or self.expat.CurrentLineNumber)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        parent = self._path[-1] if self._path else None
        self._path.append(name)
        if len(self._path) > _MAX_DEPTH:
            raise self.wrong(f"elements more than {_MAX_DEPTH} deep")
        if parent is None:
            if name != "graphml":
                raise self.wrong(f"not GraphML: the outermost element is {quoted(name)}")
        elif name == "key":
            field = _FIELDS.get(attributes.get("attr.name", "").casefold())
            if field is not None:
                self._fields[self._attribute(name, attributes, "id")] = field
        elif name == "graph":
            self._graphs += 1
            if parent != "graphml" or self._graphs > 1:
                raise self.wrong("holds more than one graph")
        elif name == "hyperedge":
            raise self.wrong("a hyperedge joins more than two brokers, which a link cannot")
        elif name == "node" and parent == "graph":
            self._start_node(attributes)
        elif name == "edge" and parent == "graph":
            self._add_link(attributes)
        elif name == "data" and parent == "node":
            self._field = self._fields.get(attributes.get("key", ""))
            self._text.clear()

    def data(self, text: str) -> None:
        if self._field is not None:
            self._text.append(text)

    def end(self, tag: str) -> None:
        name = self._path.pop()
        parent = self._path[-1] if self._path else None
        if name == "data" and parent == "node" and self._field is not None:
            self._values[self._field] = "".join(self._text).strip()
            self._field = None
        elif name == "node" and parent == "graph":
            values = self._values
            degrees = [self._degrees(field) for field in ("lat", "lon")]
            self._nodes[self._node_id] = _node(self._node_id, values.get("label", ""), *degrees)

    def close(self) -> None:
        """The parser asks for it; the answer is fetched with `topology`."""

    def topology(self) -> Topology:
        links = []
        for (a, b), line in self._links.items():
            for end in (a, b):
                if end not in self._nodes:
                    raise self.wrong(f"a link {Link(a, b)} to an unknown broker {quoted(end)}", line)
            km = _distance_km(self._nodes[a], self._nodes[b])
            links.append(Link(a, b, DEFAULT_LATENCY_US if km is None else _fibre_latency_us(km)))
        found = Topology(name=self._name(), nodes=tuple(self._nodes.values()), links=tuple(links))
        return _checked(found, self.source, self.expat.CurrentLineNumber)

    def _name(self) -> str:
        file_name = self.source.replace("\\", "/").rpartition("/")[2]
        stem = file_name.removesuffix(".graphml").removesuffix(".xml")
        return stem[:_NAME_CHARACTERS] or "graphml"

    def _start_node(self, attributes: dict[str, str]) -> None:
        self._node_id = self._attribute("node", attributes, "id")
        self._values = {}
        if self._node_id in self._nodes:
            raise self.wrong(f"duplicate broker id {quoted(self._node_id)}")
        if len(self._nodes) >= MAX_BROKERS:
            raise self.wrong(f"more than {MAX_BROKERS} brokers")

    def _add_link(self, attributes: dict[str, str]) -> None:
        a, b = (self._attribute("edge", attributes, end) for end in ("source", "target"))
        if a != b and (b, a) not in self._links:
            self._links.setdefault((a, b), self.expat.CurrentLineNumber)
        if len(self._links) > MAX_LINKS:
            raise self.wrong(f"more than {MAX_LINKS} links")

    def _attribute(self, element: str, attributes: dict[str, str], name: str) -> str:
        value = attributes.get(name)
        if not value:
            raise self.wrong(f"{element} without {quoted(name)}")
        return value

    def _degrees(self, field: str) -> float | None:
        written = self._values.get(field)
        if not written:
            return None
        try:
            degrees = float(written)
        except ValueError:
            degrees = math.nan
        limit = _RANGES[field]
        if not -limit <= degrees <= limit:
            raise self.wrong(f"{field} of broker {quoted(self._node_id)} is {quoted(written)}, not degrees")
        return degrees
