"""A broker joins a running network: what it is to be told, and whom to tell of it; nothing is printed here.

The settings of the new broker are written first, then each broker that it is to have a link with is told of it. Each of
these can be done again: whoever was told already says so and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from latecomer.cli.doors import NETWORK_FILE, Door, Silent, call
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import Link, quoted
from latecomer.runtime.addresses import EVERYWHERE
from latecomer.runtime.draining import FILE as DRAINING
from latecomer.runtime.neighbourhood import NeighboursView
from latecomer.runtime.network_file import Network, Seat, read_network, toml, write_network
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.private_files import write_text
from latecomer.runtime.settings import ADMIN_OFFSET, PORT_MAX, loads
from latecomer.runtime.supervisor import settings_of

BESIDE = 2
"""So many brokers become neighbours of the new one, unless the operator names some: then no link is the only one."""


class Host(msgspec.Struct, frozen=True):
    """A broker that the new one is to have a link with."""

    door: Door
    view: NeighboursView

    @property
    def address(self) -> str:
        """Where the new broker calls it; one that listens everywhere is called where it was asked."""
        if self.view.host in EVERYWHERE:
            return urlsplit(self.door.url).hostname or self.view.host
        return self.view.host


class Newcomer(msgspec.Struct, frozen=True):
    """Where the new broker will be."""

    id: BrokerId
    host: str
    port: int
    link_port: int
    cost_us: int


def views_of(doors: Sequence[Door]) -> tuple[list[Host], list[str]]:
    """Those that answer, and a sentence for each that does not."""
    hosts, silent = [], []
    for door in doors:
        try:
            hosts.append(Host(door, call(door, "neighbours", NeighboursView)))
        except LatecomerError as error:
            silent.append(str(error))
    return hosts, silent


def chosen(hosts: Sequence[Host], silent: Sequence[str], beside: Sequence[BrokerId]) -> list[Host]:
    """The neighbours to be."""
    if not hosts:
        raise Silent("; ".join(silent[:3]) or "no broker answers")
    networks = dict.fromkeys(host.view.network for host in hosts)
    if len(networks) > 1:
        raise LatecomerError(f"these brokers belong to several networks: {', '.join(networks)}; name those of one")
    if not beside:
        return list(hosts[:BESIDE])
    by_id = {host.view.broker: host for host in hosts}
    for broker in beside:
        if broker not in by_id:
            raise SettingsError("--beside", f"no broker {quoted(broker)} answers: those that do are {', '.join(by_id)}")
    return [by_id[broker] for broker in dict.fromkeys(beside)]


def check(newcomer: Newcomer, hosts: Sequence[Host]) -> None:
    """Whether these can have a link with it."""
    proofs = {host.view.broker: host.view.proof for host in hosts}
    if len(set(proofs.values())) > 1:
        told = ", ".join(f"{broker}: {proof}" for broker, proof in proofs.items())
        raise LatecomerError(f"these brokers know their neighbours by different things ({told}): name others")
    for host in hosts:
        view = call(host.door, "network", NetworkView)
        known = {member.id: member for member in view.brokers}.get(newcomer.id)
        expected = newcomer.id in [each.id for each in host.view.neighbours]
        if newcomer.id == host.view.broker or (known is not None and known.present and not expected):
            raise SettingsError("ID", f"there is a broker {newcomer.id} in this network already; choose another name")
        if not host.view.port:
            raise LatecomerError(f"{host.view.broker} has no fixed port for neighbours: set its link.port")


def settings_text(newcomer: Newcomer, hosts: Sequence[Host], data: Path, secret_file: Path | None) -> str:
    """The settings file of the new broker."""
    view = hosts[0].view
    link: dict[str, Any] = {"host": newcomer.host, "port": newcomer.link_port}
    if view.proof in ("secret", "both"):
        link["secret_file"] = str(secret_file)
    elif view.proof == "none":
        link["insecure"] = True
    link["neighbours"] = [
        {"id": host.view.broker, "host": host.address, "port": host.view.port, "cost_us": newcomer.cost_us}
        for host in hosts
    ]
    admin = newcomer.port + ADMIN_OFFSET
    settings: dict[str, Any] = {
        "broker": {"id": newcomer.id, "network": view.network, "data": str(data)},
        "listeners": [{"port": newcomer.port}],
        "link": link,
        "admin": {"port": admin if admin <= PORT_MAX else newcomer.port - ADMIN_OFFSET},
        "core": {"routing": {key: value for key, value in view.routing.items() if value is not None}},
    }
    return toml(settings)


def write_settings(file: Path, text: str, *, checked: bool) -> None:
    """For the owner alone. A file that is there must be the same: it may be somebody's."""
    if file.exists():
        if file.read_text(encoding="utf-8") != text:
            raise SettingsError("--out", f"{file} is there already and says something else; remove it, or name another")
        return
    if checked:
        loads(text, f"settings in {file}", file.parent)  # a mistake is told before anybody hears of the broker
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)


