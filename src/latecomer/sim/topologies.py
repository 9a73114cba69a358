"""The networks a scenario can ask for: the union is the registry, its tags are the values of `topology.kind`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import DEFAULT_LATENCY_US, Link, Node, Topology
from latecomer.model.topology_formats import MAX_TEXT_BYTES, parse_graphml, parse_jsonl, pick
from latecomer.model.topology_generators import (
    barabasi_albert,
    grid,
    hierarchy,
    line,
    random_connected,
    random_tree,
    ring,
    star,
    tree,
    walkthrough,
)
from latecomer.sim.durations import Duration
from latecomer.sim.network import JitterShape


class _Network(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="kind",
    tag=lambda name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_"),
):
    latency: Duration = Duration(DEFAULT_LATENCY_US)
    """Of every link."""
    jitter: Duration = Duration(0)
    """Added to the latency, differently each time; links keep their order."""
    jitter_shape: JitterShape = "uniform"
    seed: int | None = None
    """Where chance makes the network: keeps it the same while the scenario's seed changes."""

    def build(self, rng: Random, folder: Path) -> Topology:
        """The network. `rng` is fresh, `folder` is where the scenario file stands."""
        raise NotImplementedError


class Walkthrough(_Network, frozen=True):
    """The papers' worked example: 1-2, 2-3, 3-4, 3-5, 5-6."""

    def build(self, rng: Random, folder: Path) -> Topology:
        return walkthrough(latency_us=int(self.latency))


class Line(_Network, frozen=True):
    brokers: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return line(self.brokers, latency_us=int(self.latency))


class Ring(_Network, frozen=True):
    brokers: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return ring(self.brokers, latency_us=int(self.latency))


class Star(_Network, frozen=True):
    brokers: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return star(self.brokers, latency_us=int(self.latency))


class Tree(_Network, frozen=True):
    brokers: int
    degree: int = 2

    def build(self, rng: Random, folder: Path) -> Topology:
        return tree(self.brokers, self.degree, latency_us=int(self.latency))


class RandomTree(_Network, frozen=True):
    brokers: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return random_tree(self.brokers, rng, latency_us=int(self.latency))


class Grid(_Network, frozen=True):
    width: int
    height: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return grid(self.width, self.height, latency_us=int(self.latency))


class RandomNetwork(_Network, frozen=True, tag="random"):
    brokers: int
    extra_links: int

    def build(self, rng: Random, folder: Path) -> Topology:
        return random_connected(self.brokers, self.extra_links, rng, latency_us=int(self.latency))


class BarabasiAlbert(_Network, frozen=True):
    brokers: int
    links_each: int = 2

    def build(self, rng: Random, folder: Path) -> Topology:
        return barabasi_albert(self.brokers, self.links_each, rng, latency_us=int(self.latency))


class HierarchyNetwork(_Network, frozen=True, tag="hierarchy"):
    """The mobility paper's complete tree."""

    brokers: int = 85
    degree: int = 4

    def build(self, rng: Random, folder: Path) -> Topology:
        return hierarchy(self.degree, self.brokers, latency_us=int(self.latency))


class Given(_Network, frozen=True):
    """Brokers and links one by one."""

    brokers: tuple[BrokerId, ...]
    links: tuple[tuple[BrokerId, BrokerId], ...]
    root: BrokerId | None = None

    def build(self, rng: Random, folder: Path) -> Topology:
        return Topology(
            "given",
            tuple(Node(id) for id in self.brokers),
            tuple(Link(a, b, int(self.latency)) for a, b in self.links),
            self.root,
        )


class FromFile(_Network, frozen=True, tag="file"):
    """A network from JSON Lines (`name` picks one) or GraphML; the file says the latencies."""

    path: str
    name: str | None = None

    def build(self, rng: Random, folder: Path) -> Topology:
        # As it is written: an error shows the path that the operator can see.
        file = folder / self.path
        text = self._read(file)
        if file.suffix == ".graphml":
            return parse_graphml(text, str(file))
        if file.suffix != ".jsonl":
            raise SettingsError("path", f"{self.path!r} ends neither in .jsonl nor in .graphml")
        networks = parse_jsonl(text, str(file))
        if self.name is not None:
            try:
                return pick(networks, self.name)
            except SettingsError as error:
                raise SettingsError("name", f"{self.path}: {error.problem}") from None
        if len(networks) > 1:
            raise SettingsError("name", f"is missing, and {self.path!r} holds {len(networks)} networks")
        return networks[0]

    def _read(self, file: Path) -> str:
        try:
            if file.stat().st_size > MAX_TEXT_BYTES:
                raise SettingsError("path", f"{self.path!r} is larger than {MAX_TEXT_BYTES // 1024**2} MiB")
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise SettingsError("path", f"{self.path!r} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SettingsError("path", f"{self.path!r} is not UTF-8 text") from None
        except ValueError:
            raise SettingsError("path", f"{self.path!r} is not the name of a file") from None


Network = (
    Walkthrough
    | Line
    | Ring
    | Star
    | Tree
    | RandomTree
    | Grid
    | RandomNetwork
    | BarabasiAlbert
    | HierarchyNetwork
    | Given
    | FromFile
)
