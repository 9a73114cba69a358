"""What the admin API tells: the structs that its answers are made of."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Generic, Literal, TypeVar

import msgspec

from latecomer.model.ids import BrokerId, ClientId

T = TypeVar("T")


class Health(msgspec.Struct, frozen=True):
    """`failing`: the broker needs help, and the sentences say which. `degraded`: it serves, and has a bug."""

    status: Literal["ok", "degraded", "starting", "failing"]
    problems: tuple[str, ...] = ()


class TreeView(msgspec.Struct, frozen=True):
    version: str
    ready: bool
    members: tuple[BrokerId, ...]


class LinkView(msgspec.Struct, frozen=True):
    """A neighbour. `held` is a session that waits for its connection to come back."""

    peer: BrokerId
    state: Literal["up", "held", "down"]
    address: str = ""
    cost_us: int = 0
    in_tree: bool = False
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    waiting_frames: int = 0
    """Sent, and not acknowledged."""
    problem: str = ""
    """Why there is no connection."""


class Overview(msgspec.Struct, frozen=True):
    broker: BrokerId
    network: str
    version: str
    boot: int
    uptime_s: float
    durability: str
    tree: TreeView
    links: tuple[LinkView, ...]
    counts: dict[str, int]
    """Clients, sessions, subscriptions, retained messages and so on."""
    draining: bool = False
    """New connections of clients are refused."""


class ClientView(msgspec.Struct, frozen=True):
    """A client's session, connected or not. Instants are microseconds since 1970, 0 if there is none."""

    id: ClientId
    connected: bool
    user: str = ""
    address: str = ""
    transport: str = ""
    protocol: str = ""
    clean_start: bool = False
    keep_alive_s: int = 0
    expiry_s: int = 0
    since_us: int = 0
    """When it connected or left."""
    subscriptions: int = 0
    queue_messages: int = 0
    queue_bytes: int = 0
    in_flight: int = 0


class SubscriptionView(msgspec.Struct, frozen=True):
    client: ClientId
    filter: str
    qos: int
    content: str = ""
    share: str = ""


class RetainedView(msgspec.Struct, frozen=True):
    topic: str
    qos: int
    bytes: int
    at_us: int = 0


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a long list; `next` is the `after` of the next part, and empty if there is none."""

    items: tuple[T, ...]
    next: str = ""


def page_of(keys: Iterable[str], after: str, limit: int) -> tuple[list[str], str]:
    """The keys of one part, sorted, and the `after` of the next: looks at all keys, but sorts only a few."""
    found = nsmallest(limit + 1, (key for key in keys if key > after))
    return found[:limit], found[limit - 1] if len(found) > limit else ""
