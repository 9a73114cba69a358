"""A scenario: a network, its clients, what they do and what goes wrong, as a TOML file says it.

These structs are the schema: a field is a key, a tag is a `kind`. What they cannot say by themselves (that a client
exists, that a link is there) is checked in `scenario_check`; both speak in sentences through `model.toml_text`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from latecomer.core.routing import Forwarding, Routing
from latecomer.model.event import Value
from latecomer.model.filters import parse_filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.durations import Duration
from latecomer.sim.topologies import Network
from latecomer.sim.world import World

SECOND_US = 1_000_000


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A client that is there before the scenario begins."""

    id: ClientId
    broker: BrokerId
    subscribe: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()


class Store(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"begin": "from"}):
    """A broker that keeps the past of some topics, from a moment of the scenario until another."""

    broker: BrokerId
    topics: tuple[str, ...]
    begin: Duration = Duration(0)
    """0: it is there before the scenario begins."""
    until: Duration | None = None


class Topics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """So many topics, the first more popular than the last: popularity falls with rank ** -zipf."""

    count: int
    zipf: float = 0.0


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"begin": "from"}):
    """Publications at a rate, by some clients, on some topics."""

    publishers: tuple[ClientId, ...] | int = 1
    """Clients by id, or so many new ones on brokers drawn by chance."""
    topics: tuple[str, ...] | Topics = Topics(count=1)
    subscriptions: int = 0
    """So many new clients on brokers drawn by chance, each with one of the topics drawn by popularity."""
    rate: float = 10.0
    """Publications per second, all publishers together."""
    timing: Literal["poisson", "steady"] = "poisson"
    begin: Duration = Duration(0)
    until: Duration | None = None
    reliable: bool = True
    attributes: dict[str, Value | tuple[Value, ...]] = {}
    """Of every publication; one of a list is drawn each time."""
    payload_size: int = 0
    lifetime: Duration | None = None
    """How long a publication lives on average, drawn from an exponential distribution; None: without end."""


class Demand(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"begin": "from"}):
    """Questions about the past at a rate: `r[t, i]` of *storing* §V."""

    broker: BrokerId
    filter: str
    rate: float
    """Requests per second."""
    last: int = 0
    """Only so many, the newest; 0: everything that lives."""
    begin: Duration = Duration(0)
    until: Duration | None = None


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A publication, or several alike."""

    topic: str
    attributes: dict[str, Value] = {}
    payload: str = ""
    count: int = 1
    reliable: bool = True
    lifetime: Duration | None = None


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question about the past; its times are those of the scenario."""

    filter: str
    since: Duration | None = None
    until: Duration | None = None
    last: int = 0

    def query(self, zero: Instant) -> Query:
        """As brokers understand it; `zero` is when the scenario began."""
        since = 0 if self.since is None else zero + self.since
        until = 0 if self.until is None else zero + self.until
        return Query(parse_filter(self.filter), since, until, self.last)


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something one client does at one instant."""

    ACTIONS: ClassVar[tuple[str, ...]] = (
        "join",
        "leave",
        "come_back",
        "subscribe",
        "unsubscribe",
        "advertise",
        "unadvertise",
        "publish",
        "request",
    )

    at: Duration
    client: ClientId
    join: BrokerId | None = None
    leave: Literal[True] | None = None
    come_back: Literal[True] | None = None
    subscribe: str | None = None
    unsubscribe: str | None = None
    advertise: str | None = None
    unadvertise: str | None = None
    publish: str | Publish | None = None
    request: str | Ask | None = None

    def actions(self) -> list[str]:
        """What the step says to do: exactly one thing in a scenario that was checked."""
        return [action for action in self.ACTIONS if getattr(self, action) is not None]


class _Fault(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="kind",
    tag=str.lower,
    rename={"duration": "for"},
):
    at: Duration

    def happen(self, world: World) -> None:
        raise NotImplementedError


class Break(_Fault, frozen=True):
    """No connection on a link for a while; what was under way is gone."""

    link: tuple[BrokerId, BrokerId]
    duration: Duration = Duration(0)
    silently: bool = False

    def happen(self, world: World) -> None:
        world.break_wire(*self.link, self.duration, silently=self.silently)


class Partition(_Fault, frozen=True):
    """No connection between one side and the rest for a while."""

    side: tuple[BrokerId, ...]
    duration: Duration
    silently: bool = False

    def happen(self, world: World) -> None:
        world.partition(self.side, self.duration, silently=self.silently)


class Crash(_Fault, frozen=True):
    """A broker dies. It starts again after `for`, or never."""

    broker: BrokerId
    duration: Duration | None = None
    keeps_disk: bool = True
    silently: bool = False

    def happen(self, world: World) -> None:
        world.crash(self.broker, keeps_disk=self.keeps_disk, silently=self.silently)
        if self.duration is not None:
            world.at(world.now + self.duration, world.start, self.broker)


class Pause(_Fault, frozen=True):
    """A broker stops for a while without dying; what comes in waits."""

    broker: BrokerId
    duration: Duration

    def happen(self, world: World) -> None:
        world.pause(self.broker, self.duration)


class Slow(_Fault, frozen=True):
    """A broker takes its time over each step for a while."""

    broker: BrokerId
    step: Duration
    duration: Duration

    def happen(self, world: World) -> None:
        world.slow_down(self.broker, self.step)
        world.at(world.now + self.duration, world.slow_down, self.broker, 0)


class Stall(_Fault, frozen=True):
    """What the first broker of `link` sends to the second arrives after a while, in order."""

    link: tuple[BrokerId, BrokerId]
    duration: Duration

    def happen(self, world: World) -> None:
        world.stall(*self.link, self.duration)


class Deafen(_Fault, frozen=True):
    """The present connection silently loses what the first broker of `link` sends to the second."""

    link: tuple[BrokerId, BrokerId]

    def happen(self, world: World) -> None:
        world.deafen(*self.link)


Fault = Break | Partition | Crash | Pause | Slow | Stall | Deafen


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything a run follows from. Arrays of tables are named in the singular, as TOML reads best."""

    name: str = ""
    seed: int = 1
    duration: Duration = Duration(10 * SECOND_US)
    limit: Duration = Duration(30 * SECOND_US)
    """Once every fault is over, the network must be quiet, and everything promised delivered, within this."""
    disk_latency: Duration = Duration(0)
    """How long a write takes until it is safe."""
    topology: Network
    routing: Routing = Forwarding()
    settings: dict[str, int | str] = {}
    """Fields of `BrokerSettings`; a time may be written without `_us`, as a duration."""
    client: tuple[Client, ...] = ()
    store: tuple[Store, ...] = ()
    workload: tuple[Workload, ...] = ()
    demand: tuple[Demand, ...] = ()
    step: tuple[Step, ...] = ()
    fault: tuple[Fault, ...] = ()
