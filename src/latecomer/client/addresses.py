"""Where brokers are: addresses that a client is given, and those that a Server Reference names (MQTT 5 §4.11)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv6Address

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId

PORT, TLS_PORT = 1883, 8883
PORT_MAX = 65_535
HOST_MAX = 253
REFERENCES_MAX = 16
"""References that are read; a broker that names more has named enough."""
HOW = "write HOST, HOST:PORT or BROKER=HOST:PORT; an IPv6 address stands in brackets, as [::1]:1883"

# Labels as resolvers take them, an underscore included, which names of containers have. Longer ones, or empty ones,
# raise errors of their own deep inside of client libraries.
_label = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_bracketed = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")


class Address(msgspec.Struct, frozen=True):
    """A broker's machine and port, and its name, as far as it is known."""

    host: str
    port: int = PORT
    broker: BrokerId = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_at(self, other: Address) -> bool:
        """The same place, whatever it is called."""
        return (self.host.lower(), self.port) == (other.host.lower(), other.port)


def parse_address(text: str, port: int = PORT) -> Address:
    """Read 'localhost', 'localhost:1883', '[::1]:1883' or 'b1=localhost:1883'."""
    broker, equals, place = text.rpartition("=")
    found = _read(place, port)
    if found is None or (equals and not broker):
        raise SettingsError("address", f"{text[:80]!r} is no address: {HOW}")
    return Address(found.host, found.port, broker)


def parse_references(text: str, port: int) -> list[Address]:
    """The places that a Server Reference names, separated by spaces. What cannot be read is left out: another broker
    wrote it, and the client has to go on with the rest. Who names no port means the port of who says it."""
    words = text.split(" ")[:REFERENCES_MAX]
    found = [place for word in words if (place := _read(word, port)) is not None]
    return list(dict.fromkeys(found))


def _read(text: str, port: int) -> Address | None:
    if text.startswith("["):
        match = _bracketed.fullmatch(text)
        return _place(match[1], match[2], port, six=True) if match else None
    if text.count(":") > 1:  # without brackets nobody knows which part is the port: it is all address
        return _place(text, None, port, six=True)
    host, colon, digits = text.partition(":")
    return _place(host, digits if colon else None, port, six=False)


def _place(host: str, digits: str | None, port: int, *, six: bool) -> Address | None:
    if digits is not None:
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 5):
            return None
        port = int(digits)
    if not 0 < port <= PORT_MAX or not (_is_six(host) if six else _is_name(host)):
        return None
    return Address(host, port)


def _is_six(host: str) -> bool:
    try:
        return bool(IPv6Address(host))
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host) <= HOST_MAX and all(_label.fullmatch(label) for label in labels)


def recognised(places: Sequence[Address], given: Sequence[Address]) -> list[Address]:
    """The same places, under the names of brokers that the client was given. A reference that is the name of a broker
    which the client knows means that broker: a host of this name would be the same one."""
    found = []
    for place in places:
        known = next((each for each in given if each.is_at(place)), None)
        if known is None:
            known = next((each for each in given if each.broker and each.broker == place.host), None)
        found.append(known or place)
    return list(dict.fromkeys(found))
