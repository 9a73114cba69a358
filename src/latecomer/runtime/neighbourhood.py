"""The neighbours of a running broker: those in its settings, and what operators have changed since.

Changes stand in a file beside the data, written before anybody is told, so that they survive a restart. The settings
stay the operator's: a neighbour that they name is as they say, and a change that they contain by now is struck out of
the file. A neighbour that was taken away stays away, although the settings name it, until it is added again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from latecomer.core.inputs import ForgetWanted, NeighbourAdded, NeighbourRemoved
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted
from latecomer.runtime.link_challenge import NAME_BYTES_MAX
from latecomer.runtime.private_files import write_bytes
from latecomer.runtime.settings import LINK_PORT, LinkSection, Neighbour, Settings, is_loopback

if TYPE_CHECKING:
    from latecomer.runtime.node import Node

FILE = "neighbours.json"
Proof = Literal["secret", "certificates", "both", "none"]

log = logging.getLogger("latecomer")


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What operators have changed, as on disk."""

    added: tuple[Neighbour, ...] = ()
    removed: tuple[BrokerId, ...] = ()


class NeighbourView(msgspec.Struct, frozen=True):
    """A broker that this one is to have a link with."""

    id: BrokerId
    host: str | None
    """None: it calls."""
    port: int
    cost_us: int
    source: Literal["settings", "added"]


class NeighboursView(msgspec.Struct, frozen=True):
    """What a broker that wants to join has to know of this one, and whom this one is to have links with."""

    broker: BrokerId
    network: str
    routing: dict[str, Any]
    """As `core.routing` in the settings: all brokers of a network must agree."""
    host: str
    port: int
    """Where neighbours find this broker; 0: it does not listen."""
    proof: Proof
    """What neighbours know one another by."""
    neighbours: tuple[NeighbourView, ...]
    removed: tuple[BrokerId, ...] = ()
    """Those that the settings name, and that were taken away."""


class Neighbourhood:
    """Whom this broker is to have links with."""

    def __init__(self, settings: Settings) -> None:
        self._own = settings.broker.id
        self._link = settings.link
        self._file = settings.broker.data / FILE
        self._named = {neighbour.id: neighbour for neighbour in settings.link.neighbours}
        changes = self._read()
        added = tuple(neighbour for neighbour in changes.added if neighbour.id not in self._named)
        removed = tuple(peer for peer in changes.removed if peer in self._named)
        self.changes = Changes(added, removed)
        if self.changes != changes:
            self._write(self.changes)
        if removed:
            log.info("no link with %s: taken away by an operator, though link.neighbours names it", ", ".join(removed))

    def _read(self) -> Changes:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Changes)
        except FileNotFoundError:
            return Changes()
        except (OSError, msgspec.DecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            problem = f"{str(self._file)!r} cannot be read: {why}; without it, link.neighbours alone counts"
            raise SettingsError("broker.data", problem) from None

    def _write(self, changes: Changes) -> None:
        try:
            if changes == Changes():
                self._file.unlink(missing_ok=True)
            else:
                write_bytes(self._file, msgspec.json.encode(changes))
        except OSError as error:
            problem = f"{str(self._file)!r} cannot be written: {(error.strerror or str(error)).lower()}"
            raise LatecomerError(f"{problem}; make room and try again") from None
        self.changes = changes

    def all(self) -> dict[BrokerId, Neighbour]:
        """Those that count now."""
        removed, added = self.changes.removed, self.changes.added
        named = {peer: neighbour for peer, neighbour in self._named.items() if peer not in removed}
        return named | {neighbour.id: neighbour for neighbour in added}

    def costs(self) -> dict[BrokerId, int]:
        """Cost of the link to each, as the core takes it."""
        return {peer: neighbour.cost_us for peer, neighbour in self.all().items()}

    def add(self, neighbour: Neighbour, proof: Proof) -> None:
        """Count this one from now on; raises a `SettingsError` if it cannot work."""
        self._check(neighbour, proof)
        named = self._named.get(neighbour.id)
        if named is not None and named != neighbour:
            raise SettingsError(
                "link.neighbours", f"{neighbour.id} stands there otherwise: change it there and restart"
            )
        removed = tuple(peer for peer in self.changes.removed if peer != neighbour.id)
        others = tuple(each for each in self.changes.added if each.id != neighbour.id)
        self._write(Changes(others if named is not None else (*others, neighbour), removed))

    def remove(self, peer: BrokerId) -> None:
        """Count this one no more."""
        if peer not in self.all():
            raise LatecomerError(f"{quoted(peer)} is no neighbour of {self._own}")
        others = tuple(each for each in self.changes.added if each.id != peer)
        removed = self.changes.removed
        self._write(Changes(others, (*removed, peer) if peer in self._named else removed))

    def _check(self, neighbour: Neighbour, proof: Proof) -> None:
        if neighbour.id == self._own:
            raise SettingsError("id", f"{quoted(neighbour.id)} is this broker itself; name another one")
        if len(neighbour.id.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX or not neighbour.id.isprintable():
            raise SettingsError("id", f"must be printable characters, and at most {NAME_BYTES_MAX} bytes")
        if proof == "none" and not self._link.insecure:
            problem = "is missing: set it, or link.certificate, key and ca, to know neighbours by, and restart"
            raise SettingsError("link.secret_file", problem)
        for key, host in (("host", neighbour.host), ("link.host", self._link.host)):
            if proof == "none" and host is not None and not is_loopback(host):
                raise SettingsError(key, f"{host!r} is not a loopback address, and link.insecure allows no other")

    def view(self, node: Node) -> NeighboursView:
        settings, names = node.settings, self._named
        neighbours = tuple(
            NeighbourView(each.id, each.host, each.port, each.cost_us, "settings" if each.id in names else "added")
            for each in self.all().values()
        )
        return NeighboursView(
            self._own,
            settings.broker.network,
            msgspec.to_builtins(settings.core.routing),
            settings.link.host,
            node.links.port or self._port_to_be(),
            node.links.proof,
            neighbours,
            self.changes.removed,
        )

    def _port_to_be(self) -> int:
        """The port that is listened on when there are neighbours."""
        return self._link.port if self._link.port is not None else LINK_PORT

    # -- what operators want -----------------------------------------------------------------------------------------

    async def meet(self, node: Node, neighbour: Neighbour) -> None:
        """Have a link with a broker from now on, after a restart as well."""
        before = self.changes
        self.add(neighbour, node.links.proof)
        node.driver.tell(NeighbourAdded(neighbour.id, neighbour.cost_us))
        try:
            await node.links.meet(neighbour)
        except LatecomerError:
            self._write(before)
            node.driver.tell(NeighbourRemoved(neighbour.id))
            raise
        log.info("%s is a neighbour from now on, by the operator", neighbour.id)

    def part(self, node: Node, peer: BrokerId) -> None:
        """Have no link with a broker any more, after a restart as well."""
        self.remove(peer)
        node.links.part(peer)
        node.driver.tell(NeighbourRemoved(peer))
        log.info("%s is no neighbour any more, by the operator", peer)


def forget(node: Node, broker: BrokerId) -> None:
    """Have everybody forget a broker that is away."""
    problem = node.core.membership.problem_of_forget(broker)
    if problem:
        raise LatecomerError(problem)
    log.info("%s is forgotten, by the operator: it will not come back", broker)
    node.driver.tell(ForgetWanted(broker))


def listens_on(link: LinkSection, neighbours: int) -> int | None:
    """The port for neighbours; None: nobody is listened for."""
    return link.port if link.port is not None else LINK_PORT if neighbours else None