def tell(newcomer: Newcomer, hosts: Sequence[Host]) -> None:
    """Every broker beside it hears of the new one."""
    done: list[BrokerId] = []
    body = {"id": newcomer.id, "host": newcomer.host, "port": newcomer.link_port, "cost_us": newcomer.cost_us}
    if newcomer.host in EVERYWHERE:
        del body["host"], body["port"]  # it calls
    for host in hosts:
        try:
            call(host.door, "neighbours", NeighboursView, body=body)
        except LatecomerError as error:
            after = f"; {', '.join(done)} has been told of {newcomer.id}: run this again when it can" if done else ""
            raise LatecomerError(f"{error}{after}") from None
        done.append(host.view.broker)


# -- a folder of `latecomer up`


@dataclass(slots=True)
class Folder:
    """The folder of `latecomer up`, and the network in it."""

    path: Path
    network: Network

    def seat(self, id: BrokerId) -> Seat:
        """Where the new broker stands: the one it has, or behind all others."""
        seats = self.network.brokers
        known = next((seat for seat in seats if seat.id == id), None)
        if known is not None:
            return known
        used = {port for seat in seats for port in seat.ports().values()}
        found: dict[str, int] = {}
        for name in seats[0].ports():
            found[name] = max(seat.ports()[name] for seat in seats) + 1
            while found[name] in used:
                found[name] += 1
            used.add(found[name])
        return msgspec.structs.replace(seats[0], id=id, store=(), **found)

    def joined(self, seat: Seat, beside: Sequence[BrokerId], cost_us: int) -> Network:
        """The same network with the new broker in it."""
        if any(known.id == seat.id for known in self.network.brokers):
            return self.network
        links = tuple(Link(broker, seat.id, cost_us) for broker in beside)
        replace = msgspec.structs.replace
        return replace(self.network, brokers=(*self.network.brokers, seat), links=(*self.network.links, *links))

    def without(self, broker: BrokerId) -> Network:
        """The same network without one that left."""
        seats = tuple(seat for seat in self.network.brokers if seat.id != broker)
        links = tuple(link for link in self.network.links if broker not in (link.a, link.b))
        return msgspec.structs.replace(self.network, brokers=seats, links=links)

    def write(self, network: Network) -> None:
        """`latecomer up` sees it at once, or when it is started again."""
        write_text(self.path / NETWORK_FILE, write_network(network))
        self.network = network

    def prepare(self, network: Network, seat: Seat) -> Path:
        """The settings of the new broker; one that left, and comes back, takes clients again."""
        own = self.path.absolute() / seat.id
        file = own / "settings.toml"
        if network is not self.network or not file.exists():
            text = toml(settings_of(network, seat, own, self.path.absolute() / "secret"))
            loads(text, f"settings of {seat.id}", own)  # a mistake is told before anybody hears of the broker
            own.mkdir(exist_ok=True)
            write_text(file, text)
            (own / "data" / DRAINING).unlink(missing_ok=True)
        return file


def folder_of(path: Path) -> Folder | None:
    """The folder of a network, if it is one."""
    file = path / NETWORK_FILE
    return Folder(path, read_network(file)) if file.exists() else None
